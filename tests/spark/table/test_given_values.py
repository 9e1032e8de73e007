"""Functions take the session or not; names and timestamps that are given are those of the table, as in Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.spark.table import saved_rows
from puffin_fast.spark.table.start import start
from tests.spark.table.tables import N, made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
NOON = datetime(2024, 7, 1, 12)
SCHEMA = pa.schema([("Id", pa.int64()), ("plain", pa.timestamp("us")), ("zoned", pa.timestamp("us", "UTC"))])


@pytest.fixture
def in_zurich(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Zurich")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize("zone", ["+03:30", "GMT+03:30", "UTC"])
def test_a_naive_datetime_is_of_a_session_zone_that_is_an_offset(
    spark: SparkSession, racing: RacingCatalog, zone: str
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    table = iceberg.create_table(racing, "n.offsets", SCHEMA)
    iceberg.append(table, pa.table([[1], [NOON], [NOON.replace(tzinfo=UTC)]], schema=SCHEMA))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        ps.update(spark, table, "Id = 1", {"zoned": NOON})
        assert [
            row.Id for row in ps.scan(spark, table, "zoned = timestamp'2024-07-01 12:00:00'").collect()
        ] == [1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    hours = 0 if zone == "UTC" else 3.5
    assert stored(table)[1][1] == NOON.replace(tzinfo=UTC) - timedelta(hours=hours)


def stored(table: Table) -> dict[int, tuple[datetime, datetime]]:
    rows = iceberg.scan(table).to_arrow().to_pylist()
    return {row["Id"]: (row["plain"], row["zoned"]) for row in rows}


def test_verbs_take_the_session_or_use_the_active_one(spark: SparkSession, racing: RacingCatalog) -> None:
    verbs: Any = ps
    table = made(racing, "n")
    for number, before in enumerate(((), (spark,), (spark.range(1),))):
        assert verbs.scan(*before, table, f"id = {number}").count() == 1
        assert verbs.delete(*before, table, f"id = {number}").rows_deleted == 1
        assert verbs.update(*before, table, f"id = {number + 10}", {"word": "new"}).rows_updated == 1
        assert verbs.verify(*before, table) == []
    assert verbs.delete(table=table, row_filter="id = 3").rows_deleted == 1
    for number, before in enumerate(((), (spark,))):
        keys = spark.createDataFrame([(number + 20,)], "id long")
        assert verbs.delete_keys(*before, keys, table, "id").rows_deleted == 1
        rows = spark.createDataFrame([(N + number, "w", 1)], "id long, word string, small int")
        assert verbs.upsert(*before, rows, table, "id").rows_inserted == 1
        places = verbs.scan(*before, table, f"id = {number + 30}", ["_file", "_pos"])
        assert verbs.delete_positions(*before, places, table).rows_deleted == 1
    with pytest.raises(InvalidInputError, match="SparkSession, found NoneType"):
        verbs.delete(None, table, "id = 4")
    with pytest.raises(TypeError, match="row_filter"):
        verbs.delete(spark, table)


def test_timestamps_change_their_kind_in_the_zone_of_the_session(
    in_zurich: SparkSession, racing: RacingCatalog
) -> None:
    from pyspark.sql import functions as f

    spark = in_zurich
    racing.create_namespace_if_not_exists("n")
    table = iceberg.create_table(racing, "n.times", SCHEMA)
    given = spark.sql(
        "SELECT 1L ID, timestamp'2024-07-01 12:00' plain, timestamp_ntz'2024-07-01 12:00' zoned"
    )
    in_utc = NOON.replace(hour=10, tzinfo=UTC)
    ps.append(given, table)
    ps.upsert(
        given.withColumn("id", f.lit(2)).selectExpr("cast(id as long) id", "plain", "zoned"), table, "ID"
    )
    assert stored(table) == dict.fromkeys((1, 2), (NOON, in_utc))
    assert ps.delete_keys(given, table, ["zoned"], dry_run=True).rows_deleted == 2
    assert ps.delete_keys(given, table, ["plain"], dry_run=True).rows_deleted == 2
    ps.update(spark, table, "id = 1", {"PLAIN": NOON, "ZONED": NOON.replace(month=1)})
    assert stored(table)[1] == (NOON, datetime(2024, 1, 1, 11, tzinfo=UTC))
    ps.update(
        spark, table, "id = 2", {"plain": f.col("zoned") + f.expr("interval 1 hour"), "zoned": f.col("plain")}
    )
    assert stored(table)[2] == (NOON.replace(hour=13), in_utc)
    ps.update(spark, table, "id + 0 = 2", {"plain": f.col("zoned")})
    assert stored(table)[2] == (NOON, in_utc)


def test_few_rows_are_the_same_from_the_jvm_and_from_workers(
    in_zurich: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = in_zurich
    job = start(spark, made(racing, "n"), Request(verb="delete_keys", branch="main"))
    values = (
        "true a, 1Y b, 2S c, 3 d, 4L e, 1.5F f, 2.5D g, date'2024-01-01' h, timestamp'2024-01-01 10:00' i, "
        "timestamp_ntz'2024-01-01 10:00' j, 1.25BD k, 'text' l, X'00ff' m"
    )
    rows = spark.sql(f"SELECT {values} FROM range(2) UNION ALL SELECT {', '.join(['NULL'] * 13)}")
    for few in (rows, rows.limit(0)):
        assert saved_rows._sent_by_jvm(few) is not None
        found = []
        for by_workers in (False, True):
            if by_workers:
                monkeypatch.setattr(saved_rows, "_sent_by_jvm", lambda rows: None)
            with saved_rows.saved(few, job.part(dry_run=False)) as kept:
                sent = kept.few()
                assert sent is not None
                found += [sent, kept.frame().toArrow()]
        monkeypatch.undo()
        kinds = {str(table.schema.types).replace("Europe/Zurich", "UTC") for table in found}
        assert len(kinds) == 1
        rows_of = [sorted(map(str, table.cast(found[0].schema).to_pylist())) for table in found]
        assert all(one == rows_of[0] for one in rows_of)
    large = spark.range(5).selectExpr("repeat('x', id * 200) AS text")
    assert saved_rows._sent_by_jvm(large) is None
    assert saved_rows._sent_by_jvm(spark.range(1 << 30)) is None
    assert saved_rows._sent_by_jvm(spark.range(3).selectExpr("array(id) AS ids")) is None
