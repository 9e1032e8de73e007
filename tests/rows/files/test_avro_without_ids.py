"""Avro files of writers that know nothing of Iceberg: the name mapping of the table gives the ids of their fields."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
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

from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg import create_table, delete, delete_keys, scan, update, upsert
from tests.kit.tables import path_of
from tests.rows.files.formats import ids, named_by_mapping, register

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


def written(local: Path, schema: Any, rows: list[Any]) -> None:
    with local.open("wb") as sink:
        fastavro.writer(sink, schema, rows, codec="deflate", sync_interval=4000)


def record(name: str, *fields: tuple[str, Any], **attributes: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
        **attributes,
    }


POINT = StructType(NestedField(10, "x", LongType()), NestedField(11, "y", LongType()))


def test_types_and_named_schemas_of_other_writers_are_read(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "kind", StringType()),
        NestedField(3, "first", POINT),
        NestedField(4, "others", ListType(5, POINT, element_required=False)),
        NestedField(6, "local", TimestampType()),
        NestedField(7, "instant", TimestamptzType()),
        NestedField(8, "price", DecimalType(9, 2)),
        NestedField(9, "cost", DecimalType(9, 2)),
    )
    table, path, local = named_by_mapping(shared_catalog, namespace, schema, "AVRO")
    point = record("point", ("x", "int"), ("y", ["int", "null"]), ("z", "string"))
    fixed = {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    names = ("id", {"type": "int"}), ("kind", {"type": "enum", "name": "kind", "symbols": ["A", "B"]})
    avro = record(
        "r",
        *names,
        ("extra", {"type": "map", "values": [point, "null"]}),
        ("first", ["a.b.point", "null"]),
        ("others", [{"type": "array", "items": "a.b.point"}, "null"]),
        ("local", [{"type": "long", "logicalType": "local-timestamp-micros"}, "null"]),
        ("instant", [{"type": "long", "logicalType": "timestamp-micros"}, "null"]),
        ("price", fixed),
        ("cost", "f"),
        namespace="a.b",
    )
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 10)
    spot = {"x": 1, "y": None, "z": "z"}
    rows = [
        {
            "id": 1,
            "kind": "B",
            "extra": {"k": spot},
            "first": spot,
            "others": [spot],
            "local": at,
            "cost": Decimal(2),
        }
        | {"instant": at.replace(tzinfo=datetime.UTC), "price": Decimal(1)},
        {"id": 2, "kind": "A", "extra": {}, "first": None, "others": None, "local": None, "cost": Decimal(4)}
        | {"instant": None, "price": Decimal(3)},
    ]
    written(local, avro, rows)
    register(table, path, "AVRO", 2)
    point_found = {"x": 1, "y": None}
    assert scan(table).to_arrow().to_pylist() == [
        {"id": 1, "kind": "B", "first": point_found, "others": [point_found], "local": at, "cost": Decimal(2)}
        | {"instant": at.replace(tzinfo=datetime.UTC), "price": Decimal(1)},
        {"id": 2, "kind": "A", "first": None, "others": None, "local": None, "cost": Decimal(4)}
        | {"instant": None, "price": Decimal(3)},
    ]
    assert scan(table, "cost > 3", ("cost",)).to_arrow()["cost"].to_pylist() == [Decimal(4)]
    assert ids(table, "kind = 'B' and first.x = 1") == [1]


def test_a_file_without_ids_in_a_table_without_a_mapping_is_refused(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", Schema(NestedField(1, "id", LongType())))
    path = f"{table.location()}/data/f.avro"
    local = path_of(path)
    local.parent.mkdir(parents=True)
    written(local, record("r", ("id", "long")), [{"id": 1}])
    register(table, path, "AVRO", 1)
    for verb in (lambda: scan(table).to_arrow(), lambda: delete(table, "id = 1")):
        with pytest.raises(
            UnsupportedError, match=rf"{path}: no field ids, .* schema\.name-mapping\.default"
        ):
            verb()


def test_a_field_without_an_id_among_fields_with_ids_is_no_column(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table, path, local = named_by_mapping(
        shared_catalog, namespace, pa.schema([("id", pa.int64()), ("a", pa.int64())]), "AVRO"
    )
    avro = record("r", ("id", "long"), ("a", "long"))
    avro["fields"][0]["field-id"] = 1
    written(local, avro, [{"id": 1, "a": 2}])
    register(table, path, "AVRO", 1)
    assert scan(table).to_arrow().to_pylist() == [{"id": 1, "a": None}]


def test_milliseconds_local_times_and_uuids_as_texts_are_read(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    fields = (
        ("id", LongType()),
        ("clock", TimeType()),
        ("at", TimestampType()),
        ("instant", TimestamptzType()),
    )
    own = ("local", TimestampType()), ("key", UUIDType()), ("text", StringType()), ("n", LongType())
    schema = Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate((*fields, *own), 1)))
    instants = ListType(11, TimestamptzType(), element_required=False)
    by_name = MapType(13, StringType(), 14, StructType(NestedField(15, "at", TimeType())))
    schema = Schema(*schema.fields, NestedField(10, "many", instants), NestedField(12, "by_name", by_name))
    table, path, local = named_by_mapping(shared_catalog, namespace, schema, "AVRO")
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    clock, key = {"type": "int", "logicalType": "time-millis"}, {"type": "string", "logicalType": "uuid"}
    avro = record(
        "r",
        ("id", "long"),
        ("clock", ["null", clock]),
        ("at", millis),
        ("instant", {**millis, "adjust-to-utc": True}),
        ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
        ("key", ["null", key]),
        ("text", key),
        ("n", {"type": "long", "logicalType": "of-another-program"}),
        ("many", {"type": "array", "items": millis}),
        ("by_name", {"type": "map", "values": record("inner", ("at", clock))}),
    )
    at = datetime.datetime(1969, 5, 6, 7, 8, 9, 10_000)
    keys = [uuid.UUID(int=n) for n in range(6)]
    expected: list[dict[str, Any]] = [
        {
            "id": n,
            "clock": at.time() if n else None,
            "at": at + datetime.timedelta(milliseconds=n),
            "instant": at.replace(tzinfo=datetime.UTC),
            "local": at,
            "key": keys[n] if n else None,
            "text": str(keys[n]),
            "n": n,
            "many": [at.replace(tzinfo=datetime.UTC)] * n,
            "by_name": [("a", {"at": at.time()})],
        }
        for n in range(6)
    ]
    rows = [
        {**row, "by_name": dict(row["by_name"]), "key": row["key"] and str(row["key"])} for row in expected
    ]
    written(local, avro, rows)
    register(table, path, "AVRO", 6)
    assert scan(table).to_arrow().to_pylist() == expected
    assert ids(table, "at > '1969-05-06 07:08:09.012'") == [3, 4, 5]
    assert ids(table, f"key = '{keys[4]}' or clock is null") == [0, 4]
    assert delete(table, f"key = '{keys[4]}'").rows_deleted == 1
    assert delete_keys(table, pa.table({"at": [expected[3]["at"]]}), ["at"]).rows_deleted == 1
    assert update(table, f"text = '{keys[5]}'", {"clock": "00:00:01"}).rows_updated == 1
    assert upsert(table, scan(table, "id = 1").to_arrow(), ["key"]).rows_updated == 0
    changed = [expected[n] for n in (0, 1, 2)] + [expected[5] | {"clock": datetime.time(0, 0, 1)}]
    assert sorted(scan(table).to_arrow().to_pylist(), key=lambda row: row["id"]) == changed


def test_a_text_that_is_no_uuid_is_damage(shared_catalog: SqlCatalog, namespace: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "key", UUIDType()))
    table, path, local = named_by_mapping(shared_catalog, namespace, schema, "AVRO")
    avro = record("r", ("id", "long"), ("key", {"type": "string", "logicalType": "uuid"}))
    written(local, avro, [{"id": 1, "key": "no uuid"}])
    register(table, path, "AVRO", 1)
    with pytest.raises(CorruptDataError, match=r"f\.avro.*'no uuid' is not a UUID"):
        scan(table).to_arrow()


def test_thousands_of_optional_columns_are_read(shared_catalog: SqlCatalog, namespace: str) -> None:
    n = 5_000
    schema = pa.schema([("id", pa.int64()), *((f"c{at}", pa.float64()) for at in range(n))])
    table, path, local = named_by_mapping(shared_catalog, namespace, schema, "AVRO")
    avro = record("r", ("id", "long"), *((f"c{at}", ["null", "double"]) for at in range(n)))
    written(local, avro, [{"id": row, **{f"c{at}": float(at) for at in range(n)}} for row in range(3)])
    register(table, path, "AVRO", 3)
    found = scan(table, "id > 0", ("id", "c7", "c4999")).to_arrow().to_pylist()
    assert found == [{"id": row, "c7": 7.0, "c4999": 4999.0} for row in (1, 2)]
    assert delete(table, "c4999 = 4999.0 and id = 1").rows_deleted == 1
    assert ids(table) == [0, 2]
