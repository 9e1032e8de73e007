"""Compaction on executors writes the same files as on one machine, and keeps the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from tests.iceberg.conftest import rows_of_duckdb
from tests.iceberg.maintenance.maintained import N, ids, made, puffins, tasks
from tests.kit.tables import files_of
from tests.spark.table.delete_files import agree, copy_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark


def spoiled(catalog: RacingCatalog, n_files: int = 8) -> Table:
    """Returns a table in which each vector has its own Puffin file."""
    table = made(catalog, n_files)
    for number in range(n_files):
        iceberg.delete(table, f"id >= {number * N + 10} and id < {number * N + 13 + number}")
    assert len(puffins(table)) == n_files
    return table


def test_many_puffin_files_become_one(
    spark: SparkSession, racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = spoiled(racing)
    before = ids(table)
    ages = {task.data.file_path: task.vector.sequence_number for task in tasks(table) if task.vector}
    files = files_of(table)
    planned = ps.compact(spark, table, dry_run=True)
    assert (planned.puffin_files_written, planned.vectors_written) == (1, 8)
    assert files_of(table) == files
    result = agree(spark, table, copy_of(racing, table), "compact")
    assert (result.puffin_files_written, result.puffin_files_removed) == (1, 8)
    assert result.commit.n_bytes == planned.commit.n_bytes
    assert {t.data.file_path: t.vector.sequence_number for t in tasks(table) if t.vector} == ages
    assert ids(table) == before == set(rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist())
    assert ps.compact(spark, table).commit.id is None


def test_a_target_size_gives_the_files_of_the_single_machine(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    table = spoiled(racing)
    single = copy_of(racing, table)
    found, expected = (
        ps.compact(spark, table, target_file_size=120),
        iceberg.compact(single, target_file_size=120),
    )
    assert 1 < found.puffin_files_written < 8
    assert (found.puffin_files_written, found.vectors_written) == (
        expected.puffin_files_written,
        expected.vectors_written,
    )
    assert ids(table) == ids(single)
    assert ps.compact(spark, table, target_file_size=120).commit.id is None


def test_dangling_vectors_are_dropped_without_a_task(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, 2)
    iceberg.delete(table, "id = 5")
    commit(table, Changes(removed=(tasks(table)[0].data,)), base=table.current_snapshot())
    result = agree(spark, table, copy_of(racing, table), "compact")
    assert (result.vectors_removed, result.vectors_written) == (1, 0)


def test_bad_arguments_are_refused_at_once(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, 0)
    with pytest.raises(InvalidInputError, match="target_file_size"):
        ps.compact(spark, table, target_file_size=0)
    with pytest.raises(InvalidInputError, match="SparkSession"):
        ps.compact(None, table)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="twig"):
        ps.compact(spark, table, branch="twig")
    assert ps.compact(spark, table).commit.id is None
