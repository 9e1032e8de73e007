"""The bounds of the pages of some columns, or of their row groups, as parts that a filter is evaluated on.

column a   | page        | page        |
column b   | page | page     | page    |
parts      |      |      |   |         |     each has one page of each column
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from puffin_fast.rows.files.row_groups import DECIMAL

if TYPE_CHECKING:
    from puffin_fast.parquet.footer import Footer
    from puffin_fast.parquet.page_index import Bounds, Flags, Integers, Pages


class PageParts:
    """The parts of a row group; see `BoundColumns`.

    Args:
        columns: the pages of columns, their bounds and the form of these (`bound_form`), by field id; at least one.

    Attributes:
        firsts: the first row of each part.
    """

    def __init__(self, columns: Mapping[int, tuple[Pages, Bounds, str]]) -> None:
        self._columns = columns
        every = [pages.firsts for pages, _, _ in columns.values()]
        self.firsts: Integers = every[0] if len(every) == 1 else np.unique(np.concatenate(every))

    def __len__(self) -> int:
        return len(self.firsts)

    def _of_parts(self, pages: Pages, values: Any) -> Any:
        if len(pages) == len(self.firsts):  # the parts are the pages
            return values
        return values[np.searchsorted(pages.firsts, self.firsts, "right") - 1]

    def bounds(self, name: str, field_id: int) -> tuple[Any, Integers, Integers] | None:
        """Finds the bounds of a column."""
        found = self._columns.get(field_id)
        if found is None:
            return None
        pages, bounds, form = found
        starts, sizes = bounds.lower() if name == "lower_bounds" else bounds.upper()
        data = bounds.data
        if form == DECIMAL:
            data, starts = _big_endian(data, starts, sizes)
        return data, self._of_parts(pages, starts), self._of_parts(pages, sizes)

    def nulls_only(self, field_id: int) -> Flags | None:
        """Marks the parts in which each value of a column is null."""
        found = self._columns.get(field_id)
        return None if found is None else self._of_parts(found[0], found[1].nulls_only)


class GroupParts:
    """The row groups of a file, with the bounds in its footer; see `BoundColumns`.

    Args:
        footer: its column chunks agree with the schema.
        columns: the leaves of columns, and the form of their bounds (`bound_form`), by field id.
    """

    def __init__(self, footer: Footer, columns: Mapping[int, tuple[int, str]]) -> None:
        self._footer, self._columns = footer, columns
        self._n_rows = np.array(footer.group_rows, np.int64)

    def __len__(self) -> int:
        return len(self._n_rows)

    def bounds(self, name: str, field_id: int) -> tuple[Any, Integers, Integers] | None:
        """Finds the bounds of a column."""
        found = self._columns.get(field_id)
        if found is None:
            return None
        leaf, form = found
        data, starts, sizes = self._footer.bounds(leaf, upper=name == "upper_bounds")
        if form == DECIMAL:
            data, starts = _big_endian(data, starts, sizes)
        return data, starts, sizes

    def nulls_only(self, field_id: int) -> Flags | None:
        """Marks the row groups in which each value of a column is null."""
        found = self._columns.get(field_id)
        return None if found is None else self._footer.nulls(found[0]) == self._n_rows


def _big_endian(data: bytes, starts: Integers, sizes: Integers) -> tuple[bytes, Integers]:
    """Bounds in the reverse order of bytes, and where they are."""
    pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
    turned = [data[start : start + size][::-1] if size > 0 else b"" for start, size in pairs]
    return b"".join(turned), np.cumsum([0, *map(len, turned)])[:-1]
