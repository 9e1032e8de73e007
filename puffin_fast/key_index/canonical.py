"""The canonical form of keys: equal keys have the same form in every layout of a column.

    boolean, integers, date, time, timestamp   int64, exact: a bijection of their words is sorted
    decimal of precision up to 18              its unscaled value, likewise
    other decimals                             16 bytes of the unscaled value, hashed
    float, double                              bits of the double; -0.0 is 0.0, NaN one value; hashed
    string, binary, fixed, uuid                their bytes, hashed
    several columns                            their hashes joined, in the order of the columns

Different keys may have the same hash; equal keys always have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._alignment import aligned
from puffin_fast._kernels.key_index import blocks as kernel
from puffin_fast.errors import InvalidInputError

Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

HASH_BITS = 63
"""Bits of a hash: MurmurHash3 x64-128 without one bit, as in DataSketches."""

_INTEGER, _BOOLEAN, _DATE, _FLOATING, _BYTES = "integer", "boolean", "date", "floating", "bytes"
_SHORT, _LONG = "decimal64", "decimal128"
_SHORT_PRECISION = 18

_types = pa.types


def kind_of(kind: pa.DataType) -> str:
    """Returns the name of the canonical form of an Arrow type.

    Raises:
        InvalidInputError: the type has no canonical form.
    """
    if _types.is_signed_integer(kind):
        return _INTEGER
    if _types.is_boolean(kind):
        return _BOOLEAN
    if _types.is_date32(kind):
        return _DATE
    if _types.is_time64(kind):
        return f"time {kind.unit}"
    if _types.is_timestamp(kind):
        return f"timestamp{'' if kind.tz is None else 'tz'} {kind.unit}"
    if _types.is_decimal128(kind):
        return f"{_SHORT if kind.precision <= _SHORT_PRECISION else _LONG} {kind.scale}"
    if _types.is_float32(kind) or _types.is_float64(kind):
        return _FLOATING
    if _types.is_large_string(kind) or _types.is_string(kind):
        return "text"
    if _types.is_large_binary(kind) or _types.is_binary(kind) or _types.is_fixed_size_binary(kind):
        return _BYTES
    raise InvalidInputError(f"column: expected a type whose values can be keys, found {kind}")


def is_exact(kinds: Sequence[str]) -> bool:
    """Whether keys of these columns are stored as they are, without collisions."""
    (kind, *more) = kinds
    return not more and kind.split()[0] not in (_FLOATING, _BYTES, "text", _LONG)


def may_hold(stored: str, given: str) -> bool:
    """Whether keys of one form can be looked up in an index of another: the precision of a decimal may have grown."""
    return stored == given or (
        stored.split()[0] == _SHORT and given.split()[0] == _LONG and stored.split()[1] == given.split()[1]
    )


def integers(column: pa.Array, kind: str) -> tuple[npt.NDArray[np.int64], Bools | None]:
    """Returns keys of an exact form as int64, and which of them have this form (None: all).

    Args:
        column: values without nulls.
        kind: the form of the index, by `kind_of`.
    """
    column = aligned(column)
    if _types.is_boolean(column.type):
        return column.cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64), None
    if _types.is_decimal128(column.type):
        low, high = _halves(column)
        fits = high == low.view(np.int64) >> 63
        return low.view(np.int64), None if fits.all() else fits
    width = column.type.bit_width
    plain = column.view(pa.int32() if width == 32 else pa.int64()) if width >= 32 else column.cast(pa.int64())
    return plain.to_numpy(zero_copy_only=False).astype(np.int64), None


def from_integers(numbers: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array | None:
    """Undoes `integers`; None for decimals.

    Args:
        numbers: the integers.
        kind: the form of the column.
    """
    if _types.is_decimal(kind):
        return None
    if _types.is_boolean(kind):
        return pa.array(numbers != 0)
    width = kind.bit_width
    stored = numbers if width == 64 else numbers.astype(f"i{width // 8}")
    return pa.array(stored).view(kind)


def hashes(columns: Sequence[pa.Array]) -> Words:
    """Hashes rows, to 63 bits.

    Args:
        columns: columns of equal length, without nulls.
    """
    joined: Words | None = None
    for column in columns:
        found = _hashes(aligned(column))
        if joined is None:
            joined = found
        else:
            kernel.join(joined, found)
    if joined is None:
        raise InvalidInputError("columns: expected at least one, found none")
    joined >>= np.uint64(64 - HASH_BITS)
    return joined


def _hashes(column: pa.Array) -> Words:
    kind = kind_of(column.type)
    if is_exact([kind]):
        words: Words = integers(column, kind)[0].view(np.uint64)
        kernel.hash_words(words)
        return words
    if kind == _FLOATING:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        values[np.isnan(values)] = np.nan
        words = values.view(np.uint64)
        kernel.hash_words(words)
        return words
    if _types.is_decimal128(column.type):
        low, high = _halves(column)
        words = low.copy()
        kernel.hash_words(words)
        kernel.join(words, np.ascontiguousarray(high))
        return words
    return hash_bytes(column)


def hash_bytes(column: pa.Array) -> Words:
    """Returns a hash of 64 bits for each text or bytes; that of a null is undefined."""
    if _types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    text = _types.is_string(column.type) or _types.is_large_string(column.type)
    column = column.cast(pa.large_string() if text else pa.large_binary())
    words = np.empty(len(column), np.uint64)
    _, offsets, data = column.buffers()
    if len(column) and not kernel.hash_strings(b"" if data is None else data, offsets, column.offset, words):
        raise InvalidInputError(f"column: offsets of {column.type} point outside of its data")
    return words


def _halves(column: pa.Array) -> tuple[Words, npt.NDArray[np.int64]]:
    """The lower and the upper half of decimals, each contiguous."""
    words: Words = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset :][: 2 * len(column)]
    low: Words = words[::2].copy()
    return low, words[1::2].copy().view(np.int64)


def not_null(columns: Sequence[pa.Array]) -> pa.BooleanArray | None:
    """Which rows have a value in each column; None if all have."""
    found = None
    for column in columns:
        if column.null_count:
            valid = pc.is_valid(column)
            found = valid if found is None else pc.and_(found, valid)
    return found
