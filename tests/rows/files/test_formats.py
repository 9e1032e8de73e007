"""Data and delete files in Parquet, ORC and Avro of other writers: equal results of reads and deletes."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.dml.tables import create_table, upgrade
from puffin_fast.iceberg.maintenance.convert import convert_equality_deletes, convert_position_deletes
from puffin_fast.iceberg.manifest import DATA, EQUALITY_DELETES, POSITION_DELETES
from puffin_fast.tables.delete import delete, delete_keys, delete_positions
from puffin_fast.tables.overwrite import append
from puffin_fast.tables.scan import scan
from puffin_fast.tables.update import update
from puffin_fast.tables.upsert import upsert
from tests.iceberg.layouts import LAYOUTS
from tests.kit.tables import path_of
from tests.rows.files.formats import ROWS, SCHEMA, N, ids, mapped, named_by_mapping, register, to_avro

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

FORMATS = ("PARQUET", "ORC", "AVRO")


WITHOUT_IDS = "AVRO without ids"
"""Of a writer that knows nothing of Iceberg: the name mapping of the table gives the ids."""


def orc_field(field: pa.Field) -> pa.Field:
    """A field with Iceberg's attributes of ORC, in the types that ORC has."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind):
        kind = pa.struct([orc_field(child) for child in kind])
    elif pa.types.is_large_list(kind):
        kind = pa.list_(orc_field(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(orc_field(kind.key_field), orc_field(kind.item_field))
    elif pa.types.is_time(kind):
        kind = pa.int64()
    elif pa.types.is_fixed_size_binary(kind):
        kind = pa.binary()
    number = field.metadata[b"PARQUET:field_id"]
    return pa.field(field.name, kind, field.nullable, {"iceberg.id": number, "iceberg.required": b"false"})


def to_orc(rows: pa.Table, path: Path, schema: Schema) -> None:
    names = pa.schema([orc_field(field) for field in schema_to_pyarrow(schema, include_field_ids=True)])
    columns = []
    for field, column in zip(names, rows.columns, strict=True):
        values = plain(column.combine_chunks())
        values = values.cast(pa.int64()) if pa.types.is_time(values.type) else values
        columns.append(pa.array(values.to_pylist(), field.type))
    orc.write_table(pa.Table.from_arrays(columns, schema=names), str(path), stripe_size=1 << 14)


def write(rows: pa.Table, path: Path, schema: Schema, format: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if format == "ORC":
        to_orc(rows, path, schema)
    elif format == "PARQUET":
        arrow = schema_to_pyarrow(schema, include_field_ids=True)
        pq.write_table(rows.cast(arrow), path, row_group_size=100)
    else:
        to_avro(rows, path, schema, has_ids=format != WITHOUT_IDS)
        assert (b"field-id" in path.read_bytes()) == (format != WITHOUT_IDS)


def add(
    table: Table,
    rows: pa.Table,
    format: str,
    *,
    schema: Schema | None = None,
    content: int = DATA,
    **named: Any,
) -> str:
    """Commits a file of some format."""
    kind = format.partition(" ")[0]
    path = f"{table.location()}/data/f{random.getrandbits(64):x}.{kind.lower()}"
    local = path_of(path)
    write(rows, local, schema or table.schema(), format)
    register(table, path, kind, rows.num_rows, content=content, **named)
    return path


def created(catalog: SqlCatalog, namespace: str, version: int = 2) -> Table:
    """A table whose files need no ids."""
    if version == 3:
        return mapped(catalog, create_table(catalog, f"{namespace}.t", SCHEMA))
    properties = {"format-version": "2"}
    return mapped(catalog, catalog.create_table(f"{namespace}.t", SCHEMA, properties=properties))


def made(catalog: SqlCatalog, namespace: str, format: str, version: int = 3) -> Table:
    """A table of two files, the second of which is Parquet."""
    table = created(catalog, namespace, version)
    add(table, ROWS.slice(0, 700), format)
    append(table, ROWS.slice(700))
    return table


@pytest.mark.parametrize("format", [*FORMATS, WITHOUT_IDS])
def test_a_file_of_every_format_gives_the_same_rows(
    shared_catalog: SqlCatalog, namespace: str, format: str
) -> None:
    table = made(shared_catalog, namespace, format)
    answer = scan(table).to_arrow()
    assert answer.schema.types == ROWS.schema.types
    assert answer.sort_by("id").to_pylist() == ROWS.to_pylist()
    assert ids(table, "s = 's3'") == [at for at in range(N) if at % 7 and at % 10 == 3]
    assert ids(table, "inner.b = 'b8'") == [8]
    assert ids(table, "price > 12.4 and price < 12.6") == [100]
    only = scan(table, "id = 8", ("by_number", "_pos", "_row_id")).to_arrow().to_pylist()
    assert only == [{"by_number": ROWS["by_number"][8].as_py(), "_pos": 8, "_row_id": 8}]
    some = scan(table, "id < 500", ("x", "_pos", "_row_id")).to_arrow()
    assert some["_pos"].to_pylist() == list(range(500))
    assert some["_row_id"].to_pylist() == list(range(500))
    assert scan(table, selected_fields=("_pos",)).to_arrow().num_rows == N
    assert scan(table, "id >= 100 and id < 700", limit=3).to_arrow()["id"].to_pylist() == [100, 101, 102]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("format", [*FORMATS, WITHOUT_IDS])
def test_rows_of_every_format_are_deleted_found_by_key_updated_and_upserted(
    shared_catalog: SqlCatalog, namespace: str, format: str, version: int
) -> None:
    table = made(shared_catalog, namespace, format, version)
    assert delete(table, "id >= 650 and id < 720").rows_deleted == 70
    left = [at for at in range(N) if not 650 <= at < 720]
    assert ids(table) == left
    assert delete_keys(table, pa.table({"key": ROWS["key"].slice(10, 3)}), ["key"]).rows_deleted == 3
    (path,) = scan(table, "id = 1", ("_file",)).to_arrow()["_file"].to_pylist()
    delete_positions(table, pa.table({"file_path": [path, path], "pos": pa.array([0, 699], pa.int64())}))
    assert delete(table, "inner.a < 10").rows_deleted == 4
    gone = {0, 10, 11, 12, *(at for at in range(10) if at % 7 and at % 3 and at % 5)}
    left = [at for at in left if at not in gone]
    assert ids(table) == left
    assert update(table, "id in (16, 640)", {"s": "new"}).rows_updated == 2
    done = upsert(table, ROWS.slice(640, 20), ["id"])
    assert (done.rows_unchanged, done.rows_updated, done.rows_inserted) == (9, 1, 10)
    expected = [{**row, "s": "new"} if row["id"] == 16 else row for row in ROWS.to_pylist()]
    kept = {*left, *range(650, 660)}
    found = scan(table).to_arrow().sort_by("id").to_pylist()
    assert found == [row for row in expected if row["id"] in kept]


POSITIONS = Schema(
    NestedField(2147483546, "file_path", StringType(), required=True),
    NestedField(2147483545, "pos", LongType(), required=True),
)
KEYS = Schema(NestedField(2, "s", StringType()))


def test_a_format_that_is_not_read_is_refused_with_its_file(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    path = add(table, ROWS, "PARQUET")
    entry = scan(table).tasks()[0].data
    for format in ("LANCE", "VORTEX"):
        answer = scan(table)
        answer.tasks()[0].data.file_format = format
        with pytest.raises(UnsupportedError, match=f"{path}: {format}; expected one of PARQUET, ORC, AVRO"):
            answer.to_arrow()
    assert entry.file_path == path


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_file_is_named(shared_catalog: SqlCatalog, namespace: str, format: str) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    path = add(table, ROWS, format)
    local = path_of(path)
    whole = local.read_bytes()
    for end in (0, 3, len(whole) // 2, len(whole) - 1):
        local.write_bytes(whole[:end])
        with pytest.raises(CorruptDataError, match=local.name):
            scan(table).to_arrow()


def test_timestamps_that_arrow_cannot_read_from_orc_are_not_called_damage(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", Schema(NestedField(1, "at", TimestampType())))
    rows = pa.table({"at": pa.array([datetime.datetime(9999, 1, 1)], pa.timestamp("us"))})
    path = add(table, rows, "ORC", schema=table.schema())
    with pytest.raises(UnsupportedError, match=f"{path}: ORC; PyArrow .* nanosecond"):
        scan(table).to_arrow()


UNREAD_BY_PYICEBERG = {
    *("list_view", "list_view_of_views", "large_list_view", "large_list_view_of_views"),
    *("decimal32", "decimal64", "decimal256", "timestamp_ns", "timestamptz_ns"),
    *("time_s", "time_ms", "time_ns", "date64", "fixed_size_binary"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_column_of_any_arrow_schema_in_a_file_is_read(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection, name: str
) -> None:
    array, stored = LAYOUTS[name]
    if pa.types.is_run_end_encoded(array.type):
        pytest.skip("PyArrow does not write run-end encoded columns to Parquet")
    if name == "dictionary_of_view":
        pytest.skip("PyArrow does not write dictionaries of string_view to Parquet")
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "c": array})
    schema = pa.schema([("id", pa.int64()), ("c", stored.type)])
    table, path, local = named_by_mapping(shared_catalog, namespace, schema)
    pq.write_table(rows, local)
    register(table, path, "PARQUET", rows.num_rows)
    expected = pa.table({"id": rows["id"], "c": stored}).to_pylist()
    answer = scan(table)
    assert answer.to_reader().schema == schema_to_pyarrow(table.schema(), include_field_ids=False)
    assert answer.to_reader().read_all().to_pylist() == expected
    found = answer.to_arrow()
    assert found.to_pylist() == expected
    if name in UNREAD_BY_PYICEBERG or name.startswith("uint"):  # PyIceberg's columns stay unsigned
        assert found.schema == answer.schema
    else:
        assert found.schema == table.scan().to_arrow().schema
    delete(table, "id = 2")
    expected.pop(2)
    assert scan(table).to_arrow().to_pylist() == expected
    assert upsert(table, rows, ["id"]).rows_unchanged == 3
    assert delete(table, "c is null and id = 1").rows_deleted == 1
    assert ids(table) == [0, 2, 3]


@pytest.mark.parametrize("deletes", FORMATS)
@pytest.mark.parametrize("format", [*FORMATS, WITHOUT_IDS])
def test_deletes_of_every_format_apply_to_files_of_every_format_and_become_vectors(
    shared_catalog: SqlCatalog, namespace: str, format: str, deletes: str
) -> None:
    table = created(shared_catalog, namespace)
    path = add(table, ROWS, format)
    gone = pa.table({"file_path": [path] * 3, "pos": pa.array([1, 500, 999], pa.int64())})
    add(table, gone, deletes, schema=POSITIONS, content=POSITION_DELETES)
    left = [at for at in range(N) if at not in (1, 500, 999)]
    assert ids(table) == left
    keys, of_keys = pa.table({"s": ["s3", "s4"]}), format if format == WITHOUT_IDS else deletes
    add(table, keys, of_keys, schema=KEYS, content=EQUALITY_DELETES, equality_ids=[2])
    left = [at for at in left if at % 7 == 0 or at % 10 not in (3, 4)]
    assert ids(table) == left
    delete(table, "id < 20")
    left = [at for at in left if at >= 20]
    assert ids(table) == left
    upgrade(table)
    for convert in (convert_position_deletes, convert_equality_deletes):
        convert(table)
        assert ids(table) == left
    assert all(task.vector and not task.equality_deletes for task in scan(table).tasks())
