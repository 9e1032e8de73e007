"""The types of `to_arrow` are those of PyIceberg's `to_arrow`, so that `pyarrow.concat_tables` takes both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from puffin_fast import iceberg
from puffin_fast.iceberg import append, scan
from tests.kit.tables import iceberg_table, parquet_file

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

TEXT: list[Any] = ["a", None, "", "bé"]
WORDS: list[Any] = [["a"], None, [], [None, "b"]]
STRUCTS: list[Any] = [{"x": "a"}, None, {"x": None}, {"x": "b"}]
MAPS: list[Any] = [[("k", "v")], None, [], [("k", None)]]


def rows_of(small: bool) -> pa.Table:
    """Rows with all text, bytes and lists of 32-bit, or of 64-bit offsets."""
    text, raw, many = (
        (pa.string(), pa.binary(), pa.list_)
        if small
        else (pa.large_string(), pa.large_binary(), pa.large_list)
    )
    return pa.table(
        {
            "id": pa.array(range(4), pa.int64()),
            "text": pa.array(TEXT, text),
            "raw": pa.array([b"a", None, b"", b"b"], raw),
            "words": pa.array(WORDS, many(text)),
            "inner": pa.array(STRUCTS, pa.struct([("x", text)])),
            "by_name": pa.array(MAPS, pa.map_(text, text)),
            "deep": pa.array([[s] for s in STRUCTS], many(pa.struct([("x", text)]))),
        }
    )


def by_pyiceberg(catalog: SqlCatalog, namespace: str, *files: pa.Table) -> Table:
    table = iceberg_table(catalog, rows_of(True).schema, name=f"{namespace}.t", version=2)
    for rows in files:
        table.append(rows)
    return table


def check_joined(table: Table, *arguments: Any, **named: Any) -> pa.Table:
    """Checks that one table of our rows and PyIceberg's can be made; returns ours."""
    ours, theirs = scan(table, *arguments, **named).to_arrow(), table.scan(*arguments, **named).to_arrow()
    assert ours.schema == theirs.schema
    joined = pa.concat_tables([ours, theirs])
    assert joined.slice(0, ours.num_rows).to_pylist() == joined.slice(ours.num_rows).to_pylist()
    joined.validate(full=True)
    return ours


@pytest.mark.parametrize("small", [True, False], ids=["32-bit", "64-bit"])
def test_offsets_are_as_wide_as_in_the_file(shared_catalog: SqlCatalog, namespace: str, small: bool) -> None:
    rows = rows_of(small)
    table = by_pyiceberg(shared_catalog, namespace, rows)
    assert check_joined(table).schema == rows.schema
    check_joined(table, "id > 1 and text is not null", ("words", "id"))
    check_joined(table, limit=3)
    iceberg.upgrade(table)
    iceberg.delete(table, "id = 2")
    assert check_joined(table).schema == rows.schema


def test_streams_have_the_types_of_pyicebergs_streams(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = by_pyiceberg(shared_catalog, namespace, rows_of(True))
    reader = scan(table).to_reader()
    assert reader.schema == table.scan().to_arrow_batch_reader().schema
    assert reader.schema == scan(table).schema == schema_to_pyarrow(table.schema(), include_field_ids=False)
    assert reader.read_all().to_pylist() == scan(table).to_arrow().to_pylist()


@pytest.mark.parametrize("order", [(True, False), (False, True), (True, True, False)], ids=str)
def test_files_of_different_offsets_are_promoted(
    shared_catalog: SqlCatalog, namespace: str, order: tuple[bool, ...]
) -> None:
    table = by_pyiceberg(shared_catalog, namespace, *map(rows_of, order))
    assert check_joined(table).schema.field("text").type == pa.large_string()
    check_joined(table, selected_fields=("inner", "deep"))


def test_files_without_rows_in_the_answer_have_no_part_in_its_types(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    large = rows_of(False)
    moved = large.set_column(0, "id", pa.array(range(4, 8), pa.int64()))
    table = by_pyiceberg(shared_catalog, namespace, rows_of(True), moved)
    assert check_joined(table, "id < 3").schema.field("text").type == pa.string()
    assert check_joined(table, "id > 5").schema.field("text").type == pa.large_string()
    assert check_joined(table, "id > 50").schema.field("text").type == pa.large_string()


def test_a_column_that_a_file_lacks_has_the_type_of_the_schema(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = by_pyiceberg(shared_catalog, namespace, rows_of(True))
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("late", pa.string())]))
    assert check_joined(table).schema.field("late").type == pa.large_string()
    table.append(pa.concat_tables([rows_of(True)]).append_column("late", pa.array(TEXT)))
    check_joined(table)


@pytest.mark.parametrize("writer", ["polars", "duckdb"])
def test_files_of_other_writers_have_the_types_that_pyiceberg_gives(
    shared_catalog: SqlCatalog, namespace: str, tmp_path: Path, writer: str
) -> None:
    rows = rows_of(True) if writer == "duckdb" else rows_of(True).drop_columns(["by_name"])
    path = parquet_file(tmp_path / "f.parquet", rows, by=writer)
    table = iceberg_table(shared_catalog, pq.read_schema(path), name=f"{namespace}.t", version=2)
    table.add_files([str(path)])
    check_joined(table)
    check_joined(table, selected_fields=("text", "id"))


def test_files_of_ours_have_the_types_that_pyiceberg_gives(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = iceberg_table(shared_catalog, rows_of(True), name=f"{namespace}.t")
    append(table, pl.DataFrame(rows_of(False).drop_columns(["by_name"])))
    iceberg.delete(table, "text = 'a'")
    check_joined(table)


def test_text_as_views_beside_other_text_is_read_where_pyiceberg_cannot(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    views = pa.table(
        {"text": pa.array(TEXT, pa.string_view()), "words": pa.array(WORDS, pa.list_(pa.string_view()))}
    )
    table = iceberg_table(shared_catalog, views, name=f"{namespace}.t", version=2, by="pyiceberg")
    assert check_joined(table).schema.field("text").type == pa.string_view()
    table.append(views.cast(pa.schema([("text", pa.string()), ("words", pa.list_(pa.string()))])))
    with pytest.raises(pa.ArrowTypeError, match="incompatible types"):
        table.scan().to_arrow()
    answer = scan(table)
    assert answer.to_arrow().schema == answer.schema
    assert answer.to_arrow()["text"].to_pylist() == TEXT * 2
    assert answer.to_arrow()["words"].to_pylist() == WORDS * 2
