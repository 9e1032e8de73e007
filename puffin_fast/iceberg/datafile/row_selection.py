"""Arrow rows left over by a mask, by the cheaper of Arrow's two ways: filter copies runs, take picks rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._kernels import rows

if TYPE_CHECKING:
    from puffin_fast.bitmap import PositionBitmap

__all__ = ["LiveRows", "RowSelection", "select_rows"]

ROWS_PER_RUN = 16
"""Rows per run of kept ones from which on copying runs is cheaper than picking rows."""


WHOLE_ROWS = 1 << 24
"""Rows whose flags, 2 MiB, are made at once."""

CHUNK_ROWS = 1 << 16
"""Flags start at multiples of these rows: those of one container."""


class RowSelection:
    """Which rows of a batch stay.

    Attributes:
        n_rows: how many do.
    """

    def __init__(self, keep: pa.BooleanArray) -> None:
        if keep.null_count:
            keep = keep.fill_null(False)
        self._keep = keep
        self.n_rows: int = keep.true_count
        n_runs = rows.count_runs(keep.buffers()[1], keep.offset, len(keep)) if self.n_rows else 0
        self._indexes = None if n_runs * ROWS_PER_RUN <= len(keep) else select_rows(keep)

    def of(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The rows of each column that stay."""
        indexes = self._indexes
        if indexes is None:
            return [pc.filter(column, self._keep) for column in columns]
        return [pc.take(column, indexes, boundscheck=False) for column in columns]


def select_rows(keep: pa.BooleanArray) -> pa.Int32Array:
    """The indexes of the rows whose flag is set; the flags have no nulls."""
    out = np.empty(keep.true_count, np.int32)
    n_rows = rows.rows_into(keep.buffers()[1], keep.offset, len(keep), out) if len(keep) else 0
    assert n_rows == len(out)
    return pa.Array.from_buffers(pa.int32(), n_rows, [None, pa.py_buffer(out)])


class LiveRows:
    """The rows of a data file whose positions are not deleted, as flags of any range of rows.

    Files of up to `WHOLE_ROWS` rows have their flags made once. A larger file's are made for each range: memory then
    follows from the rows that are read, not from the number of rows that a footer claims.

    Args:
        deleted: positions below `n_rows`.
        n_rows: of the data file.
    """

    def __init__(self, deleted: PositionBitmap, n_rows: int) -> None:
        self._deleted, self._n_rows = deleted, n_rows
        self._whole = self._flags(0, n_rows) if n_rows <= WHOLE_ROWS else None

    def __len__(self) -> int:
        return self._n_rows

    def slice(self, first: int, n_rows: int) -> pa.BooleanArray:
        """One flag per row from row `first` on."""
        if self._whole is not None:
            return self._whole.slice(first, n_rows)
        n_rows = min(n_rows, self._n_rows - first)
        start = first - first % CHUNK_ROWS
        return self._flags(start, first - start + n_rows).slice(first - start)

    def count(self, first: int, n_rows: int) -> int:
        """How many of the rows from row `first` on are not deleted."""
        if self._whole is not None:
            return int(self._whole.slice(first, n_rows).true_count)
        return n_rows - (self._deleted.rank(first + n_rows - 1) - self._deleted.rank(first - 1))

    def _flags(self, start: int, n_rows: int) -> pa.BooleanArray:
        bits = self._deleted.mask_packed(n_rows, start=start)
        np.bitwise_not(bits, out=bits)
        return pa.BooleanArray.from_buffers(pa.bool_(), n_rows, [None, pa.py_buffer(bits)])
