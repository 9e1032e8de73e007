"""Selects Arrow rows by a mask with the faster of two kernels: `filter` copies runs, `take` copies single rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._kernels.rows import set_bits as rows
from puffin_fast._process.cached import cached_property
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.plain_types import array_of

ROWS_PER_RUN = 16
"""Number of rows of a batch per run of selected rows from which `filter` is faster than `take`."""

ROWS_PER_SELECTED = 10
"""Number of rows of a batch per selected row from which `take` is faster for any selection: 8 instead of 18
microseconds for 2,000 of 40,000 integers."""

FEW_SELECTED = 1 << 12
"""Maximum number of rows that NumPy takes from numbers without nulls: for 400 of 40,000 integers, amid other work,
Arrow takes 60 microseconds more; for 16,000 it is faster."""

_NUMBERS = {
    kind.id: np.dtype(f"u{kind.bit_width // 8}")
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(
            pa.float16(),
            pa.float32(),
            pa.float64(),
            pa.date32(),
            pa.date64(),
            pa.time32("s"),
            pa.time64("us"),
        ),
        *(pa.timestamp("us"), pa.duration("us")),
    )
}
"""The bytes of values of fixed width, by the id of their type."""

WHOLE_ROWS = 1 << 24
"""Maximum number of rows of a data file whose whole mask, 2 MiB, is made at once."""

FEW_ROWS = 1 << 12
"""Maximum number of chosen rows of a row group whose pages are read one by one."""

CHUNK_ROWS = 1 << 16
"""Masks of larger files start at multiples of this number of rows: the positions of one container."""


class RowSelection:
    """The selected rows of a batch.

    Attributes:
        n_rows: their number.
    """

    def __init__(self, mask: pa.BooleanArray) -> None:
        if mask.null_count:
            mask = mask.fill_null(False)
        self._mask = mask
        self.n_rows: int = mask.true_count
        self._in_runs = self.n_rows * ROWS_PER_SELECTED > len(mask) and (
            rows.count_runs(mask.buffers()[1], mask.offset, len(mask)) * ROWS_PER_RUN <= len(mask)
        )

    @cached_property
    def indexes(self) -> npt.NDArray[np.int32]:
        """The indexes of the selected rows."""
        return select_rows(self._mask)

    def of(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Returns the selected rows of each column."""
        if self._in_runs or not columns:
            return [pc.filter(column, self._mask) for column in columns]
        if self.n_rows > FEW_SELECTED:
            return [self._taken(column) for column in columns]
        return [self._few_of(column) for column in columns]

    def _few_of(self, column: pa.Array) -> pa.Array:
        kind = _NUMBERS.get(column.type.id)
        if kind is None or column.null_count or not len(column):
            return self._taken(column)
        values = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
        return array_of(values.take(self.indexes), column.type)

    def _taken(self, column: pa.Array) -> pa.Array:
        return pc.take(column, self._arrow_indexes, boundscheck=False)

    @cached_property
    def _arrow_indexes(self) -> pa.Int32Array:
        return array_of(self.indexes, pa.int32())


def select_rows(mask: pa.BooleanArray) -> npt.NDArray[np.int32]:
    """Returns the indexes of the rows where a mask without nulls is true."""
    out = np.empty(mask.true_count, np.int32)
    n_rows = rows.rows_into(mask.buffers()[1], mask.offset, len(mask), out) if len(mask) else 0
    assert n_rows == len(out)
    return out


def flags_of(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Converts a mask without nulls to one byte per row; several times as fast as `to_numpy`."""
    if not len(mask):
        return np.zeros(0, np.bool_)
    skipped = mask.offset % 8
    packed = np.frombuffer(mask.buffers()[1], np.uint8, offset=mask.offset // 8)
    return np.unpackbits(packed, count=skipped + len(mask), bitorder="little")[skipped:].view(np.bool_)


def mask_of(flags: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Converts one byte per row to a mask without nulls; several times as fast as `pa.array`."""
    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(flags), [None, bits])


class LiveRows:
    """The rows of a data file that are read, its live rows or chosen ones, as masks of ranges of rows.

    Attributes:
        chosen: whether only rows at the positions are read, instead of all others.

    For a file of up to `WHOLE_ROWS` rows the mask is made once. For a larger file a mask is made for each
    range: memory then depends on the rows that are read, not on the row count that a footer declares.

    Args:
        positions: the deleted positions, below `n_rows`, or the chosen ones.
        n_rows: number of rows of the data file.
        chosen: as the attribute.
    """

    def __init__(self, positions: PositionBitmap, n_rows: int, *, chosen: bool = False) -> None:
        self._positions, self._n_rows, self.chosen = positions, n_rows, chosen
        self._whole = self._live_mask(0, n_rows) if n_rows <= WHOLE_ROWS else None

    def __len__(self) -> int:
        return self._n_rows

    def slice(self, first: int, n_rows: int) -> pa.BooleanArray:
        """Returns a mask of `n_rows` rows from row `first` on: true for rows that are read."""
        if self._whole is not None:
            return self._whole.slice(first, n_rows)
        n_rows = min(n_rows, self._n_rows - first)
        start = first - first % CHUNK_ROWS
        return self._live_mask(start, first - start + n_rows).slice(first - start)

    def count(self, first: int, n_rows: int) -> int:
        """Returns how many of `n_rows` rows from row `first` on are read."""
        if self._whole is not None:
            return int(self._whole.slice(first, n_rows).true_count)
        found = self._positions.rank(first + n_rows - 1) - self._positions.rank(first - 1)
        return found if self.chosen else n_rows - found

    def few(self, first: int, n_rows: int) -> npt.NDArray[np.int32] | None:
        """Returns the rows that are read, from row `first` on, if they are at most `FEW_ROWS` chosen ones."""
        if not self.chosen or not 0 < self.count(first, n_rows) <= FEW_ROWS:
            return None
        found = (self._positions & PositionBitmap.from_range(first, first + n_rows)).to_numpy()
        return (found - np.uint64(first)).astype(np.int32)

    def _live_mask(self, start: int, n_rows: int) -> pa.BooleanArray:
        bits = self._positions.mask_packed(n_rows, start=start)
        if not self.chosen:
            np.bitwise_not(bits, out=bits)
        return pa.BooleanArray.from_buffers(pa.bool_(), n_rows, [None, pa.py_buffer(bits)])
