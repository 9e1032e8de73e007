"""Decodes wanted lists and maps of a Parquet column from its pages; items of other rows are not decoded.

    rows           [a b] []  null [c]         lists and maps of values, and of structs of values
    repetition      0 1   0   0    0          0 begins a list
    definition      3 3   1   0    3          below 2: no item; 0: the list is null

Each leaf is decoded as `column_pages` does it, with a row for each level; the lists are put together of these. A column
whose leaves have different lists, and a page that begins inside of a list, raise `PageError`: PyArrow reads the column.
Where an offset index says in which page a list is, pages of other lists are neither read nor decoded.

Source: Parquet format specification, "Nested Encoding", and "LogicalTypes", "Nested Types".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast.columns.plain_types import null_mask
from puffin_fast.parquet.column_layout import ListLayout, values_below
from puffin_fast.parquet.column_pages import ColumnPages, Rows, validity_from
from puffin_fast.parquet.page_codecs import PageError
from puffin_fast.parquet.page_index import MOST_LEVELS, Pages, RequestedPages

Levels = npt.NDArray[np.uint8]


class ListPages:
    """The pages of the leaves of a column of lists or maps, read in order like `ColumnPages`.

    Args:
        layout: how they are stored.
        leaves: the pages of each of its leaves, and the places of these, if they are given to it.

    Attributes:
        requested: as of `ColumnPages`.
    """

    def __init__(
        self,
        layout: ListLayout,
        leaves: Sequence[tuple[ColumnPages, Pages | None]],
        requested: RequestedPages | None = None,
    ) -> None:
        self._layout, self._leaves = layout, [_Leaf(*leaf) for leaf in leaves]
        self.requested = requested

    def read(self, first: int, n_rows: int, rows: Rows | None) -> pa.Array:
        """Decodes rows; see `ColumnPages.read`.

        Raises:
            PageError: a page does not have the expected form, or the leaves have different lists.
            CorruptDataError: a page has another CRC-32 than its header states, or other lists than its index states.
        """
        layout = self._layout
        found = [leaf.read(first, n_rows, rows) for leaf in self._leaves]
        _, levels, starts = found[0]
        n, of_lists = len(starts), levels[starts]
        counts = np.diff(np.append(starts, len(levels)))
        arrays = [array for array, *_ in found]
        are_items = all(int(others.min(initial=layout.level + 1)) > layout.level for _, others, _ in found)
        for _, others, begins in found[1:]:
            if len(others) != len(levels) or not np.array_equal(starts, begins):
                raise PageError("leaves of a column with different lists")
        if not are_items:
            is_item, has_items = levels > layout.level, of_lists > layout.level
            if not np.array_equal(is_item, np.repeat(has_items, counts)) or (counts[~has_items] != 1).any():
                raise PageError("an item in a list that has none")
            kinds = np.minimum(levels, layout.level + 1)  # null, empty or item
            for _, others, _ in found[1:]:
                if not np.array_equal(kinds, np.minimum(others, layout.level + 1)):
                    raise PageError("leaves of a column with different lists")
            counts[~has_items] = 0
            arrays = [array.filter(pa.array(is_item)) for array in arrays]
        kind, offsets = layout.type, np.concatenate([[0], np.cumsum(counts)])
        is_large = pa.types.is_large_list(kind)
        if not is_large and offsets[-1] >= 1 << 31:
            raise PageError(f"{offsets[-1]} items in {n} lists")
        bounds = pa.py_buffer(offsets.astype(np.int64 if is_large else np.int32))
        lists = pa.Array.from_buffers(
            kind, n, [validity_from(of_lists, layout.level), bounds], children=[self._items(arrays)]
        )
        for struct, level in layout.structs:
            lists = pa.Array.from_buffers(struct, n, [validity_from(of_lists, level)], children=[lists])
        return lists

    def _items(self, arrays: Sequence[pa.Array]) -> pa.Array:
        kind = self._layout.type
        if not pa.types.is_map(kind):
            return _together(kind.value_type, arrays)
        entries = pa.struct([kind.key_field, kind.item_field])
        items = [arrays[0], _together(kind.item_type, arrays[1:])]
        return pa.Array.from_buffers(entries, len(arrays[0]), [None], children=items)


def _together(kind: pa.DataType, arrays: Sequence[pa.Array]) -> pa.Array:
    """The values of a type: of each of its leaves the structs around it with this field only."""
    if not pa.types.is_struct(kind):
        return arrays[0]
    children, at = [], 0
    for field in kind:
        stop = at + sum(1 for _ in values_below(field))
        children.append(_together(field.type, [array.field(0) for array in arrays[at:stop]]))
        at = stop
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=null_mask(arrays[0]))


class _Leaf:
    """A leaf of lists: the values of wanted rows. Its pages count their levels, and its lists are counted here."""

    def __init__(self, pages: ColumnPages, places: Pages | None) -> None:
        self._pages, self._places = pages, places
        self._n_lists = self._next = 0  # lists before the page of `_next`, the first level that was not read
        self._page: tuple[int, int, npt.NDArray[np.int32]] | None = None

    def read(
        self, first: int, n_rows: int, rows: Rows | None
    ) -> tuple[pa.Array, Levels, npt.NDArray[np.int64]]:
        """Decodes the values of wanted lists.

        Returns:
            the values, and null for lists without; their definition levels; where each list begins.
        """
        arrays, levels, starts, n_before, at = [], [], [], 0, first
        while at < first + n_rows:
            if rows is not None:  # pages of other rows are not looked at, if their places are known
                left = rows[rows.searchsorted(np.int64(at - first)) :]
                if not len(left):
                    break
                at = first + int(left[0])
            begin, n_levels, lists = self._page_of(at)
            low, high = at - self._n_lists, min(first + n_rows - self._n_lists, len(lists))
            stops = np.append(lists[1:], np.int32(n_levels))
            chosen = None
            if rows is not None:
                of_page = slice(
                    *rows.searchsorted(np.array([at - first, high + self._n_lists - first], np.int64))
                )
                here = rows[of_page].astype(np.int64) + (first - self._n_lists)
                lengths = stops[here].astype(np.int64) - lists[here]
                begins = np.cumsum(lengths) - lengths
                total = int(lengths.sum())
                chosen = (np.repeat(lists[here] - begins, lengths) + np.arange(total)).astype(np.int32)
                start, count = begin, n_levels
            else:
                begins = lists[low:high].astype(np.int64) - lists[low]
                start, count = begin + int(lists[low]), int(stops[high - 1] - lists[low])
                total = count
            if total:
                array, found = self._pages.decode(start, count, chosen)
                arrays.append(array)
                levels.append(found)
                starts.append(begins + n_before)
                n_before += total
            at = high + self._n_lists
        is_last = rows is None or (len(rows) and rows[-1] == n_rows - 1)
        if is_last and self._places is None and self._next < self._pages.n_rows:
            self._page_of(at)  # the last list may be the last one of its page: it must not go on in the next
        if not arrays:
            empty, found = self._pages.decode(self._next, 0, None)
            return empty, found, np.zeros(0, np.int64)
        array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return array, np.concatenate(levels), np.concatenate(starts)

    def _page_of(self, row: int) -> tuple[int, int, npt.NDArray[np.int32]]:
        """The first level of the page of a row, its number of levels, and where its lists begin in it."""
        if self._places is not None:
            return self._given_page(int(self._places.firsts.searchsorted(row, "right")) - 1)
        while self._page is None or row >= self._n_lists + len(self._page[2]):
            if self._page is not None:
                self._n_lists += len(self._page[2])
            begin, n_levels, lists = self._pages.lists_at(self._next)
            self._page, self._next = (begin, n_levels, lists), begin + n_levels
        return self._page

    def _given_page(self, number: int) -> tuple[int, int, npt.NDArray[np.int32]]:
        """The same of a page whose place is known; an index has only pages that begin with a list."""
        assert self._places is not None
        _, first, n_lists = self._places.words[number].tolist()
        if self._page is None or self._page[0] != number * MOST_LEVELS:
            self._page, self._n_lists = self._pages.lists_at(number * MOST_LEVELS), first
            if (found := len(self._page[2])) != n_lists:
                raise self._pages.other_rows(number, n_lists, found)
        return self._page
