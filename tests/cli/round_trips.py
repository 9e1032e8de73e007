"""Tables, readers and cases that several tests share with `test_round_trips`."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

UTC = datetime.UTC


VALUES: dict[str, tuple[IcebergType, list[Any]]] = {
    "boolean": (BooleanType(), [True, False]),
    "int": (IntegerType(), [-(2**31), 2**31 - 1]),
    "long": (LongType(), [-(2**63), 2**63 - 1]),
    "float": (FloatType(), [0.1, float("nan"), float("-inf"), 1e-45]),
    "double": (DoubleType(), [0.1, float("nan"), -0.0, 5e-324]),
    "decimal": (DecimalType(9, 2), [Decimal("-0.01"), Decimal("1234567.80")]),
    "wide decimal": (DecimalType(38, 10), [Decimal("1e-10"), Decimal("9" * 28)]),
    "date": (DateType(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "time": (TimeType(), [datetime.time(0), datetime.time(23, 59, 59, 999_999)]),
    "timestamp": (
        TimestampType(),
        [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 1)],
    ),
    "timestamptz": (TimestamptzType(), [datetime.datetime(1969, 12, 31, tzinfo=UTC), 1]),
    "timestamp_ns": (TimestampNanoType(), [1, -1]),
    "timestamptz_ns": (TimestamptzNanoType(), [1, -1]),
    "string": (StringType(), ["", "NA", "null", 'a,"b"\r\n', " ", "\x00", "ü", "\\N"]),
    "uuid": (UUIDType(), [bytes(16), bytes(range(16))]),
    "fixed": (FixedType(3), [b"\x00\xff,", b"abc"]),
    "binary": (BinaryType(), [b"", b"\x00\xff\n"]),
}


NESTED: dict[str, tuple[IcebergType, list[Any]]] = {
    "list": (ListType(20, IntegerType(), element_required=False), [[], [1, None]]),
    "map": (MapType(21, StringType(), 22, IntegerType(), value_required=False), [[("a", 1)], []]),
    "struct": (StructType(NestedField(23, "a", UUIDType(), required=False)), [{"a": bytes(16)}, {"a": None}]),
}
