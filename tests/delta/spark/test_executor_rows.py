"""Appends, overwrites, updates and rewrites of Delta tables on executors: the rows and counts of the single machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast import spark as on_spark
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import ConflictError, InvalidInputError, UnsupportedError
from tests.delta.tables import files_of, ids, ids_of_others
from tests.spark.conftest import HERE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = (
    "rows_appended",
    "rows_deleted",
    "rows_updated",
    "data_files",
    "rows",
    "rows_purged",
    "repeated",
)


def counts(result: Any) -> dict[str, Any]:
    return {name: getattr(result, name) for name in NAMES if hasattr(result, name)}


def rows(table: Any) -> list[str]:
    return sorted(map(repr, delta.scan(table).to_arrow().to_pylist()))


@pytest.mark.parametrize("here", [-1, 1 << 30], ids=["executors", "driver"])
@pytest.mark.parametrize("name", ["spark_many_features", "spark_partitioned"])
def test_the_rows_of_the_single_machine(
    spark: SparkSession,
    name: str,
    here: int,
    golden: Callable[[str], Path],
    tmp_path: Path,
    duckdb_delta: DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark.sql import functions as f

    monkeypatch.setattr(HERE, here)
    table = golden(name)
    twin = shutil.copytree(table, tmp_path / "twin")
    given = delta.scan(table, "id < 30").to_arrow()
    frame = on_spark.scan(spark, table, "id < 30").localCheckpoint()

    def agree(ours: Any, theirs: Any) -> None:
        assert counts(ours) == counts(theirs)
        assert rows(table) == rows(twin)
        assert delta.verify(table) == []
        assert ids_of_others(duckdb_delta, table) == [ids(twin)] * 2

    agree(on_spark.append(frame, table, job_id="a"), delta.append(twin, given, job_id="a"))
    agree(on_spark.append(frame, table, job_id="a"), delta.append(twin, given, job_id="a"))
    agree(on_spark.update(spark, table, "id = 3", {"id": 3000}), delta.update(twin, "id = 3", {"id": 3000}))
    moved = on_spark.update(spark, table, f.col("id") < 10, {"id": f.col("id") + 5000})
    alone = [delta.update(twin, f"id = {old}", {"id": old + 5000}).rows_updated for old in range(10)]
    assert moved.rows_updated == sum(alone) > 0
    agree(
        on_spark.overwrite(frame, table, "id >= 20 and id < 60"),
        delta.overwrite(twin, given, "id >= 20 and id < 60"),
    )
    twin = shutil.copytree(table, tmp_path / "again")
    agree(
        on_spark.rewrite_data_files(spark, table, min_deleted=0.01),
        delta.rewrite_data_files(twin, min_deleted=0.01),
    )
    known = files_of(table)
    dry: dict[str, Any] = {"dry_run": True}
    on_spark.append(frame, table, **dry)
    on_spark.overwrite(frame, table, **dry)
    on_spark.update(spark, table, "id < 20", {"id": 1}, **dry)
    on_spark.rewrite_data_files(spark, table, min_deleted=0.0, **dry)
    assert files_of(table) == known
    assert delta.orphan_files(table, older_than=timedelta(0)).num_rows == 0


def racing(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Makes another writer commit right before the next commit."""
    put, waiting = TableStorage.put, [other]

    def first_other(storage: TableStorage, path: str, data: bytes) -> bool:
        if waiting:
            waiting.pop()()
        return put(storage, path, data)

    monkeypatch.setattr(TableStorage, "put", first_other)


def test_concurrent_commits_and_refusals(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("id", pa.int64()), ("g", pa.string())])
    table = tmp_path / "t"
    delta.create_table(table, schema)
    delta.append(table, pa.table({"id": range(10), "g": ["a"] * 10}, schema))
    more = spark.createDataFrame([(100, "b")], "id long, g string")

    late = pa.table({"id": [5], "g": ["late"]}, schema)
    racing(monkeypatch, lambda: delta.overwrite(table, late, "id = 77"))  # an append is not searched
    done = on_spark.overwrite(more, table, "id = 5")
    assert (done.rows_deleted, done.rows_appended, done.attempts) == (2, 1, 2)
    assert ids(table) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 100]
    assert delta.orphan_files(table, older_than=timedelta(0)).num_rows == 0
    racing(monkeypatch, lambda: delta.delete(table, "id = 1"))
    with pytest.raises(ConflictError):
        on_spark.update(spark, table, "id = 2", {"g": "new"})
    assert delta.orphan_files(table, older_than=timedelta(0)).num_rows == 0
    with pytest.raises(InvalidInputError, match="nope"):
        on_spark.append(more.withColumnRenamed("g", "nope"), table)
    with pytest.raises(UnsupportedError, match="has no branch"):
        on_spark.append(more, table, branch="b")


def test_values_of_partition_columns_are_written_as_on_one_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
    table = tmp_path / "t"
    delta.create_table(table, schema, partition_columns=["s", "x"])
    given = [(1, "😀", -0.0, -0.0), (2, "😀", 0.0, 0.0), (3, "b", 0.0, -0.0)]
    ddl = "id long, s string, x double, y double"
    on_spark.append(spark.createDataFrame(given, ddl).coalesce(1), table)
    base = delta.snapshot(table)
    adds = base.adds(range(base.files.num_rows))
    assert {tuple(add["partitionValues"].items()) for add in adds} == {
        (("s", "😀"), ("x", "0")),
        (("s", "b"), ("x", "0")),
    }
    assert all('"minValues":{"id":' in add["stats"] and '"y":-0.0}' in add["stats"] for add in adds)
    assert all('"y":0.0}' in add["stats"] for add in adds)
    before = files_of(table)
    empty = spark.createDataFrame([(4, "", 0.0, 0.0)], ddl)
    for write in (
        lambda: on_spark.append(empty, table),
        lambda: on_spark.upsert(empty, table, "s"),
        lambda: on_spark.overwrite(empty, table, "id = 1"),
        lambda: on_spark.update(spark, table, "id = 1", {"s": ""}),
    ):
        with pytest.raises(InvalidInputError, match="column s: expected no empty text"):
            write()
        assert files_of(table) == before
