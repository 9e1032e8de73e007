"""Cases in which delta-spark and this package use the same tables; run in a process with a Spark session of its own.

``python -m tests.delta.spark.with_spark FOLDER CASE …`` runs each case on tables of its own in FOLDER, where it writes the
file ``CASE``: empty if the case passed, else with the traceback.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.expressions import EqualTo
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from puffin_fast import delta
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from tests import jars
from tests.conftest import JVM
from tests.delta.log.timed_logs import BEGIN, TimedLog
from tests.delta.tables import refused
from tests.kit.changes import SIGNS
from tests.kit.faults import RacingStorage
from tests.kit.histories import KINDS, follow
from tests.kit.rows import Rows, by_spark, by_us, in_order
from tests.kit.seeds import seeds
from tests.kit.tables import delta_table

CASES: dict[str, Callable[[SparkSession, Path], None]] = {}

HEAP = "-XX:MetaspaceSize=600m -Xmn700m"
"""Fewer collections: Delta loads and generates many classes, and each growth of their space would be a full one."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Else each task generates the Java source for rows of Delta's log again, which takes longer than to read a small log."""

FEATURES = (
    "'delta.enableDeletionVectors'='true', 'delta.enableRowTracking'='true', "
    "'delta.enableInCommitTimestamps'='true', 'delta.enableChangeDataFeed'='true'"
)


VECTORS = "USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')"

MAPPED = (
    "CREATE TABLE {t} (id long, v string, part string) USING delta PARTITIONED BY (part) "
    f"TBLPROPERTIES ({FEATURES}, 'delta.columnMapping.mode'='name')"
)


def case(function: Callable[[SparkSession, Path], None]) -> Callable[[SparkSession, Path], None]:
    CASES[function.__name__] = function
    return function


def session(scratch: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]")
    for key, value in {
        **INTERPRETED,
        "spark.jars": ",".join(map(str, jars.find("delta"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": "1700m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{JVM} {HEAP} -Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.files.openCostInBytes": "0",
        "spark.default.parallelism": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def sql(spark: SparkSession, table: Path, *statements: str) -> DataFrame:
    """Runs statements with ``{t}`` for a table, and returns the rows of the last one."""
    for statement in statements:
        rows = spark.sql(statement.replace("{t}", f"delta.`{table}`"))
    return rows


def agreed(spark: SparkSession, table: Path, *, counted: bool = False) -> Rows:
    """The rows of a table; Spark and we read the same, whatever the order.

    Args:
        spark: a session with Delta.
        table: the table's folder.
        counted: also compares their number with ``count(*)``, which Delta takes from the log's statistics. It costs
            as much as the rows, so a table is counted once it has a file of each kind that we write.
    """
    ours, theirs = by_us(table), by_spark(spark, table)
    assert ours == theirs, (ours[:3], theirs[:3], len(ours), len(theirs))
    if counted:
        assert sql(spark, table, "SELECT count(*) AS n FROM {t}").collect()[0].n == len(ours)
    return ours


def found_ids(spark: SparkSession, table: Path, *, counted: bool = False) -> set[int]:
    return {row["id"] for row in agreed(spark, table, counted=counted)}


def row_ids(spark: SparkSession, table: Path) -> dict[int, int]:
    """Spark's row id of each id."""
    rows = sql(spark, table, "SELECT id, _metadata.row_id AS r FROM {t}").collect()
    found = {row.id: row.r for row in rows}
    assert len(set(found.values())) == len(found) == len(rows)
    return found


def feed(spark: SparkSession, table: Path, first: int, last: int) -> pa.Table:
    """The change data feed of some versions as Spark reads it."""
    return spark.sql(f"SELECT * FROM table_changes_by_path('{table}', {first}, {last})").toArrow()


TYPES = """
    id, cast(id as tinyint) AS b, cast(id as smallint) AS s, cast(id as int) AS i, id / 7 AS f, cast(id / 3 as float) AS g,
    id % 2 = 0 AS odd, cast(id as string) AS text, encode(cast(id as string), 'utf-8') AS raw,
    cast(id / 7 as decimal(20, 5)) AS dec, date_add('2020-01-01', cast(id as int)) AS day,
    timestamp_micros(1600000000123456 + id) AS ts, cast(timestamp_micros(1600000000123456 + id) as timestamp_ntz) AS ntz,
    named_struct('x', id, 'y', array(named_struct('z', id))) AS nest, map('a b', id) AS m, array(id, null) AS l,
    if(id % 5 = 0, null, date_add('2020-01-01', cast(id % 2 as int))) AS d,
    if(id % 4 = 0, null, concat('a b%/=', cast(id % 2 as string))) AS name, timestamp_micros(1600000000123456 + id % 2) AS at
"""
"""Columns of all types; of ``d``, ``name`` and ``at``, partitions may be made."""


@case
def types_and_partitions(spark: SparkSession, table: Path) -> None:
    """All types, partitioned by several types; NULL partitions and names that need escapes."""
    sql(spark, table, f"""
        CREATE TABLE {{t}} USING delta PARTITIONED BY (d, name, flag, amount, at) TBLPROPERTIES ({FEATURES}) AS
        SELECT {TYPES}, id % 3 = 0 AS flag, cast(id % 2 + 0.5 as decimal(10, 2)) AS amount FROM range(60)
    """)  # fmt: skip
    rows = agreed(spark, table)
    assert len(rows) == 60
    for row_filter, goes in (
        ("name is null and id > 40", lambda r: r["name"] is None and r["id"] > 40),
        ("name = 'a b%/=1' and id < 12", lambda r: r["name"] == "a b%/=1" and r["id"] < 12),
        ("d = '2020-01-02' and i < 20", lambda r: str(r["d"]) == "2020-01-02" and r["i"] < 20),
        (
            "flag = true and amount = 0.50 and id < 30",
            lambda r: r["flag"] and r["amount"] == Decimal("0.5") and r["id"] < 30,
        ),
        ("nest.x = 37", lambda r: r["nest"]["x"] == 37),
        ("day = '2020-02-20' or text = '59'", lambda r: str(r["day"]) == "2020-02-20" or r["text"] == "59"),
    ):
        done = delta.delete(table, row_filter)
        kept = [row for row in rows if not goes(row)]
        assert done.rows_deleted == len(rows) - len(kept) > 0, (row_filter, done)
        rows = by_us(table)
        assert rows == kept, row_filter
    agreed(spark, table, counted=True)


@case
def spark_on_top(spark: SparkSession, table: Path) -> None:
    """Spark deletes, updates, merges, optimises, vacuums and restores on top of our vectors, and we on top of its."""
    sql(spark, table, MAPPED)
    for first in (0, 500):
        spark.sql(f"INSERT INTO delta.`{table}` SELECT /*+ COALESCE(1) */ id, concat('v', id % 7), concat('p ', id % 3) "
                  f"FROM range({first}, {first + 500})")  # fmt: skip
    assert delta.delete(table, "id < 100").rows_deleted == 100
    ids = set(range(100, 1000))
    version = delta.snapshot(table).version
    changes = feed(spark, table, version, version).to_pylist()
    assert sorted((r["_change_type"], r["id"]) for r in changes) == [("delete", i) for i in range(100)]
    assert found_ids(spark, table) == ids

    spark.sql(f"DELETE FROM delta.`{table}` WHERE id % 10 = 0")
    ids -= set(range(0, 1000, 10))
    assert found_ids(spark, table) == ids
    delta.delete(table, "id >= 300 and id < 330")
    ids -= set(range(300, 330))
    spark.sql(f"UPDATE delta.`{table}` SET v = 'new' WHERE id % 11 = 0")
    rows = agreed(spark, table)
    assert {row["id"] for row in rows if row["v"] == "new"} == {i for i in ids if i % 11 == 0}
    delta.delete_keys(table, pa.table({"id": [111, 112, 113]}), "id")
    ids -= {111, 112, 113}
    spark.sql(f"""MERGE INTO delta.`{table}` t USING (SELECT id * 3 AS id FROM range(200)) s ON t.id = s.id
                  WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged'
                  WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.id, 'fresh', 'p 9')""")
    ids = {i for i in ids if not (i % 3 == 0 and i < 600 and i % 2 == 0)} | {
        i for i in range(0, 600, 3) if i not in ids
    }
    assert found_ids(spark, table) == ids
    before = delta.snapshot(table).version
    delta.delete(table, "part = 'p 1' and id > 900")
    spark.sql(f"OPTIMIZE delta.`{table}`")
    agreed(spark, table)
    delta.delete(table, "id > 800")
    spark.sql(f"REORG TABLE delta.`{table}` APPLY (PURGE)")
    assert found_ids(spark, table) == {i for i in ids if i <= 800}
    spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {before}")
    assert found_ids(spark, table) == ids
    delta.delete(table, "id > 700")
    spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS")
    assert found_ids(spark, table, counted=True) == {i for i in ids if i <= 700}
    (details,) = spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").collect()
    assert details["operation"].startswith("VACUUM")
    assert row_ids(spark, table).keys() == {i for i in ids if i <= 700}


@case
def names_of_tables(spark: SparkSession, table: Path) -> None:
    """Functions of `spark` take the name of a managed Delta table, and of one by its path; other formats are refused."""
    spark.sql(f"CREATE TABLE named (id long) {VECTORS}")
    spark.sql("INSERT INTO named SELECT id FROM range(20)")
    for name in ("named", "default.named", "spark_catalog.default.`named`"):
        assert ps.delete(spark, name, f"id < {len(name)}").rows_deleted > 0
    assert spark.table("named").count() == ps.scan(spark, "named").count() == 0
    spark.sql(f"CREATE TABLE delta.`{table}` (id long) USING delta")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (1), (2)")
    assert ps.scan(spark, f"delta.`{table}`", "id = 2").count() == 1
    spark.sql("CREATE TABLE plain (id long) USING parquet")
    with pytest.raises(UnsupportedError, match="found one of parquet"):
        ps.delete(spark, "plain", "id = 1")


@case
def text_of_limited_length(spark: SparkSession, table: Path) -> None:
    """Spark pads ``char(n)`` when it reads it and checks lengths: so do we, and what we would compare otherwise is refused."""
    rows = "(1, 'ab', 'x'), (2, 'abcde', 'y'), (3, 'cd', 'zz'), (4, 'q', 'w')"
    sql(
        spark,
        table,
        f"CREATE TABLE {{t}} (id long, c char(5), v varchar(3)) {VECTORS}",
        f"INSERT INTO {{t}} VALUES {rows}",
    )
    path = str(table)
    given = spark.sql("SELECT 9L AS id, 'q' AS c, 'toolong' AS v")
    on_char: tuple[Callable[[], Any], ...] = (
        lambda: ps.delete(spark, path, "length(C) = 5"),
        lambda: ps.delete(spark, path, "c = 'ab'"),
        lambda: ps.scan(spark, path, spark.table(f"delta.`{table}`").c < "ab "),
        lambda: ps.delete_keys(given, path, ["id", "c"]),
    )
    on_rows: tuple[Callable[[], Any], ...] = (
        lambda: ps.append(given, path),
        lambda: ps.upsert(given, path, "id"),
        lambda: ps.update(spark, path, "id = 1", {"v": "toolong"}),
        lambda: delta.append(path, pa.table({"id": [9], "c": ["q"], "v": ["toolong"]})),
        lambda: delta.update(path, "id = 1", {"v": "toolong"}),
    )
    for calls, error, message in (
        (on_char, UnsupportedError, r"column c is char\(5\) for Spark, which pads"),
        (on_rows, InvalidInputError, "column v: expected at most 3 characters, found 7"),
    ):
        for call in calls:
            with refused(table, error, message):
                call()
    delta.append(path, pa.table({"id": [5, 6], "c": ["äöüß€", None], "v": [None, "abc"]}))
    assert ps.update(spark, path, "id = 5", {"v": "new"}).rows_updated == 1
    assert ps.upsert(spark.sql("SELECT 6L AS id, 'r' AS c, 'up' AS v"), path, "id").rows_updated == 1
    found = spark.sql(f"SELECT id, c, v FROM delta.`{table}` WHERE id > 4 ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(5, "äöüß€", "new"), (6, "r    ", "up")]
    assert delta.delete(path, "id > 4").rows_deleted == 2
    assert ps.delete(spark, path, "v = 'x' and id < 3").rows_deleted == 1
    padded = EqualTo("c", by_us(path, row_filter="id = 3")[0]["c"])
    assert ps.delete(spark, path, padded).rows_deleted == 1
    assert ps.delete_keys(given.selectExpr("4L AS id"), path, "id").rows_deleted == 1
    assert [row.id for row in spark.table(f"delta.`{table}`").collect()] == [2]


@case
def text_with_a_collation(spark: SparkSession, table: Path) -> None:
    """Spark compares it by the collation: 'AB' = 'ab'. What we would compare otherwise is refused."""
    check = "spark.databricks.delta.schema.typeCheck.enabled"
    spark.conf.set(check, "false")
    create = f"CREATE TABLE {{t}} (id long, c string collate UTF8_LCASE) {VECTORS}"
    try:
        sql(spark, table, create, "INSERT INTO {t} VALUES (1, 'ab'), (2, 'AB')")
    finally:
        spark.conf.unset(check)
    path = str(table)
    given = spark.sql("SELECT 9L AS id, 'ab' AS c")
    calls: tuple[Callable[[], Any], ...] = (
        lambda: ps.delete(spark, path, "c = 'ab'"),
        lambda: ps.scan(spark, path, "c = 'ab'"),
        lambda: ps.delete_keys(given, path, "c"),
        lambda: ps.upsert(given, path, "c"),
    )
    for call in calls:
        with pytest.raises(UnsupportedError, match=r"column c has a collation, .*UTF8_LCASE"):
            call()
    assert ps.delete(spark, path, "id = 2").rows_deleted == 1
    assert spark.table(f"delta.`{table}`").count() == 1


@case
def rows_that_spark_keeps(spark: SparkSession, table: Path) -> None:
    """``CACHE TABLE`` and `DataFrame.cache` keep rows, but not those that we delete."""
    spark.sql(f"CREATE TABLE kept (id long) {VECTORS} LOCATION '{table}'")
    spark.sql("INSERT INTO kept SELECT id FROM range(20)")
    names = ("kept", f"delta.`{table}`")
    spark.sql("CACHE TABLE kept")
    by_path = spark.read.format("delta").load(str(table)).cache()
    assert by_path.count() == spark.table("kept").count() == 20
    for number, name in enumerate((*names, str(table))):
        assert ps.delete(spark, name, f"id = {number}").rows_deleted == 1
        counts = [spark.table(one).count() for one in names]
        assert counts == [19 - number] * 2, name
        assert spark.read.format("delta").load(str(table)).count() == 19 - number
    spark.sql("UNCACHE TABLE kept")


@case
def our_checkpoints(spark: SparkSession, table: Path) -> None:
    """Spark reads a version from our checkpoint when its commits are gone, and changes it; we read what it makes of it."""
    create = "CREATE TABLE {t} (id long, part string) USING delta PARTITIONED BY (part)"
    sql(spark, table, f"{create} TBLPROPERTIES ({FEATURES})")
    for first in range(0, 50, 10):
        delta.append(table, pa.table({"id": range(first, first + 10), "part": [None, "a b"] * 5}))
        delta.delete(table, f"id = {first}")
    log = table / "_delta_log"
    assert (log / f"{10:020}.checkpoint.parquet").exists()
    for version in range(10):
        (log / f"{version:020}.json").unlink()
    ids = [n for n in range(50) if n % 10]
    assert len(agreed(spark, table, counted=True)) == len(ids)
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id % 2 = 1")
    assert sorted(delta.scan(table).to_arrow()["id"].to_pylist()) == [n for n in ids if n % 2 == 0]
    delta.delete(table, "id = 2")
    spark.sql(f"OPTIMIZE delta.`{table}`")
    agreed(spark, table)


@case
def mapped_columns(spark: SparkSession, table: Path) -> None:
    """Column mapping by id and by name: renamed, dropped, added and nested columns; types widened."""
    for mode in ("id", "name"):
        path = table / mode
        spark.sql(f"""CREATE TABLE delta.`{path}` (id int, gone string, s struct<a: int, b: string>, l array<struct<q: int>>)
                      USING delta TBLPROPERTIES ('delta.columnMapping.mode'='{mode}',
                      'delta.enableDeletionVectors'='true', 'delta.enableTypeWidening'='true')""")
        values = "SELECT cast(id as int), 'x', named_struct('a', cast(id as int), 'b', 'b'), array(named_struct('q', 1))"
        spark.sql(f"INSERT INTO delta.`{path}` {values} FROM range(20)")
        spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN gone")
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN s TO t")
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN t.a TO c")
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (gone long, `odd name` string)")
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE long")
        spark.sql(f"INSERT INTO delta.`{path}` (id, t, l, gone, `odd name`) SELECT id + 3000000000, "
                  "named_struct('c', 5, 'b', 'n'), null, 7, 'o' FROM range(5)")  # fmt: skip
        rows = agreed(spark, path)
        assert rows[0]["t"] == {"c": 0, "b": "b"}
        assert rows[0]["gone"] is None
        assert delta.delete(path, "t.c < 3").rows_deleted == 3
        assert delta.delete(path, "id = 3000000001 or gone = 8").rows_deleted == 1
        assert delta.scan(path).to_arrow().num_rows == 21
        assert delta.update(path, "id >= 10 and id < 12", {"gone": 99, "odd name": "u"}).rows_updated == 2
        rows = agreed(spark, path)
        assert [row["gone"] for row in rows if row["odd name"] == "u"] == [99, 99]
        assert delta.purge(path, min_deleted=1e-9).data_files > 0  # Spark decides how many files it writes
        assert delta.vectors(path).num_rows == 0
        assert agreed(spark, path, counted=True) == rows


@case
def variants(spark: SparkSession, table: Path) -> None:
    """Variants that Spark wrote are read as their bytes, also with mapped columns; Spark reads what we write."""
    for mode in ("none", "id", "name"):
        path = table / mode
        spark.sql(f"""CREATE TABLE delta.`{path}` (id long, v variant, s struct<w: variant, l: array<variant>>) USING delta
                      TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.columnMapping.mode'='{mode}')""")
        spark.sql(f"""INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ id, if(id = 3, null, parse_json(concat('{{"a":', id, '}}'))),
                      named_struct('w', parse_json('[1, "x"]'), 'l', array(parse_json('true'), null)) FROM range(20)""")
        if mode != "none":
            spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO value")
        name = "v" if mode == "none" else "value"
        assert delta.delete(path, "id < 3").rows_deleted == 3
        rows = by_us(path)
        theirs = spark.sql(
            f"SELECT id, {name} AS v, s.w AS w, s.l[0] AS l FROM delta.`{path}` ORDER BY id"
        ).collect()
        assert [row["id"] for row in rows] == [row["id"] for row in theirs] == [*range(3, 20)]
        for ours, row in zip(rows, theirs, strict=True):
            assert (ours[name] is None) == (row["v"] is None) == (row["id"] == 3)
            for found, wanted in (
                (ours[name], row["v"]),
                (ours["s"]["w"], row["w"]),
                (ours["s"]["l"][0], row["l"]),
            ):
                assert wanted is None or (found["value"], found["metadata"]) == (
                    wanted.value,
                    wanted.metadata,
                )
            assert ours["s"]["l"][1] is None
        assert delta.verify(path) == []
        assert delta.report(path)
        assert delta.update(path, "id = 5", {"id": 50}).rows_updated == 1
        delta.append(path, delta.scan(path, "id = 6").to_arrow())
        for change in (lambda: None, lambda: delta.purge(path, min_deleted=1e-9)):  # noqa: B023
            change()
            shown = (
                f"sum(variant_get({name}, '$.a', 'int')), sum(variant_get(s.w, '$[0]', 'int')), count(s.l[0])"
            )
            (row,) = spark.sql(f"SELECT {shown} FROM delta.`{path}`").collect()
            assert tuple(row) == (sum(range(4, 20)) + 6, 18, 18)
    new = table / "new"
    delta.create_table(new, {"id": "long", "value": "variant"})
    delta.append(new, delta.scan(path, "id > 9", ["id", "value"]).to_arrow())
    spark.sql(f"""INSERT INTO delta.`{new}` SELECT 7L, parse_json('{{"a":1}}')""")
    (row,) = spark.sql(f"SELECT sum(variant_get(value, '$.a', 'int')) FROM delta.`{new}`").collect()
    assert row[0] == sum(range(10, 20)) + 5 + 1


@case
def checkpoints(spark: SparkSession, table: Path) -> None:
    """Checkpoints of both kinds that Spark makes of our commits, with parsed statistics only too."""
    for policy, as_json in (("classic", "true"), ("v2", "true"), ("classic", "false")):
        path = table / f"{policy}_{as_json}"
        create = (f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (part) "
                  f"TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.checkpointPolicy'='{policy}', "
                  f"'delta.checkpoint.writeStatsAsJson'='{as_json}', 'delta.checkpoint.writeStatsAsStruct'='true', "
                  "'delta.checkpointInterval'='2') AS")  # fmt: skip
        for first in range(0, 30, 10):  # the versions 0, 2 and 4, of which Spark checkpoints 2 and 4
            spark.sql(f"{create if first == 0 else f'INSERT INTO delta.`{path}`'} SELECT /*+ COALESCE(1) */ "
                      f"id, timestamp_seconds(id) AS at, cast(id % 2 as int) AS part FROM range({first}, {first + 10})")  # fmt: skip
            delta.delete(path, f"id = {first} or id = {first + 3}")
        rows = agreed(spark, path)
        assert len(rows) == 30 - 6
        log = path / "_delta_log"
        assert len({file.name.partition(".")[0] for file in log.glob("*.checkpoint*")}) >= 2
        assert delta.delete(path, "part = 1").rows_deleted == 12
        assert delta.delete(path, "id > 20").rows_deleted > 0
        assert max(row["id"] for row in agreed(spark, path, counted=True)) == 18


@case
def rows_changed(spark: SparkSession, table: Path) -> None:
    """Spark reads what we updated, upserted and purged: all types, partitions, row ids, the change data feed."""
    sql(spark, table, f"""
        CREATE TABLE {{t}} USING delta PARTITIONED BY (d, name, at) TBLPROPERTIES ({FEATURES}) AS SELECT {TYPES} FROM range(60)
    """)  # fmt: skip
    rows = {row["id"]: row for row in agreed(spark, table)}
    known = row_ids(spark, table)

    def read(*, counted: bool = False) -> None:
        assert agreed(spark, table, counted=counted) == sorted(rows.values(), key=lambda row: row["id"])
        assert row_ids(spark, table).items() >= known.items()

    values = {"text": "new", "b": 7, "dec": None}
    assert delta.update(table, "id >= 10 and id < 30", values).rows_updated == 20
    for i in range(10, 30):
        rows[i] |= values
    version = delta.snapshot(table).version
    changes = feed(spark, table, version, version).to_pylist()
    images = {row["id"]: set[tuple[str, str]]() for row in changes}
    for row in changes:
        images[row["id"]].add((row["_change_type"], row["text"]))
    assert images == {i: {("update_preimage", str(i)), ("update_postimage", "new")} for i in range(10, 30)}
    given = [rows[i] | {"text": "up"} for i in (11, 40, 41)] + [rows[1] | {"id": i} for i in (900, 901)]
    schema = delta.scan(table).to_arrow().schema
    done = delta.upsert(table, pa.Table.from_pylist(given, schema), "id")
    assert (done.rows_updated, done.rows_inserted) == (3, 2)
    rows |= {row["id"]: row for row in given}
    read(counted=True)
    delta.delete(table, "id < 5")
    for i in range(5):
        del rows[i], known[i]
    assert delta.purge(table, min_deleted=1e-9).data_files > 0
    assert delta.vectors(table).num_rows == 0
    read(counted=True)
    spark.sql(f"UPDATE delta.`{table}` SET text = 'spark' WHERE id = 40")
    rows[40] = rows[40] | {"text": "spark"}
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 41")
    del rows[41], known[41]
    spark.sql(f"OPTIMIZE delta.`{table}`")
    spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS")
    read()


@case
def new_tables(spark: SparkSession, table: Path) -> None:
    """Tables that we create, append to, overwrite and change in transactions: rows, change data feed and row ids."""
    features = ("RowTracking", "InCommitTimestamps", "ChangeDataFeed")
    properties = {f"delta.enable{name}": "true" for name in features} | {"delta.columnMapping.mode": "name"}
    id = pa.field("id", pa.int64(), nullable=False)
    schema = pa.schema([id, ("v", pa.string()), ("a b", pa.timestamp("us")), ("part", pa.string())])
    delta_table(table, schema, partition=["part"], properties=properties)

    def of(ids: Any, v: str, part: str | None = None) -> pa.Table:
        rows = [{"id": i, "v": v, "a b": None, "part": part or f"p {i % 3}"} for i in ids]
        return pa.Table.from_pylist(rows, schema)

    known: dict[int, dict[str, Any]] = {}

    def follow(*, counted: bool = False) -> dict[int, int]:
        """The feed of the newest version makes the rows from those before it; gives Spark's row ids."""
        version = delta.snapshot(table).version
        after = {row["id"]: row for row in agreed(spark, table, counted=counted)}
        changes = feed(spark, table, version, version)
        signs = [SIGNS[kind] for kind in changes["_change_type"].to_pylist()]
        lines = list(zip(signs, changes.select(schema.names).to_pylist(), strict=True))
        for sign, row in sorted(lines, key=itemgetter(0)):
            if sign < 0:
                assert known.pop(row["id"]) == row
            else:
                assert row["id"] not in known
                known[row["id"]] = row
        assert known == after, version
        return row_ids(spark, table)

    assert agreed(spark, table) == []
    delta.append(table, of(range(100), "a"))
    before = follow()
    delta.overwrite(table, of([200, 201], "b"), "id >= 90")
    follow()
    delta.dynamic_partition_overwrite(table, of([300], "c", "p 1"))
    follow()
    with delta.transaction(table) as tx:
        tx.append(of(range(400, 410), "d"))
        tx.delete("id = 401 or id = 3")
        tx.update("id < 10 or id = 402", {"v": "e"})
        tx.upsert(of([5, 500], "f"), "id")
        tx.delete_keys(pa.table({"id": [404, 200]}), "id")
    after = follow()
    assert {i: after[i] for i in after if i < 100} == {i: before[i] for i in after if i < 100}
    assert {row["v"] for row in known.values() if row["id"] in (0, 2, 402)} == {"e"}
    given = of([2, 500, 600], "g").append_column("gone", pa.array([True, True, False]))
    delta.upsert(table, given, "id", delete_column="gone")
    follow()
    few = pa.table({"id": [5, 6], "v": ["h", "h"]})
    delta.upsert(table, few, "id", update_columns=["v"], when_not_matched_insert_all=False)
    last = follow(counted=True)
    assert {i: last[i] for i in (5, 6)} == {i: before[i] for i in (5, 6)}
    spark.sql(f"INSERT INTO delta.`{table}` SELECT id, 'spark', null, 'p 1' FROM range(700, 705)")
    spark.sql(f"UPDATE delta.`{table}` SET v = 'u' WHERE id = 6")
    spark.sql(f"OPTIMIZE delta.`{table}`")
    delta.delete(table, "id = 700")
    assert found_ids(spark, table) == (known.keys() | {*range(701, 705)})
    history = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
    assert {"CREATE TABLE", "WRITE", "TRANSACTION", "MERGE"} <= {row["operation"] for row in history}

    given = of(range(5), "a").rename_columns(["id", "v", "at", "part"])
    plain_table = delta_table(table.with_name("plain"), given)
    spark.sql(f"DELETE FROM delta.`{plain_table}` WHERE id = 2")
    sql(spark, table.with_name("theirs"), f"CREATE TABLE {{t}} (id long NOT NULL, v string) {VECTORS}")
    theirs = delta.snapshot(table.with_name("theirs")).protocol
    assert theirs.writer_features == {"appendOnly", "deletionVectors", "invariants"}
    assert delta.snapshot(plain_table).protocol.writer_features == theirs.writer_features | {"timestampNtz"}
    assert [row["id"] for row in agreed(spark, plain_table, counted=True)] == [0, 1, 3, 4]


@case
def rows_of_executors(spark: SparkSession, table: Path) -> None:
    """Spark reads what executors append, overwrite, update, upsert and rewrite."""
    from pyspark.sql import functions as f

    create = "CREATE TABLE {t} (id BIGINT, g STRING, x DOUBLE) USING delta PARTITIONED BY (g)"
    sql(spark, table, f"{create} TBLPROPERTIES ({FEATURES})")

    def given(first: int, last: int, x: float = 0.0) -> Any:
        return spark.range(first, last).selectExpr("id", "concat('g ', id % 3) AS g", f"double({x}) AS x")

    path = str(table)
    for job, n_rows, total, x in (
        (lambda: ps.append(given(0, 100), path), 100, 4950, 0.0),
        (lambda: ps.update(spark, path, "id < 10", {"x": 1.0}), 100, 4950, 10.0),
        (lambda: ps.update(spark, path, f.col("id") < 20, {"x": f.col("x") + f.col("id")}), 100, 4950, 200.0),
        (lambda: ps.overwrite(given(200, 210), path, "id >= 90"), 100, 6050, 200.0),
        (lambda: ps.upsert(given(205, 215, 2.0), path, "id"), 105, 7110, 220.0),
        (lambda: ps.rewrite_data_files(spark, path, min_deleted=0.0, min_input_files=2), 105, 7110, 220.0),
        (lambda: spark.sql(f"DELETE FROM delta.`{table}` WHERE id < 5"), 100, 7100, 205.0),
    ):
        job()
        found = spark.read.format("delta").load(path).agg(f.count("*"), f.sum("id"), f.sum("x")).first()
        assert tuple(found or ()) == (n_rows, total, x), found
        assert delta.verify(table) == []
    lines = feed(spark, table, 0, delta.snapshot(table).version)
    net = zip(lines["_change_type"].to_pylist(), lines["id"].to_pylist(), strict=True)
    assert sum(SIGNS[kind] * id for kind, id in net) == 7100
    operations = [row.operation for row in spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()]
    assert operations[1:-1] == ["OPTIMIZE", "MERGE", "WRITE", "UPDATE", "UPDATE", "WRITE"], operations


@case
def racing(spark: SparkSession, table: Path) -> None:
    """We and Spark delete from one file at the same time: no delete is lost."""
    spark.sql(
        f"CREATE TABLE delta.`{table}` USING delta TBLPROPERTIES ({FEATURES}) AS SELECT id FROM range(1000)"
    )
    storage = RacingStorage(table, lambda: spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 0"))
    assert delta.delete(storage, "id = 500", on_conflict="merge").commit.attempts == 2

    def ours() -> int:
        rows = [f"id = {row}" for row in range(501, 551)]
        return sum(delta.delete(table, row, on_conflict="merge").rows_deleted for row in rows)

    with ThreadPoolExecutor(1) as pool:
        deleted = pool.submit(ours)
        for row in (1, 2):
            while True:
                try:
                    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = {row}")
                    break
                except (PySparkException, Py4JJavaError) as error:  # some conflicts have no class in Python
                    if "oncurrent" not in str(error) and "VERSIONS_NOT_CONTIGUOUS" not in str(error):
                        raise
        assert deleted.result() == 50
    assert [row["id"] for row in agreed(spark, table, counted=True)] == [*range(3, 500), *range(551, 1000)]


@case
def changes(spark: SparkSession, table: Path) -> None:
    """Our changes, from the feed and from data files, are Spark's, without its equal deletes and inserts."""
    sql(
        spark,
        table,
        MAPPED,
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a', if(id % 8 IN (3, 7), NULL, concat('p', id % 2)) FROM range(40)",
        "DELETE FROM {t} WHERE id IN (1, 2)",
        "UPDATE {t} SET v = if(id = 4, 'a', 'b') WHERE id BETWEEN 3 AND 6",
        "MERGE INTO {t} t USING (SELECT id + 5 AS id FROM range(40)) s ON t.id = s.id WHEN MATCHED AND t.id < 10 THEN "
        "UPDATE SET v = 'm' WHEN MATCHED AND t.id < 20 THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.id, 'n', 'p0')",
        "OPTIMIZE {t}",
        "INSERT OVERWRITE {t} SELECT id, if(id = 30, 'o', v), part FROM {t}",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "UPDATE {t} SET w = 'r' WHERE id = 39",
    )
    delta.delete(table, "id = 38")
    renamed, newest = 8, delta.snapshot(table).version
    for first, last in ((0, renamed - 1), (renamed, newest)):
        theirs, found = (
            feed(spark, table, first, last),
            delta.changes(table, first - 1 if first else None, last).to_arrow(),
        )
        assert found.schema.names == theirs.schema.names
        by_rows = (
            delta.changes(table, first - 1 if first else None, last, selected_fields=["*", "_pos"])
            .to_arrow()
            .drop_columns("_pos")
        )
        assert summed(found) == summed(theirs) == summed(by_rows)
        assert images(found) == images(by_rows) <= images(theirs)  # Spark's also has what changed nothing
        assert images(theirs) - images(found) <= {row for row in images(theirs) if row[1:4] == (4, "a", "p0")}


@case
def histories(spark: SparkSession, table: Path) -> None:
    """Tables that Spark changes, too, are lists of rows with a history. `seeds` says how many."""
    kinds = [kind for kind in KINDS if kind.startswith("delta") and kind.endswith("spark")]
    for seed in seeds(1):
        follow(kinds[-1 - seed % len(kinds)], seed, 12, spark=spark)


@case
def times(spark: SparkSession, table: Path) -> None:
    """Each time selects the version that Spark takes, in random logs that were copied, cleaned and stamped later."""
    jvm: Any = spark._jvm
    for seed in seeds(25):
        log, path = TimedLog.random(seed), table / str(seed)
        if log.checkpoint is not None and log.checkpoint < log.first:
            continue  # Spark travels to no version of a log that has no commit of its checkpoint
        log.write(path)
        history = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path)).history()
        for time in range(-1, 50, 3):
            at, none = jvm.java.sql.Timestamp(BEGIN + time), jvm.scala.Option.empty()
            commit = history.getActiveCommitAtTime(at, none, True, True, True)  # else the earliest one
            is_before = commit.timestamp() > BEGIN + time
            try:
                found = delta.snapshot(path, as_of=BEGIN + time).version
            except NotFoundError:
                found = None
            assert found == (None if is_before else commit.version()), (seed, log, time)
            commit = history.getActiveCommitAtTime(at, none, True, False, True)
            start = commit.version() + (commit.timestamp() <= BEGIN + time)
            try:
                rows = delta.changes(path, from_timestamp_exclusive=BEGIN + time).to_arrow()["id"].to_pylist()
            except NotFoundError:
                assert log.first > 0, (seed, log, time)
                assert commit.timestamp() > BEGIN + time, (seed, log, time)
                continue
            assert sorted(rows) == list(range(max(start, 1), len(log.modified))), (seed, log, time)
        shown = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "timestamp").collect()
        found = {row.version: round(row.timestamp.timestamp() * 1000) - BEGIN for row in shown}
        assert found == log.times(log.first), (seed, log)


def summed(rows: pa.Table) -> dict[tuple[Any, ...], int]:
    """How often each row came in each version, or went if it is negative, with the version's time."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for kind, *row in zip(
        rows["_change_type"].to_pylist(), *rows.drop_columns("_change_type").to_pydict().values(), strict=True
    ):
        sums[tuple(row)] += SIGNS[kind]
    return {row: n for row, n in sums.items() if n}


def images(rows: pa.Table) -> set[tuple[Any, ...]]:
    """The images of updates, with their words and versions."""
    names = ["_change_type", *rows.schema.names[:3], "_commit_version"]
    lines = zip(*rows.select(names).to_pydict().values(), strict=True)
    return {line for line in lines if line[0].startswith("update")}


def main() -> None:
    folder = Path(sys.argv[1])
    spark = session(folder / "spark")
    try:
        for name in sys.argv[2:]:
            said = ""
            try:
                CASES[name](spark, folder / "tables" / name)
            except Exception:
                said = traceback.format_exc()
            (folder / name).write_text(said)
    finally:
        spark.stop()


@case
def disabled(spark: SparkSession, table: Path) -> None:
    """What we disable, Spark reads at each version and writes to; the protocol is that of Spark's own DROP FEATURE."""
    theirs = table.with_name("dropped_by_spark")
    rows = pa.table({"id": range(20), "s": ["a", "b"] * 10})
    protocols = []
    for folder in (table, theirs):
        delta.create_table(folder, rows.schema)
        delta.append(folder, rows)
        delta.delete(folder, "id < 5")
        delta.update(folder, "id = 7", {"s": "new"})
    before = {version: by_us(table, snapshot_id=version) for version in range(4)}
    delta.disable(table)
    spark.sql(f"ALTER TABLE delta.`{theirs}` DROP FEATURE deletionVectors")
    for folder in (table, theirs):
        assert agreed(spark, folder, counted=True) == before[3]
        assert delta.vectors(folder).num_rows == 0
        protocols.append(delta.snapshot(folder).protocol)
        for version, found in before.items():
            assert (
                in_order(sql(spark, folder, f"SELECT * FROM {{t}} VERSION AS OF {version}").toArrow())
                == found
            )
    assert protocols[0] == protocols[1]
    assert delta.disable(theirs).commit.id is None
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 9")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (90, 'z')")
    delta.append(table, rows.slice(0, 1))
    assert [row["id"] for row in agreed(spark, table)] == [0, 5, 6, 7, 8, *range(10, 20), 90]
    assert delta.verify(table) == []
    v2 = table.with_name("v2")
    properties = "'delta.enableDeletionVectors'='true', 'delta.checkpointPolicy'='v2'"
    sql(spark, v2, f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({properties}) AS SELECT id FROM range(20)")
    delta.delete(v2, "id < 5")
    delta.disable(v2)
    spark.sql(f"DELETE FROM delta.`{v2}` WHERE id = 9")
    assert [row["id"] for row in agreed(spark, v2)] == [*range(5, 9), *range(10, 20)]


@case
def statistics_of_columns(spark: SparkSession, table: Path) -> None:
    """A file of ours has statistics of the columns of which one of Spark's has them."""
    columns = {
        "id": "BIGINT", "Upper": "STRING", "s": "STRUCT<x: INT, `Y`: STRING, t: STRUCT<z: DOUBLE>>", "`a.b`": "INT",
        "`c,d`": "INT", "`e``f`": "INT", "dec": "DECIMAL(10, 2)", "day": "DATE", "at": "TIMESTAMP", "ntz": "TIMESTAMP_NTZ",
        "p": "STRING", "flag": "BOOLEAN", "bin": "BINARY", "l": "ARRAY<INT>", "m": "MAP<STRING, INT>", "last": "INT",
    }  # fmt: skip
    values = (
        "1, 'u', named_struct('x', 1, 'Y', 'p', 't', named_struct('z', -0.0D)), 3, 4, 5, 1.50, DATE'2020-01-01', "
        "TIMESTAMP'2020-01-01 00:00:00', TIMESTAMP_NTZ'2020-01-01 00:00:00', 'part', true, X'02', array(1), map('k', 1), 9"
    )
    names = ("id", "ID, upper", "s", "s.y", "s.`Y`", "S.T", "`a.b`, `c,d`", "`e``f`", "dec,day,at,ntz", "")
    numbers = ("0", "1", "3", "6", "12", "-1")
    for number, (name, value) in enumerate(
        [*(("StatsColumns", text) for text in names), *(("NumIndexedCols", text) for text in numbers)]
    ):
        folder = table / str(number)
        spark.sql(
            f"CREATE TABLE delta.`{folder}` ({', '.join(map(' '.join, columns.items()))}) USING delta PARTITIONED BY (p) "
            f"TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.enableDeletionVectors'='true', "
            f"'delta.dataSkipping{name}'='{value}')"
        )
        spark.sql(f"INSERT INTO delta.`{folder}` SELECT {values}")
        delta.append(folder, delta.scan(folder).to_arrow())
        base = delta.snapshot(folder)
        theirs, ours = (set(stated(json.loads(add["stats"]))) for add in base.adds([0, 1]))
        assert ours == theirs, (name, value, ours ^ theirs)
        agreed(spark, folder)


def stated(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the values in JSON."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from stated(inner, (*above, name))
    else:
        yield above


if __name__ == "__main__":
    main()
