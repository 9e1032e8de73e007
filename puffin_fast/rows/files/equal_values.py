"""Row groups that have none of the values that a filter or keys ask for, by the Bloom filters of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast.parquet.bloom_filters import Flags, Hashes, hash_of_bound

if TYPE_CHECKING:
    from puffin_fast.parquet.column_layout import Layout
    from puffin_fast.rows.files.parquet import ParquetReader
    from puffin_fast.rows.files.projection import FileSchema

Rows = Mapping[int, pa.Array]
"""Values of some columns by field id: each row that matches has the values of one of these rows."""

MOST_ROWS = 10_000
"""For more values, filters are not asked: one of 20 bits a value finds one of 10,000 that are not there."""


class EqualValues:
    """The values that a filter or keys ask for. Safe to use from several threads.

    Args:
        equalities: as `Matcher.equalities`; called when a file has a Bloom filter.
    """

    def __init__(self, equalities: Callable[[], Iterable[Rows]]) -> None:
        self._equalities = equalities
        self._hashes: dict[tuple[int, int, Layout], Hashes | None] = {}

    @cached_property
    def _asked(self) -> list[Rows]:
        found = [dict(rows) for rows in self._equalities()]
        return [rows for rows in found if all(len(values) <= MOST_ROWS for values in rows.values())]

    def groups_without(
        self,
        file: ParquetReader,
        known: FileSchema,
        groups: Iterable[int],
        lower_bounds: Callable[[int], Mapping[int, bytes]],
    ) -> Iterator[int]:
        """Yields the numbers of row groups that have no row with these values.

        Args:
            file: the file.
            known: its columns by field id.
            groups: numbers of row groups.
            lower_bounds: the lower bounds of a row group, by field id, in Iceberg's single-value serialization. A
                filter that does not have a bound is not used.
        """
        for number in groups if file.has_bloom_filters else ():
            bounds = lower_bounds(number)
            for at, rows in enumerate(self._asked):
                found = [self._may_have(file, known, number, at, field_id, bounds) for field_id in rows]
                flags = [flag for flag in found if flag is not None]
                if flags and not np.logical_and.reduce(flags).any():
                    yield number
                    break

    def _may_have(
        self,
        file: ParquetReader,
        known: FileSchema,
        group: int,
        at: int,
        field_id: int,
        bounds: Mapping[int, bytes],
    ) -> Flags | None:
        """Which of the values of a column a row group may have; None if that is not known."""
        name = known.column_of(field_id)
        found = None if name is None else file.bloom_filter(group, name)
        if found is None:
            return None
        layout, filter = found
        hashes = self._hashes_of(at, field_id, layout)
        if hashes is None or not filter.pays(len(hashes.hashes), file.group_rows[group]):
            return None
        bound = bounds.get(field_id)
        there = None if bound is None else hash_of_bound(bound, layout)
        if there is not None and not filter.contains(there).all():
            return None
        return hashes.is_null | hashes.fits & filter.contains(hashes.hashes)

    def _hashes_of(self, at: int, field_id: int, layout: Layout) -> Hashes | None:
        key = at, field_id, layout
        if key not in self._hashes:
            self._hashes[key] = Hashes.of(self._asked[at][field_id], layout)
        return self._hashes[key]
