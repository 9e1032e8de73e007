"""Arrow values that are stored as signed integers: numbers, dates, times and timestamps; sorted without hash tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]

CHECKED = 1 << 16
"""Number of values that are compared at a time."""


def is_integral(kind: pa.DataType) -> bool:
    """Whether the values of a type are stored as signed integers."""
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
    )


def numbers_of(values: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], Bools | None]:
    """Values as int64, undefined where they are null, and a mask of the nulls (None if there are none)."""
    plain = _plain(values)
    null = None
    if plain.null_count:
        null = plain.is_null().to_numpy(zero_copy_only=False)
        plain = plain.fill_null(0)
    numbers: npt.NDArray[np.int64] = plain.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers, null


def sorted_distinct(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The distinct values in ascending order, then null if there is one.

    Memory in addition to the result: at most the size of the values twice.
    """
    kind, has_null = values.type, bool(values.null_count)
    if has_null:
        values = values.drop_null()
    numbers = np.array(_plain(values))
    numbers.sort()
    if not is_ascending(numbers):
        numbers = numbers[np.append(True, numbers[1:] != numbers[:-1])]
    found = pa.array(numbers).view(kind)
    return pa.concat_arrays([found, pa.nulls(1, kind)]) if has_null else found


def is_ascending(numbers: npt.NDArray[np.signedinteger]) -> bool:
    """Whether each number is greater than the one before."""
    for first in range(0, len(numbers) - 1, CHECKED):
        some = numbers[first : first + CHECKED + 1]
        if not (some[1:] > some[:-1]).all():
            return False
    return True


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as int32 or int64."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
