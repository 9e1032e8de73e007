"""The cases of Iceberg's suites of DELETE, UPDATE and MERGE as merge-on-read: the rows are those of its verbs.

Each case runs on two tables with the same rows, by this package on one and by Spark's SQL on the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar]

COLUMNS = "id INT, dep STRING, x DOUBLE, s STRUCT<c1: INT, c2: STRING>"
ROWS = """
    (1, 'hr', 1.0D, named_struct('c1', 3, 'c2', 'v1')), (2, 'hardware', 2.0D, named_struct('c1', 2, 'c2', 'v2')),
    (NULL, 'hr', NULL, NULL), (3, NULL, CAST('NaN' AS DOUBLE), named_struct('c1', NULL, 'c2', 'v3')),
    (4, 'software', -0.0D, NULL), (10, 'hr', 1e31D, named_struct('c1', 3, 'c2', NULL))
"""
MODES = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))


class Twins:
    """Two tables with the same rows."""

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, namespace: str) -> None:
        self.spark, self.catalog, self.namespace = spark, catalog, namespace
        catalog.create_namespace_if_not_exists(namespace)
        self.ours, self.theirs = (f"{catalog.name}.{namespace}.{who}" for who in ("ours", "theirs"))

    def both(self, *statements: str) -> None:
        """Runs SQL on both; ``{t}`` is the name of the table."""
        for statement in statements:
            for name in (self.ours, self.theirs):
                self.spark.sql(statement.format(t=name))

    def made(
        self, *, version: int = 3, partitioned: str = "", rows: str | None = ROWS, columns: str = COLUMNS
    ) -> None:
        """Makes the tables anew."""
        properties = f"TBLPROPERTIES ('format-version' = '{version}', {MODES})"
        self.both(
            "DROP TABLE IF EXISTS {t}",
            f"CREATE TABLE {{t}} ({columns}) USING iceberg {partitioned} {properties}",
            *([] if rows is None else [f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}"]),
        )

    def agree(self, what: object) -> list[str]:
        """Checks that both have the same rows, and returns them."""
        found = []
        for name in (self.ours, self.theirs):
            self.spark.catalog.refreshTable(name)
            found.append(sorted(str(tuple(row)) for row in self.spark.table(name).collect()))
        assert found[0] == found[1], what
        assert iceberg.verify(self.catalog.load_table(f"{self.namespace}.ours")) == []
        return found[0]


@pytest.fixture
def twins(iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str) -> Twins:
    values = "(1), (2), (CAST(NULL AS INT)), (11)"
    iceberg_spark.sql(f"SELECT * FROM VALUES {values} AS v(value)").createOrReplaceTempView("some_ids")
    pairs = "(1, 'hr'), (2, 'hr'), (10, 'hr')"
    iceberg_spark.sql(f"SELECT * FROM VALUES {pairs} AS v(a, b)").createOrReplaceTempView("some_pairs")
    return Twins(iceberg_spark, shared_catalog, namespace)


CONDITIONS = (
    "id > 100",
    "id = 1 AND dep = 'software'",
    "1 > 20",
    "id < 2 OR 1 > 2",
    "dep = NULL",
    "dep <=> NULL",
    "dep <> 'hr'",
    "NOT (dep = 'hr' AND id > 1)",
    "id IN (1, NULL)",
    "id NOT IN (1, NULL)",
    "id NOT IN (1, 10) AND dep NOT IN ('hr')",
    "dep IS NULL OR id IS NULL",
    "s.c1 = 3",
    "s.c1 IS NULL",
    "s IS NULL",
    "s.c1 = id + 2",
    "x = 0.0",
    "x > 1e30",
    "isnan(x)",
    "id IN (SELECT value FROM some_ids)",
    "id NOT IN (SELECT value FROM some_ids)",
    "id NOT IN (SELECT value FROM some_ids WHERE value IS NOT NULL)",
    "(id, dep) IN (SELECT a, b FROM some_pairs)",
    "EXISTS (SELECT 1 FROM some_ids WHERE value = id)",
    "NOT EXISTS (SELECT 1 FROM some_ids WHERE value = id)",
    "id <= (SELECT min(value) FROM some_ids)",
    "1 < 20",
)


def test_deletes_by_a_condition(twins: Twins) -> None:
    """Counts by a dry run on one table; Spark's SELECT says what its DELETE deletes, but for bounds without NaN."""
    twins.made(rows=ROWS)
    table = twins.catalog.load_table(f"{twins.namespace}.ours")
    for condition in CONDITIONS:
        expected = twins.spark.sql(f"SELECT * FROM {twins.theirs} WHERE {condition}").count()
        found: Any = ps.delete(twins.spark, table, condition, dry_run=True)
        assert found.rows_deleted == expected, condition
        assert bool(found.warning) == (condition == "x > 1e30"), condition
    for condition in (
        "id IN (1, NULL)",
        "s.c1 = 3",
        "(id, dep) IN (SELECT a, b FROM some_pairs)",
        "dep <=> NULL",
    ):
        ps.delete(twins.spark, twins.ours, condition)
        twins.spark.sql(f"DELETE FROM {twins.theirs} WHERE {condition}")
        twins.agree(condition)
    ps.delete(twins.spark, twins.ours, "true")
    twins.spark.sql(f"DELETE FROM {twins.theirs}")
    assert twins.agree("all") == []


def test_updates_by_a_condition_that_takes_nan_for_the_largest_number_say_so(twins: Twins) -> None:
    from pyspark.sql import functions as f

    twins.made(rows="(1, 'a', CAST('NaN' AS DOUBLE), NULL), (2, 'b', 1.0D, NULL), (3, 'c', 2e30D, NULL)")
    table = twins.catalog.load_table(f"{twins.namespace}.ours")
    for values in ({"dep": "new"}, {"dep": f.upper("dep")}, {"id": f.col("id") + 10, "dep": f.lit("x")}):
        found: Any = ps.update(twins.spark, table, "x > 1e30", values, dry_run=True)
        assert (found.rows_updated, found.warning[:32]) == (2, "1 updated rows have NaN in a col"), values
        for condition in ("isnan(x)", "x < 1e30", "id = 1"):
            assert ps.update(twins.spark, table, condition, values, dry_run=True).warning is None  # type: ignore[union-attr]
    found = ps.update(twins.spark, twins.ours, "x > 1e30", {"dep": f.upper("dep")})
    assert (found.rows_updated, found.warning[:32]) == (2, "1 updated rows have NaN in a col")
    twins.spark.sql(f"UPDATE {twins.theirs} SET dep = upper(dep) WHERE x > 1e30")
    twins.agree("x > 1e30")


def test_a_condition_that_bounds_exclude_deletes_more_than_sparks_delete_and_says_so(twins: Twins) -> None:
    twins.made(rows="(1, 'a', CAST('NaN' AS DOUBLE), NULL), (2, 'b', 1.0D, NULL)")
    found: Any = ps.delete(twins.spark, twins.ours, "x > 1e30")
    assert (found.rows_deleted, found.warning[:32]) == (1, "1 deleted rows have NaN in a col")
    twins.spark.sql(f"DELETE FROM {twins.theirs} WHERE x > 1e30")
    assert twins.spark.table(twins.theirs).count() == 2
    twins.made(rows="(1, 'a', CAST('NaN' AS DOUBLE), NULL), (2, 'b', 1.0D, NULL)")
    table = twins.catalog.load_table(f"{twins.namespace}.ours")
    assert iceberg.delete(table, "x > 1e30").rows_deleted == 0


def test_empty_tables_and_branches(twins: Twins) -> None:
    twins.made(rows=None)
    table = twins.catalog.load_table(f"{twins.namespace}.ours")
    new = twins.spark.sql("SELECT 7 id, 'new' dep, 1.0D x, named_struct('c1', 1, 'c2', 'n') s")
    assert ps.delete(twins.spark, table, "id IN (1)").commit.id is None  # type: ignore[union-attr]
    assert ps.update(twins.spark, table, "dep = 'hr'", {"id": -1}).commit.id is None  # type: ignore[union-attr]
    assert ps.delete_keys(new, table, "id").commit.id is None  # type: ignore[union-attr]
    ps.upsert(new, table, "id")
    new.createOrReplaceTempView("new_rows")
    twins.spark.sql(
        f"MERGE INTO {twins.theirs} t USING new_rows n ON t.id = n.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert len(twins.agree("upsert into an empty table")) == 1
    with pytest.raises(NotFoundError, match="branch"):
        ps.delete(twins.spark, table, "id = 7", branch="nobody")
    twins.both("ALTER TABLE {t} CREATE BRANCH audit")
    ps.delete(twins.spark, twins.ours, "id = 7", branch="audit")
    twins.spark.sql(f"DELETE FROM {twins.theirs}.branch_audit WHERE id = 7")
    assert len(twins.agree("main")) == 1
    for name in (twins.ours, twins.theirs):
        assert twins.spark.sql(f"SELECT * FROM {name} VERSION AS OF 'audit'").count() == 0


def test_settings_of_write_audit_publish_are_not_ignored(twins: Twins) -> None:
    """With them, Spark's own verbs write to another branch, or publish nothing."""
    twins.made(columns="id INT", rows="(1), (2)")
    twins.both(
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')", "ALTER TABLE {t} CREATE BRANCH w"
    )
    for name in ("spark.wap.branch", "spark.wap.id"):
        twins.spark.conf.set(name, "w")
        try:
            with pytest.raises(UnsupportedError, match=name):
                ps.delete(twins.spark, twins.ours, "id = 1")
            if name == "spark.wap.branch":
                assert ps.delete(twins.spark, twins.ours, "id = 1", branch="w").rows_deleted == 1
                twins.spark.sql(f"DELETE FROM {twins.theirs} WHERE id = 1")
        finally:
            twins.spark.conf.unset(name)
    assert len(twins.agree("main")) == 2
    for name in (twins.ours, twins.theirs):
        assert twins.spark.sql(f"SELECT * FROM {name} VERSION AS OF 'w'").count() == 1


def test_partition_specs_change_and_old_position_deletes_stay(twins: Twins) -> None:
    columns, rows = "id INT, dep STRING", "(1, 'hr'), (2, 'hr'), (3, 'it'), (4, NULL)"
    twins.made(version=2, columns=columns, rows=rows)
    twins.both("DELETE FROM {t} WHERE id = 1")  # position deletes of Spark in format version 2
    insert = f"INSERT INTO {{t}} SELECT id + {{{{n}}}}, dep FROM VALUES {rows} AS v(id, dep)"
    for n, statement in enumerate(
        (
            "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')",
            "ALTER TABLE {t} ADD PARTITION FIELD dep",
            "ALTER TABLE {t} REPLACE PARTITION FIELD dep WITH bucket(2, id)",
        ),
        1,
    ):
        twins.both(statement, insert.replace("{{n}}", str(10 * n)))
    for condition in ("id = 2", "id IN (12, 23, 33)", "dep = 'it'", "dep IS NULL AND id % 2 = 0 AND id > 20"):
        ps.delete(twins.spark, twins.ours, condition)
        twins.spark.sql(f"DELETE FROM {twins.theirs} WHERE {condition}")
        twins.agree(condition)
    ps.update(twins.spark, twins.ours, "id = 11", {"dep": "moved"})
    twins.spark.sql(f"UPDATE {twins.theirs} SET dep = 'moved' WHERE id = 11")
    assert any("moved" in row for row in twins.agree("a row moves to another partition"))


def test_updates(twins: Twins) -> None:
    from pyspark.sql import functions as f

    twins.made(partitioned="PARTITIONED BY (dep)")
    shifted = "id IN (SELECT id + 1 FROM {t})"
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("id > 100", {"x": 9.5}, "x = 9.5D"),
        ("dep = NULL", {"x": 9.5}, "x = 9.5D"),
        ("dep = 'hr' AND id IS NOT NULL", {"s": f.expr("named_struct('c1', id, 'c2', dep)")},
         "s = named_struct('c1', id, 'c2', dep)"),
        ("s IS NOT NULL", {"s": f.col("s").withField("c1", f.lit(-1))}, "s.c1 = -1"),
        (shifted, {"dep": f.upper("dep"), "id": f.col("id") + 100}, "dep = upper(dep), id = id + 100"),
        ("x > 0 AND id % 2 = 0", {"x": None, "dep": "it"}, "x = NULL, dep = 'it'"),
        ("true", {"id": f.col("id") + 1}, "id = id + 1"),
    )  # fmt: skip
    for condition, values, text in cases:
        ps.update(twins.spark, twins.ours, condition.format(t=twins.ours), values)
        twins.spark.sql(f"UPDATE {twins.theirs} SET {text} WHERE {condition.format(t=twins.theirs)}")
        twins.agree(condition)


MATCHED = "WHEN MATCHED THEN UPDATE SET *"
NEW = "WHEN NOT MATCHED THEN INSERT *"
EVERY = {"when_matched_update_all": True, "when_not_matched_insert_all": True}


def test_merges(twins: Twins) -> None:
    spark = twins.spark
    columns = "id INT, day DATE, v STRING"
    cases: tuple[tuple[str, dict[str, bool], str], ...] = (
        ("PARTITIONED BY (days(day))", EVERY, f"{MATCHED} {NEW}"),
        (
            "PARTITIONED BY (bucket(3, id), truncate(1, v))",
            {**EVERY, "when_not_matched_insert_all": False},
            MATCHED,
        ),
        ("PARTITIONED BY (v)", {**EVERY, "when_matched_update_all": False}, NEW),
    )
    given = spark.sql("SELECT CAST(id AS INT) id, date'2024-01-05' day, 'new' v FROM range(3, 9)")
    for partitioned, options, clauses in cases:
        rows = ", ".join(f"({i % 6}, date'2024-01-0{i % 3 + 1}', '{'ab'[i % 2]}')" for i in range(8))
        twins.made(columns=columns, partitioned=partitioned, rows=rows)  # the ids 0 and 1 are there twice
        found: Any = ps.upsert(given, twins.ours, "id", **options)  # type: ignore[arg-type]
        given.createOrReplaceTempView("given")
        spark.sql(f"MERGE INTO {twins.theirs} t USING given g ON t.id = g.id {clauses}")
        twins.agree(clauses)
        expected = (3 if "MATCHED THEN UPDATE" in clauses else 0, 3 if NEW in clauses else 0)
        assert (found.rows_updated, found.rows_inserted) == expected
    own = spark.table(twins.ours).where("id > 1")
    unchanged: Any = ps.upsert(own, twins.ours, "id", skip_unchanged=True)
    assert (unchanged.rows_updated, unchanged.rows_inserted, unchanged.commit.id) == (0, 0, None)


def test_what_iceberg_refuses_is_refused(twins: Twins) -> None:
    """Several source rows for one row, NULL in a required column, values of other types, unknown columns."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    spark = twins.spark
    twins.made(columns="id INT NOT NULL, v STRING", rows="(1, 'a'), (2, 'b')")
    spark.sql("SELECT * FROM VALUES (1, 'x'), (1, 'y') AS g(id, v)").createOrReplaceTempView("twice")
    spark.sql("SELECT CAST(NULL AS INT) id, 'x' v").createOrReplaceTempView("no_key")
    spark.sql("SELECT 1 id, 'x' v, 2 more").createOrReplaceTempView("more")
    merge = f"MERGE INTO {twins.theirs} t USING {{}} g ON t.id = g.id {MATCHED} {NEW}"
    cases: tuple[tuple[Callable[[], Any], str | None], ...] = (
        (lambda: ps.upsert(spark.table("twice"), twins.ours, "id"), merge.format("twice")),
        (lambda: ps.upsert(spark.table("no_key"), twins.ours, "id"), merge.format("no_key")),
        (lambda: ps.append(spark.table("no_key"), twins.ours), f"INSERT INTO {twins.theirs} SELECT * FROM no_key"),
        (lambda: ps.update(spark, twins.ours, "id = 1", {"id": None}), f"UPDATE {twins.theirs} SET id = NULL"),
        (lambda: ps.update(spark, twins.ours, "id = 1", {"id": f.lit("text")}),
         f"UPDATE {twins.theirs} SET id = 'text'"),
        (lambda: ps.update(spark, twins.ours, "id = 1", {"nobody": 1}), f"UPDATE {twins.theirs} SET nobody = 1"),
        (lambda: ps.delete(spark, twins.ours, "nobody = 1"), f"DELETE FROM {twins.theirs} WHERE nobody = 1"),
        (lambda: ps.upsert(spark.table("more"), twins.ours, "id"), None),  # MERGE ignores other columns
    )  # fmt: skip
    for job, statement in cases:
        with pytest.raises((InvalidInputError, NotFoundError)):
            job()
        if statement is not None:
            with pytest.raises(PySparkException):
                spark.sql(statement).collect()
    assert twins.agree("nothing has changed") == ["(1, 'a')", "(2, 'b')"]
