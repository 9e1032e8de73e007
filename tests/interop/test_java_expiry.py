"""Java's ``Table.expireSnapshots()`` removes no file that the table needs, whichever verb of this package committed.

It deletes each file that an expired snapshot removed an entry of. Spark's procedure does not do that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.iceberg.compat.table_properties import CARRY_SHARED_VECTORS

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark]

FILES, EACH = 4, 20
MERGE_ON_READ = {f"write.{job}.mode": "merge-on-read" for job in ("delete", "update", "merge")}
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
FIRST = f"id < {EACH}"


def rows(first: int, n: int, v: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + n), "v": [v] * n}, SCHEMA)


def shared(catalog: SqlCatalog, name: str, properties: dict[str, str] | None = None) -> Table:
    """A table of four data files whose vectors are in one Puffin file."""
    table = iceberg.create_table(catalog, name, SCHEMA, properties=MERGE_ON_READ | (properties or {}))
    for first in range(0, FILES * EACH, EACH):
        iceberg.append(table, rows(first, EACH))
    iceberg.delete(table, f"id in ({', '.join(str(first) for first in range(0, FILES * EACH, EACH))})")
    assert len({task.vector.file_path for task in iceberg.plan_files(table).tasks if task.vector}) == 1
    return table


def place_of(table: Table, id: int) -> pa.Table:
    found = iceberg.scan(table, f"id = {id}", ("_file", "_pos")).to_arrow()
    return found.rename_columns(["file_path", "pos"])


def in_transaction(table: Table) -> None:
    with iceberg.transaction(table) as transaction:
        transaction.delete("id = 1")
        transaction.update("id = 2", {"v": 5})
        transaction.delete("id = 3")


def with_conflict(table: Table) -> None:
    """Two deletes of other data files that share a Puffin file; the second was planned before the first."""
    other = table.catalog.load_table(table.name())
    with iceberg.transaction(table) as transaction:
        transaction.delete("id = 1")
        iceberg.delete(other, f"id = {EACH + 1}")


def on_spark(verb: Callable[[Any, Table], Any]) -> Callable[[Table, Any], Any]:
    return lambda table, spark: verb(spark, table)


def here(verb: Callable[[Table], Any]) -> Callable[[Table, Any], Any]:
    return lambda table, spark: verb(table)


NEW = rows(EACH - 2, 2, 7)
VERBS: dict[str, Callable[[Table, Any], Any]] = {
    "delete": here(lambda t: iceberg.delete(t, "id = 1")),
    "delete of a data file": here(lambda t: iceberg.delete(t, FIRST)),
    "delete_keys": here(lambda t: iceberg.delete_keys(t, pa.table({"id": [1]}), "id")),
    "delete_positions": here(lambda t: iceberg.delete_positions(t, place_of(t, 1))),
    "update": here(lambda t: iceberg.update(t, "id = 1", {"v": 1})),
    "upsert": here(lambda t: iceberg.upsert(t, NEW, "id")),
    "overwrite": here(lambda t: iceberg.overwrite(t, NEW, FIRST)),
    "append": here(lambda t: iceberg.append(t, NEW)),
    "transaction": here(in_transaction),
    "two writers": here(with_conflict),
    "rewrite_data_files": here(lambda t: iceberg.rewrite_data_files(t, FIRST, min_deleted=0.01)),
    "compact": here(lambda t: (iceberg.delete(t, "id = 1"), iceberg.compact(t))),
    "maintain": here(lambda t: (iceberg.delete(t, "id = 1"), iceberg.maintain(t))),
    "rewrite_manifests": here(lambda t: (iceberg.delete(t, "id = 1"), iceberg.rewrite_manifests(t))),
    "collect_ndv": here(lambda t: (iceberg.collect_ndv(t), iceberg.delete(t, "id = 1"))),
    "index_keys": here(lambda t: (iceberg.index_keys(t, "id"), iceberg.delete(t, "id = 1"))),
    "Spark: delete": on_spark(lambda s, t: ps.delete(s, t, "id = 1")),
    "Spark: delete_keys": on_spark(
        lambda s, t: ps.delete_keys(s.createDataFrame([(1,)], "id long"), t, "id")
    ),
    "Spark: delete_positions": on_spark(
        lambda s, t: ps.delete_positions(s.createDataFrame(place_of(t, 1)), t)
    ),
    "Spark: update": on_spark(lambda s, t: ps.update(s, t, "id = 1", {"v": 1})),
    "Spark: upsert": on_spark(lambda s, t: ps.upsert(s.createDataFrame(NEW), t, "id")),
    "Spark: overwrite": on_spark(lambda s, t: ps.overwrite(s.createDataFrame(NEW), t, FIRST)),
    "Spark: rewrite_data_files": on_spark(lambda s, t: ps.rewrite_data_files(s, t, FIRST, min_deleted=0.01)),
    "Spark: compact": on_spark(lambda s, t: (ps.delete(s, t, "id = 1"), ps.compact(s, t))),
    "Spark: maintain": on_spark(lambda s, t: (ps.delete(s, t, "id = 1"), ps.maintain(s, t))),
}


def expired_by_java(spark: Any, table: Table) -> None:
    """An append, and then all other snapshots expire by the API."""
    iceberg.append(table, rows(1000, 1))
    name = ".".join((table.catalog.name, *table.name()))
    spark.sql(f"REFRESH TABLE {name}")
    found = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    found.expireSnapshots().expireOlderThan(spark._jvm.System.currentTimeMillis() + 1).retainLast(1).commit()
    table.refresh()
    assert len(table.metadata.snapshots) == 1


def rows_of(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        iceberg.scan(table).to_arrow().sort_by([("id", "ascending"), ("v", "ascending")]).to_pylist()
    )
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_rows_are_intact_after_java_expired_the_snapshots(
    verb: str, iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = shared(shared_catalog, f"{namespace}.t")
    before = rows_of(table)
    VERBS[verb](table, iceberg_spark)
    expected = [*rows_of(table), {"id": 1000, "v": 0}]
    assert len(expected) <= len(before) + 3
    expired_by_java(iceberg_spark, table)
    assert rows_of(table) == expected
    assert list(iceberg.verify(table, level="rows")) == []
    name = ".".join((table.catalog.name, *table.name()))
    assert [
        row.asDict() for row in iceberg_spark.sql(f"SELECT * FROM {name} ORDER BY id, v").collect()
    ] == expected


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
    expected = [*rows_of(table), {"id": 1000, "v": 0}]
    expired_by_java(iceberg_spark, table)
    assert rows_of(table) == expected
