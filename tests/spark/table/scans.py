"""Tables, readers and cases that several tests share with `test_scans`."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


COLUMNS = {
    "b": (BooleanType(), True, "boolean"),
    "i": (IntegerType(), 7, "int"),
    "l": (LongType(), 2**40, "bigint"),
    "f": (FloatType(), 0.5, "float"),
    "d": (DoubleType(), 0.1, "double"),
    "dec": (DecimalType(30, 4), Decimal("-12345678901234567890.1234"), "decimal(30,4)"),
    "day": (DateType(), datetime.date(1969, 12, 31), "date"),
    "clock": (TimeType(), datetime.time(1, 2, 3, 4), "bigint"),
    "at": (TimestampType(), datetime.datetime(1969, 12, 31, 23, 0, 0, 1), "timestamp_ntz"),
    "when": (
        TimestamptzType(),
        datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC),
        "timestamp",
    ),
    "nano": (TimestampNanoType(), 1_700_000_000_123_456_789, "bigint"),
    "s": (StringType(), "häß", "string"),
    "u": (UUIDType(), uuid.UUID("00ff1234-0102-0304-0506-0708090a0bfe"), "string"),
    "fix": (FixedType(3), b"abc", "binary"),
    "raw": (BinaryType(), b"\x00\xff", "binary"),
    "tags": (
        ListType(101, UUIDType(), element_required=False),
        [uuid.UUID(int=5), None],
        "array<string>",
    ),
    "map": (
        MapType(102, StringType(), 103, ListType(104, FixedType(2)), value_required=False),
        [("x", [b"ab", b"cd"]), ("y", None)],
        "map<string,array<binary>>",
    ),
    "deep": (
        StructType(
            NestedField(105, "a", LongType()),
            NestedField(106, "l", ListType(107, StructType(NestedField(108, "t", TimeType())))),
        ),
        {"a": 3, "l": [{"t": datetime.time(0, 0, 1)}, {"t": None}]},
        "struct<a:bigint,l:array<struct<t:bigint>>>",
    ),
}


def every_type(table: Table) -> pa.Table:
    """Three rows of a table with `COLUMNS`, the second of nulls."""
    arrow = table.schema().as_arrow()
    columns = []
    for field in arrow:
        value = COLUMNS[field.name][1]
        plain = value.bytes if isinstance(value, uuid.UUID) else value
        if field.name == "tags":
            some = [v and v.bytes for v in value]
            storage = pa.array([some, None, some], pa.list_(pa.binary(16)))
            columns.append(storage.cast(pa.large_list(pa.binary(16))).cast(field.type))
        else:
            columns.append(pa.array([plain, None, plain], field.type))
    return pa.Table.from_arrays(columns, schema=arrow)
