"""Key indexes and Spark: its jobs may drop or replace a statistics file, and no row is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg, key_index
from puffin_fast.iceberg.index import lookup
from puffin_fast.puffin import PuffinReader
from tests.kit.tables import files_of, iceberg_table, parts, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]


def make(catalog: SqlCatalog, namespace: str) -> Table:
    rows = pa.table({"id": range(300), "s": [f"name {i}" for i in range(300)]})
    table = iceberg_table(catalog, parts(rows, 3), name=f"{namespace}.t")
    iceberg.collect_ndv(table)
    iceberg.index_keys(table, "id")
    iceberg.index_keys(table, "s")
    return table


def types_of(table: Table) -> set[str]:
    return {
        blob.type
        for known in table.metadata.statistics
        for blob in PuffinReader(path_of(known.statistics_path)).blobs
    }


def test_an_index_survives_jobs_of_spark(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table, name = make(shared_catalog, namespace), f"shared.{namespace}.t"
    assert iceberg_spark.sql(f"SELECT count(*) FROM {name} WHERE id < 250").first()[0] == 250  # type: ignore[index]
    assert key_index.BLOB_TYPE in types_of(table)

    # the statistics file of the snapshot is replaced by one without segments
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => '{name}')").collect()
    table.refresh()
    assert key_index.BLOB_TYPE not in types_of(table)
    assert iceberg.delete_keys(table, [5, 205], "id").rows_deleted == 2
    assert iceberg.index_keys(table, "id").data_files_read == 3
    assert iceberg.delete_keys(table, [6, 206, 5], "id").rows_deleted == 2

    # rows that Spark inserts are found, and its snapshots expire with their statistics files
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    iceberg_spark.sql(f"INSERT INTO {name} VALUES (1000, 'new')")
    table.refresh()
    assert iceberg.index_keys(table, "id").data_files_read == 1
    assert iceberg.delete_keys(table, [1000, 7], "id").rows_deleted == 2
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    call = f"shared.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)"
    iceberg_spark.sql(f"CALL {call}").collect()
    table.refresh()
    assert len(table.metadata.snapshots) == 1
    assert iceberg.delete_keys(table, [8, 208, 1000], "id").rows_deleted == 2
    iceberg.index_keys(table, "id")
    assert iceberg.delete_keys(table, [9, 209, 8], "id").rows_deleted == 2
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    gone = [5, 6, 7, 8, 9, 205, 206, 208, 209]
    found = iceberg_spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()
    assert [row[0] for row in found] == [n for n in range(300) if n not in gone]


TWO_ROWS = "SELECT /*+ COALESCE(1) */ * FROM VALUES (1000, 'name 1000'), (1001, 'name 1001')"
"""In one data file."""


def stored(table: Table) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Type, columns and bytes of each blob of the statistics file of the current snapshot."""
    (path,) = (
        known.statistics_path
        for known in table.metadata.statistics
        if known.snapshot_id == table.metadata.current_snapshot_id
    )
    with PuffinReader(path_of(path)) as reader:
        return [(blob.type, tuple(blob.fields), reader.stored(blob)) for blob in reader.blobs]


def stats_files(table: Table) -> set[Path]:
    return {path for path in files_of(table) if path.suffix == ".stats"}


@pytest.fixture
def narrowed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many data files an index narrowed to candidates or left out, for each plan that used one."""
    counts: list[int] = []
    inner = lookup._Lookup._narrowed

    def counted(self: lookup._Lookup, tasks: Any) -> Any:
        found = inner(self, tasks)
        counts.append(len(tasks) - sum(task.candidates is None for task in found))
        return found

    monkeypatch.setattr(lookup._Lookup, "_narrowed", counted)
    monkeypatch.setattr(lookup, "FEW_KEYS", 0)  # all data files are planned
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)
    return counts


@pytest.mark.parametrize(("column", "key"), [("id", lambda i: i), ("s", lambda i: f"name {i}")])
def test_statistics_of_spark_for_a_later_snapshot_leave_the_earlier_index_in_use(
    iceberg_spark: SparkSession,
    shared_catalog: SqlCatalog,
    namespace: str,
    narrowed: list[int],
    column: str,
    key: Callable[[int], int | str],
) -> None:
    table, name = make(shared_catalog, namespace), f"shared.{namespace}.t"
    iceberg_spark.sql(f"INSERT INTO {name} {TWO_ROWS}")
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => '{name}')").collect()
    table.refresh()
    sketches = stored(table)
    assert key_index.BLOB_TYPE not in {kind for kind, *_ in sketches}
    assert iceberg.delete_keys(table, [key(5), key(205), key(1000)], column).rows_deleted == 3
    assert narrowed.pop() >= 2

    # the deletes are a snapshot without statistics; the sketches of Spark's are not changed
    index = iceberg.index_keys(table, column)
    assert (index.data_files_read, index.notes) == (1, ())
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => '{name}')").collect()
    table.refresh()
    sketches = stored(table)
    index = iceberg.index_keys(table, column)
    assert stored(table)[: len(sketches)] == sketches
    assert index.data_files_left == 0
    assert iceberg.delete_keys(table, [key(6), key(206), key(5)], column).rows_deleted == 2
    assert narrowed.pop() >= 2
    assert list(iceberg.verify(table, level="rows")) == []
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    assert iceberg_spark.sql(f"SELECT count(*) FROM {name}").first()[0] == 297  # type: ignore[index]


def test_an_index_of_a_snapshot_that_spark_expires_is_built_again_and_that_of_the_last_one_stays(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, narrowed: list[int]
) -> None:
    table, name = make(shared_catalog, namespace), f"shared.{namespace}.t"
    call = f"shared.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)"
    iceberg_spark.sql(f"INSERT INTO {name} {TWO_ROWS}")
    (indexed,) = {known.statistics_path for known in table.metadata.statistics}
    iceberg_spark.sql(f"CALL {call}").collect()
    table.refresh()
    assert table.metadata.statistics == []
    assert not path_of(indexed).exists()
    assert iceberg.delete_keys(table, [5, 205, 1000], "id").rows_deleted == 3
    assert narrowed == []  # there is no index

    for column in ("id", "s"):
        assert iceberg.index_keys(table, column).data_files_read == 4
    before = stored(table)
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    iceberg_spark.sql(f"CALL {call}").collect()
    table.refresh()
    assert len(table.metadata.snapshots) == 1
    assert stored(table) == before
    assert iceberg.index_keys(table, "id").commit.id is None
    assert iceberg.delete_keys(table, ["name 6", "name 206", "name 5"], "s").rows_deleted == 2
    assert narrowed == [2]
    assert list(iceberg.verify(table, level="rows")) == []


def test_other_jobs_of_spark_leave_an_index_that_is_right(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, narrowed: list[int]
) -> None:
    table, name = make(shared_catalog, namespace), f"shared.{namespace}.t"
    indexed = table.metadata.current_snapshot_id

    # a clean-up keeps the statistics file that the metadata names
    for path in files_of(table):
        os.utime(path, (0, 0))
    call = f"shared.system.remove_orphan_files(table => '{name}')"
    iceberg_spark.sql(f"CALL {call}").collect()
    assert stats_files(table) == {path_of(known.statistics_path) for known in table.metadata.statistics}
    assert iceberg.index_keys(table, "id").commit.id is None

    # data files that a rewrite replaced are found by no key; a rollback brings them back
    options = "options => map('rewrite-all', 'true')"
    iceberg_spark.sql(f"CALL shared.system.rewrite_data_files(table => '{name}', {options})").collect()
    table.refresh()
    rewritten = table.metadata.current_snapshot_id
    assert rewritten != indexed
    assert iceberg.delete_keys(table, [5, 205], "id", dry_run=True).rows_deleted == 2
    assert iceberg.index_keys(table, "id").data_files_read == 1
    assert iceberg.delete_keys(table, [5, 205, 999], "id").rows_deleted == 2
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    iceberg_spark.sql(f"CALL shared.system.rollback_to_snapshot('{namespace}.t', {indexed})").collect()
    table.refresh()
    narrowed.clear()
    assert iceberg.delete_keys(table, [5, 205, 999], "id").rows_deleted == 2
    assert narrowed == [2]
    assert list(iceberg.verify(table, level="rows")) == []
    iceberg_spark.sql(f"REFRESH TABLE {name}")
    assert iceberg_spark.sql(f"SELECT count(*) FROM {name}").first()[0] == 298  # type: ignore[index]
