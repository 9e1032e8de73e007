"""Columns whose names have dots are not fields of structs, in tables of either format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType

import puffin_fast as pf
from puffin_fast.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

INNER = pa.struct([("c", pa.int64()), ("d", pa.string())])
SCHEMAS = {
    "numbers": pa.schema([("id", pa.int64()), ("a.b", pa.int64()), ("a", pa.int64()), ("a.b.c", pa.int64())]),
    "a struct": pa.schema([("id", pa.int64()), ("a.b", pa.int64()), ("a", INNER)]),
}


def rows_of(schema: pa.Schema, first: int) -> pa.Table:
    def value(field: pa.Field, at: int) -> Any:
        if pa.types.is_struct(field.type):
            return {"c": 10 * at, "d": str(at)}
        return at if field.name == "id" else 10 * at

    rows = [{field.name: value(field, at) for field in schema} for at in range(first, first + 3)]
    return pa.Table.from_pylist(rows, schema)


@pytest.fixture(params=["iceberg", "delta"])
def opened(request: pytest.FixtureRequest, shared_catalog: SqlCatalog, namespace: str, tmp_path: Path) -> Any:
    """Makes a table of two files, with the verbs of its format."""

    def make(schema: pa.Schema, name: str) -> tuple[Any, Any]:
        verbs = getattr(pf, request.param)
        if request.param == "iceberg":
            table: Any = verbs.create_table(shared_catalog, f"{namespace}.{name}", schema)
        else:
            table = tmp_path / name
            verbs.create_table(table, schema)
        for first in (1, 4):
            verbs.append(table, rows_of(schema, first))
        return table, verbs

    return make


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_verbs_take_columns_and_keys_with_dots_in_their_names(opened: Any, schema: pa.Schema) -> None:
    keys = [name for name in schema.names if name != "id"]
    if pa.types.is_struct(schema.field("a").type):
        keys[keys.index("a")] = "a.c"
    table, verbs = opened(schema, "t")
    for key in keys:
        top = "a" if key == "a.c" else key
        for column in schema.names:
            given = rows_of(schema, 2).select([name for name in schema.names if name in (top, column)])
            if column == top:
                with pytest.raises(InvalidInputError, match="is a key column"):
                    verbs.upsert(table, given, key, update_columns=[column])
                continue
            options = {"skip_unchanged": False, "when_not_matched_insert_all": False, "dry_run": True}
            found = verbs.upsert(table, given, key, update_columns=[column], **options)
            assert (found.rows_updated, found.rows_inserted) == (3, 0), (key, column)
        found = verbs.upsert(table, rows_of(schema, 5), key, dry_run=True, skip_unchanged=False)
        assert (found.rows_updated, found.rows_inserted) == (2, 1), key
        assert verbs.delete_keys(table, pa.table({key: [20, 70]}), key, dry_run=True).rows_deleted == 1, key
        assert verbs.delete(table, f"{key} = 30", dry_run=True).rows_deleted == 1, key
        assert verbs.scan(table, f"{key} >= 50", ("id",)).to_arrow()["id"].to_pylist() == [5, 6], key
        if key != "a.c":
            assert verbs.update(table, f"{key} = 40", {key: 41}, dry_run=True).rows_updated == 1, key
        verbs.rewrite_data_files(table, min_file_size=1 << 30, min_input_files=2, sort_by=[key])
        verbs.append(table, rows_of(schema, 7))
        verbs.delete(table, "id >= 7")


def test_a_column_that_has_an_identifier_field_is_not_set(shared_catalog: SqlCatalog, namespace: str) -> None:
    inner = StructType(NestedField(3, "c", LongType(), required=True))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "a", inner, required=True),
        NestedField(4, "a.b", LongType()),
        identifier_field_ids=[3],
    )
    table = pf.iceberg.create_table(shared_catalog, f"{namespace}.t", schema)
    pf.iceberg.append(
        table, pa.Table.from_pylist([{"id": 1, "a": {"c": 1}, "a.b": 1}], table.schema().as_arrow())
    )
    with pytest.raises(InvalidInputError, match="column a is or has an identifier field"):
        pf.iceberg.update(table, "id = 1", {"a": {"c": 2}})
    assert pf.iceberg.update(table, "id = 1", {"a.b": 2}).rows_updated == 1


def test_a_column_of_a_delta_table_with_the_name_of_a_field_is_refused_by_its_name(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.struct([("b", pa.int64())])), ("a.b", pa.int64())])
    rows = pa.Table.from_pylist([{"id": 1, "a": {"b": 2}, "a.b": 3}], schema)
    deltalake.write_deltalake(tmp_path / "t", rows)
    for verb in (pf.delta.scan, pf.delta.verify, lambda table: pf.delta.delete(table, "id = 1")):
        with pytest.raises(UnsupportedError, match=r"one name with dots, a\.b; rename"):
            verb(tmp_path / "t")
