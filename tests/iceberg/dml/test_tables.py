"""Tables of format version 3 that this package creates, and that other engines read and change."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform

from puffin_fast import delta
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg import append, create_table, delete, rewrite_data_files, scan, upgrade, v3_metadata
from tests.iceberg.conftest import current_snapshot, refused, unchanged

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

ROWS = pa.table(
    {
        "id": pa.array(range(60), pa.int64()),
        "word": pa.array([None if i % 11 == 0 else f"w{i % 3}" for i in range(60)]),
        "day": pa.array([datetime.date(1969, 12, 1) + datetime.timedelta(days=i) for i in range(60)]),
    }
)


def metadata_json(table: Table) -> dict[str, object]:
    """The table's metadata file as stored on disk."""
    document: dict[str, object] = json.loads(
        Path(table.metadata_location.removeprefix("file://")).read_text()
    )
    return document


DEFAULTS: list[tuple[types.IcebergType, Any]] = [
    (types.LongType(), 7),
    (types.IntegerType(), -1),
    (types.StringType(), ""),
    (types.BooleanType(), False),
    (types.DoubleType(), 1.5),
    (types.FloatType(), 2.0),
    (types.DecimalType(9, 2), Decimal("1.50")),
    (types.DateType(), datetime.date(2020, 2, 29)),
    (types.TimeType(), datetime.time(23, 59, 1)),
    (types.TimestampType(), datetime.datetime(2020, 1, 1, 12)),
    (types.TimestamptzType(), datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)),
    (types.TimestampNanoType(), 1_577_880_000_123_456_789),
    (types.TimestamptzNanoType(), -1),
    (types.UUIDType(), uuid.UUID(int=5)),
    (types.BinaryType(), b"ab"),
    (types.FixedType(2), b"xy"),
]


def with_defaults(fields: list[tuple[types.IcebergType, Any]]) -> Schema:
    """A column for each default, one in a struct and one in a list of structs; the ids are not those of the table."""
    inner = types.NestedField(900, "in", types.LongType(), doc="inside", initial_default=3, write_default=4)
    return Schema(
        types.NestedField(5, "id", types.LongType(), required=True, write_default=9),
        *(
            types.NestedField(
                10 * (at + 1), f"c{at}", kind, at == 0, initial_default=value, write_default=value
            )
            for at, (kind, value) in enumerate(fields)
        ),
        types.NestedField(901, "s", types.StructType(inner)),
        types.NestedField(
            902, "l", types.ListType(903, types.StructType(inner.model_copy(update={"field_id": 904})), False)
        ),
        types.NestedField(
            905,
            "m",
            types.MapType(
                906, types.StringType(), 907, types.StructType(inner.model_copy(update={"field_id": 908}))
            ),
        ),
        identifier_field_ids=[5],
    )


def defaults_of(schema: Schema) -> dict[str, tuple[Any, Any, str | None]]:
    fields = {schema.find_column_name(id): schema.find_field(id) for id in schema.field_ids}
    return {str(name): (f.initial_default, f.write_default, f.doc) for name, f in fields.items()}


def test_the_defaults_of_a_schema_are_kept(shared_catalog: SqlCatalog, namespace: str) -> None:
    given = with_defaults(DEFAULTS)
    table = create_table(shared_catalog, f"{namespace}.t", given, partition_spec=["bucket[4](id)"])
    for found in (table.schema(), shared_catalog.load_table(f"{namespace}.t").schema()):
        assert defaults_of(found) == defaults_of(given)
        assert set(found.field_ids) == set(range(1, len(given.field_ids) + 1))
        assert found.identifier_field_ids == [1]
    append(table, pa.table({"c0": [1]}))
    (row,) = scan(table).to_arrow().to_pylist()
    assert row["id"] == 9
    found_values = [row[f"c{at}"] for at in range(1, len(DEFAULTS))]
    assert [getattr(value, "value", value) for value in found_values] == [value for _, value in DEFAULTS[1:]]
    assert type(create_table(shared_catalog, f"{namespace}.u", ROWS.schema).schema()) is Schema


def test_the_default_of_a_decimal_is_stored_with_its_scale(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    """Java refuses another one."""
    field = types.NestedField(
        1, "d", types.DecimalType(9, 2), initial_default=Decimal("1.5"), write_default=Decimal(3)
    )
    document: Any = metadata_json(create_table(shared_catalog, f"{namespace}.t", Schema(field)))
    (stored,) = document["schemas"][0]["fields"]
    assert (stored["initial-default"], stored["write-default"]) == ("1.50", "3.00")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (types.LongType(), "x"),
        (types.LongType(), 1.5),
        (types.LongType(), True),
        (types.IntegerType(), 2**40),
        (types.StringType(), 5),
        (types.BooleanType(), 1),
        (types.DoubleType(), float("nan")),
        (types.DecimalType(3, 2), Decimal("12345.678")),
        (types.TimestampType(), datetime.date(2020, 1, 1)),
    ],
    ids=str,
)
def test_a_default_of_another_type_is_refused(
    shared_catalog: SqlCatalog, namespace: str, kind: types.IcebergType, value: Any
) -> None:
    for name in ("initial_default", "write_default"):
        field = types.NestedField(2, "a", kind, **{name: value})
        for top in (field, types.NestedField(3, "s", types.StructType(field))):
            with pytest.raises(InvalidInputError, match=f"a: {name} .*expected"):
                create_table(
                    shared_catalog,
                    f"{namespace}.t",
                    Schema(types.NestedField(1, "id", types.LongType()), top),
                )
    assert not shared_catalog.table_exists(f"{namespace}.t")


@pytest.mark.parametrize(
    "name",
    ["_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"],
)
def test_names_of_metadata_columns_are_refused(shared_catalog: SqlCatalog, namespace: str, name: str) -> None:
    field = types.NestedField(2, name, types.LongType())
    for schema in (pa.schema([("id", pa.int64()), (name, pa.int64())]), Schema(field)):
        with pytest.raises(InvalidInputError, match=f"column {name}: expected another name"):
            create_table(shared_catalog, f"{namespace}.t", schema)
    inside = Schema(
        types.NestedField(1, "id", types.LongType()), types.NestedField(3, "s", types.StructType(field))
    )
    table = create_table(shared_catalog, f"{namespace}.t", inside)
    append(table, pa.table({"id": [1, 2], "s": [{name: 7}, None]}))
    append(table, pa.table({"id": [3], "s": [{name: 8}]}))
    rewrite_data_files(table, min_input_files=2)
    assert scan(table).to_arrow()["s"].to_pylist() == [{name: 7}, None, {name: 8}]


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (pa.schema([("", pa.int64()), ("b", pa.int64())]), InvalidInputError),
        (pa.schema([("s", pa.struct([("", pa.int64())]))]), InvalidInputError),
        (Schema(types.NestedField(1, "", types.LongType())), InvalidInputError),
        ({"": pa.int64()}, InvalidInputError),
        (pa.schema([("a b", pa.int64()), ("a_x20b", pa.int64())]), UnsupportedError),
        (pa.schema([("s", pa.struct([]))]), UnsupportedError),
    ],
)
def test_columns_that_no_data_file_can_have_are_refused(
    shared_catalog: SqlCatalog, namespace: str, tmp_path: Path, schema: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"expected a name for each column|names of columns|without fields"):
        create_table(shared_catalog, f"{namespace}.t", schema)
    assert not shared_catalog.table_exists(f"{namespace}.t")
    if error is InvalidInputError:
        with pytest.raises(error, match="expected a name for each column"):
            delta.create_table(tmp_path / "t", schema)
        assert not (tmp_path / "t").exists()


def test_a_catalog_object_is_not_changed_by_a_call(shared_catalog: SqlCatalog, namespace: str) -> None:
    before = dict(shared_catalog.__dict__)
    table = create_table(shared_catalog, f"{namespace}.t", ROWS.schema)
    append(table, ROWS)
    with v3_metadata(shared_catalog), v3_metadata(shared_catalog):
        assert shared_catalog.__dict__.keys() == before.keys()
    assert shared_catalog.__dict__.keys() == before.keys()


def test_a_created_table_is_of_version_3_and_row_ids_are_given_in_order_and_never_twice(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", ROWS.schema, properties={"owner": "me"})
    document = metadata_json(table)
    assert (document["format-version"], document["next-row-id"], table.properties) == (3, 0, {"owner": "me"})
    for rows in (ROWS, ROWS.to_batches()[0].slice(0, 7), ROWS.slice(0, 1).to_reader()):
        append(table, rows)
    found = [(s.first_row_id, s.added_rows, s.sequence_number) for s in table.metadata.snapshots]
    assert found == [(0, 60, 1), (60, 7, 2), (67, 1, 3)]
    assert metadata_json(table)["next-row-id"] == 68
    with unchanged(table):
        assert append(table, ROWS.slice(0, 0)).commit.id is None
        assert append(table, ROWS.slice(0, 0).to_reader()).commit.id is None
    for wrong, said in (
        (ROWS.append_column("other", ROWS["id"]), "no column other"),
        (ROWS.set_column(0, "id", ROWS["word"]), "id"),
    ):
        with refused(table, InvalidInputError, said):
            append(table, wrong)


def test_what_cannot_be_created_is_refused(shared_catalog: SqlCatalog, namespace: str) -> None:
    create_table(shared_catalog, f"{namespace}.t", ROWS.schema)
    new, version_2 = f"{namespace}.u", {"properties": {"format-version": "2"}}
    wrong: list[tuple[str, pa.Schema, dict[str, Any], type[Exception], str]] = [
        (f"{namespace}.t", ROWS.schema, {}, InvalidInputError, "already exists"),
        ("nowhere.t", ROWS.schema, {}, NotFoundError, "create_namespace"),
        (new, ROWS.schema, version_2, InvalidInputError, "expected 3, found 2"),
        (new, ROWS.schema, {"partition_spec": ["nothing"]}, NotFoundError, "nothing"),
        (new, pa.schema([("d", pa.duration("s"))]), {}, InvalidInputError, "schema"),
    ]
    for name, schema, options, error, said in wrong:
        with pytest.raises(error, match=said):
            create_table(shared_catalog, name, schema, **options)
    assert not shared_catalog.table_exists(new)


def test_metadata_that_pyiceberg_would_drop_is_never_overwritten(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", ROWS.schema)
    append(table, ROWS)
    path = Path(table.metadata_location.removeprefix("file://"))
    document = metadata_json(table)
    document["encryption-keys"] = [{"key-id": "k", "encrypted-key-metadata": "AA=="}]
    path.write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match="encryption-keys"):
        append(table, ROWS)
    assert shared_catalog.load_table(table.name()).metadata_location == table.metadata_location


@pytest.mark.parametrize("version", ["1", "2"])
def test_existing_rows_get_row_ids_after_an_upgrade(
    shared_catalog: SqlCatalog, namespace: str, version: str
) -> None:
    table = shared_catalog.create_table(f"{namespace}.t", ROWS.schema, properties={"format-version": version})
    table.append(ROWS)
    table.append(ROWS)
    assert upgrade(table) is table
    assert (table.metadata.format_version, metadata_json(table)["next-row-id"]) == (3, 0)
    append(table, ROWS.slice(0, 1))
    snapshot = current_snapshot(table)
    assert (snapshot.first_row_id, snapshot.added_rows) == (0, 121)
    with unchanged(table):
        upgrade(table)
    assert delete(table, "id >= 30").rows_deleted == 60
    rows = scan(table, selected_fields=("id", "_row_id")).to_arrow()
    assert sorted(rows["id"].to_pylist()) == sorted([0, *range(30), *range(30)])
    assert len(set(rows["_row_id"].to_pylist())) == 61


@pytest.mark.jar
def test_a_rest_catalog_takes_the_same_calls(rest_catalog: RestCatalog, rest_namespace: str) -> None:
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=True),
        types.NestedField(2, "word", types.StringType()),
    )
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    table = create_table(rest_catalog, f"{rest_namespace}.t", schema, partition_spec=spec)
    rows = pa.table(
        {"id": range(60), "word": ROWS["word"]}, pa.schema([("id", pa.int64(), False), ("word", pa.string())])
    )
    append(table, rows)
    append(table, rows.slice(0, 3))
    assert table.metadata.next_row_id == 63
    assert rest_catalog.load_table(table.name()).scan().to_arrow().num_rows == 63
