"""In scans and deletes on Spark, text is Spark SQL; PyIceberg expressions mean the same as in Iceberg."""

from __future__ import annotations

import datetime
import logging
import random
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import GreaterThan, LessThanOrEqual, Not

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.grammar import parse_filter
from puffin_fast.spark.table import conditions

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
NAN = float("nan")
N = 60


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    random_ = random.Random(4)
    words = [None, "a", "ab", "axb", "b", "ü", "a%b", "a b", "x\ny"]
    day = datetime.date(2024, 1, 14)
    rows = pa.table(
        {
            "id": pa.array(range(N), pa.int64()),
            "n": pa.array([random_.choice([None, 1, 2, -3]) for _ in range(N)], pa.int32()),
            "s": [random_.choice(words) for _ in range(N)],
            "day": [random_.choice([None, day, day + datetime.timedelta(1)]) for _ in range(N)],
            "ok": [random_.choice([None, True, False]) for _ in range(N)],
            "x": [random_.choice([None, NAN, -0.0, 0.0, 1.5]) for _ in range(N)],
            "price": pa.array([Decimal(2990 + i).scaleb(-2) for i in range(N)], pa.decimal128(9, 2)),
            "ts": [datetime.datetime(2024, 1, 14, 12) + datetime.timedelta(hours=i) for i in range(N)],
        }
    )
    made = iceberg.create_table(racing, "n.t", rows.schema)
    for first in range(0, N, 20):
        iceberg.append(made, rows.slice(first, 20))
    return made


def ids(spark: SparkSession, table: Table, row_filter: Any) -> list[int]:
    found: list[int] = ps.scan(spark, table, row_filter, ["id"]).toArrow()["id"].to_pylist()
    return sorted(found)


ALIKE = [
    "n > 1", "not n > 1", "n in (1, 2)", "n not in (1, -3)", "3 >= n", "n <> 1 or s is null", "n > 3000000000",
    "s like 'a_b'", "s not like '%b'", "s like 'a!%b' escape '!'", "s like '_'", "s < 'b'", "s in ('a', 'ü')",
    "day = '2024-01-15'", "day > date '2024-01-14'", "not (day < '2024-01-15')", "ok = true", "not ok = false",
    "x is null", "true",
    "n between 1 and 2 and not s = 'ab'", "s not between 'a' and 'b'", "s like 'x_y'",
    "id % 7 = 1", "n % 2 <> -1", "not n % -2 >= 0", "n % 3000000000 = -3", "id % 7 < 99999999999999999999",
]  # fmt: skip

SPARK_S = [
    "ts >= '2024-01-15'", "price > 29.955", "ID = 1", "x > 0", "x = double('NaN')", "not (x <= 0)",
    "s like 'a\\\\%b'", "n = '1'", "s = ''", "s = 'a\"b'", "isnan(x)",
    "n is not null and x <= 1",
]  # fmt: skip


def test_text_means_what_spark_says_whether_pruned_or_not(spark: SparkSession, table: Table) -> None:
    from pyspark.sql import functions as f

    columns = [
        f.expr(text).alias(text) for text in (*ALIKE, *SPARK_S)
    ]  # nothing is pruned by what is not a filter
    everything = ps.scan(spark, table).select("id", *columns).orderBy("id").collect()
    for texts, alike in ((ALIKE, True), (SPARK_S, False)):
        for text in texts:
            assert (conditions.sql_condition(spark, text, table.schema())[0] is None) == alike, text
            wanted = [row.id for row in everything if row[text]]
            assert ids(spark, table, text) == wanted, text
            assert ps.delete(spark, table, text, dry_run=True).rows_deleted == len(wanted), text
            if alike:
                assert sorted(iceberg.scan(table, text).to_arrow()["id"].to_pylist()) == wanted, text


def test_columns_mean_what_spark_says_whether_pruned_or_not(spark: SparkSession, table: Table) -> None:
    from pyspark.sql import functions as f

    day = datetime.date(2024, 1, 14)
    alike = [
        f.col("id") < 10, f.lit(10) >= f.col("id"), f.col("n") == -3, f.col("n") != 1, ~(f.col("n") > 1),
        f.col("id") % 7 == 1, f.col("n") % 2 != -1, f.lit(0) < f.col("n") % -2, f.col("n") > 2**40,
        (f.col("n") > 1) | f.col("s").isNull(), f.col("s").isNotNull() & f.col("s").startswith("a"),
        f.col("s").like("a_b"), ~f.col("s").like("%b"), f.col("`s`").isin("a", "ü"), ~f.col("n").isin(1, -3),
        f.col("day") == day, f.col("day") > day, f.col("ok"), ~f.col("ok"), f.col("ok") == True,  # noqa: E712
        f.col("n").between(1, 2), f.lit(True), f.expr("n > 1 and s <> 'b'"), f.expr("id % 7 = 1") | f.col("ok"),
    ]  # fmt: skip
    others = [
        f.col("x") > 0, f.col("price") > 29.955, f.col("ID") == 1, f.col("n") == "1",
        f.col("n").cast("long") == 1, f.col("n").eqNullSafe(1), f.col("id") + 1 == 5, f.col("s").contains("b"),
        f.col("n") % 1.5 == 1, f.col("s").like("a\\%b"),
        f.col("ts") > datetime.datetime(2024, 1, 15), f.lit(None) == f.col("n"),
        f.length("s") == 1, f.col("n").isin(1, None), f.expr("s = ''"), -f.col("n") == 3,
    ]  # fmt: skip
    everything = ps.scan(spark, table).select(
        "id", *(condition.alias(f"c{at}") for at, condition in enumerate([*alike, *others]))
    )
    rows = everything.collect()
    for at, condition in enumerate([*alike, *others]):
        spark_s, found = conditions.sql_condition(spark, condition, table.schema())
        assert (spark_s is None) == (at < len(alike)), condition
        wanted = sorted(row.id for row in rows if row[f"c{at}"])
        assert ids(spark, table, condition) == wanted, condition
        assert ps.delete(spark, table, condition, dry_run=True).rows_deleted == len(wanted), condition
        if spark_s is None:
            assert sorted(iceberg.scan(table, found).to_arrow()["id"].to_pylist()) == wanted, condition


def test_what_spark_would_cast_is_spark_s(spark: SparkSession, table: Table) -> None:
    from pyspark.sql import functions as f

    column = spark.range(3).id
    for condition in (column < 2, f.col("s") == datetime.date(2024, 1, 14), "s = date '2024-01-14'"):
        assert conditions.sql_condition(spark, condition, table.schema())[0] is not None


def test_expressions_compare_nan_as_iceberg_and_text_as_spark(spark: SparkSession, table: Table) -> None:
    for expression in (
        GreaterThan("x", 1.0),
        Not(LessThanOrEqual("x", 1.0)),
        parse_filter("s like '%b' and x <> 0"),
    ):
        wanted = sorted(iceberg.scan(table, expression).to_arrow()["id"].to_pylist())
        assert ids(spark, table, expression) == wanted
        assert ps.delete(spark, table, expression, dry_run=True).rows_deleted == len(wanted)
    assert len(ids(spark, table, "x > 1.0")) > len(ids(spark, table, GreaterThan("x", 1.0)))


def test_deletes_take_the_rows_that_a_scan_of_the_same_text_shows(spark: SparkSession, table: Table) -> None:
    for text in ("s like '_' and id < 40", "x > 1.0 and id > 20", "ts >= '2024-01-16' and price > 29.955"):
        shown, before = ids(spark, table, text), ids(spark, table, "true")
        assert ps.delete(spark, table, text).rows_deleted == len(shown) > 0
        assert ids(spark, table, "true") == sorted(set(before) - set(shown))


def test_scans_by_a_condition_give_the_columns_asked_for(spark: SparkSession, table: Table) -> None:
    found = ps.scan(spark, table, "id % 2 = 0 and price > 29.955", ["s", "_pos", "id"], limit=3).toArrow()
    assert found.schema.names == iceberg.scan(table, selected_fields=["s", "_pos", "id"]).schema.names
    assert found.num_rows == 3
    assert ps.scan(spark, table, "id % 2 = 0").columns == ps.scan(spark, table).columns


@pytest.mark.parametrize("text", ["x is nan", "nobody = 1", "id + 1", "s like 'a\\\\b'"])
def test_text_that_is_no_sql_of_spark_is_refused(spark: SparkSession, table: Table, text: str) -> None:
    before = table.metadata_location
    with pytest.raises(InvalidInputError, match="text is Spark's SQL here"):
        ps.delete(spark, table, text)
    if "like" not in text:  # Spark finds an escape in the wrong place when it runs
        with pytest.raises(InvalidInputError, match="text is Spark's SQL here"):
            ps.scan(spark, table, text)
    assert table.refresh().metadata_location == before


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('"s" is not null', '"s"'),
        ('"id" not in (1, 2)', '"id"'),
        ('n = 1 or s = "it\'s"', '"it\'s"'),
        ("s = 'a''b' and \"s", '"s'),
        ("`s` = r'\\' or \"a\"\"b\" = 'x'", '"a""b"'),
    ],
)
def test_double_quotes_are_refused_because_they_are_no_names(
    spark: SparkSession, table: Table, text: str, quoted: str
) -> None:
    before = table.metadata_location
    for run in (
        lambda: ps.delete(spark, table, text),
        lambda: ps.update(spark, table, text, {"n": 1}),
        lambda: ps.scan(spark, table, text),
    ):
        with pytest.raises(InvalidInputError, match=re.escape(f"{quoted} is text in Spark's SQL")):
            run()
    assert table.refresh().metadata_location == before


def test_double_quotes_are_names_if_the_session_says_so(spark: SparkSession, table: Table) -> None:
    wanted = sorted(iceberg.scan(table, '"s" is not null').to_arrow()["id"].to_pylist())
    names = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
    before = {name: spark.conf.get(name) for name in names}
    try:
        for name in names:
            spark.conf.set(name, "true")
        assert ids(spark, table, '"s" is not null') == wanted
        assert ps.delete(spark, table, '"s" is not null', dry_run=True).rows_deleted == len(wanted) < N
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_double_quotes_inside_of_other_tokens_are_characters(spark: SparkSession, table: Table) -> None:
    for text in ("s = 'a\"b'", "s <> 'a''\"b' -- \"s\"", "s = '\\'\"' /* \"s\" */", "`s` <> R'\"'"):
        assert conditions.sql_condition(spark, text, table.schema())[0] is not None


def test_a_condition_that_fails_for_a_row_is_named(spark: SparkSession, table: Table) -> None:
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    try:
        spark.conf.set("spark.sql.ansi.enabled", "true")
        for text in ("cast(s as int) = 1", "1 / (id - 5) > 2", "cast(s as date) = day", "array(id)[id] = 1"):
            with pytest.raises(InvalidInputError, match=r"filter .*: text is Spark's SQL here"):
                ps.delete(spark, table, text)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi)


def test_executors_evaluate_pyarrow_filters_for_live_rows_and_name_one_that_fails(
    spark: SparkSession, table: Table
) -> None:
    iceberg.delete(table, "id = 7")
    inverse = pc.divide(pc.scalar(840), pc.field("id") - 7)  # fails for 7
    expected = iceberg.delete(table, inverse == 840, dry_run=True).rows_deleted
    assert expected == ps.delete(spark, table, inverse == 840).rows_deleted == 1
    with pytest.raises(InvalidInputError, match=r"filter .*: .*zero"):
        ps.delete(spark, table, pc.divide(pc.scalar(840), pc.field("id") - 9) == 840)


def test_errors_of_spark_are_one_line_and_nothing_else_is_printed(spark: SparkSession, table: Table) -> None:
    from pyspark.logger import PySparkLogger

    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = logged.append  # type: ignore[method-assign]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    try:
        for condition in ("nope > 1", "n +", "cast(s as int) = 1", "1 / (id - id) > 0"):
            for job in (ps.delete, lambda *given: ps.update(*given, {"n": 1})):
                with pytest.raises(InvalidInputError) as caught:
                    job(spark, table, condition)
                text = str(caught.value)
                assert "\n" not in text
                assert condition in text
                assert len(text) < 600
        assert logged == []
        assert logger.filters == []
        with pytest.raises(Exception, match="nope"):  # Spark's own jobs print as before
            spark.range(1).where("nope > 1").collect()
        assert len(logged) == 1
    finally:
        logger.removeHandler(handler)
