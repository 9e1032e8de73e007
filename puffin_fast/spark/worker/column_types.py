"""Columns of a table in Spark: their types, and the conversion of Arrow arrays to those types.

=====================================  ==========================================================================
Iceberg                                Spark
=====================================  ==========================================================================
uuid                                   string, as in Iceberg's own Spark source: 8-4-4-4-12 lower-case digits
time                                   bigint: microseconds since midnight
timestamp_ns, timestamptz_ns           bigint: nanoseconds since 1970, because Spark's timestamps have microseconds
timestamp, timestamptz                 timestamp_ntz, timestamp
fixed                                  binary
unknown                                void
all others                             the type of the same name
=====================================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Convert = Callable[[pa.Array], pa.Array]


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of a scan; every column is nullable.

    Raises:
        UnsupportedError: Spark has no type for a column.
    """
    from pyspark.sql import types

    return types.StructType([types.StructField(f.name, _spark_type(f.type, f.name)) for f in schema])


def _spark_type(kind: pa.DataType, name: str) -> DataType:
    from pyspark.sql import types

    if pa.types.is_struct(kind):
        inside = [types.StructField(f.name, _spark_type(f.type, f"{name}.{f.name}")) for f in kind]
        return types.StructType(inside)
    if pa.types.is_map(kind):
        return types.MapType(_spark_type(kind.key_type, name), _spark_type(kind.item_type, name))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return types.ArrayType(_spark_type(kind.value_type, name))
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    made: list[tuple[Callable[[pa.DataType], bool], type[DataType]]] = [
        (pa.types.is_null, types.NullType),
        (pa.types.is_boolean, types.BooleanType),
        (pa.types.is_int32, types.IntegerType),
        (_goes_as_long, types.LongType),
        (pa.types.is_float32, types.FloatType),
        (pa.types.is_float64, types.DoubleType),
        (pa.types.is_date32, types.DateType),
        (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, types.TimestampNTZType),
        (pa.types.is_timestamp, types.TimestampType),
        (_goes_as_text, types.StringType),
        (_goes_as_binary, types.BinaryType),
    ]
    for fits, spark in made:
        if fits(kind):
            return spark()
    raise UnsupportedError(f"column {name}: Spark has no type for {kind}")


def _goes_as_long(kind: pa.DataType) -> bool:
    nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return bool(pa.types.is_int64(kind) or pa.types.is_time64(kind) or nanoseconds)


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _goes_as_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _goes_as_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_uuid(kind))


def _goes_as_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


# Arrays -----------------------------------------------------------------------------------------------------


def converter(kind: pa.DataType) -> Convert | None:
    """Returns a function that converts an array of a scan to its Spark type; None if no conversion is needed."""
    if _is_uuid(kind):
        return _uuid_text
    if pa.types.is_dictionary(kind):
        return lambda array: array.dictionary_decode()
    if pa.types.is_fixed_size_binary(kind):
        return lambda array: array.cast(pa.binary())
    if not pa.types.is_int64(kind) and _goes_as_long(kind):
        return lambda array: array.view(pa.int64())
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(kind)
    return None


def _struct(kind: Any) -> Convert:
    inner = [converter(field.type) for field in kind]
    names = [field.name for field in kind]

    def convert(array: pa.Array) -> pa.Array:
        # flatten() applies the struct's nulls and offset to its fields
        arrays = [a if c is None else c(a) for a, c in zip(array.flatten(), inner, strict=True)]
        fields = [pa.field(name, a.type) for name, a in zip(names, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=_nulls(array))

    return convert


def _list(kind: Any) -> Convert:
    inner = converter(kind.value_type)

    def convert(array: pa.Array) -> pa.Array:
        offsets, values = _whole(array, array.values)
        values = values if inner is None else inner(values)
        return pa.ListArray.from_arrays(
            offsets, values, type=pa.list_(pa.field("element", values.type)), mask=_nulls(array)
        )

    return convert


def _map(kind: Any) -> Convert:
    of_key, of_item = converter(kind.key_type), converter(kind.item_type)

    def convert(array: pa.Array) -> pa.Array:
        offsets, keys = _whole(array, array.keys)
        _, items = _whole(array, array.items)
        keys = keys if of_key is None else of_key(keys)
        items = items if of_item is None else of_item(items)
        made = pa.map_(keys.type, items.type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=made, mask=_nulls(array))

    return convert


def _whole(array: Any, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Returns 32-bit offsets that begin at 0, and the values between the first and the last offset."""
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return pa.array((offsets - first).astype(np.int32)), values.slice(first, last - first)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


_PAIRS = np.frombuffer(bytes(range(256)).hex().encode(), dtype=np.uint16)
"""Two hexadecimal digits for each byte."""


def _uuid_text(array: Any) -> pa.Array:
    storage = array.storage
    n_rows = len(storage)
    values = np.zeros((n_rows, 16), np.uint8)
    if n_rows and storage.null_count < n_rows:
        data = np.frombuffer(storage.buffers()[1], np.uint8)
        values = data[16 * storage.offset : 16 * (storage.offset + n_rows)].reshape(n_rows, 16)
    digits = _PAIRS[values].view(np.uint8).reshape(n_rows, 32)
    text = np.insert(digits, [8, 12, 16, 20], ord("-"), axis=1)
    offsets = np.arange(0, 36 * n_rows + 1, 36, dtype=np.int32)
    found = pa.StringArray.from_buffers(n_rows, pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))
    if storage.null_count:
        found = pc.if_else(storage.is_valid(), found, pa.scalar(None, pa.string()))
    return found
