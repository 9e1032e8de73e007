"""Java's ``Table.expireSnapshots()`` removes no file that the table needs, whichever verb of this package committed.

It deletes each file that an expired snapshot removed an entry of. Spark's procedure does not do that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast.iceberg.compat.table_properties import CARRY_SHARED_VECTORS
from tests.interop.shared_vectors import VERBS, rows, shared
from tests.kit.rows import Rows, by_spark, by_us, in_order
from tests.kit.vectors import by_vectors

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

ORDER = "all columns"

pytestmark = [pytest.mark.jar, pytest.mark.spark]


def expired_by_java(spark: Any, table: Table) -> None:
    """An append, and then all other snapshots expire by the API."""
    iceberg.append(table, rows(1000, 1))
    name = ".".join((table.catalog.name, *table.name()))
    spark.sql(f"REFRESH TABLE {name}")
    found = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    found.expireSnapshots().expireOlderThan(spark._jvm.System.currentTimeMillis() + 1).retainLast(1).commit()
    table.refresh()
    assert len(table.metadata.snapshots) == 1


def rows_of(table: Table) -> Rows:
    return by_us(table, order=ORDER)


def with_the_last(found: Rows) -> Rows:
    """Rows, and the one that `expired_by_java` appends."""
    return in_order([*found, {"id": 1000, "v": 0}], ORDER)


@pytest.mark.parametrize("verb", VERBS)
def test_rows_are_intact_after_java_expired_the_snapshots(
    verb: str, iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = shared(shared_catalog, f"{namespace}.t")
    before = rows_of(table)
    VERBS[verb](table, iceberg_spark)
    after = rows_of(table)
    assert by_vectors(table, ORDER) == after
    assert len(after) <= len(before) + 2
    expired_by_java(iceberg_spark, table)
    assert rows_of(table) == by_spark(iceberg_spark, table, order=ORDER) == with_the_last(after)
    assert list(iceberg.verify(table, level="rows")) == []


@pytest.mark.parametrize("carries", [True, False])
def test_java_deletes_live_vectors_unless_they_are_carried_along(
    carries: bool, iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    """Without the property, the test above would fail: this is what the property is for."""
    table = shared(shared_catalog, f"{namespace}.t", {CARRY_SHARED_VECTORS: str(carries).lower()})
    iceberg.delete(table, "id = 1")
    named = [finding for finding in iceberg.verify(table) if "superseded" in finding.message]
    assert len(named) == (not carries)
    expired_by_java(iceberg_spark, table)
    kinds = {finding.kind for finding in iceberg.verify(table)}
    assert kinds == (set() if carries else {"missing"})


def test_compact_heals_what_spark_superseded(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = shared(shared_catalog, f"{namespace}.t")
    iceberg_spark.sql(f"DELETE FROM {table.catalog.name}.{namespace}.t WHERE id = 1")
    table.refresh()
    (named,) = iceberg.verify(table)
    assert named.kind == "stale"
    iceberg.compact(table)
    assert list(iceberg.verify(table)) == []
    expected = with_the_last(rows_of(table))
    expired_by_java(iceberg_spark, table)
    assert rows_of(table) == expected
