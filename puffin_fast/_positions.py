"""Whatever holds positions, as one contiguous array of 8-byte integers, without a copy where possible."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast.errors import InvalidInputError

__all__ = ["MAX_POSITION", "as_bytes", "as_position", "as_positions", "integers_of", "refuse_position"]

MAX_POSITION = 0x7FFFFFFE80000000
"""The largest position that may be written: key 2^31 - 2, so that Java's reader takes it too."""

_EIGHT_BYTES = (np.dtype(np.int64), np.dtype(np.uint64))
Integers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]


def integers_of(array: np.ndarray[Any, Any], what: str) -> Integers:
    """A one-dimensional integer array as contiguous, aligned int64 or uint64; narrower ones are widened.

    Raises:
        InvalidInputError: not one-dimensional, or not of an integer dtype (bool is none).
    """
    flags = array.flags
    if array.dtype in _EIGHT_BYTES and array.ndim == 1 and flags.c_contiguous and flags.aligned:
        return array
    if array.ndim != 1:
        raise InvalidInputError(f"{what}: expected one dimension, found shape {array.shape}")
    if array.dtype.kind not in "iu":
        if array.size == 0 and array.dtype == np.float64:  # what NumPy makes of an empty list
            return np.empty(0, np.uint64)
        raise InvalidInputError(f"{what}: expected integers, found dtype {array.dtype}")
    if array.dtype.itemsize != 8 or not array.dtype.isnative:
        array = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
    return np.require(array, requirements=["C", "A"])


def _of_arrow(array: pa.Array | pa.ChunkedArray, what: str) -> Integers:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # no chunk at all
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not pa.types.is_integer(array.type) and not (pa.types.is_null(array.type) and len(array) == 0):
        raise InvalidInputError(f"{what}: expected integers, found {array.type}")
    if array.null_count:
        row = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]
        raise InvalidInputError(f"{what}: row {row} is null, {array.null_count} of {len(array)} are")
    if len(array) == 0:
        return np.empty(0, np.uint64)
    return integers_of(array.to_numpy(), what)


def as_positions(source: Any, what: str = "positions") -> Integers:
    """Positions of any kind as contiguous int64 or uint64.

    Args:
        source: a NumPy array, an Arrow array or chunked array, any object with the Arrow C interface, a range,
            or an iterable of Python integers.
        what: its name in errors.

    Raises:
        InvalidInputError: not integers, nulls, or integers that 64 bits do not hold.
    """
    if isinstance(source, np.ndarray):
        return integers_of(source, what)
    if isinstance(source, pa.Array | pa.ChunkedArray):
        return _of_arrow(source, what)
    if isinstance(source, range):
        return np.arange(source.start, source.stop, source.step, dtype=np.int64)
    if hasattr(source, "__arrow_c_array__"):
        return _of_arrow(pa.array(source), what)
    if hasattr(source, "__arrow_c_stream__"):
        return _of_arrow(pa.chunked_array(source), what)
    if isinstance(source, str | bytes | bytearray) or not hasattr(source, "__iter__"):
        raise InvalidInputError(f"{what}: expected integers, found {type(source).__name__}")
    values = list(source)
    try:
        return integers_of(np.asarray(values), what)
    except (OverflowError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            bad = next((i for i, value in enumerate(values) if not isinstance(value, int | np.integer)), None)
            if bad is None:  # integers that NumPy could hold only as floats or objects
                bad = next(i for i, value in enumerate(values) if not 0 <= value <= MAX_POSITION)
            raise InvalidInputError(
                f"{what}: element {bad}: expected a position from 0 to {MAX_POSITION}, found {values[bad]!r}"
            ) from None
        raise InvalidInputError(f"{what}: expected integers: {error}") from error


def as_position(value: int, what: str) -> int:
    """One position that fits 63 bits.

    Raises:
        InvalidInputError: negative, or above 2^63 - 1.
    """
    if not 0 <= operator.index(value) < 1 << 63:
        raise InvalidInputError(f"{what}: expected a position from 0 to 2^63 - 1, found {value}")
    return int(value)


def as_bytes(data: Any, what: str) -> bytes:
    """The bytes of any buffer of bytes; `bytes` themselves, a copy of others (they may change under us).

    Raises:
        InvalidInputError: no buffer, or one of other items.
    """
    if isinstance(data, bytes):
        return data
    try:
        view = memoryview(data)
    except TypeError:
        raise InvalidInputError(
            f"{what}: expected bytes or another buffer, found {type(data).__name__}"
        ) from None
    if view.ndim != 1 or view.itemsize != 1:
        raise InvalidInputError(
            f"{what}: expected a buffer of bytes, found items of {view.itemsize} bytes and shape {view.shape}"
        )
    return view.tobytes()


def refuse_position(positions: Integers, what: str = "positions") -> None:
    """Raises the error for the first position that is negative or above MAX_POSITION.

    Raises:
        InvalidInputError: always.
    """
    bad = int(np.flatnonzero((positions > MAX_POSITION) | (positions < 0))[0])
    raise InvalidInputError(
        f"{what}: element {bad}: expected a position from 0 to {MAX_POSITION}, found {positions[bad]}"
    )
