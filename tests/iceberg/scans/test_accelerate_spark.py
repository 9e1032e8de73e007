"""PyIceberg's own scans, accelerated, of tables that Spark with Iceberg's own runtime wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars
import pytest

from puffin_fast.iceberg import accelerate, plan_files

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]

MODES = ", ".join(f"'write.{job}.mode'='merge-on-read'" for job in ("delete", "update", "merge"))


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (bucket(2, id))"])
@pytest.mark.parametrize("version", [2, 3])
def test_the_rows_agree_with_spark(
    iceberg_spark: SparkSession,
    shared_catalog: SqlCatalog,
    namespace: str,
    version: int,
    partitioned: str,
    granularity: str,
) -> None:
    name = f"shared.{namespace}.t"
    for statement in (
        f"CREATE TABLE {name} (id BIGINT, k INT, s STRING) USING iceberg {partitioned} TBLPROPERTIES "
        f"('format-version'='{version}', 'write.delete.granularity'='{granularity}', {MODES})",
        f"INSERT INTO {name} SELECT id, id % 10, concat('s', id % 3) FROM range(0, 1500, 1, 3)",
        f"DELETE FROM {name} WHERE id % 5 = 1",
        f"UPDATE {name} SET k = -1 WHERE id % 7 = 0",
        f"INSERT INTO {name} SELECT id, id % 10, 'late' FROM range(1500, 1600, 1, 1)",
        f"DELETE FROM {name} WHERE id >= 1000 AND id < 1200",
    ):
        iceberg_spark.sql(statement)
    table = shared_catalog.load_table(f"{namespace}.t")
    tasks = plan_files(table).tasks
    assert any(task.vector if version == 3 else task.position_deletes for task in tasks)
    for where in ("true", "id > 700 AND s = 's1'"):
        rows = iceberg_spark.sql(f"SELECT id, k, s FROM {name} WHERE {where} ORDER BY id").collect()
        expected = [tuple(row) for row in rows]
        with accelerate():
            scan = table.scan() if where == "true" else table.scan(where)
            found = scan.to_arrow().sort_by("id").to_pylist()
            assert [tuple(row.values()) for row in found] == expected
            assert scan.count() == len(expected)
    with accelerate():
        frame = polars.scan_iceberg(table).sort("id").collect()
    rows = iceberg_spark.sql(f"SELECT id, k, s FROM {name} ORDER BY id").collect()
    assert frame.rows() == [tuple(row) for row in rows]
