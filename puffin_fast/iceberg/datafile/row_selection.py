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

__all__ = ["RowSelection", "live_row_mask", "select_rows"]

ROWS_PER_RUN = 16
"""Rows per run of kept ones from which on copying runs is cheaper than picking rows."""


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


def live_row_mask(deleted: PositionBitmap, n_rows: int) -> pa.BooleanArray:
    """One flag per row of a data file, set where its position is not deleted."""
    bits = np.bitwise_not(deleted.mask_packed(n_rows))
    return pa.BooleanArray.from_buffers(pa.bool_(), n_rows, [None, pa.py_buffer(bits)])
