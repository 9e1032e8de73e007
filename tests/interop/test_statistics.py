"""NDV statistics and other engines: the same bytes as Java's own job, read by Spark, Java, DuckDB and PyIceberg."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.parquet.dictionary_pages import DictionaryPages
from puffin_fast.puffin import PuffinReader
from puffin_fast.theta import ThetaSketch
from tests.iceberg.conftest import rows_of, rows_of_duckdb
from tests.kit.tables import iceberg_table, parts, path_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]

THETA = "apache-datasketches-theta-v1"
DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)


def data(n: int) -> pa.Table:
    """Columns of the types that Spark has, each with nulls; `few` has 5 values, `none` only nulls."""

    def column(kind: pa.DataType, value: Callable[[int], Any]) -> pa.Array:
        return pa.array([None if i % 13 == 7 else value(i) for i in range(n)], kind)

    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "b": column(pa.bool_(), lambda i: i % 2 == 0),
            "i": column(pa.int32(), lambda i: i - 100),
            "f": column(pa.float32(), lambda i: i / 4),
            "d": column(pa.float64(), lambda i: -i / 8),
            "zero": column(pa.float64(), lambda i: [0.0, -0.0, float("nan")][i % 3]),
            "price": column(pa.decimal128(12, 2), lambda i: decimal.Decimal(i - 500).scaleb(-2)),
            "wide": column(pa.decimal128(38, 0), lambda i: decimal.Decimal((i - 9) * 10**25)),
            "day": column(pa.date32(), lambda i: DAY.date() + datetime.timedelta(i)),
            "ts": column(pa.timestamp("us"), lambda i: DAY + datetime.timedelta(microseconds=i)),
            "s": column(pa.string(), lambda i: f"é{i}" * (i % 5)),
            "bin": column(pa.binary(), lambda i: i.to_bytes(3, "big")),
            "few": column(pa.string(), lambda i: f"v{i % 5}"),
            "none": pa.nulls(n, pa.int64()),
        }
    )


def make(catalog: SqlCatalog, namespace: str, rows: pa.Table, *, version: int = 3, n_files: int = 2) -> Table:
    return iceberg_table(catalog, parts(rows, n_files), name=f"{namespace}.t", version=version)


def stored(table: Table) -> dict[str, tuple[bytes, dict[str, str]]]:
    """Sketch and properties by column, of the current snapshot's statistics file."""
    (path,) = (
        known.statistics_path
        for known in table.metadata.statistics
        if known.snapshot_id == table.metadata.current_snapshot_id
    )
    with PuffinReader(path_of(path)) as reader:
        names = {field.field_id: field.name for field in table.schema().fields}
        return {names[blob.fields[0]]: (data, blob.properties) for blob, data in reader.read_many()}


@pytest.mark.parametrize("version", [2, 3])
def test_java_writes_the_same_bytes_where_sketches_are_exact(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, version: int
) -> None:
    table = make(shared_catalog, namespace, data(3000), version=version)
    iceberg.delete(table, "id >= 900 and id < 1300")
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => 'shared.{namespace}.t')").collect()
    table.refresh()
    theirs = stored(table)
    assert iceberg.collect_ndv(table).commit.id is None  # theirs are complete
    iceberg.collect_ndv(table, incremental=False)
    ours = stored(table)
    assert ours.keys() == theirs.keys() == set(table.schema().column_names)
    for name, (sketch, properties) in theirs.items():
        assert ours[name][0] == sketch, name
        assert ours[name][1]["ndv"] == properties["ndv"], name


def test_java_writes_the_same_bytes_where_tasks_hold_values_apart(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    """Each task's own Alpha sketch overflows; the union of the four is cut to the smallest hashes again."""
    n = 100_000
    rows = pa.table({"n": np.arange(n), "s": [f"name {i}" for i in range(n)], "k": np.arange(n) % 4096})
    table = make(shared_catalog, namespace, rows, n_files=4)
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => 'shared.{namespace}.t')").collect()
    table.refresh()
    theirs = stored(table)
    iceberg.collect_ndv(table, incremental=False)
    ours = stored(table)
    assert ours["k"] == theirs["k"]
    for name in ("n", "s"):
        java, here = (ThetaSketch.from_bytes(found[name][0]) for found in (theirs, ours))
        for sketch in (java, here, java | here):
            lower, _, upper = sketch.bounds(3)
            assert lower <= n <= upper
        assert int(theirs[name][1]["ndv"]) == int(java.estimate)


def test_our_files_are_read_by_spark_java_duckdb_and_pyiceberg(
    iceberg_spark: SparkSession,
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
) -> None:
    table = make(shared_catalog, namespace, data(3000))
    iceberg.collect_ndv(table)
    table = shared_catalog.load_table(f"{namespace}.t")
    assert (
        rows_of(table)
        .drop(["zero"])
        .equals(data(3000).drop(["zero"]).cast(rows_of(table).drop(["zero"]).schema))
    )
    assert rows_of_duckdb(duckdb_iceberg, table).num_rows == 3000
    frame = iceberg_spark.table(f"shared.{namespace}.t")
    assert frame.count() == 3000
    jvm: Any = iceberg_spark._jvm
    java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        iceberg_spark._jsparkSession, f"shared.{namespace}.t"
    )
    (file,) = java_table.statisticsFiles()
    reader = (
        jvm.org.apache.iceberg.puffin.Puffin.read(java_table.io().newInputFile(file.path()))
        .withFileSize(file.fileSizeInBytes())
        .withFooterSize(file.fileFooterSizeInBytes())
        .build()
    )
    blobs = reader.fileMetadata().blobs()
    sketches = [bytes(reader.readAll(blobs).iterator().next().second().array())] if blobs.size() else []
    reader.close()
    assert blobs.size() == 14
    assert sketches[0] == stored(table)["id"][0]


def test_spark_plans_with_our_counts(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = make(shared_catalog, namespace, data(3000))
    iceberg.collect_ndv(table)
    expected = {row["column"]: row["ndv"] for row in iceberg.ndv(table).to_pylist()}
    settings = {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.planStats.enabled": "true"}
    before = {name: iceberg_spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            iceberg_spark.conf.set(name, value)
        frame = iceberg_spark.table(f"shared.{namespace}.t")
        plan = frame._jdf.queryExecution().optimizedPlan()
        statistics = plan.stats().attributeStats()
        found = {}
        for attribute in iterate(plan.output()):
            column = statistics.get(attribute)
            if column.isDefined() and column.get().distinctCount().isDefined():
                found[attribute.name()] = int(column.get().distinctCount().get())
    finally:
        for name, value in before.items():
            iceberg_spark.conf.set(name, value or "false")
    assert found == {name: count for name, count in expected.items() if name in found}
    assert len(found) >= 13


def iterate(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def test_spark_functions_read_our_blobs_and_we_theirs(iceberg_spark: SparkSession) -> None:
    n = 50_000
    ours = ThetaSketch.from_arrow(np.arange(n))
    other = ThetaSketch.from_arrow(np.arange(n // 2, 2 * n))
    rows = [(bytearray(ours.to_bytes()), bytearray(other.to_bytes()))]
    frame = iceberg_spark.createDataFrame(rows, "a binary, b binary")
    (row,) = frame.selectExpr(
        "theta_sketch_estimate(a) AS a",
        "theta_sketch_estimate(theta_union(a, b)) AS both",
        "theta_sketch_estimate(theta_intersection(a, b)) AS common",
    ).collect()
    assert row["a"] == round(ours.estimate)
    assert row["both"] == pytest.approx((ours | other).estimate, abs=1)
    assert row["common"] == pytest.approx((ours & other).estimate, abs=1)
    (made,) = iceberg_spark.range(n).selectExpr("theta_sketch_agg(id) AS sketch").collect()
    lower, _, upper = ThetaSketch.from_bytes(made["sketch"]).bounds(3)
    assert lower <= n <= upper


def test_java_unites_nothing_of_ours_wrongly_when_it_runs_after_us(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = make(shared_catalog, namespace, data(2000))
    iceberg.collect_ndv(table)
    before = stored(table)
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => 'shared.{namespace}.t')").collect()
    table.refresh()
    assert {name: sketch for name, (sketch, _) in stored(table).items()} == {
        name: sketch for name, (sketch, _) in before.items()
    }


def test_two_writers_in_turn_build_on_each_other(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    rows = data(3000)
    table = make(shared_catalog, namespace, rows.slice(0, 2000))
    ours = iceberg.collect_ndv(table).snapshot_id
    iceberg.append(table, rows.slice(2000, 500))
    iceberg_spark.sql(f"CALL shared.system.compute_table_stats(table => 'shared.{namespace}.t')").collect()
    table.refresh()
    assert {known.snapshot_id for known in table.metadata.statistics} == {
        ours,
        table.metadata.current_snapshot_id,
    }
    assert iceberg.collect_ndv(table).commit.id is None
    assert "Iceberg" in iceberg.ndv(table)["writer"][0].as_py()
    iceberg.append(table, rows.slice(2500, 500))
    assert iceberg.collect_ndv(table).data_files_read == 1  # on top of Java's
    united = stored(table)
    iceberg.collect_ndv(table, incremental=False)
    assert {name: sketch for name, (sketch, _) in stored(table).items()} == {
        name: sketch for name, (sketch, _) in united.items()
    }


def test_dictionary_pages_of_sparks_files_give_the_bytes_of_decoding(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"shared.{namespace}.t"
    iceberg_spark.sql(
        f"CREATE TABLE {name} USING iceberg AS SELECT id, cast(id % 50 as int) i, id % 700 l, "
        "cast(id % 900 as decimal(12, 2)) price, cast(id % 40 as decimal(30, 2)) wide, "
        "concat('v', id % 60) s, date_add(DATE'2024-01-01', cast(id % 90 as int)) day, "
        "timestamp_micros(id % 80) ts, cast(id % 30 as double) d, id % 2 = 0 b, "
        "if(id % 3 = 0, null, id % 11) gaps FROM range(20000)"
    )
    table = shared_catalog.load_table(f"{namespace}.t")
    read: list[str] = []
    values = DictionaryPages.values

    def counted(self: DictionaryPages, row_group: int, column: int, kind: pa.DataType) -> pa.Array | None:
        found = values(self, row_group, column, kind)
        if found is not None:
            read.append(self._footer.schema.column(column).name)
        return found

    monkeypatch.setattr(DictionaryPages, "values", counted)
    iceberg.collect_ndv(table)
    assert set(read) >= {"i", "l", "price", "s", "day", "d", "gaps"}
    by_pages = stored(table)
    monkeypatch.setattr(DictionaryPages, "values", lambda *arguments: None)
    iceberg.collect_ndv(table, incremental=False)
    assert {name: found[0] for name, found in stored(table).items()} == {
        name: found[0] for name, found in by_pages.items()
    }
