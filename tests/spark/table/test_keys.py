"""Deletes by the keys of a DataFrame, broadcast or joined by Spark, delete the same rows as on one machine."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.spark.worker.keys import up_to
from tests.iceberg.conftest import rows_of, rows_of_duckdb
from tests.iceberg.dml.key_tables import KEYS, ROWS, left_after, made
from tests.kit.tables import files_of
from tests.rows.deletes.equality_deletes import delete_equal
from tests.spark.conftest import JOINED, SENT
from tests.spark.results import facts
from tests.spark.table.delete_files import copy_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, keys: pa.Table) -> DataFrame:
    return spark.createDataFrame(keys).repartition(2)


@pytest.mark.parametrize(
    ("name", "null_safe", "spec"),
    [
        ("two", True, ("word", "bucket[3](small)")),
        ("nested", False, ()),
        ("minus zero", False, ("truncate[100](id)",)),
        ("decimal of more digits", False, ()),
    ],
)
def test_both_ways_delete_the_rows_of_the_single_machine(
    spark: SparkSession, racing: RacingCatalog, name: str, null_safe: bool, spec: tuple[str, ...]
) -> None:
    keys, on = KEYS[name]
    table = made(racing, "n", spec=spec)
    iceberg.delete(table, "id < 4 or small = 3")
    if not spec:
        delete_equal(table, [1], [(5,), (100,)])
    sent, single = copy_of(racing, table), copy_of(racing, table, "n.single")
    df, left = frame(spark, keys), left_after(keys, on, null_safe=null_safe)
    before = set(rows_of_scan(table))
    expected = iceberg.delete_keys(single, keys, on, null_safe=null_safe)
    for one, way in ((table, JOINED), (sent, SENT)):
        done = ps.delete_keys(df, one, on, null_safe=null_safe, broadcast_keys=way)
        assert facts(done) == facts(expected)
        assert rows_of_scan(one) == rows_of_scan(single) == sorted(before & set(left))


def rows_of_scan(table: Table) -> list[int]:
    found: list[int] = sorted(iceberg.scan(table, selected_fields=["id"]).to_arrow()["id"].to_pylist())
    return found


def test_uuids_are_strings_or_bytes_and_dry_runs_write_nothing(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    values = [uuid.UUID(int=i) for i in range(10)]
    rows = pa.table({"id": range(10), "u": pa.array([v.bytes for v in values], pa.uuid())})
    table = iceberg.create_table(racing, "n.t", rows.schema)
    iceberg.append(table, rows)
    text = spark.createDataFrame([(str(values[3]).upper(),), ("3",), (f"{values[4]}0",)], "u string")
    raw = spark.createDataFrame([(values[5].bytes,), (b"short",)], "u binary")
    files = files_of(table)
    planned = ps.delete_keys(text, table, ["u"], broadcast_keys=JOINED, dry_run=True)
    assert (planned.rows_deleted, planned.data_files, planned.commit.id) == (1, 1, None)
    assert files_of(table) == files
    for keys in (text, raw):
        assert ps.delete_keys(keys, table, ["u"]).rows_deleted == 1
    assert rows_of(table)["id"].to_pylist() == [0, 1, 2, 4, 6, 7, 8, 9]


def test_an_evolved_key_column_is_found_in_old_files(spark: SparkSession, racing: RacingCatalog) -> None:
    from pyiceberg.types import LongType

    table = racing.create_table("n.t", pa.schema([("k", pa.int32()), ("v", pa.int64())]))
    table.append(pa.table({"k": pa.array([1, 2, None], pa.int32()), "v": [10, 20, 30]}))
    with table.update_schema() as update:
        update.update_column("k", LongType())
        update.rename_column("k", "key")
        update.add_column("late", LongType())
    iceberg.upgrade(table)
    iceberg.append(table, pa.table({"v": [40, 50], "key": [2**40, 2], "late": [None, 7]}))
    sent = copy_of(racing, table)
    for one, way in ((table, JOINED), (sent, SENT)):
        keys = frame(
            spark, pa.table({"key": [2, 2**40, None], "late": pa.array([None, None, 7], pa.int64())})
        )
        done = ps.delete_keys(keys, one, ["key", "late"], null_safe=True, broadcast_keys=way)
        assert done.rows_deleted == 2
        assert sorted(rows_of(one, order="v")["v"].to_pylist()) == [10, 30, 50]


def test_files_between_which_no_key_lies_are_not_opened(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, "n")
    for task in plan_files(table, metrics=True).tasks:
        if int.from_bytes((task.data.lower_bounds or {})[1], "little") != 80:
            task_path = task.data.file_path.removeprefix("file://")
            with open(task_path, "wb") as file:
                file.write(b"not Parquet")
    keys = frame(spark, pa.table({"id": range(90, 140)}))
    for way in (JOINED, SENT):
        planned = ps.delete_keys(keys, table, ["id"], broadcast_keys=way, dry_run=True)
        assert (planned.rows_deleted, planned.data_files) == (50, 1)


def test_bad_keys_are_refused_and_change_nothing(spark: SparkSession, racing: RacingCatalog) -> None:
    table = made(racing, "n")
    before, files = table.metadata_location, files_of(table)
    df = spark.createDataFrame([(1, "a", 1.5)], "id long, word string, x double")
    twice = spark.createDataFrame([(1, 2)], "id long, id long")
    for keys, on, error, message in (
        (df, ["nobody"], NotFoundError, "nobody"),
        (df, ["day"], NotFoundError, "keys: no column day"),
        (df, [], InvalidInputError, "join_cols"),
        (df, None, InvalidInputError, "identifier"),
        (df, ["l"], InvalidInputError, "expected a primitive type"),
        (
            df.withColumnRenamed("word", "id2").withColumnRenamed("x", "word"),
            ["word"],
            InvalidInputError,
            "word",
        ),
        (df.selectExpr("cast(id as string) as id"), ["id"], InvalidInputError, "id is string"),
        (twice, ["id"], InvalidInputError, "2 columns"),
        ("keys", ["id"], InvalidInputError, "DataFrame"),
    ):
        with pytest.raises(error, match=message):
            ps.delete_keys(keys, table, on)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="broadcast_keys"):
        ps.delete_keys(df, table, ["id"], broadcast_keys=-1)
    with pytest.raises(InvalidInputError, match="on_conflict"):
        ps.delete_keys(df, table, ["id"], on_conflict="hope")  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="twig"):
        ps.delete_keys(df, table, ["id"], branch="twig")
    nothing = ps.delete_keys(df.where("id > 5"), table, ["id"])
    assert (nothing.rows_deleted, nothing.commit.id) == (0, None)
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)
    old = racing.create_table("n.v1", ROWS.schema, properties={"format-version": "1"})
    with pytest.raises(UnsupportedError, match="version 1"):
        ps.delete_keys(df, old, ["id"])


@pytest.mark.jar
def test_other_engines_read_what_a_join_deleted(
    iceberg_spark: SparkSession,
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
) -> None:
    table = made(shared_catalog, namespace, spec=("word",))
    name = f"{shared_catalog.name}.{namespace}.t"
    keys = iceberg_spark.sql(f"SELECT id, word FROM {name} WHERE small > 30 OR word IS NULL")
    n_keys = keys.count()
    done = ps.delete_keys(keys, table, ["id", "word"], null_safe=True, broadcast_keys=JOINED)
    assert done.rows_deleted == n_keys > 0
    left = rows_of(table)["id"].to_pylist()
    assert len(left) == ROWS.num_rows - n_keys
    assert iceberg_spark.sql(f"SELECT id FROM {name} ORDER BY id").toArrow()["id"].to_pylist() == left
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == left


@pytest.mark.parametrize("way", [JOINED, SENT])
def test_text_that_is_nearly_a_key_is_none(spark: SparkSession, racing: RacingCatalog, way: int) -> None:
    first, second = (uuid.UUID(int=i) for i in (1, 2))
    ids = pa.array([first.bytes, second.bytes, None], pa.uuid())
    rows = pa.table({"u": ids, "word": ["a", "A", "b"], "id": range(3)})
    table = iceberg.create_table(racing, "n.t", rows.schema)
    iceberg.append(table, rows)
    keys = spark.createDataFrame([(f"{first}\n",), (str(second),)], "u string")
    assert ps.delete_keys(keys, table, ["u"], null_safe=True, broadcast_keys=way).rows_deleted == 1
    assert rows_of(table)["id"].to_pylist() == [0, 2]
    blind = spark.createDataFrame([("a",), ("B",)], "word string").selectExpr(
        "word COLLATE UTF8_LCASE AS word"
    )
    blind = blind.unionAll(blind.selectExpr("upper(word) COLLATE UTF8_LCASE AS word"))
    iceberg.append(table, rows.slice(1, 1))
    assert ps.delete_keys(blind, table, ["word"], broadcast_keys=way).rows_deleted == 2
    assert rows_of(table)["id"].to_pylist() == [2]


def test_few_keys_of_many_bytes_are_joined(
    spark: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [pa.record_batch({"k0": ["x" * 100] * n}) for n in (1, 0, 2, 1)]
    cut = [batch["more"].to_pylist() for batch in up_to(iter(batches), n_bytes=150)]
    assert cut == [[False], [True, True]], "what is over the limit is not passed on"
    monkeypatch.setattr("puffin_fast.spark.table.saved_rows.MOST_BYTES", 100)
    table = made(racing, "n")
    done = ps.delete_keys(frame(spark, ROWS.select(["word"])), table, ["word"], broadcast_keys=SENT)
    assert done.rows_deleted == ROWS.num_rows - ROWS["word"].null_count


def test_names_may_differ_in_case_unless_spark_is_case_sensitive(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("Id", pa.int64()), ("x", pa.int64())]))
    given = spark.range(10).selectExpr("id AS ID", "0L AS X")
    ps.append(given, table)
    assert ps.delete_keys(given.limit(1), table, "id").rows_deleted == 1
    assert ps.upsert(given, table, ["iD"]).rows_inserted == 1
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(NotFoundError, match="no column id"):
            ps.delete_keys(given, table, "id")
        with pytest.raises(InvalidInputError, match="ID"):
            ps.append(given, table)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
