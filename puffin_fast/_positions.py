"""Converts positions of any kind to one contiguous array of 8-byte integers, without a copy if possible."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError

MAX_POSITION = 0x7FFFFFFE80000000
"""The largest position that may be written. Its key is 2^31 - 2, the largest that Java's reader accepts."""

_ARROW = (pa.Array, pa.ChunkedArray)
_DICTIONARY, _RUNS = pa.lib.Type_DICTIONARY, pa.lib.Type_RUN_END_ENCODED
_POINTING = frozenset(
    (
        _DICTIONARY, _RUNS, pa.lib.Type_LIST_VIEW, pa.lib.Type_LARGE_LIST_VIEW,
        pa.lib.Type_BINARY_VIEW, pa.lib.Type_STRING_VIEW, pa.lib.Type_STRING, pa.lib.Type_LARGE_STRING,
    )
)  # fmt: skip
"""Types whose values are offsets into memory, which only Arrow's full validation checks."""
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
Integers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]


def refuse_masked(array: np.ndarray[Any, Any], what: str) -> None:
    """Raises an error for the first masked item of a NumPy masked array.

    Raises:
        InvalidInputError: an item is masked.
    """
    if type(array) is np.ndarray or not np.ma.is_masked(array):
        return
    row = np.flatnonzero(np.ma.getmaskarray(array))[0]
    raise InvalidInputError(f"{what}: element {row} is masked")


def integers_of(array: np.ndarray[Any, Any], what: str) -> Integers:
    """Converts a one-dimensional integer array to contiguous, aligned int64 or uint64.

    Raises:
        InvalidInputError: the array is not one-dimensional, not of an integer dtype (bool is not), or has masked items.
    """
    refuse_masked(array, what)
    dtype, flags = array.dtype, array.flags
    if (dtype is _UINT64 or dtype is _INT64) and array.ndim == 1 and flags.c_contiguous and flags.aligned:
        return array
    if array.ndim != 1:
        raise InvalidInputError(f"{what}: expected one dimension, found shape {array.shape}")
    if dtype.kind not in "iu":
        if array.size == 0 and dtype == np.float64:  # the dtype of an empty list in NumPy
            return np.empty(0, np.uint64)
        raise InvalidInputError(f"{what}: expected integers, found dtype {dtype}")
    if dtype.itemsize != 8 or not dtype.isnative:
        array = array.astype(np.uint64 if dtype.kind == "u" else np.int64)
    return np.require(array, requirements=["C", "A"])


def checked_array(array: pa.Array | pa.ChunkedArray, what: str) -> pa.Array | pa.ChunkedArray:
    """Checks that the buffers of an array agree with its length, offsets, views and indices; returns the array.

    Arrow reads the memory at these places and may crash; it does not check them when an array is made. The offsets of
    lists and binary values are checked by the functions that read them.

    Raises:
        InvalidInputError: Arrow's validation fails, or an index is outside of the dictionary.
    """
    kind = array.type
    try:
        array.validate()
        if kind.id == _DICTIONARY:
            _check_indices(array, what)
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if kind.id in _POINTING:
            array.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{what}: {error}") from error
    return array


def _check_indices(array: pa.DictionaryArray | pa.ChunkedArray, what: str) -> None:
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
        if len(chunk) == chunk.null_count:
            continue
        ends, most = pc.min_max(chunk.indices), len(chunk.dictionary) - 1
        if ends["min"].as_py() < 0 or ends["max"].as_py() > most:
            raise InvalidInputError(
                f"{what}: expected dictionary indices from 0 to {most}, found {ends['min']} to {ends['max']}"
            )


def value_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values of an extension type, a dictionary or runs; other types as they are."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif kind.id in (_DICTIONARY, _RUNS):
            kind = kind.value_type
        else:
            return kind


def joined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column as one array without an extension type and runs.

    Runs become a dictionary with an entry for each run; dictionaries are kept if Arrow can unite them. An empty column
    becomes one of its values' type.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else (column,)
    parts = [_without_runs(chunk) for chunk in chunks if len(chunk)]
    if not parts:
        return pa.array([], value_type(column.type))
    if len(parts) > 1 and parts[0].type.id == _DICTIONARY:
        try:
            parts = pa.chunked_array(parts).unify_dictionaries().chunks
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # of lists, and with nulls
            parts = [decoded(part) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _without_runs(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type.id != _RUNS:
        return array
    start, stop = array.offset, array.offset + len(array)
    ends = np.clip(array.run_ends.to_numpy().astype(np.int64), start, stop)
    runs = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=start))
    return pa.DictionaryArray.from_arrays(pa.array(runs), decoded(_without_runs(array.values)))


def decoded(array: pa.Array) -> pa.Array:
    """Returns the values of a dictionary; other arrays as they are. Arrow decodes no dictionary of views."""
    if array.type.id != _DICTIONARY:
        return array
    values = array.dictionary
    if pa.types.is_binary_view(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.large_binary() if pa.types.is_binary_view(values.type) else pa.large_string())
    return values.take(array.indices)


def _of_arrow(array: pa.Array | pa.ChunkedArray, what: str) -> Integers:
    array = checked_array(array, what)
    kind = array.type if isinstance(array.type, pa.BaseExtensionType) else value_type(array.type)
    if not pa.types.is_integer(kind) and not (pa.types.is_null(kind) and len(array) == 0):
        raise InvalidInputError(f"{what}: expected integers, found {kind}")
    if len(array) == 0:
        return np.empty(0, np.uint64)
    array = decoded(joined(array))
    if array.null_count:
        row = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]
        raise InvalidInputError(f"{what}: row {row} is null, {array.null_count} of {len(array)} are")
    return integers_of(array.to_numpy(), what)


def as_positions(source: Any, what: str = "positions") -> Integers:
    """Converts positions of any kind to contiguous int64 or uint64.

    Args:
        source: a NumPy array, an Arrow array or chunked array, any object with the Arrow C interface, a range,
            or an iterable of Python integers.
        what: the name of the argument in errors.

    Raises:
        InvalidInputError: the values are not integers, have nulls, or do not fit 64 bits.
    """
    if isinstance(source, np.ndarray):
        return integers_of(source, what)
    if isinstance(source, _ARROW):
        return _of_arrow(source, what)
    if isinstance(source, range):
        for end in (source[0], source[-1]) if source else ():
            if not -(1 << 63) <= end < 1 << 63:
                raise InvalidInputError(f"{what}: expected a range from 0 to {MAX_POSITION}, found {source}")
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
            if bad is None:  # integers that NumPy can only represent as floats or objects
                bad = next((i for i, value in enumerate(values) if not 0 <= value <= MAX_POSITION), None)
            if bad is None:  # NumPy integers of different types
                return np.array([int(value) for value in values], np.uint64)
            shown = shown_argument(values[bad])
            raise InvalidInputError(
                f"{what}: element {bad}: expected a position from 0 to {MAX_POSITION}, found {shown}"
            ) from None
        raise InvalidInputError(f"{what}: expected integers: {error}") from error


def as_integer(value: Any, what: str) -> int:
    """Converts one integer.

    Raises:
        InvalidInputError: the value is no integer (bool is not).
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise InvalidInputError(f"{what}: expected an integer, found {shown_argument(value)}")


def as_position(value: Any, what: str) -> int:
    """Converts one position, which must fit 63 bits.

    Raises:
        InvalidInputError: the value is no integer, negative or above 2^63 - 1.
    """
    number = as_integer(value, what)
    if not 0 <= number < 1 << 63:
        raise InvalidInputError(f"{what}: expected a position from 0 to 2^63 - 1, found {value}")
    return number


def as_bytes(data: Any, what: str, offset: object = 0) -> bytes:
    """Returns the bytes of a buffer: `bytes` objects as they are, others as a copy, because they may change.

    Args:
        data: the buffer.
        what: its name in errors.
        offset: the argument with its offset in a file, which is checked, too.

    Raises:
        InvalidInputError: the argument is not a buffer, its items are not bytes, or the offset is no integer.
    """
    if type(offset) is not int or offset >> 63:
        as_position(offset, "offset")
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


def refuse_position(positions: Integers, what: str = "positions") -> NoReturn:
    """Raises the error for the first position that is negative or above MAX_POSITION.

    Raises:
        InvalidInputError: always.
    """
    wrong = np.flatnonzero((positions > MAX_POSITION) | (positions < 0))
    if len(wrong) == 0:
        raise InvalidInputError(f"{what}: changed by another thread while they were encoded")
    bad = int(wrong[0])
    raise InvalidInputError(
        f"{what}: element {bad}: expected a position from 0 to {MAX_POSITION}, found {positions[bad]}"
    )
