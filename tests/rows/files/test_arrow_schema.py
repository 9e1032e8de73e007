"""The Arrow schema of results is the one that PyIceberg makes, for columns of every type, and with their comments."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
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
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from puffin_fast.rows.files.conversion import arrow_schema

TYPES: list[IcebergType] = [
    *(BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2), FixedType(12)),
    *(DateType(), TimeType(), TimestampType(), TimestamptzType(), StringType(), BinaryType(), UUIDType()),
    *(UnknownType(), ListType(100, UUIDType(), element_required=True)),
    MapType(101, StringType(), 102, StructType(NestedField(103, "x", LongType(), doc="inside")), False),
    StructType(NestedField(104, "y", StringType(), required=True, doc="inside")),
]


@pytest.mark.parametrize("required", [False, True])
def test_the_arrow_schema_is_pyicebergs(required: bool) -> None:
    docs = [None, "", "a comment"]
    fields = [
        NestedField(at, f"c{at}", kind, required=required and kind != UnknownType(), doc=docs[at % 3])
        for at, kind in enumerate(TYPES)
    ]
    found = arrow_schema(Schema(*fields))
    assert found.equals(schema_to_pyarrow(Schema(*fields), include_field_ids=False), check_metadata=True)
    assert found.field("c2").metadata == {b"doc": b"a comment"}
    assert arrow_schema(Schema()) == pa.schema([])
