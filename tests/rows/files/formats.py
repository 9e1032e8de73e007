"""Tables, readers and cases that several tests share with `test_formats`."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
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
    UUIDType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.iceberg.manifest import ADDED, DATA, ManifestEntry
from puffin_fast.tables.scan import scan
from tests.kit.tables import path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


INNER = StructType(NestedField(30, "a", LongType()), NestedField(31, "b", StringType()))


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "i", IntegerType()),
    NestedField(4, "f", FloatType()),
    NestedField(5, "x", DoubleType()),
    NestedField(6, "yes", BooleanType()),
    NestedField(7, "day", DateType()),
    NestedField(8, "clock", TimeType()),
    NestedField(9, "at", TimestampType()),
    NestedField(10, "instant", TimestamptzType()),
    NestedField(11, "price", DecimalType(20, 3)),
    NestedField(12, "raw", BinaryType()),
    NestedField(13, "four", FixedType(4)),
    NestedField(14, "key", UUIDType()),
    NestedField(15, "inner", INNER),
    NestedField(16, "many", ListType(17, INNER, element_required=False)),
    NestedField(18, "by_name", MapType(19, StringType(), 20, INNER, value_required=False)),
    NestedField(21, "by_number", MapType(22, LongType(), 23, StringType(), value_required=False)),
)


N = 1000


def row(at: int) -> dict[str, Any]:
    """Row `at` of the test's table; each seventh has only nulls."""
    if at % 7 == 0:
        return {field.name: at if field.name == "id" else None for field in SCHEMA.fields}
    inner = {"a": at, "b": f"b{at}"} if at % 3 else {"a": None, "b": None}
    moment = datetime.datetime(2000, 1, 1) + datetime.timedelta(hours=at, microseconds=at)
    return {
        "id": at,
        "s": f"s{at % 10}",
        "i": -at,
        "f": at / 4,
        "x": float(at),
        "yes": at % 2 == 0,
        "day": moment.date(),
        "clock": moment.time(),
        "at": moment,
        "instant": moment.replace(tzinfo=datetime.UTC),
        "price": Decimal(at) / 8,
        "raw": bytes([at % 256]),
        "four": at.to_bytes(4, "big"),
        "key": uuid.UUID(int=at),
        "inner": inner if at % 5 else None,
        "many": [inner, None, inner][: at % 4] if at % 5 else None,
        "by_name": [("k", inner), ("n", None)][: at % 3] if at % 5 else None,
        "by_number": [(at, f"v{at}"), (-at, None)][: at % 3] if at % 5 else None,
    }


ROWS = pa.Table.from_pylist([row(at) for at in range(N)], schema_to_pyarrow(SCHEMA, include_field_ids=False))


def named(node: Any, name: str = "r") -> Any:
    """An Avro schema as Java writes it: records and fixed types have names, values of maps may be null."""
    if isinstance(node, list):
        return [named(part, name) for part in node]
    if not isinstance(node, dict):
        return node
    if node.get("logicalType") == "map":
        key, value = node["items"]["fields"]
        if key["type"] == "string":
            return {
                "type": "map",
                "values": ["null", named(value["type"], f"{name}_value")],
                "key-id": key["field-id"],
                "value-id": value["field-id"],
            }
        value["type"] = ["null", value["type"]]
        return {**node, "items": {**node["items"], "name": name}}
    node = {
        key: named(part, f"{name}_{key}") if key in ("type", "items", "values") else part
        for key, part in node.items()
    }
    if node["type"] == "array":
        node["items"] = ["null", node["items"]]
    if node["type"] in ("record", "fixed"):
        node["name"] = name
    if "fields" in node:
        node["fields"] = [
            {**field, "type": named(field["type"], f"{name}_{field['name']}")} for field in node["fields"]
        ]
    return node


IDS = ("field-id", "element-id", "key-id", "value-id")


def without_ids(node: Any) -> Any:
    """An Avro schema without the attributes of Iceberg; Spark writes null last in unions."""
    if isinstance(node, list):
        return [without_ids(part) for part in node][::-1]
    if not isinstance(node, dict):
        return node
    found = {key: without_ids(part) for key, part in node.items() if key not in IDS}
    if "fields" in node:
        found["fields"] = [without_ids(field) for field in node["fields"]]
    if isinstance(node.get("type"), list):
        found.pop("default", None)
    return found


def to_avro(rows: pa.Table, path: Path, schema: Schema, *, has_ids: bool = True) -> None:
    avro = named(AvroSchemaConversion().iceberg_to_avro(schema))
    avro = fastavro.parse_schema(avro if has_ids else without_ids(avro))
    records = []
    for record in rows.to_pylist():
        for field in schema.fields:
            value, kind = record[field.name], field.field_type
            if isinstance(value, uuid.UUID):
                record[field.name] = value.bytes
            elif isinstance(kind, MapType) and value is not None:
                by_text = isinstance(kind.key_type, StringType)
                record[field.name] = dict(value) if by_text else [{"key": k, "value": v} for k, v in value]
        records.append(record)
    with path.open("wb") as file:
        fastavro.writer(file, avro, records, codec="deflate", sync_interval=4000)


def register(table: Table, path: str, format: str, n_rows: int, *, content: int = DATA, **named: Any) -> None:
    """Commits a file that is there."""
    entry = ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=content,
        file_path=path,
        file_format=format,
        spec_id=0,
        partition=(),
        record_count=n_rows,
        file_size_in_bytes=path_of(path).stat().st_size,
        **named,
    )
    commit(table, Changes(added=(entry,), new_files=(path,)), base=table.current_snapshot())


def mapped(catalog: SqlCatalog, table: Table) -> Table:
    """The table, whose files need no field ids from here on."""
    with v3_metadata(catalog), table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    return table


def named_by_mapping(
    catalog: SqlCatalog, namespace: str, schema: Any, format: str = "PARQUET"
) -> tuple[Table, str, Path]:
    """A table whose files need no field ids, the path of a file to write, and the same for this machine."""
    table = mapped(catalog, create_table(catalog, f"{namespace}.t", schema))
    path = f"{table.location()}/data/f.{format.lower()}"
    local = path_of(path)
    local.parent.mkdir(parents=True, exist_ok=True)
    return table, path, local


def ids(table: Table, *arguments: Any) -> list[int]:
    found: list[int] = scan(table, *arguments).to_arrow()["id"].to_pylist()
    return sorted(found)
