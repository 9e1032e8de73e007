"""A rewrite of data files on executors gives the rows, lineage and counts of the single machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import ConflictError, CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.iceberg.conftest import rows_of_duckdb
from tests.kit.tables import files_of
from tests.rows.deletes.equality_deletes import delete_equal
from tests.spark.results import facts, lineage
from tests.spark.table.delete_files import copy_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
ROWS = pa.table(
    {
        "id": pa.array(range(1200), pa.int64()),
        "g": pa.array([f"g {i % 3}" for i in range(1200)]),
        "x": pa.array([None if i % 7 == 0 else i / 4 for i in range(1200)]),
    }
)
ALL: dict[str, Any] = {"min_deleted": 0.01, "min_input_files": 2}


def made(catalog: SqlCatalog, name: str = "n.t", version: int = 3, spec: tuple[str, ...] = ()) -> Table:
    """Six data files or more, most of them with deletes."""
    with v3_metadata(catalog):
        table = catalog.create_table(name, ROWS.schema, properties={"format-version": str(version)})
        for column in spec:
            with table.update_spec() as update:
                update.add_identity(column)
    for start in range(0, 1200, 200):
        iceberg.append(table, ROWS.slice(start, 200))
    iceberg.delete(table, "id < 700 and x > 20")
    iceberg.delete(table, "id >= 1000 and id < 1150")
    return table


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_the_files_of_the_single_machine(
    spark: SparkSession,
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
) -> None:
    table = made(racing, version=version, spec=spec)
    if not spec:
        delete_equal(table, [1], [(705,), (1199,)])
    single, before, files = copy_of(racing, table), lineage(table), files_of(table)
    planned = ps.rewrite_data_files(spark, table, **ALL, dry_run=True)
    assert files_of(table) == files
    found, expected = ps.rewrite_data_files(spark, table, **ALL), iceberg.rewrite_data_files(single, **ALL)
    assert planned.data_files == found.data_files
    assert facts(found, "attempts") == facts(expected, "attempts")
    assert lineage(table) == lineage(single) == before
    assert iceberg.verify(table) == []
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == [row["id"] for row in before]
    new = {path for path in files_of(table) - files if path.suffix == ".parquet"}
    named = {task.data.file_path.removeprefix("file://") for task in iceberg.plan_files(table).tasks}
    assert {str(path) for path in new if "-rewrite" in str(path) or "rewrite-" in str(path)} <= named
    assert ps.rewrite_data_files(spark, table, **ALL).commit.id is None


def test_row_ids_that_are_assigned_meanwhile(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, version=2)
    iceberg.upgrade(table)
    other = racing.load_table("n.t")
    racing.before = [lambda: iceberg.append(other, ROWS.slice(0, 1).set_column(0, "id", pa.array([2000])))]
    assert ps.rewrite_data_files(spark, table, **ALL).commit.attempts == 2
    assert lineage(table) == lineage(other)  # as the append left them
    assert iceberg.verify(table) == []


def test_target_size_and_filter(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing)
    before = lineage(table)
    done = ps.rewrite_data_files(spark, table, "id >= 1000", min_deleted=0.5, min_file_size=0)
    assert (done.data_files, done.rows) == (1, 50)
    size = iceberg.plan_files(table).tasks[0].data.file_size_in_bytes
    done = ps.rewrite_data_files(spark, table, **ALL, target_file_size=size, min_file_size=10 * size)
    assert done.data_files_written > 1
    assert lineage(table) == before


def test_a_rewrite_that_fails_leaves_nothing(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing)
    before, files, state = lineage(table), files_of(table), table.metadata_location
    with pytest.raises(InvalidInputError, match="min_input_files"):
        ps.rewrite_data_files(spark, table, min_input_files=1)
    with pytest.raises(NotFoundError, match="twig"):
        ps.rewrite_data_files(spark, table, branch="twig")
    (first, *_) = iceberg.plan_files(table).tasks
    path = first.data.file_path.removeprefix("file://")
    with open(path, "rb") as file:
        kept = file.read()
    with open(path, "wb") as file:
        file.write(kept[:200] + b"x" * (len(kept) - 200))
    with pytest.raises(CorruptDataError, match="parquet"):
        ps.rewrite_data_files(spark, table, **ALL)
    with open(path, "wb") as file:
        file.write(kept)
    assert (files_of(table), table.refresh().metadata_location) == (files, state)
    racing.before = [lambda: iceberg.rewrite_data_files(racing.load_table("n.t"), **ALL)]
    with pytest.raises(ConflictError, match="all 6 data files"):
        ps.rewrite_data_files(spark, table, **ALL)
    assert lineage(table) == before
    assert iceberg.verify(table.refresh()) == []
