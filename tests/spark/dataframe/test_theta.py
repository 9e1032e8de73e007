"""Theta sketches and NDV statistics on Spark: the same bytes as on one machine."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions

from puffin_fast import errors, iceberg
from puffin_fast import spark as ps
from puffin_fast.puffin import PuffinReader
from puffin_fast.spark.dataframe import functions as dv
from puffin_fast.spark.session.sessions import own_errors
from puffin_fast.theta import ThetaSketch
from tests.kit.tables import path_of, sqlite_catalog

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)

ROWS = pa.table(
    {
        "id": pa.array(range(9_000), pa.int64()),
        "i": pa.array([None if i % 7 == 0 else i for i in range(9_000)], pa.int32()),
        "big": pa.array([None if i % 7 == 0 else (1 << 60) + i for i in range(9_000)], pa.int64()),
        "s": pa.array([None if i % 9 == 0 else f"name {i % 500}" for i in range(9_000)]),
        "price": pa.array([decimal.Decimal(i).scaleb(-2) for i in range(9_000)], pa.decimal128(12, 2)),
        "day": pa.array([DAY.date() + datetime.timedelta(i % 400) for i in range(9_000)], pa.date32()),
        "d": pa.array([i / 8 for i in range(9_000)], pa.float64()),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = sqlite_catalog(tmp_path)
    made = iceberg.create_table(catalog, "n.t", ROWS.schema)
    for start in (0, 3_000, 6_000):
        iceberg.append(made, ROWS.slice(start, 3_000))
    return made


def blobs_of(table: Table, path: str) -> list[tuple[tuple[int, ...], bytes]]:
    with PuffinReader(path_of(path)) as reader:
        return [(blob.fields, data) for blob, data in reader.read_many()]


def test_executors_make_the_bytes_of_one_machine(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffin_fast.spark.session.workers.TASK_BYTES", 1)  # a task for each file
    iceberg.delete(table, "id < 1000")
    result = ps.collect_ndv(spark, table)
    assert (result.data_files_read, result.commit.id is not None) == (3, True)
    theirs = blobs_of(table, result.statistics_path)
    here = iceberg.collect_ndv(table, incremental=False)
    assert blobs_of(table, here.statistics_path) == theirs
    assert here.ndv == result.ndv


def test_an_append_reads_only_its_files(spark: SparkSession, table: Table) -> None:
    iceberg.collect_ndv(table)
    iceberg.append(table, ROWS.slice(0, 10))
    assert ps.collect_ndv(spark, table).data_files_read == 1
    assert ps.collect_ndv(spark, table).data_files_read == 0
    with pytest.raises(errors.NotFoundError, match="no column nope"):
        ps.collect_ndv(spark, table, ["nope"])


@pytest.mark.parametrize("via", ["arrow", "pandas"])
def test_aggregates_make_the_sketches_of_their_groups(spark: SparkSession, via: Any) -> None:
    frame = spark.createDataFrame(ROWS).withColumn("g", functions.col("id") % 2).repartition(3)
    names = ROWS.column_names
    found = frame.groupBy("g").agg(*(dv.theta_sketch(name, via=via).alias(name) for name in names)).collect()
    for row in found:
        part = ROWS.filter(pa.array(np.arange(9_000) % 2 == row["g"]))
        for name in names:
            assert ThetaSketch.from_bytes(row[name]) == ThetaSketch.from_arrow(part[name]), name
    united = spark.createDataFrame([(bytearray(row["id"]),) for row in found] + [(None,)], "sketch binary")
    (total,) = united.agg(dv.theta_union("sketch", via=via).alias("sketch")).collect()
    assert ThetaSketch.from_bytes(total["sketch"]) == ThetaSketch.from_arrow(ROWS["id"])
    estimates = united.select(dv.theta_estimate("sketch", via=via).alias("n")).collect()
    assert sorted(row["n"] for row in estimates if row["n"] is not None) == pytest.approx(
        [4500, 4500], rel=0.1
    )


def test_whole_columns_are_sketched_on_the_map_side(spark: SparkSession) -> None:
    frame = ps.theta_sketches(spark.createDataFrame(ROWS).repartition(4))
    rows = {row["column"]: row for row in frame.collect()}
    assert rows.keys() == set(ROWS.column_names)
    for name, row in rows.items():
        sketch = ThetaSketch.from_arrow(ROWS[name])
        assert bytes(row["sketch"]) == sketch.to_bytes(), name
        assert row["estimate"] == sketch.estimate


def test_what_is_no_sketch_and_what_has_none_is_refused(spark: SparkSession) -> None:
    broken = spark.createDataFrame([(bytearray(b"\1" * 20),)], "sketch binary")
    with pytest.raises(errors.UnsupportedError, match="family 1"), own_errors():
        broken.select(dv.theta_estimate("sketch")).collect()
    lists = spark.createDataFrame([([1],)], "a array<int>")
    with pytest.raises(errors.InvalidInputError, match="column 'a': expected a primitive type"):
        ps.theta_sketches(lists)
    with pytest.raises(errors.NotFoundError, match="column 'b'"):
        ps.theta_sketches(lists, "b")
