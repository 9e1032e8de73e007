"""Row groups that have none of the values that a filter or keys ask for, by the metadata of Parquet files.

A column chunk is asked by its Bloom filter, or else by the page of its dictionary, if all of its values are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from puffin_fast._kernels.parquet.bloom import FileQuestion
from puffin_fast._process.cached import cached_property
from puffin_fast.parquet.bloom_filters import Hashes, hash_of_least, least_bits

if TYPE_CHECKING:
    from puffin_fast.parquet.bloom_filters import BloomFilter, Flags
    from puffin_fast.parquet.column_layout import Layout
    from puffin_fast.parquet.dictionary_pages import DictionaryHashes
    from puffin_fast.parquet.footer import FileLayout
    from puffin_fast.rows.files.parquet import ParquetReader
    from puffin_fast.rows.files.projection import FileSchema

Rows = Mapping[int, pa.Array]
"""Values of some columns by field id: each row that matches has the values of one of these rows."""

MOST_ROWS = 10_000
"""For more values, filters are not asked: one of 20 bits a value finds one of 10,000 that are not there."""


MOST_IN_VAIN, ASKED_OF = 8, 16
"""After so many dictionaries in a row that exclude no row group, one of so many row groups is asked."""


class EqualValues:
    """The values that a filter or keys ask for. Safe to use from several threads.

    Args:
        equalities: as `Matcher.equalities`; called when the first file is read.
    """

    def __init__(self, equalities: Callable[[], Iterable[Rows]]) -> None:
        self._equalities = equalities
        self._hashes: dict[tuple[int, int, Layout], Hashes | None] = {}
        self._in_vain = 0  # about, among threads

    @cached_property
    def _asked(self) -> list[Rows]:
        found = [dict(rows) for rows in self._equalities()]
        return [rows for rows in found if all(len(values) <= MOST_ROWS for values in rows.values())]

    def question(self, layout: FileLayout, known: FileSchema) -> FileQuestion | None:
        """Returns what asks the Bloom filters of local files of one layout in one call each; None if none can be asked.

        Args:
            known: the columns of these files by field id.
        """
        wanted = []
        for at, rows in enumerate(self._asked):
            columns, n_rows = [], 0
            for field_id, values in rows.items():
                name, n_rows = known.dotted(field_id), len(values)
                found = None if name is None else layout.column(name, views=False)
                hashes = None if found is None else self._hashes_of(at, field_id, found[1])
                if found is not None and hashes is not None:
                    columns.append((found[0], found[1].stored, hashes.hashes, hashes.kinds()))
            if columns and n_rows:
                wanted.append((n_rows, least_bits(n_rows), columns))
        return FileQuestion(*layout.parts, layout.leaves, wanted) if wanted and layout.parts else None

    def groups_without(
        self, file: ParquetReader, known: FileSchema, groups: Sequence[int]
    ) -> Iterator[tuple[int, bool]]:
        """Yields row groups that have no row with these values.

        A filter or dictionary that does not have the least value of its column chunk is not used.

        Args:
            known: its columns by field id.
            groups: numbers of row groups.

        Yields:
            The number of the row group, and whether a dictionary was needed to exclude it.
        """
        if not self._asked or not (file.has_bloom_filters or file.has_dictionaries):
            return
        for number in groups:
            for at, rows in enumerate(self._asked):
                asked = _Asked(file, known, number)
                if not self._may_have(asked, at, rows, _bloom):
                    yield number, False
                    break
                if self._in_vain >= MOST_IN_VAIN and self._in_vain % ASKED_OF:
                    self._in_vain += 1
                    continue
                if not self._may_have(asked, at, rows, _dictionary):
                    self._in_vain = 0
                    yield number, True
                    break
                self._in_vain += asked.n_dictionaries > 0

    def _may_have(self, asked: _Asked, at: int, rows: Rows, find: _Find) -> bool:
        """Whether a row group may have one of some rows."""
        flags: Flags | None = None
        for field_id in rows:
            if flags is None or _any(flags):
                found = self._flags(asked, at, field_id, find)
                flags = found if flags is None else flags if found is None else flags & found
        return flags is None or _any(flags)

    def _flags(self, asked: _Asked, at: int, field_id: int, find: _Find) -> Flags | None:
        """Which of the values of a column a row group may have; None if that is not known."""
        name = asked.known.dotted(field_id)
        layout = None if name is None else asked.file.layout_of(name)
        if name is None or layout is None:
            return None
        values = find(asked, name, len(self._asked[at][field_id]))
        hashes = None if values is None else self._hashes_of(at, field_id, layout)
        if values is None or hashes is None:
            return None
        there = hash_of_least(asked.file.chunk(asked.group, name), layout)
        if there is None:
            found = values.contains(hashes.hashes)
        else:
            found = values.contains(np.concatenate((there, hashes.hashes)))
            if not found[0]:
                return None
            found = found[1:]
        return found if hashes.are_plain else hashes.is_null | hashes.fits & found

    def _hashes_of(self, at: int, field_id: int, layout: Layout) -> Hashes | None:
        key = at, field_id, layout
        if key not in self._hashes:
            self._hashes[key] = Hashes.of(self._asked[at][field_id], layout)
        return self._hashes[key]


def _any(flags: Flags) -> bool:
    """Whether one is true. For few flags NumPy takes longer, once for each file."""
    return True in flags.tolist() if len(flags) <= _FEW else bool(flags.any())


_FEW = 64


class _Asked:
    """A row group that is asked for values."""

    def __init__(self, file: ParquetReader, known: FileSchema, group: int) -> None:
        self.file, self.known, self.group = file, known, group
        self.n_dictionaries = 0


_Find: TypeAlias = "Callable[[_Asked, str, int], BloomFilter | DictionaryHashes | None]"


def _bloom(asked: _Asked, name: str, n_values: int) -> BloomFilter | None:
    """The Bloom filter of a column, if it pays to ask it for so many values."""
    found = asked.file.bloom_filter(asked.group, name) if asked.file.has_bloom_filters else None
    pays = found is not None and found.pays(n_values, asked.file.group_rows[asked.group])
    return found if pays else None


def _dictionary(asked: _Asked, name: str, n_values: int) -> DictionaryHashes | None:
    """The values of a column that its dictionary has, if it has all."""
    found = asked.file.dictionary(asked.group, name) if asked.file.has_dictionaries else None
    asked.n_dictionaries += found is not None
    return found
