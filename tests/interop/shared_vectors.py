"""A table whose vectors share a Puffin file, and each verb that changes it, here and on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast import iceberg
from puffin_fast import spark as ps
from tests.interop.conftest import MERGE_ON_READ
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

FILES, EACH = 4, 20
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
FIRST = f"id < {EACH}"


def rows(first: int, n: int, v: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + n), "v": [v] * n}, SCHEMA)


def shared(
    catalog: SqlCatalog, name: str, properties: dict[str, str] | None = None, partition: Sequence[str] = ()
) -> Table:
    """A table of four data files, or of four for each partition, whose vectors are in one Puffin file."""
    commits = [rows(first, EACH) for first in range(0, FILES * EACH, EACH)]
    table = iceberg_table(
        catalog, commits, name=name, partition=partition, properties=MERGE_ON_READ | (properties or {})
    )
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
