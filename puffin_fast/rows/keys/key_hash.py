"""Hashes keys, so that equal keys are found in one of several parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.key_index import hash_bytes
from puffin_fast.rows.keys.integers import is_integral, numbers_of

MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd; its product with a number depends on all bits of the number in the upper bits."""

Hashes = npt.NDArray[np.uint64]


def key_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """Hashes rows; the upper bits of the hashes of different rows are evenly distributed.

    Args:
        columns: the key columns, as `to_key_type` returns them. Null equals null.

    Returns:
        uint64 array, one hash for each row.
    """
    result = np.zeros(len(columns[0]), np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            result = (result ^ (result >> np.uint64(32))) * MIXER + _hashes(column)
        result = (result ^ (result >> np.uint64(29))) * MIXER
        return (result ^ (result >> np.uint64(32))) * MIXER


def _hashes(column: pa.Array) -> Hashes:
    """Hashes the values of one column; equal values have equal hashes, null has 0."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int32())
    if is_integral(column.type):
        numbers, null = numbers_of(column)
        found: Hashes = numbers.view(np.uint64)
    else:
        null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        found = hash_bytes(_bytes(column))
    return found if null is None else np.where(null, np.uint64(0), found)


def _bytes(column: pa.Array) -> pa.Array:
    """The values as bytes: floating-point numbers, decimals and UUIDs have a fixed width."""
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return column
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(np.nan, column.type), column)
    return column.view(pa.binary(column.type.bit_width // 8)).cast(pa.large_binary())
