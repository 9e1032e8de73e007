"""Upserts of changes on executors leave a replica equal to its source, as on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError
from tests.verbs.applied_changes import DELTA_PROPERTIES, Source, made, of, read

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DDL = "id bigint, g string, x double"


@pytest.mark.parametrize(
    ("source", "replica"), [(iceberg, iceberg), (iceberg, delta), (delta, iceberg)], ids=["ii", "id", "di"]
)
def test_a_replica_is_equal_after_each_batch(
    spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, tmp_path: Path, source: Any, replica: Any
) -> None:
    options = {"properties": DELTA_PROPERTIES[1]} if source is delta else {}
    machine = Source(source, made(source, (shared_catalog, namespace), tmp_path, "source", **options), 5)
    copy = made(replica, (shared_catalog, namespace), tmp_path, "copy")
    done = machine.position()
    for _ in range(3):
        for _ in range(3):
            machine.step()
        end = machine.position()
        changes = ps.changes(spark, machine.table, done, end)
        ps.upsert(changes, copy, "id", changes=True, job_id=f"to-{end}")
        assert read(replica, copy) == read(source, machine.table)
        again: Any = ps.upsert(changes, copy, "id", changes=True, job_id=f"to-{end}")
        assert again.commit.repeated or again.commit.id is None
        assert read(replica, copy) == read(source, machine.table)
        done = end


def test_kinds_without_an_order_take_each_key_once(
    spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = iceberg.create_table(shared_catalog, f"{namespace}.t", of([]).schema)
    iceberg.append(table, of([{"id": id, "g": "a", "x": 0.0} for id in (1, 2, 3)]))
    rows = [(1, "b", 0.0, "u"), (2, None, None, "d"), (4, "b", 0.0, "c")]
    given = spark.createDataFrame(rows, f"{DDL}, op string")
    for changes, wrong in ((True, given.unionAll(given.where("id = 1"))), ("op", given.unionAll(given))):
        with pytest.raises(InvalidInputError, match="each key once"):
            ps.upsert(wrong, table, "id", changes=changes)
    ps.upsert(given, table, "id", changes="op")
    assert [(row["id"], row["g"]) for row in read(iceberg, table)] == [(1, "b"), (3, "a"), (4, "b")]


def test_what_is_wrong_is_said_and_nothing_is_written(
    spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = iceberg.create_table(shared_catalog, f"{namespace}.t", of([]).schema)
    given = spark.createDataFrame([(1, "b", 0.0, "wrong")], f"{DDL}, _change_type string")
    for options, error, message in (
        ({"changes": True}, InvalidInputError, "column _change_type: expected one of"),
        ({"changes": "op"}, NotFoundError, "no column op"),
        ({"changes": 1}, InvalidInputError, "changes: expected True, False or the name"),
        ({"changes": True, "order_column": "x"}, InvalidInputError, "found x"),
    ):
        arguments: Any = options
        with pytest.raises(error, match=message):
            ps.upsert(given, table, "id", **arguments)
    with pytest.raises(InvalidInputError, match="expected a column _change_type"):
        ps.upsert(given.drop("_change_type"), table, "id", changes=True)
    assert table.refresh().current_snapshot() is None
