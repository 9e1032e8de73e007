"""Conversion of delete files on executors has the same result as on one machine, for each data file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.maintenance import convert
from tests.iceberg.conftest import rows_of_duckdb
from tests.iceberg.maintenance.delete_files import delete_by_file, kinds, random_table, rows, three_files
from tests.iceberg.maintenance.maintained import add_vector
from tests.kit.tables import files_of, path_of
from tests.spark.results import facts
from tests.spark.table.delete_files import WRITTEN, agree, copy_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
N = 20_000
IDS = pa.schema([("id", pa.int64()), ("part", pa.int32())])


@pytest.mark.parametrize("seed", [0, 3])
def test_random_tables_are_converted_as_on_the_single_machine(
    spark: SparkSession, racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, seed: int
) -> None:
    table = random_table(racing, seed)
    iceberg.delete(table, "id = 3")  # some vectors are there already, over shared position deletes
    single = copy_of(racing, table)
    before = rows(table)
    files = files_of(table)
    planned = ps.convert_position_deletes(spark, table, dry_run=True)
    assert files_of(table) == files
    jobs = ["convert_position_deletes", "convert_equality_deletes"]
    for job in jobs if seed else jobs[::-1]:
        done = agree(spark, table, single, job)
        if job == "convert_position_deletes" and seed:
            assert facts(planned, WRITTEN) | {"dry_run": False, "attempts": 1} == facts(done, WRITTEN)
    assert kinds(table) == {("vector", "applies")}
    foreign = rows_of_duckdb(duckdb_iceberg, table, order="id NULLS FIRST").to_pylist()
    assert sorted(map(repr, foreign)) == before


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_of_either_granularity(
    spark: SparkSession, racing: RacingCatalog, granularity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "OPEN_BYTES", 40 << 20)  # so that few data files fill a task
    table = racing.create_table(
        "n.t",
        schema=IDS,
        properties={"format-version": "2", "write.delete.granularity": granularity},
    )
    with table.update_spec() as update:
        update.add_identity("part")
    random = np.random.default_rng(4)
    for number in range(4):
        ids = np.arange(number * N, (number + 1) * N)
        iceberg.append(table, pa.table([ids, ids % 3], schema=IDS))
    for n in (30_000, 1_000, 1, 20_000):  # more than half, few, one row
        named = random.choice(4 * N, n, replace=False)
        iceberg.delete_keys(table, pa.table({"id": named}), ["id"])
    iceberg.delete(table, "part = 2 and id < 20000")
    iceberg.upgrade(table)
    result = agree(spark, table, copy_of(racing, table), "convert_position_deletes")
    assert (result.vectors_written, result.not_rewritten) == (11, ())
    again = ps.convert_position_deletes(spark, table)
    assert (again.commit.id, again.vectors_written) == (None, 0)


def test_a_puffin_file_holds_vectors_of_one_partition_spec(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    table = racing.create_table("n.t", IDS, properties={"format-version": "2"})
    for number in range(6):
        if number == 3:
            with table.update_spec() as update:
                update.add_identity("part")
        iceberg.append(table, pa.table([range(number * 100, number * 100 + 100), [0] * 100], schema=IDS))
    tasks = iceberg.plan_files(table).tasks
    delete_by_file(table, [(task.data.file_path, 7) for task in tasks if task.data.spec_id == 0])
    iceberg.delete(table, "id >= 500 and id < 510")
    iceberg.upgrade(table)

    def specs() -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for task in iceberg.plan_files(table).tasks:
            if task.vector is not None:
                found.setdefault(task.vector.file_path, set()).add(task.data.spec_id)
        return found

    agree(spark, table, copy_of(racing, table), "convert_position_deletes")
    assert all(len(some) == 1 for some in specs().values())
    places = [(task.data.file_path, 9) for task in iceberg.plan_files(table).tasks]
    ps.delete_positions(spark.createDataFrame(places, "file_path string, pos long"), table)
    assert all(len(some) == 1 for some in specs().values())
    ps.compact(spark, table)
    assert sorted(map(sorted, specs().values())) == [[0], [1]]


def test_what_a_vector_hides_without_holding_it_stays(spark: SparkSession, racing: RacingCatalog) -> None:
    table, (first, second, third) = three_files(racing)
    delete_by_file(table, [(first, 5), (second, 6)])
    delete_by_file(table, [(second, 7), (third, 8)])
    iceberg.upgrade(table)
    for task in iceberg.plan_files(table).tasks:
        if task.data.file_path in (first, second):
            add_vector(table, task.data, [5])
    result = agree(spark, table, copy_of(racing, table), "convert_position_deletes")
    assert result.position_delete_files_removed == 0
    assert result.vectors_written == 1
    (left,) = result.not_rewritten
    assert left.startswith(f"{second}: its deletion vector supersedes 2 deleted positions")


def test_a_data_file_that_loses_all_rows_is_dropped(spark: SparkSession, racing: RacingCatalog) -> None:
    table, (first, *_) = three_files(racing)
    delete_by_file(table, [(first, position) for position in range(100)])
    delete_by_file(table, [("file:///gone.parquet", 1)])
    iceberg.upgrade(table)
    result = agree(spark, table, copy_of(racing, table), "convert_position_deletes")
    assert (result.data_files_dropped, result.position_delete_files_removed) == (1, 2)
    assert ps.convert_equality_deletes(spark, table).commit.id is None


def test_a_concurrent_commit_is_included_in_the_new_plan(spark: SparkSession, racing: RacingCatalog) -> None:
    table, (first, second, _) = three_files(racing)
    delete_by_file(table, [(first, 1), (first, 9), (second, 2)])
    iceberg.upgrade(table)
    other = racing.load_table("n.t")
    racing.before = [lambda: iceberg.delete(other, "id < 100 or id = 150")]
    result = ps.convert_position_deletes(spark, table, job_id="nightly")
    assert result.commit.attempts == 2
    left = set(range(100, 300)) - {102, 150}
    assert set(iceberg.scan(table).to_arrow()["id"].to_pylist()) == left
    assert kinds(table) == {("vector", "applies")}
    files = files_of(table)
    again = ps.convert_position_deletes(spark, table, job_id="nightly")
    assert (again.commit.repeated, again.commit.id) == (True, result.commit.id)
    assert files_of(table) == files


def test_a_bad_position_leaves_the_table_as_it_is(spark: SparkSession, racing: RacingCatalog) -> None:
    table, (first, second, _) = three_files(racing)
    delete_by_file(table, [(first, 100), (second, 1)])
    iceberg.upgrade(table)
    before, location = files_of(table), table.metadata_location
    with pytest.raises(CorruptDataError, match=f"{path_of(first).name}.*less than 100 rows"):
        ps.convert_position_deletes(spark, table)
    assert (files_of(table), racing.load_table("n.t").metadata_location) == (before, location)


def test_bad_arguments_are_refused_at_once(spark: SparkSession, racing: RacingCatalog) -> None:
    table, _ = three_files(racing)
    with pytest.raises(UnsupportedError, match="version 2"):
        ps.convert_position_deletes(spark, table)
    iceberg.upgrade(table)
    for job in (ps.convert_position_deletes, ps.convert_equality_deletes):
        with pytest.raises(InvalidInputError, match="SparkSession"):
            job("spark", table)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="job_id"):
            job(spark, table, job_id="a/b")
        with pytest.raises(NotFoundError, match="twig"):
            job(spark, table, branch="twig")


@pytest.mark.jar
def test_java_reads_what_executors_converted(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    name = f"{shared_catalog.name}.{namespace}.t"
    modes = ", ".join(f"'write.{job}.mode'='merge-on-read'" for job in ("delete", "update", "merge"))
    iceberg_spark.sql(
        f"CREATE TABLE {name} (id BIGINT, part INT) USING iceberg PARTITIONED BY (part) TBLPROPERTIES "
        f"('format-version'='2', 'write.delete.granularity'='partition', {modes})"
    )
    iceberg_spark.sql(f"INSERT INTO {name} SELECT id, CAST(id % 2 AS INT) FROM range(0, 4000, 1, 3)")
    for filter in ("id % 3 = 0", "id < 100"):
        iceberg_spark.sql(f"DELETE FROM {name} WHERE {filter}")
    table = iceberg.upgrade(shared_catalog.load_table(f"{namespace}.t"))
    assert ("position deletes", "applies") in kinds(table)
    result = ps.convert_position_deletes(iceberg_spark, table)
    assert result.vectors_written > 1
    assert kinds(table) == {("vector", "applies")}
    left = [i for i in range(100, 4000) if i % 3]
    assert iceberg_spark.sql(f"SELECT id FROM {name} ORDER BY id").toArrow()["id"].to_pylist() == left
