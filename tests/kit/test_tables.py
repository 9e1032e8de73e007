"""Each builder makes the table that was requested, and each reader finds its rows in the one form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, iceberg
from tests.kit.kinds import KINDS, create
from tests.kit.rows import (
    agreed,
    by_deltalake,
    by_duckdb,
    by_polars,
    by_pyiceberg,
    by_spark,
    by_us,
    in_order,
    row_ids,
)
from tests.kit.tables import delta_table, files_of, golden_table, iceberg_table, parquet_file, parts

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

ROWS = pa.table(
    {"id": [3, 1, 2, 4], "g": ["a", None, "b", "a"], "s": [{"a": 1}, None, {"a": None}, {"a": 2}]}
)
LEFT = [row for row in in_order(ROWS) if row["id"] != 2]


@pytest.mark.parametrize("kind", KINDS)
def test_all_readers_find_the_rows_of_each_kind(
    kind: str,
    tmp_path: Path,
    shared_catalog: SqlCatalog,
    namespace: str,
    request: pytest.FixtureRequest,
) -> None:
    made = create(kind, parts(ROWS, 2), tmp_path, shared_catalog, name=f"{namespace}.t")
    assert (
        made.row_ids() == {3: 0, 1: 1, 2: 2, 4: 3} if made.has_row_ids and not made.is_partitioned else True
    )
    first = made.state()
    made.verbs.delete(made.table, "id = 2")
    assert made.state() != first
    duckdb = request.getfixturevalue(f"duckdb_{kind.partition(' ')[0]}")
    assert made.read() == agreed(made.table, duckdb) == LEFT
    assert all(rows == LEFT for rows in made.others())
    ids = [{"id": 1}, {"id": 3}, {"id": 4}]
    readers = [by_pyiceberg if made.verbs is iceberg else by_deltalake, by_us]
    if kind != "delta mapped":  # which Polars does not read
        readers.append(by_polars)
    for read in readers:
        assert read(made.table, "id") == ids
    assert by_duckdb(duckdb, made.table, "id") == ids
    assert sum(path.suffix == ".parquet" for path in made.files()) >= 2


@pytest.mark.parametrize(("version", "by"), [(2, "us"), (2, "pyiceberg"), (3, "us")])
def test_iceberg_tables_have_the_version_and_the_partitions(
    version: int, by: str, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = iceberg_table(
        shared_catalog,
        ROWS.drop_columns(["s"]),
        name=f"{namespace}.t",
        version=version,
        partition=["g", "bucket[2](id)"],
        properties={"own": "x"},
        by=by,
    )
    assert (table.format_version, table.properties["own"]) == (version, "x")
    assert [str(field.transform) for field in table.spec().fields] == ["identity", "bucket[2]"]
    assert by_us(table, "id") == by_pyiceberg(table, "id") == [{"id": id} for id in range(1, 5)]
    if version == 3:
        assert sorted(row_ids(table).values()) == [0, 1, 2, 3]


@pytest.mark.parametrize("by", ["us", "deltalake"])
def test_delta_tables_have_the_properties_and_the_partitions(by: str, tmp_path: Path) -> None:
    table = delta_table(
        tmp_path / "t", parts(ROWS, 2), partition=["g"], properties={"delta.appendOnly": "true"}, by=by
    )
    snapshot = delta.snapshot(table)
    assert [*snapshot.partition_columns] == ["g"]
    assert snapshot.configuration["delta.appendOnly"] == "true"
    assert agreed(table) == in_order(ROWS)
    empty = delta_table(tmp_path / "e", ROWS.schema, by=by)
    assert by_us(empty) == []


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("pyarrow", {"row_group_size": 2}),
        ("polars", {"row_group_size": 2}),
        ("duckdb", {"PARQUET_VERSION": "V2"}),
        ("arrow-rs", {"max_row_group_size": 2}),
    ],
)
def test_parquet_files_of_each_writer_have_the_rows(by: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "a.parquet", ROWS, by=by, **options)
    assert pq.read_table(path).to_pylist() == ROWS.to_pylist()
    assert files_of(tmp_path) == {path}
    assert pq.ParquetFile(path).num_row_groups == (1 if by == "duckdb" else 2)


def test_rows_without_the_column_have_an_order_too() -> None:
    assert in_order(pa.table({"a": [2, None, 1]}), "a") == [{"a": 1}, {"a": 2}, {"a": None}]
    assert in_order(pa.table({"a": [2, 1]})) == [{"a": 1}, {"a": 2}]
    assert in_order(pa.table({"id": []})) == []


def test_golden_tables_are_copied(tmp_path: Path) -> None:
    table = golden_table("delta/spark_partitioned", tmp_path)
    before = len(by_us(table))
    assert delta.delete(table, "true").rows_deleted == before > 0


@pytest.mark.jar
def test_spark_reads_the_same_rows(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = iceberg_table(shared_catalog, ROWS, name=f"{namespace}.t")
    assert by_spark(iceberg_spark, table) == by_us(table)
    assert by_spark(iceberg_spark, table, "id") == by_us(table, "id")
