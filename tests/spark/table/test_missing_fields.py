"""Fields of structs that data files do not have: Spark with Iceberg's runtime is the yardstick, and our jobs on Spark
agree with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType

from puffin_fast import iceberg
from puffin_fast import spark as ps
from tests.rows.files.test_missing_fields import optional

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INNER = StructType(optional(5, "b", LongType()))
SCHEMA = Schema(
    optional(1, "id", LongType()),
    optional(2, "s", StructType(optional(3, "a", LongType()), optional(4, "t", INNER))),
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "s": {"a": 1, "t": {"b": 1}}},
    {"id": 2, "s": {"a": 1, "t": None}},
    {"id": 3, "s": None},
]
FILTERS = [
    *(
        f"{name} {test}"
        for name in ("s.x", "s.t.y", "s.n.a")
        for test in ("= 7", "<> 1", "is null", "is not null")
    ),
    "s.t is null and s.x = 7",
    "not (s.x = 7 or s.t.y = 7)",
]


def test_spark_and_iceberg_in_java_find_the_same_rows(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    spark, name = iceberg_spark, f"{namespace}.t"
    table = iceberg.create_table(shared_catalog, name, SCHEMA)
    iceberg.append(table, pa.Table.from_pylist(ROWS, table.schema().as_arrow()))
    with iceberg.v3_metadata(shared_catalog), table.update_schema() as change:
        change.add_column(("s", "x"), LongType(), default_value=7)
        change.add_column(("s", "t", "y"), LongType(), default_value=7)
        change.add_column(("s", "n"), StructType(NestedField(90, "a", LongType(), required=False)))
    table = shared_catalog.load_table(name)
    for row_filter in FILTERS:
        query = spark.sql(f"select id from shared.{name} where {row_filter} order by id")
        wanted = [row.id for row in query.collect()]
        found = ps.scan(spark, table, row_filter, ("id",)).toArrow()["id"].to_pylist()
        assert sorted(found) == wanted, row_filter
        assert iceberg.scan(table, row_filter).count() == len(wanted), row_filter
    assert ps.delete(spark, table, "s.x = 7", dry_run=True).rows_deleted == 2
    assert ps.update(spark, table, "s.t.y = 7", {"id": 9}, dry_run=True).rows_updated == 1
    keys = spark.createDataFrame([(7,), (None,)], "x long")
    for key, n_equal in (("s.x", 2), ("s.t.y", 1)):
        keys_df = keys.withColumnRenamed("x", key)
        assert ps.delete_keys(keys_df, table, key, dry_run=True).rows_deleted == n_equal
        assert ps.delete_keys(keys_df, table, key, null_safe=True, dry_run=True).rows_deleted == 3
    inner = "a: long, t: struct<b: long, y: long>, x: long, n: struct<a: long>"
    given = spark.createDataFrame([(5, (2, (3, 7), 8, None))], f"id long, s struct<{inner}>")
    assert ps.upsert(given, table, "s.t.y", dry_run=True).rows_updated == 1
