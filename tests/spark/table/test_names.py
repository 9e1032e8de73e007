"""Columns and fields may have any names: schemas are passed to Spark as objects, not as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
NAMES = ("in ner", "q.r", "a-b", "é", "x`y", "a:b,c", "select", "d>e", "1st", "'")


def rows(first: int, n_rows: int) -> pa.Table:
    numbers = range(first, first + n_rows)
    inside = pa.struct([pa.field(name, pa.int64(), nullable=name != "in ner") for name in NAMES])
    structs = [dict.fromkeys(NAMES, i) for i in numbers]
    columns = {name: pa.array(numbers, pa.int64()) for name in NAMES}
    columns["s"] = pa.array(structs, inside)
    columns["l"] = pa.array([[one] for one in structs], pa.list_(inside))
    columns["m"] = pa.array([[("k", one)] for one in structs], pa.map_(pa.string(), inside))
    return pa.table(columns)


def test_jobs_on_tables_of_any_names(spark: SparkSession, racing: RacingCatalog) -> None:
    from pyspark.sql import functions as f

    table = iceberg.create_table(racing, "n.t", rows(0, 1).schema)
    iceberg.append(table, rows(0, 20))
    given = spark.createDataFrame(rows(15, 10))
    first = given.where("`é` = 15")
    assert ps.upsert(given, table, ["in ner", "q.r"]).rows_inserted == 5
    assert ps.upsert(given, table, "é", order_column="a-b", skip_unchanged=False).rows_updated == 10
    for key, broadcast_keys in (("q.r", 0), ("a-b", 100), ("s.q.r", 0), ("s.x`y", 100), ("s.in ner", 0)):
        one: Any = ps.delete_keys(first, table, key, broadcast_keys=broadcast_keys)
        assert one.rows_deleted == (1 if key == "q.r" else 0)
    changed = ps.update(spark, table, f.col("`x``y`") == 3, {"a-b": f.col("s.`q.r`") + 100})
    assert changed.rows_updated == 1
    left: Any = ps.delete(spark, table, "`d>e` % 2 = 1 and `1st` < 4")
    assert left.rows_deleted == 2
    found = ps.scan(spark, table, "`select` > 15", [*NAMES, "s", "l", "m"]).toArrow()
    expected = [row for row in rows(0, 25).to_pylist() if row["select"] > 15]
    assert sorted(found.to_pylist(), key=lambda row: row["é"]) == expected
    assert set(ps.theta_sketches(given, *NAMES).toArrow()["column"].to_pylist()) == set(NAMES)
    assert set(ps.collect_ndv(spark, table, list(NAMES)).ndv) == set(NAMES)
