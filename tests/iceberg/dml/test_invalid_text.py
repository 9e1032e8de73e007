"""Text that is not UTF-8: refused in what callers give, and in data files whose rows would be written again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, iceberg
from puffin_fast.columns.plain_types import check_text
from puffin_fast.errors import CorruptDataError, InvalidInputError
from puffin_fast.rows.match import given_rows
from puffin_fast.rows.scan import located_rows
from tests.iceberg.conftest import refused
from tests.kit.tables import delta_table, iceberg_table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.string()))])
NEW = pa.table({"id": [1, 7], "s": ["x", "y"], "l": [["p"], []]}, SCHEMA)


def not_utf8(kind: pa.DataType) -> pa.Array:
    return pa.array([b"\xff\xfe\xfd\xfcab"]).cast(pa.string(), safe=False).cast(kind)


def made(catalog: SqlCatalog, namespace: str, column: str, metrics: str, path: Path) -> Table:
    """Two data files, one of them of another writer; text of a column of it is not UTF-8."""
    properties = {"write.metadata.metrics.default": metrics}
    rows = pa.table({"id": [2, 3], "s": ["ok", "z"], "l": [["l"], None]}, SCHEMA)
    table = iceberg_table(catalog, rows, name=f"{namespace}.t", version=2, properties=properties)
    text = not_utf8(pa.string()) if column == "s" else pa.array(["ok"])
    inner = pa.array(["ok"]) if column == "s" else not_utf8(pa.string())
    rows = pa.table({"id": [1], "s": text, "l": pa.ListArray.from_arrays([0, 1], inner)}, SCHEMA)
    pq.write_table(rows, path / "foreign.parquet", write_statistics=False)
    table.add_files([str(path / "foreign.parquet")])
    return table


@pytest.mark.parametrize("metrics", ["none", "full"])
@pytest.mark.parametrize("column", ["s", "l"])
def test_rows_of_files_are_not_written_again(
    shared_catalog: SqlCatalog, namespace: str, column: str, metrics: str, tmp_path: Path
) -> None:
    table = made(shared_catalog, namespace, column, metrics, tmp_path)
    one = pa.table({"id": [1], "s": ["n"]})
    of_columns: dict[str, Any] = {"update_columns": ["s"], "when_not_matched_insert_all": False}
    for call in (
        lambda: iceberg.update(table, "id = 1", {"id": 5}),
        lambda: iceberg.upsert(table, one, "id", **of_columns),
        lambda: iceberg.rewrite_data_files(table, min_input_files=2),
        lambda: iceberg.rewrite_data_files(table, min_input_files=2, sort_by=["s"]),
    ):
        with refused(table, CorruptDataError, rf"\.parquet.*column {column}: expected text in UTF-8"):
            call()
    assert iceberg.delete(table, "id = 2").rows_deleted == 1
    assert iceberg.scan(table, "id = 3").to_arrow()["s"].to_pylist() == ["z"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_given_rows_and_keys_are_refused(
    shared_catalog: SqlCatalog, namespace: str, kind: pa.DataType
) -> None:
    table, bad = iceberg_table(shared_catalog, NEW, name=f"{namespace}.t"), not_utf8(kind)
    one = pa.table({"id": [1], "s": bad, "l": [["a"]]})
    nested = pa.table({"id": [1], "s": ["a"], "l": pa.ListArray.from_arrays([0, 1], bad)})
    for rows in (one, nested):
        for call in (
            lambda rows=rows: iceberg.append(table, rows),
            lambda rows=rows: iceberg.upsert(table, rows, "id"),
            lambda rows=rows: iceberg.overwrite(table, rows, "id = 1"),
        ):
            with refused(table, InvalidInputError, r"data: column (s|l): .*UTF8"):
                call()
    with refused(table, InvalidInputError, r"data: column s: .*UTF8"):
        iceberg.upsert(table, one, "s")
    with refused(table, InvalidInputError, r"keys: column s: .*UTF8"):
        iceberg.delete_keys(table, one.select(["s"]), "s")


def test_a_rewrite_checks_each_text_once(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = iceberg_table(shared_catalog, [NEW, NEW], name=f"{namespace}.t")
    checked: list[int] = []

    def counted(column: pa.Array) -> None:
        checked.append(len(column))
        check_text(column)

    for module in (given_rows, located_rows):
        monkeypatch.setattr(module, "check_text", counted)
    iceberg.rewrite_data_files(table, min_input_files=2)
    assert sum(checked) == 4 * 2  # rows, and columns with text


@pytest.mark.parametrize("column", ["s", "l"])
def test_verify_finds_it_where_it_decodes_rows(
    shared_catalog: SqlCatalog, namespace: str, column: str, tmp_path: Path
) -> None:
    table = made(shared_catalog, namespace, column, "none", tmp_path)
    assert iceberg.verify(table) == []
    (finding,) = iceberg.verify(table, level="rows")
    assert finding.path.endswith("foreign.parquet")
    assert f"column {column}: expected text in UTF-8" in finding.message


@pytest.mark.parametrize("column", ["s", "l"])
def test_verify_finds_it_in_delta_tables(column: str, tmp_path: Path) -> None:
    path = delta_table(tmp_path / "t", pa.table({"id": [1], "s": ["okokok"], "l": [["okokok"]]}, SCHEMA))
    (file,) = path.glob("*.parquet")
    rows = pq.read_table(file)
    at = rows.schema.get_field_index(column)
    text = not_utf8(pa.string())
    values = text if column == "s" else pa.ListArray.from_arrays([0, 1], text)
    rows = rows.set_column(at, rows.schema.field(at), values.cast(rows.schema.field(at).type))
    pq.write_table(rows, file, write_statistics=False)
    (size,) = (problem.message for problem in delta.verify(path))
    assert size.startswith("size: ")
    log = path / "_delta_log" / f"{1:020}.json"
    stated = re.sub(r'"size":\d+', f'"size":{file.stat().st_size}', log.read_text())
    log.write_text(stated)
    assert delta.verify(path) == []
    (problem,) = delta.verify(path, level="rows")
    assert f"column {column}: expected text in UTF-8" in problem.message
