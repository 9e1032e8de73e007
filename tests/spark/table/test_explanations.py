"""Results of executors count what was read as the results of one machine do, in tables of both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from tests.iceberg.scans.explained import EACH, FILTERS, KEYS, N, rows, table
from tests.spark.conftest import HERE, MOST, NONE

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["table"]

IDS = pa.table({"id": [7, 705, 2999]})
GIVEN = rows(2700, 2705, 1)

Verb = tuple[str, tuple[Any, ...]]

VERBS: dict[str, Verb] = {
    **{f"delete {text}": ("delete", (text,)) for text in FILTERS},
    "delete_keys": ("delete_keys", (KEYS, "s")),
    "delete_keys of ids": ("delete_keys", (IDS, "id")),
    "update": ("update", ("id < 170", {"s": "new"})),
    "update by index": ("update", ("s = 'x77'", {"id": 0})),
    "upsert": ("upsert", (GIVEN, "id")),
    "upsert by index": ("upsert", (GIVEN, "s")),
    "overwrite": ("overwrite", (GIVEN, "id = 705 or id = 1200")),
}


@pytest.fixture
def delta_table(tmp_path: Path) -> Path:
    path = tmp_path / "delta"
    properties = {"delta.enableRowTracking": "true"}
    delta.create_table(path, GIVEN.schema, partition_columns=["part"], properties=properties)
    for at in range(N):
        delta.append(path, rows(at * EACH, (at + 1) * EACH, at % 2))
    delta.delete(path, "id < 150 or (id >= 700 and id < 710)")
    return path


def on_spark(spark: SparkSession, table: Any, verb: Verb) -> Any:
    name, arguments = verb
    if isinstance(arguments[0], str):
        return getattr(ps, name)(spark, table, *arguments, dry_run=True).explanation
    return getattr(ps, name)(
        spark.createDataFrame(arguments[0]), table, *arguments[1:], dry_run=True
    ).explanation


def check(spark: SparkSession, table: Any, here: Any, verb: Verb) -> None:
    expected = getattr(here, verb[0])(table, *verb[1], dry_run=True).explanation
    assert expected is not None
    assert on_spark(spark, table, verb) == expected


@pytest.mark.parametrize("verb", VERBS)
def test_executors_count_what_one_machine_counts(spark: SparkSession, table: Table, verb: str) -> None:
    check(spark, table, iceberg, VERBS[verb])


def test_the_driver_counts_what_it_reads_itself(
    spark: SparkSession, table: Table, delta_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HERE, 1 << 30)
    for verb in ("delete id < 170", "delete_keys of ids", "update", "upsert"):
        check(spark, table, iceberg, VERBS[verb])
        check(spark, str(delta_table), delta, VERBS[verb])


def test_what_spark_searches_is_not_explained(
    spark: SparkSession, table: Table, delta_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (table, str(delta_table)):
        assert on_spark(spark, one, ("delete", ("id + 1 < 170",))) is None
        assert on_spark(spark, one, ("update", ("id + 1 < 170", {"s": "new"}))) is None
    positions = spark.createDataFrame(
        iceberg.scan(table, pc.field("id") == 400, ["_file", "_pos"])
        .to_arrow()
        .cast(pa.schema([("_file", pa.string()), ("_pos", pa.int64())]))
    )
    assert ps.delete_positions(positions, table, dry_run=True).explanation is None
    monkeypatch.setattr(MOST, NONE)
    for one in (table, str(delta_table)):
        assert on_spark(spark, one, VERBS["delete_keys of ids"]) is None
        assert on_spark(spark, one, VERBS["upsert"]) is None
