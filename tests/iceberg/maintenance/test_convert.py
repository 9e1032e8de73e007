"""Conversion of deletes: all readers return the same rows, and only deletion vectors remain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import CorruptDataError, NotFoundError, UnsupportedError
from tests.iceberg.conftest import add_branch, refused, rows_of_duckdb, summary_of, unchanged
from tests.iceberg.maintenance.delete_files import delete_by_file, kinds, random_table, rows, three_files
from tests.iceberg.maintenance.java_writer import delete_equal as java_delete_equal
from tests.kit.faults import RacingCatalog
from tests.kit.rows import by_duckdb
from tests.kit.tables import path_of
from tests.rows.deletes.equality_deletes import SCHEMA, delete_equal, evolved

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", range(12))
def test_converting_keeps_the_rows_and_leaves_only_vectors(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, seed: int
) -> None:
    table = random_table(racing, seed)
    if seed % 3 == 0 and iceberg.plan_files(table).tasks:
        iceberg.delete(table, "id = 3")  # some vectors are there already, over shared position deletes
    before, named = rows(table), table.metadata.next_row_id
    jobs = [iceberg.convert_position_deletes, iceberg.convert_equality_deletes]
    jobs = jobs if seed % 2 else jobs[::-1]
    for job in jobs:
        head = table.metadata.current_snapshot_id
        with unchanged(table):
            planned = job(table, dry_run=True)
        assert (planned.dry_run, planned.commit.id) == (True, None)
        done = job(table, job_id=job.__name__)
        assert rows(table) == before
        assert (planned.vectors_written, planned.commit.n_bytes) == (
            done.vectors_written,
            done.commit.n_bytes,
        )
        assert (done.commit.id is None) == (head == table.metadata.current_snapshot_id)
        repeated = job(table, job_id=job.__name__)
        is_done = done.commit.id is not None
        assert (repeated.commit.id, repeated.commit.repeated) == (done.commit.id, is_done)
        again = job(table)
        assert (again.commit.id, again.vectors_written, repeated.vectors_written) == (None, 0, 0)
    assert kinds(table) <= {("vector", "applies")}
    assert iceberg.verify(table) == []
    if named is not None and table.metadata.next_row_id is not None:
        assert table.metadata.next_row_id >= named
    order = "id NULLS FIRST"
    foreign = rows_of_duckdb(duckdb_iceberg, table, order=order).to_pylist()
    assert sorted(map(repr, foreign)) == before
    assert sorted(map(repr, table.scan().to_arrow().to_pylist())) == before


def with_positions(catalog: RacingCatalog, *rows: tuple[int, int]) -> tuple[Table, str]:
    """Three data files, and one file of deletes of their rows, given as number of the data file and position."""
    table, paths = three_files(catalog)
    path = delete_by_file(table, [(paths[number], position) for number, position in rows])
    return iceberg.upgrade(table), path


def test_a_shared_file_that_names_no_row_of_a_data_file_makes_no_vector_for_it(racing: RacingCatalog) -> None:
    table, _ = with_positions(racing, (0, 5), (2, 7), (2, 7))
    result = iceberg.convert_position_deletes(table)
    assert (result.vectors_written, result.positions, result.position_delete_files_removed) == (2, 2, 1)
    assert summary_of(table)["operation"] == "replace"
    assert iceberg.scan(table).to_arrow().num_rows == 298


def test_deletes_older_than_a_data_file_do_not_reach_it(racing: RacingCatalog) -> None:
    table, (first, *_) = three_files(racing)
    dead = delete_by_file(table, [("file:///gone.parquet", 1)])
    delete_by_file(table, [(first, 1)])
    iceberg.append(table, pa.table({"id": [1000]}))
    iceberg.upgrade(table)
    result = iceberg.convert_position_deletes(table)
    assert (result.vectors_written, result.position_delete_files_removed) == (1, 2)
    assert dead not in iceberg.deletes(table)["path"].to_pylist()


def test_a_data_file_without_rows_left_is_dropped(racing: RacingCatalog) -> None:
    table, _ = with_positions(racing, *((0, position) for position in range(100)))
    result = iceberg.convert_position_deletes(table)
    assert (result.vectors_written, result.data_files_dropped) == (0, 1)
    assert len(iceberg.plan_files(table).tasks) == 2
    assert iceberg.scan(table).to_arrow().num_rows == 200


def test_a_shared_file_is_removed_only_when_all_its_data_files_have_vectors(racing: RacingCatalog) -> None:
    table, shared = with_positions(racing, (0, 1), (1, 2))
    iceberg.delete(table, "id = 50")
    states = {("vector", "applies"), ("position deletes", "superseded"), ("position deletes", "applies")}
    assert states <= kinds(table)
    assert shared in iceberg.deletes(table)["path"].to_pylist()
    assert iceberg.verify(table) == []  # what is superseded, the vector holds
    result = iceberg.convert_position_deletes(table)
    assert (result.vectors_written, result.vectors_removed, result.not_rewritten) == (1, 0, ())
    assert kinds(table) == {("vector", "applies")}
    assert iceberg.scan(table).to_arrow().num_rows == 297


def test_equality_deletes_are_merged_into_a_vector_and_keep_newer_rows(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    made = [{"id": i, "k": i % 4 or None, "s": "s", "x": 0.0} for i in range(40)]
    iceberg.append(table, pa.Table.from_pylist(made, SCHEMA.as_arrow()))
    iceberg.delete(table, "id < 10")
    delete_equal(table, [2], [(None,), (3,)])
    iceberg.append(table, pa.Table.from_pylist(made[:8], SCHEMA.as_arrow()))
    before = rows(table)
    assert len(before) == 15 + 8
    result = iceberg.convert_equality_deletes(table)
    assert (result.vectors_written, result.vectors_removed, result.equality_delete_files_removed) == (1, 1, 1)
    assert (result.positions, result.rows_deleted) == (25, 15)
    assert rows(table) == before
    assert kinds(table) == {("vector", "applies")}


def test_columns_that_were_renamed_promoted_dropped_or_added(racing: RacingCatalog) -> None:
    table = evolved(racing)
    iceberg.upgrade(table)
    before = rows(table)
    result = iceberg.convert_equality_deletes(table)
    assert (result.vectors_written, result.equality_delete_files_removed) == (1, 3)
    assert rows(table) == before
    delete_equal(table, [5], [(None,)])  # the data file has no such column: all of its rows have a null there
    assert iceberg.convert_equality_deletes(table).data_files_dropped == 1
    assert rows(table) == []


def test_dangling_equality_deletes_are_removed_unread(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    delete_equal(table, [1], [(1,)])
    iceberg.append(table, pa.Table.from_pylist([{"id": 1, "k": 1, "s": "", "x": 0.0}], SCHEMA.as_arrow()))
    (path,) = iceberg.deletes(table)["path"].to_pylist()
    path_of(path).unlink()
    result = iceberg.convert_equality_deletes(table)
    assert (result.vectors_written, result.equality_delete_files_removed) == (0, 1)
    assert len(rows(table)) == 1


def test_a_branch_is_converted_and_main_is_not(racing: RacingCatalog) -> None:
    table, _ = with_positions(racing, (0, 1))
    add_branch(table, "side")
    head = table.metadata.current_snapshot_id
    result = iceberg.convert_position_deletes(table, branch="side")
    assert result.vectors_written == 1
    assert table.metadata.current_snapshot_id == head
    assert ("position deletes", "applies") in kinds(table)
    assert set(iceberg.deletes(table, branch="side")["kind"].to_pylist()) == {"vector"}
    with pytest.raises(NotFoundError, match="twig"):
        iceberg.convert_position_deletes(table, branch="twig")


@pytest.mark.parametrize(
    "happening",
    [
        lambda other: iceberg.delete(other, "id = 1"),
        lambda other: iceberg.delete(other, "id < 100"),
        lambda other: iceberg.append(other, pa.table({"id": [5000]})),
        lambda other: iceberg.convert_position_deletes(other),
    ],
    ids=["another delete", "a data file gone", "an append", "the same job"],
)
def test_a_concurrent_commit_is_included_in_the_new_plan(racing: RacingCatalog, happening: Any) -> None:
    table, _ = with_positions(racing, (0, 1), (0, 9), (1, 2))
    other = racing.load_table("n.t")
    racing.before = [lambda: happening(other)]
    result = iceberg.convert_position_deletes(table)
    assert result.commit.attempts in (0, 1, 2)
    table.refresh()
    assert rows(table) == rows(racing.load_table("n.t"))
    assert kinds(table) == {("vector", "applies")}
    assert iceberg.verify(table) == []
    ids = {int(row.split(":")[1].strip(" }")) for row in rows(table)}
    assert not ids & {1, 9, 102}


def past_the_end(path: Path) -> None:
    pq.write_table(pq.read_table(path).set_column(1, "pos", [[100]]), path)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (Path.unlink, NotFoundError),
        (lambda path: path.write_bytes(b"PAR1" + bytes(30)), CorruptDataError),
        (past_the_end, CorruptDataError),
    ],
    ids=["gone", "torn", "past the end"],
)
def test_a_bad_delete_file_leaves_the_table_as_it_is(
    racing: RacingCatalog, damage: Callable[[Path], object], error: type[Exception]
) -> None:
    table, path = with_positions(racing, (0, 1))
    damage(path_of(path))
    with refused(table, error):
        iceberg.convert_position_deletes(table)


def test_a_table_of_version_2_is_refused_and_upgrade_is_named(racing: RacingCatalog) -> None:
    table, _ = three_files(racing)
    with pytest.raises(UnsupportedError, match="upgrade"):
        iceberg.convert_position_deletes(table)


@pytest.mark.jar
def test_all_jobs_go_through_a_rest_catalog(
    rest_catalog: RestCatalog, rest_namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table, (first, second, _) = three_files(rest_catalog, rest_namespace)
    delete_by_file(table, [(first, 1), (second, 2)])
    iceberg.upgrade(table)
    other = rest_catalog.load_table(f"{rest_namespace}.t")
    assert iceberg.convert_position_deletes(table).vectors_written == 2
    iceberg.delete(other, "id = 250")
    delete_equal(iceberg.upgrade(table), [1], [(7,), (251,)])
    assert iceberg.convert_equality_deletes(table).vectors_removed == 2
    iceberg.delete(table, "id = 130")
    assert iceberg.compact(table).puffin_files_written == 1
    assert iceberg.repair(table).commit.id is None
    assert iceberg.verify(table) == []
    left = set(range(300)) - {1, 102, 250, 7, 251, 130}
    assert set(iceberg.scan(table).to_arrow()["id"].to_pylist()) == left
    assert set(rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist()) == left


@pytest.mark.spark
@pytest.mark.jar
@pytest.mark.parametrize("partition", ["", "PARTITIONED BY (k)"])
def test_equality_deletes_that_java_wrote_are_converted_as_spark_reads_them(
    iceberg_spark: SparkSession,
    duckdb_iceberg: DuckDBPyConnection,
    shared_catalog: SqlCatalog,
    namespace: str,
    partition: str,
) -> None:
    name = f"shared.{namespace}.t"
    path = "k=1" if partition else ""
    sql = iceberg_spark.sql
    sql(
        f"CREATE TABLE {name} (id INT, k INT, s STRING) USING iceberg {partition} "
        "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    insert = (
        f"INSERT INTO {name} SELECT CAST(id AS INT), CAST(id % 3 AS INT), "
        "IF(id % 5 = 0, NULL, concat('s', id % 7)) FROM "
    )
    sql(f"{insert} range(0, 300, 1, 2)")
    java_delete_equal(iceberg_spark, name, ["id"], [[4], [9], [250], [5000]], path)
    java_delete_equal(iceberg_spark, name, ["k", "s"], [[1, None], [1, "s3"], [2, "s4"]], path)
    sql(f"{insert} range(200, 320, 1, 1)")
    sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    java_delete_equal(iceberg_spark, name, ["s"], [["s6"], [None]], path)
    sql(f"ALTER TABLE {name} RENAME COLUMN s TO word")
    table = iceberg.upgrade(shared_catalog.load_table(f"{namespace}.t"))
    sql(f"DELETE FROM {name} WHERE id % 10 = 7")
    java_delete_equal(iceberg_spark, name, ["word"], [["s2"]], path)
    table.refresh()

    def asked() -> list[tuple[Any, ...]]:
        return sorted(map(tuple, sql(f"SELECT id, k, coalesce(word, '-') FROM {name}").collect()))

    before, ours = asked(), rows(table)
    assert len(before) == len(ours)
    result = iceberg.convert_equality_deletes(table)
    assert result.equality_delete_files_removed == 4
    assert result.rows_deleted > 20
    assert rows(table) == ours
    assert asked() == before
    iceberg.convert_position_deletes(table)
    assert kinds(table) == {("vector", "applies")}
    assert asked() == before
    assert iceberg.verify(table) == []
    foreign = by_duckdb(duckdb_iceberg, table)
    assert sorted((r["id"], r["k"], r["word"] or "-") for r in foreign) == before
    assert sorted(map(repr, table.scan().to_arrow().to_pylist())) == ours
    sql(f"DELETE FROM {name} WHERE id % 10 = 1")
    table.refresh()
    assert asked() == [row for row in before if row[0] % 10 != 1]
    assert iceberg.scan(table).to_arrow().num_rows == len(asked())
