"""Deletes on executors have the same rows, files and errors as on one machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.plan.files import plan_files
from tests.iceberg.conftest import rows_of, rows_of_duckdb
from tests.kit.tables import files_of
from tests.spark.laws import frame
from tests.spark.table.tables import FILES, ROWS, N, made, positions_of, puffin_files, referenced

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark


def vectors_of(table: Table) -> dict[str, int]:
    """Returns the cardinality of the vector of each data file."""
    return {t.data.file_path: t.vector.record_count for t in plan_files(table).tasks if t.vector}


@pytest.mark.parametrize("spec", [(), ("word",)], ids=["unpartitioned", "by word"])
def test_deletes_by_filter_merge_and_agree_with_the_single_machine(
    spec: tuple[str, ...], spark: SparkSession, racing: RacingCatalog
) -> None:
    ours = made(racing, "n", spec=spec)
    single = made(racing, "n", spec=spec, name="single")
    for filter in ("id % 2 = 0", "small > 25", "word is null or id < 700", "id < 1200"):
        if "%" in filter:
            import pyarrow.compute as pc

            filter = pc.equal(pc.bit_wise_and(pc.field("id"), 1), 0)
        found, expected = ps.delete(spark, ours, filter), iceberg.delete(single, filter)
        for name in (
            "rows_deleted",
            "data_files",
            "data_files_dropped",
            "vectors_written",
            "vectors_merged",
        ):
            assert getattr(found, name) == getattr(expected, name), name
        assert found.commit.attempts == expected.commit.attempts
        assert found.commit.id == ours.current_snapshot().snapshot_id
        assert rows_of(ours).equals(rows_of(single))
        assert sorted(vectors_of(ours).values()) == sorted(vectors_of(single).values())
        left = ours.current_snapshot().summary.additional_properties
        same = single.current_snapshot().summary.additional_properties
        assert {k: v for k, v in left.items() if "size" not in k} == {
            k: v for k, v in same.items() if "size" not in k
        }
    assert referenced(ours) <= puffin_files(ours)


def test_deletes_by_position_merge_and_agree_with_the_single_machine(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    table = made(racing, "n")
    random = np.random.default_rng(3)
    gone: set[int] = set()
    for n in (1, 500, 900):
        ids = set(random.choice(N, n, replace=False).tolist())
        places = positions_of(table, ids)
        result = ps.delete_positions(frame(spark, places + places[:3]), table)
        assert (result.rows_deleted, result.rows_dangling) == (len(ids - gone), 0)
        gone |= ids
        assert rows_of(table)["id"].to_pylist() == [i for i in range(N) if i not in gone]
    assert sum(vectors_of(table).values()) == len(gone)
    again = ps.delete_positions(frame(spark, places), table)
    assert (again.rows_deleted, again.commit.id) == (0, None)


def test_a_file_that_loses_its_last_row_leaves_the_table(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, "n")
    first = ps.delete(spark, table, "id < 300 or (id >= 600 and id < 1300)")
    assert (first.rows_deleted, first.data_files_dropped) == (1000, 1)
    second = ps.delete_positions(frame(spark, positions_of_rest(table, 600)), table)
    assert (second.rows_deleted, second.data_files_dropped) == (300, 1)
    assert rows_of(table)["id"].to_pylist() == list(range(1300, N))
    assert len(plan_files(table).tasks) == FILES - 2


def positions_of_rest(table: Table, n_rows: int) -> list[tuple[str, int]]:
    """Returns all positions of the data file whose first id is 0."""
    for task in plan_files(table, metrics=True).tasks:
        if int.from_bytes(task.data.lower_bounds[1], "little") == 0:
            assert task.data.record_count == n_rows
            return [(task.data.file_path, pos) for pos in range(n_rows)]
    raise AssertionError("no such file")


def test_rows_of_unknown_files_are_counted_or_refused(
    spark: SparkSession, racing: RacingCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(racing, "n")
    (place,) = positions_of(table, {7})
    rows = frame(spark, [place, ("s3://other/x.parquet", 1), ("s3://other/x.parquet", 1), ("y", 2)])
    before, files = table.metadata_location, files_of(table)
    with pytest.raises(NotFoundError, match="no data file of the table"):
        ps.delete_positions(rows, table, strict=True)
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)
    with caplog.at_level(logging.WARNING):
        result = ps.delete_positions(rows, table)
    assert (result.rows_deleted, result.rows_dangling) == (1, 3)
    assert "3 rows" in caplog.text
    assert 7 not in rows_of(table)["id"].to_pylist()


def test_refusals_leave_table_and_files_as_they_were(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, "n")
    path = plan_files(table).tasks[0].data.file_path
    before, files = table.metadata_location, files_of(table)
    for rows, message in (
        ([(path, N // FILES)], f"pos.*{N // FILES}.*{N // FILES} rows"),
        ([(path, -1)], "pos.*-1"),
        ([(path, None)], "pos.*null"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ps.delete_positions(frame(spark, rows), table)
    with pytest.raises(InvalidInputError, match="nobody"):
        ps.delete(spark, table, "nobody = 1")
    with pytest.raises(NotFoundError, match="nobody"):
        ps.delete(spark, table, EqualTo("nobody", 1))
    with pytest.raises(NotFoundError, match="branch"):
        ps.delete(spark, table, "id = 1", branch="nobody")
    with pytest.raises(InvalidInputError, match="job_id"):
        ps.delete(spark, table, "id = 1", job_id="a/b")
    with pytest.raises(InvalidInputError, match="on_conflict"):
        ps.delete(spark, table, "id = 1", on_conflict="hope")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="SparkSession"):
        ps.delete("spark", table, "id = 1")  # type: ignore[arg-type]
    Path(path.removeprefix("file://")).rename(f"{path.removeprefix('file://')}.away")
    with pytest.raises(NotFoundError, match="parquet"):
        ps.delete(spark, table, "word = 'w1'")
    Path(f"{path.removeprefix('file://')}.away").rename(path.removeprefix("file://"))
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)
    old = racing.create_table("n.v1", ROWS.schema, properties={"format-version": "1"})
    with pytest.raises(UnsupportedError, match="version 1"):
        ps.delete(spark, old, "id = 1")


@pytest.mark.parametrize(("level", "n_more"), [("serializable", 1), ("snapshot", 0)])
def test_conditions_of_sql_find_what_came_in_meanwhile_unless_isolation_is_snapshot(
    spark: SparkSession, racing: RacingCatalog, level: str, n_more: int
) -> None:
    table = made(racing, "n", **{"write.delete.isolation-level": level})
    more = pa.table([[N, N + 1], ["w1", None], pa.array([1, 2], pa.int32())], schema=ROWS.schema)
    racing.before.append(lambda: iceberg.append(racing.load_table("n.t"), more))
    result = ps.delete(spark, table, "id % 2 = 0")
    assert (result.commit.attempts, result.rows_deleted) == (2, N // 2 + n_more)
    assert rows_of(table)["id"].to_pylist() == [*range(1, N, 2), *range(N + n_more, N + 2)]
    assert puffin_files(table) == referenced(table)


@pytest.mark.jar
def test_other_engines_read_and_extend_what_executors_wrote(
    iceberg_spark: SparkSession,
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
) -> None:
    table = made(shared_catalog, namespace, **{"write.delete.mode": "merge-on-read"})
    name = f"{shared_catalog.name}.{namespace}.t"

    def by_java() -> list[int]:
        rows = iceberg_spark.sql(f"SELECT id FROM {name} ORDER BY id").toArrow()["id"].to_pylist()
        found: list[int] = rows
        return found

    ps.delete(iceberg_spark, table, "small > 25")
    assert by_java() == rows_of(table)["id"].to_pylist()
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
    table.refresh()
    left = by_java()
    ps.delete_positions(frame(iceberg_spark, positions_of(table, {1, 2, 4, 2999})), table)
    left = [i for i in left if i not in {1, 2, 4, 2999}]
    assert by_java() == left == rows_of(table)["id"].to_pylist()
    rows = rows_of(table)
    assert rows_of_duckdb(duckdb_iceberg, table).cast(rows.schema).equals(rows)
