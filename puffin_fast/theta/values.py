"""Hashes the values of Arrow columns in the Iceberg specification's single-value serialisation.

boolean 1 byte; int, date 4 bytes little-endian; long, time, timestamps 8; float 4 and double 8 (raw bits, so NaNs of
different bits and -0.0 and 0.0 are different values); string UTF-8; binary, fixed, uuid their bytes; decimal the
unscaled value, big-endian in the fewest bytes. Nulls and empty byte strings are skipped, as Java does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._alignment import aligned
from puffin_fast._kernels.theta import sketches as kernel
from puffin_fast.errors import InvalidInputError

_DECIMAL_WIDTH = 16


_types = pa.types
Test = Callable[[pa.DataType], bool]


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            _types.is_string, _types.is_large_string, _types.is_string_view,
            _types.is_binary, _types.is_large_binary, _types.is_binary_view,
        )
    )  # fmt: skip


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(_types.is_fixed_size_binary(kind)) or _is_bytes(kind)


def _is_instant(kind: pa.DataType) -> bool:
    return bool(_types.is_timestamp(kind) or _types.is_date(kind))  # a date column may have been promoted


@dataclass(frozen=True)
class SketchedType:
    """An Iceberg type, and the form of its values that is hashed.

    Attributes:
        name: the Iceberg type as text.
        arrow: the Arrow type whose buffers are hashed; other types are cast to it.
        width: bytes of a value in a buffer of words; 0 for byte strings and booleans.
        accepts: whether values of an Arrow type may be cast.
    """

    name: str
    arrow: pa.DataType
    width: int
    accepts: Test


_PRIMITIVES: dict[str, tuple[pa.DataType, int, Test]] = {
    "boolean": (pa.bool_(), 0, _types.is_boolean),
    "int": (pa.int32(), 4, _types.is_integer),
    "long": (pa.int64(), 8, _types.is_integer),
    "float": (pa.float32(), 4, _types.is_floating),
    "double": (pa.float64(), 8, _types.is_floating),
    "date": (pa.date32(), 4, _types.is_date),
    "time": (pa.time64("us"), 8, _types.is_time),
    "timestamp": (pa.timestamp("us"), 8, _is_instant),
    "timestamptz": (pa.timestamp("us", "UTC"), 8, _is_instant),
    "timestamp_ns": (pa.timestamp("ns"), 8, _is_instant),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), 8, _is_instant),
    "string": (pa.large_string(), 0, _is_bytes),
    "binary": (pa.large_binary(), 0, _is_bytes),
    "uuid": (pa.binary(16), 0, _is_fixed),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")
_NAMES: tuple[tuple[str, Test], ...] = (
    ("boolean", _types.is_boolean),
    ("int", lambda kind: _types.is_integer(kind) and (kind.bit_width < 32 or kind == pa.int32())),
    ("long", lambda kind: kind in (pa.int64(), pa.uint32())),
    ("float", _types.is_float32),
    ("double", _types.is_float64),
    ("date", _types.is_date),
    ("time", _types.is_time),
    (
        "string",
        lambda kind: _types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind),
    ),
    ("binary", _is_bytes),
)


def sketched_type(iceberg_type: Any) -> SketchedType:
    """Returns the form in which values of a primitive Iceberg type are hashed.

    Args:
        iceberg_type: the type as PyIceberg's object, or its text.

    Raises:
        InvalidInputError: the type has no single-value serialisation.
    """
    name = str(iceberg_type)
    if name in _PRIMITIVES:
        return SketchedType(name, *_PRIMITIVES[name])
    if (decimal := _DECIMAL.fullmatch(name)) and 0 < int(decimal[1]) <= 38:
        arrow = pa.decimal128(int(decimal[1]), int(decimal[2]))
        return SketchedType(name, arrow, _DECIMAL_WIDTH, _types.is_decimal)
    if (fixed := _FIXED.fullmatch(name)) and int(fixed[1]) > 0:
        return SketchedType(name, pa.binary(int(fixed[1])), 0, _is_fixed)
    raise InvalidInputError(f"iceberg_type: expected a primitive Iceberg type, found {name!r}")


def _name_of(kind: pa.DataType) -> str:
    """Returns the Iceberg type that an Arrow type is written as.

    Raises:
        InvalidInputError: no Iceberg type corresponds to it.
    """
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            if kind.extension_name == "arrow.uuid":
                return "uuid"
            kind = kind.storage_type
        elif _types.is_dictionary(kind) or _types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            break
    if _types.is_timestamp(kind):
        return "timestamp" + ("tz" if kind.tz else "") + ("_ns" if kind.unit == "ns" else "")
    if _types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if _types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    for name, test in _NAMES:
        if test(kind):
            return name
    raise InvalidInputError(f"values: no Iceberg type stands for Arrow's {kind}; pass iceberg_type")


def feed(accumulator: kernel.Accumulator, values: Any, kind: SketchedType | None) -> SketchedType | None:
    """Adds the values of a column to an accumulator.

    Args:
        accumulator: takes the hashes.
        values: an Arrow array or chunked array, an object with the Arrow C interface, or a sequence.
        kind: the form that is hashed; with None, it follows from the Arrow type.

    Returns:
        The form that was hashed; None if the column has no type and only nulls.

    Raises:
        InvalidInputError: values do not fit `kind`, or dictionary indices are outside of the dictionary.
    """
    column = _column(values)
    if _types.is_null(column.type):
        return kind
    if kind is None:
        kind = sketched_type(_name_of(column.type))
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
        _feed_chunk(accumulator, chunk, kind)
    return kind


def _column(values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInputError(f"values: expected an Arrow array: {error}") from error


def _feed_chunk(accumulator: kernel.Accumulator, array: pa.Array, kind: SketchedType) -> None:
    array = aligned(array)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if _types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if len(array) == array.null_count:
        return
    if _types.is_dictionary(array.type):
        _feed_chunk(accumulator, _used_entries(array), kind)
        return
    array = _cast(array, kind)
    if kind.name == "boolean":
        array = pa.array(
            [b"\x00"] * (array.false_count > 0) + [b"\x01"] * (array.true_count > 0), pa.binary()
        )
    elif _types.is_fixed_size_binary(array.type):
        array = _with_offsets(array)
    n, first = len(array), array.offset
    validity = None if array.null_count == 0 else array.buffers()[0]
    if kind.width:
        accumulator.add_words(array.buffers()[1], kind.width, validity, first, n)
        return
    _, offsets, data = array.buffers()
    wide = array.type in (pa.large_string(), pa.large_binary())
    if not accumulator.add_strings(b"" if data is None else data, offsets, wide, validity, first, n):
        raise InvalidInputError(f"values: offsets of {array.type} point outside of its data")


def _cast(array: pa.Array, kind: SketchedType) -> pa.Array:
    """Returns the array with buffers that the kernel can read; most arrays have such buffers."""
    here, wanted = array.type, kind.arrow
    if not kind.accepts(here):
        raise InvalidInputError(
            f"values: expected what Iceberg's {kind.name} stands for, found Arrow's {here}"
        )
    if _types.is_fixed_size_binary(wanted):
        ready = here == wanted
    elif kind.width == 0 and kind.name != "boolean":
        ready = not (_types.is_string_view(here) or _types.is_binary_view(here))
    elif _types.is_timestamp(wanted):
        ready = _types.is_timestamp(here) and here.unit == wanted.unit
    elif _types.is_decimal(wanted):
        ready = _types.is_decimal128(here) and here.scale == wanted.scale
    else:
        ready = here == wanted
    if ready:
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"values: Arrow's {here} as Iceberg's {kind.name}: {error}") from error


def _with_offsets(array: pa.Array) -> pa.Array:
    """Converts values of a fixed length to binary values over the same data."""
    validity, data = array.buffers()
    ends = np.arange(array.offset + len(array) + 1, dtype=np.int64) * array.type.byte_width
    buffers = [validity, pa.py_buffer(ends), data]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers, array.null_count, array.offset)


def _used_entries(array: pa.DictionaryArray) -> pa.Array:
    """Returns the entries of the dictionary that an index refers to."""
    indices, entries = array.indices, array.dictionary
    bits = indices.type.bit_width
    most = 1 << (bits - 1 if _types.is_signed_integer(indices.type) else bits)
    used = np.zeros(min(len(entries), most), np.uint8)
    validity = None if indices.null_count == 0 else indices.buffers()[0]
    if not kernel.mark_used(indices.buffers()[1], bits // 8, validity, indices.offset, len(indices), used):
        raise InvalidInputError(
            f"values: expected dictionary indices from 0 to {len(used) - 1}, found others"
        )
    n_used = int(np.count_nonzero(used))
    return entries if n_used == len(entries) else entries.take(pa.array(np.flatnonzero(used)))


def is_sketched(iceberg_type: Any) -> bool:
    """Returns whether values of an Iceberg type can be hashed: some primitive types of version 3 cannot."""
    try:
        sketched_type(iceberg_type)
    except InvalidInputError:
        return False
    return True
