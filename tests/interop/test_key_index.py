"""Key indexes and Spark: its jobs may drop or replace a statistics file, and no row is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast import iceberg, key_index
from puffin_fast.puffin import PuffinReader
from tests.iceberg.conftest import local

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]


def make(catalog: SqlCatalog, namespace: str) -> Table:
    table = iceberg.create_table(
        catalog, f"{namespace}.t", pa.schema([("id", pa.int64()), ("s", pa.string())])
    )
    for at in range(3):
        ids = range(at * 100, at * 100 + 100)
        iceberg.append(table, pa.table({"id": ids, "s": [f"name {i}" for i in ids]}))
    iceberg.collect_ndv(table)
    iceberg.index_keys(table, "id")
    iceberg.index_keys(table, "s")
    return table


def types_of(table: Table) -> set[str]:
    return {
        blob.type
        for known in table.metadata.statistics
        for blob in PuffinReader(local(known.statistics_path)).blobs
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
