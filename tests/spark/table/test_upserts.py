"""Upserts on executors give the rows, lineage and counts of the single machine, and those of Spark's MERGE."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from tests.iceberg.conftest import rows_of
from tests.iceberg.dml.example_rows import SCHEMA, START, check, made, of, row
from tests.kit.rows import by_duckdb, by_pyiceberg
from tests.kit.tables import files_of
from tests.spark.results import facts, lineage
from tests.spark.table.delete_files import copy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
NEW = [
    row(3, "g1", 0.5),
    row(100),
    START[7],
    row(25, None, None),
    {**START[8], "tags": ["new"]},
    row(101, "g2", -0.0),
    {**START[40], "s": {"a": 5, "b": None}},
]

DDL = "id bigint, g string, x double, tags array<string>, s struct<a: int, b: string>"


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(of(rows), DDL).repartition(3)


def old_lineage(table: Table) -> list[str]:
    """The rows with their lineage; without the row id if the row was inserted."""
    inserted = (40, 100, 101)
    return sorted(
        repr([v for k, v in row.items() if k != "_row_id" or row["id"] not in inserted])
        for row in lineage(table)
    )


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("version", "spec"), [(2, ()), (3, ("g",))], ids=["flat-2", "partitioned-3"])
def test_the_rows_and_lineage_of_the_single_machine(
    spark: SparkSession,
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
) -> None:
    table = made(racing, "n", version=version, spec=spec)
    iceberg.delete(table, "id = 17 or id = 40")
    iceberg.append(table, of([row(25, "twice"), row(8, "twice")]))
    single = copy_of(racing, table)
    given = frame(spark, NEW)

    def agree(**options: Any) -> None:
        found = ps.upsert(given, table, "id", duplicate_keys="replace", **options)
        expected = iceberg.upsert(single, of(NEW), "id", duplicate_keys="replace", **options)
        written = (
            "data_files_written",
            "vectors_written",
            "position_delete_files_written",
        )  # depend on the number of tasks
        assert facts(found, *written) == facts(expected, *written)
        assert rows_of(table).sort_by([("id", "ascending"), ("g", "ascending")]) == rows_of(single).sort_by(
            [("id", "ascending"), ("g", "ascending")]
        )
        assert iceberg.verify(table) == []
        if version == 3:  # ids of inserted rows depend on the order of the files
            assert old_lineage(table) == old_lineage(single)
            every = [r["_row_id"] for r in lineage(table)]
            assert len(every) == len(set(every))

    told = ("rows_updated", "rows_inserted", "rows_unchanged")
    dry: dict[str, Any] = {"dry_run": True, "duplicate_keys": "replace"}
    ours, theirs = ps.upsert(given, table, "id", **dry), iceberg.upsert(single, of(NEW), "id", **dry)
    before, files = table.metadata_location, files_of(table)
    for verb in (
        lambda **job: ps.upsert(given, table, "id", **job),
        lambda **job: iceberg.upsert(single, of(NEW), "id", **job),
    ):
        for options in ({}, {"dry_run": True}):
            with pytest.raises(
                InvalidInputError, match="found id: 2 of the given keys have several rows there, 4 in all"
            ):
                verb(**options)
    with pytest.raises(InvalidInputError, match="duplicate_keys: expected 'refuse' or 'replace'"):
        ps.upsert(given, table, "id", duplicate_keys="both")  # type: ignore[arg-type]
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)
    assert [getattr(ours, name) for name in told] == [getattr(theirs, name) for name in told]
    agree(when_not_matched_insert_all=False)
    agree(when_matched_update_all=False)
    agree()
    agree(skip_unchanged=False)
    check(table, duckdb_iceberg, by_pyiceberg(single))


FEED = [
    {**row(3, "g1", 0.5), "gone": False, "at": 2},
    {"id": 3, "gone": True, "at": 1},
    {"id": 8, "gone": True, "at": 1},
    {**row(9, "old"), "gone": False, "at": 1},
    {"id": 9, "gone": True, "at": 5},
    {**row(25, "changed", -1.0), "gone": False, "at": 0},
    {"id": 25, "g": "not read", "gone": True, "at": -1},
    {**START[7], "gone": False, "at": 3},
    {"id": 200, "gone": True, "at": 3},
    {**row(100), "gone": False, "at": 3},
    {**row(101), "gone": False, "at": 4},
    {**row(101), "gone": False, "at": 4},
    {"id": 9, "gone": True, "at": 5},
    {**row(101), "gone": False, "at": 4},
]
"""A change feed: several rows of a key, rows that need only their key, keys that several rows of the table have."""

ONE_EACH = [one for one in FEED if (one["id"], one["at"]) not in {(3, 1), (9, 1), (25, -1)}][:-3]

FEEDS: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
    (FEED, {"order_column": "at", "delete_column": "gone"}),
    ([one for one in FEED if not one["gone"]], {"order_column": "at"}),
    (ONE_EACH, {"delete_column": "gone"}),
    (
        ONE_EACH,
        {"delete_column": "gone", "when_matched_update_all": False, "when_not_matched_insert_all": False},
    ),
    (FEED, {"order_column": "at", "delete_column": "gone", "when_matched_update_all": False}),
    (FEED, {"order_column": "at", "delete_column": "gone", "update_columns": ["g", "tags"]}),
    (ONE_EACH, {"delete_column": "gone", "update_columns": ["s"], "skip_unchanged": False}),
    (NEW, {"update_columns": ["x"], "when_not_matched_insert_all": False}),
    ([{"id": id, "gone": True} for id in (8, 9, 900)], {"delete_column": "gone"}),
    ([row(1000)], {"when_not_matched_insert_all": False}),
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("version", "feeds"), [(2, (0, 3, 6)), (3, range(len(FEEDS)))], ids=["2", "3"])
def test_change_feeds_and_single_columns_as_on_the_single_machine(
    spark: SparkSession,
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    feeds: Sequence[int],
) -> None:
    table = made(racing, "n", version=version, spec=("g",))
    iceberg.append(table, of([row(25, "twice"), row(8, "twice")]))
    kinds = pa.schema([*SCHEMA, pa.field("gone", pa.bool_()), pa.field("at", pa.int32())])
    for number in feeds:
        rows, options = FEEDS[number]
        options = {"duplicate_keys": "replace", **options}
        single, ours = (copy_of(racing, table, f"n.{who}{number}") for who in ("single", "ours"))
        given = pa.Table.from_pylist(rows, kinds).select(
            [
                name
                for name in kinds.names
                if any(name in one for one in rows) and (name in SCHEMA.names or name in options.values())
            ]
        )
        if options.get("when_not_matched_insert_all") is False and "update_columns" in options:
            given = given.select(["id", *options["update_columns"]])
        frame = spark.createDataFrame(given).repartition(3)
        results = [ps.upsert(frame, ours, "id", dry_run=True, **options)] if number == 0 else []
        results.append(ps.upsert(frame, ours, "id", **options))
        expected = iceberg.upsert(single, given, "id", **options)
        told = ("updated", "inserted", "unchanged", "deleted", "superseded")
        for result in results:
            assert {name: getattr(result, f"rows_{name}") for name in told} == {
                name: getattr(expected, f"rows_{name}") for name in told
            }, options
            assert result.keys_deleted == expected.keys_deleted
        left = sorted(map(repr, by_pyiceberg(single)))
        assert sorted(map(repr, by_pyiceberg(ours))) == left, options
        assert sorted(map(repr, by_duckdb(duckdb_iceberg, ours))) == left
        if version == 3:
            assert old_lineage(ours) == old_lineage(single)
        assert iceberg.verify(ours) == []


@pytest.mark.jar
@pytest.mark.parametrize("version", [2, 3])
def test_the_rows_and_lineage_of_sparks_merge(
    shared_catalog: SqlCatalog, namespace: str, iceberg_spark: SparkSession, version: int
) -> None:
    tables = {}
    for who in ("ours", "theirs"):
        shared_catalog.create_namespace(f"{namespace}_{who}")
        tables[who] = made(shared_catalog, f"{namespace}_{who}", version=version, spec=("g",))
        with v3_metadata(shared_catalog):
            tables[who].transaction().set_properties(
                {f"write.{verb}.mode": "merge-on-read" for verb in ("update", "delete", "merge")}
            ).commit_transaction()
    names = {who: f"{shared_catalog.name}.{namespace}_{who}.t" for who in tables}

    def agree() -> None:
        found = []
        for who, table in tables.items():
            table.refresh()
            more = (
                ", _last_updated_sequence_number, if(id < 60 and id <> 50, _row_id, 0)"
                if version == 3
                else ""
            )
            rows = iceberg_spark.sql(f"SELECT *{more} FROM {names[who]} ORDER BY id").toArrow()
            found.append(rows.to_pylist())
            assert by_pyiceberg(table) == rows.select(SCHEMA.names).to_pylist()
        assert found[0] == found[1]

    for some in (NEW, [row(id, "more", id / 8) for id in range(20, 80, 3)]):
        given = frame(iceberg_spark, some)
        ps.upsert(given, tables["ours"], ["id"], skip_unchanged=False)
        given.createOrReplaceTempView("given")
        iceberg_spark.sql(
            f"MERGE INTO {names['theirs']} t USING given s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        agree()
        for name in names.values():  # Spark goes on in both
            iceberg_spark.sql(f"DELETE FROM {name} WHERE id IN (7, 50)")
        agree()


@pytest.mark.usefixtures("way")
def test_refusals_leave_table_and_files_as_they_were(spark: SparkSession, racing: RacingCatalog) -> None:
    from pyspark.sql import functions as f

    table = made(racing, "n")
    before, files = table.metadata_location, files_of(table)
    given = frame(spark, NEW)
    cases: list[tuple[DataFrame, dict[str, Any], type[Exception], str]] = [
        (given, {"join_cols": "nobody"}, NotFoundError, "nobody"),
        (given, {}, InvalidInputError, "identifier fields"),
        (given.drop("x"), {"join_cols": "id"}, InvalidInputError, "no column x"),
        (given.withColumn("more", f.lit(1)), {"join_cols": "id"}, InvalidInputError, "more"),
        (given.withColumn("x", f.col("g")), {"join_cols": "id"}, InvalidInputError, "x"),
        (given.unionAll(given), {"join_cols": "id"}, InvalidInputError, "two rows with one key"),
        (
            given.withColumn("id", f.lit(None).cast("long")),
            {"join_cols": "id"},
            InvalidInputError,
            "null in key",
        ),
        (
            given,
            {"join_cols": "id", "when_matched_update_all": False, "when_not_matched_insert_all": False},
            InvalidInputError,
            "at least one",
        ),
        (given, {"join_cols": "id", "branch": "twig"}, NotFoundError, "twig"),
        (given, {"join_cols": "id", "delete_column": "gone"}, NotFoundError, "no column gone"),
        (given, {"join_cols": "id", "delete_column": "x"}, InvalidInputError, "expected booleans"),
        (
            given.withColumn("gone", f.lit(None).cast("boolean")),
            {"join_cols": "id", "delete_column": "gone"},
            InvalidInputError,
            "expected no null",
        ),
        (
            given.unionAll(given.withColumn("x", f.lit(99.0))).withColumn("at", f.lit(1)),
            {"join_cols": "id", "order_column": "at"},
            InvalidInputError,
            "several rows of one key",
        ),
        (given, {"join_cols": "id", "order_column": "tags"}, InvalidInputError, "an order, found"),
        (
            given.withColumn("at", f.lit(float("nan"))),
            {"join_cols": "id", "order_column": "at"},
            InvalidInputError,
            "found NaN",
        ),
        (given, {"join_cols": "id", "update_columns": ["id"]}, InvalidInputError, "key column"),
        (given, {"join_cols": "id", "update_columns": ["nobody"]}, NotFoundError, "nobody"),
    ]
    for rows, options, error, text in cases:
        with pytest.raises(error, match=text):
            ps.upsert(rows, table, **options)
    assert ps.upsert(given.where("id > 1000"), table, "id").commit.id is None
    assert ps.upsert(given.where("id = 7"), table, "id").commit.id is None
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)


def test_keys_of_several_kinds_and_an_empty_table(
    spark: SparkSession, racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DateType, DoubleType, LongType, NestedField, UUIDType

    schema = Schema(
        NestedField(1, "u", UUIDType(), required=True),
        NestedField(2, "d", DateType(), required=True),
        NestedField(3, "file", DoubleType(), required=True),
        NestedField(4, "c0", LongType()),
        identifier_field_ids=[1, 2],
    )
    table = iceberg.create_table(racing, "n.t", schema)
    ids = [str(uuid.UUID(int=number)) for number in range(4)]
    rows = [(ids[0], 0, 0.0, 1), (ids[1], 1, float("nan"), 2), (ids[2], 2, 5.5, 3), (ids[0], 2, 0.0, 4)]
    given = spark.createDataFrame(rows, "u string, n int, file double, c0 long").selectExpr(
        "u", "date_add(date '2020-01-01', n) as d", "file", "c0"
    )
    assert ps.upsert(given, table).rows_inserted == 4
    changed = given.selectExpr("c0 * 10 as c0", "-file as file", "d", "u").where("c0 < 30")
    again = ps.upsert(changed, table, ["u", "d", "file"])  # -0.0 equals 0.0, NaN equals NaN
    assert (again.rows_updated, again.rows_inserted) == (2, 0)
    found = iceberg.scan(table).to_arrow().sort_by("c0")
    assert found["c0"].to_pylist() == [3, 4, 10, 20]
    assert pa.types.is_date(found["d"].type)
    assert iceberg.verify(table) == []
