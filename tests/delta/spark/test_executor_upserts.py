"""Upserts into Delta tables on executors: rows, row ids and counts of the single machine, in one commit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta
from puffin_fast import spark as on_spark
from puffin_fast.errors import InvalidInputError, PuffinFastError, UnsupportedError
from tests.delta.tables import files_of, ids, ids_of_others
from tests.spark.conftest import MOST, work_on_executors

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["work_on_executors"]

COUNTS = (
    "rows_updated",
    "rows_inserted",
    "rows_unchanged",
    "rows_deleted",
    "keys_deleted",
    "rows_superseded",
)
DDL = "id bigint, g string, x double"
ROWS = pa.table({"id": range(20), "g": ["a", "b"] * 10, "x": [0.0] * 20})


def counts(result: Any) -> list[int]:
    return [getattr(result, name) for name in COUNTS]


def rows(table: Any) -> list[dict[str, Any]]:
    return sorted(delta.scan(table).to_arrow().to_pylist(), key=repr)


def row_ids(table: Any) -> dict[int, int]:
    found = delta.changes(
        table, 0, net=True, row_filter="id < 20", selected_fields=("id", "_row_id")
    ).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True))


def made(folder: Path, **options: Any) -> Path:
    delta.create_table(folder, ROWS.schema, **options)
    delta.append(folder, ROWS.slice(0, 10))
    delta.append(folder, ROWS.slice(10))
    return folder


@pytest.mark.parametrize("name", ["spark_iceberg_compat_v3", "spark_many_features", "spark_partitioned"])
def test_an_upsert_on_executors_has_the_rows_of_one_here(
    spark: SparkSession,
    name: str,
    golden: Callable[[str], Path],
    tmp_path: Path,
    duckdb_delta: DuckDBPyConnection,
) -> None:
    table = golden(name)
    twin = shutil.copytree(table, tmp_path / "twin")
    same = delta.scan(table, "id < 40").to_arrow()
    at = same.column_names.index("id")
    new = same.set_column(at, same.schema.field("id"), pc.add(same["id"], 10_000).cast(same["id"].type))
    moved = delta.scan(table, "id >= 40 and id < 60").to_arrow()
    moved = moved.set_column(
        at, moved.schema.field("id"), pa.chunked_array([moved["id"].combine_chunks()[::-1]])
    )
    given = pa.concat_tables([same, new, moved])
    try:
        here = delta.upsert(twin, given, "id")
    except UnsupportedError:
        state = files_of(table)
        with pytest.raises(UnsupportedError):
            on_spark.upsert(spark.createDataFrame(given), table, "id")
        assert files_of(table) == state
        return
    there = on_spark.upsert(spark.createDataFrame(given).repartition(3), table, "id", job_id="j")
    assert counts(there) == counts(here)
    assert there.version == here.version
    assert rows(table) == rows(twin)
    assert ids_of_others(duckdb_delta, table) == [ids(twin), ids(twin)]
    assert delta.verify(table) == []
    assert delta.orphan_files(table, older_than=timedelta()).num_rows == 0
    again = on_spark.upsert(spark.createDataFrame(given), table, "id", job_id="j")
    assert again.repeated
    assert (again.version, counts(again)) == (None, [0] * len(COUNTS))


@pytest.mark.parametrize(
    "options",
    [
        {"properties": {"delta.enableRowTracking": "true"}},
        {"properties": {"delta.enableChangeDataFeed": "true"}, "partition_columns": ["g"]},
    ],
    ids=["row tracking", "feed and partitions"],
)
def test_updates_of_columns_deletes_and_order(spark: SparkSession, tmp_path: Path, options: Any) -> None:
    table, twin = made(tmp_path / "t", **options), made(tmp_path / "twin", **options)
    is_tracked = "partition_columns" not in options
    first = [(id, "b", 1.0, id % 3 == 0, n) for id in (3, 4, 5, 15, 30, 33) for n in (1, 2)]
    names = f"{DDL}, gone boolean, n int"
    steps: list[tuple[Any, str, dict[str, Any]]] = [
        (first, names, {"delete_column": "gone", "order_column": "n"}),
        ([(id, 7.0) for id in (1, 2, 90)], "id bigint, x double", {"update_columns": ["x"]}),
        ([(1, "c", 0.0), (91, "c", 0.0)], DDL, {"when_matched_update_all": False}),
        ([(1, "d", 0.0), (4, "b", 1.0)], DDL, {"skip_unchanged": False}),
    ]
    for given, ddl, arguments in steps:
        if "update_columns" in arguments:
            arguments["when_not_matched_insert_all"] = False
        frame = spark.createDataFrame(given, ddl)
        if "order_column" in arguments:
            frame = frame.repartition(3)
        here = delta.upsert(twin, frame.toArrow(), "id", **arguments)
        if "delete_column" in arguments:
            state = files_of(table)
            assert counts(on_spark.upsert(frame, table, "id", dry_run=True, **arguments)) == counts(here)
            assert files_of(table) == state
        assert counts(on_spark.upsert(frame, table, "id", **arguments)) == counts(here)
        assert rows(table) == rows(twin)
        if is_tracked:
            assert row_ids(table) == row_ids(twin)
        assert delta.verify(table) == []
    if not is_tracked:
        changed = delta.changes(table, 3).to_arrow()
        assert set(changed["_change_type"].to_pylist()) >= {"insert", "delete"}


def test_what_is_refused_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    delta.append(table, ROWS.slice(0, 1))  # key 0 is there twice
    given = spark.createDataFrame([(0, "z", 1.0), (77, "z", 1.0)], DDL)
    state = files_of(table)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "several rows|more than one row|rows of key"),
        ({"branch": "b"}, "branch"),
        ({"join_cols": None}, "join_cols"),
        ({"changes": True}, "expected a column _change_type"),
    ]
    for arguments, message in wrong:
        with pytest.raises(PuffinFastError, match=message):
            on_spark.upsert(given, table, **{"join_cols": "id", **arguments})
        assert files_of(table) == state
    done = on_spark.upsert(given, table, "id", duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted, done.rows_inserted) == (1, 2, 1)
    delta.delete(table, "id = 5", job_id="other")
    with pytest.raises(InvalidInputError, match="job_id 'other'"):
        on_spark.upsert(given, table, "id", job_id="other")


@pytest.mark.parametrize("most", [-1, 1 << 20], ids=["shuffled", "few"])
def test_a_commit_between_is_searched(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    from puffin_fast.delta.dml import attempt
    from puffin_fast.spark.table import delta as jobs

    monkeypatch.setattr(MOST, most)
    table, commit, done = made(tmp_path / "t"), jobs.commit, []

    def late(storage: Any, plan: Any, **options: Any) -> Any:
        def planned(base: Any) -> Any:
            found = plan(base)
            if not done:
                done.append(True)
                delta.append(table, pa.table({"id": [77], "g": ["old"], "x": [0.0]}))
            return found

        return commit(storage, planned, **options)

    monkeypatch.setattr(jobs if most < 0 else attempt, "commit", late)
    result = on_spark.upsert(spark.createDataFrame([(77, "new", 1.0), (3, "new", 1.0)], DDL), table, "id")
    assert (result.attempts, result.rows_updated, result.rows_inserted) == (2, 2, 0)
    assert [row["g"] for row in rows(table) if row["id"] in (3, 77)] == ["new", "new"]
    assert delta.orphan_files(table, older_than=timedelta()).num_rows == 0
