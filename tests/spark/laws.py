"""Laws of the transforms, column functions and jobs, for classic sessions and Spark Connect.

`test_laws.py` runs each law on the classic session. ``python -m tests.spark.laws`` runs all laws on Spark Connect, in
its own process, because a process cannot have both kinds of sessions.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

from puffin_fast import arrow, delta, iceberg, read_vectors
from puffin_fast import spark as ps
from puffin_fast.errors import (
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.spark.dataframe import functions as dv
from puffin_fast.spark.session.batches import LIMIT, NO_LIMIT
from puffin_fast.spark.session.sessions import own_errors, pyspark_version
from puffin_fast.theta import ThetaSketch
from tests.architecture.pages import ROOT, run_blocks
from tests.kit import oracle
from tests.spark.conftest import state_of
from tests.spark.connect import connect_session

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

Law = Callable[["SparkSession", Path], None]
LAWS: dict[str, Law] = {}

SCHEMA = "file_path string, pos long"


def law(function: Law) -> Law:
    LAWS[function.__name__] = function
    return function


def some_deletes(n_rows: int = 20_000, n_files: int = 37, seed: int = 1) -> pa.Table:
    """Returns shuffled rows with repeated rows, for files of very different sizes, with positions up to 2^40."""
    random = np.random.default_rng(seed)
    files = (random.pareto(1.0, n_rows).astype(np.int64)) % n_files
    spans = np.array([1 << (8 + i % 33) for i in range(n_files)])
    positions = (random.random(n_rows) * spans[files]).astype(np.int64)
    paths = pa.array([f"s3://bucket/table/data/part-{i:05d}.parquet" for i in range(n_files)])
    return pa.table({"file_path": paths.take(pa.array(files)), "pos": positions})


def expected(deletes: pa.Table) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for path, pos in zip(deletes[0].to_pylist(), deletes[1].to_pylist(), strict=True):
        found[path].add(pos)
    return found


def frame(spark: SparkSession, rows: pa.Table | Iterable[tuple[Any, ...]], schema: str = SCHEMA) -> DataFrame:
    """Returns the rows as a DataFrame with two partitions."""
    df = spark.createDataFrame(rows if isinstance(rows, pa.Table) else list(rows), schema)
    return df.repartition(2)


def vectors_of(df: DataFrame) -> dict[str, set[int]]:
    """Decodes (file_path, blob, cardinality) to sets with the oracle, and checks that no file occurs twice."""
    with own_errors():
        table = df.toArrow()
    rows = table.to_pylist()
    assert len({row["file_path"] for row in rows}) == len(rows), "two vectors for one file"
    return {row["file_path"]: set(oracle.decode_blob(row["blob"], row["cardinality"])) for row in rows}


@law
def encoding_gives_one_vector_per_file_that_holds_its_positions(spark: SparkSession, folder: Path) -> None:
    deletes = some_deletes()
    assert vectors_of(frame(spark, deletes).transform(ps.encode_deletes)) == expected(deletes)


@law
def encoding_takes_any_integer_type_and_any_column_names(spark: SparkSession, folder: Path) -> None:
    for width in ("tinyint", "smallint", "int", "bigint"):
        df = spark.createDataFrame(
            [("a", 5, 0), ("b", 7, 0), ("a", 1, 0)], "`the file` string, `p.q` long, x int"
        )
        df = df.selectExpr("x", f"cast(`p.q` as {width}) as `p.q`", "`the file`")
        found = df.transform(ps.encode_deletes, file_path="the file", pos="p.q")
        assert vectors_of(found) == {"a": {1, 5}, "b": {7}}


@law
def encoding_nothing_gives_nothing(spark: SparkSession, folder: Path) -> None:
    df = frame(spark, [("a", 1)]).where("pos > 5")
    assert vectors_of(ps.encode_deletes(df)) == {}
    assert ps.decode_vectors(ps.encode_deletes(df)).count() == 0
    assert ps.write_deletion_vectors(df, folder).num_rows == 0
    assert list(folder.iterdir()) == []


@law
def decoding_inverts_encoding(spark: SparkSession, folder: Path) -> None:
    deletes = some_deletes()
    rows = ps.decode_vectors(ps.encode_deletes(frame(spark, deletes))).toArrow()
    assert rows.schema.names == ["file_path", "pos"]
    assert expected(rows) == expected(deletes)
    assert rows.num_rows == sum(len(positions) for positions in expected(deletes).values())


@law
def union_of_encoded_parts_is_the_encoded_whole(spark: SparkSession, folder: Path) -> None:
    deletes = some_deletes()
    parts = [frame(spark, deletes.slice(start, 7_000)) for start in (0, 7_000, 14_000)]
    vectors = parts[0].transform(ps.encode_deletes)
    for part in parts[1:]:
        vectors = vectors.unionAll(part.transform(ps.encode_deletes))
    assert vectors_of(vectors.transform(ps.union_vectors)) == expected(deletes)


@law
def written_files_hold_what_the_report_says(spark: SparkSession, folder: Path) -> None:
    deletes = some_deletes()
    report = ps.write_deletion_vectors(frame(spark, deletes), folder, target_file_size=4_000, job_id="job")
    assert report.schema.names == [
        "data_file",
        "path",
        "offset",
        "length",
        "cardinality",
        "file_size",
    ]
    want = expected(deletes)
    rows = report.to_pylist()
    assert {row["data_file"]: row["cardinality"] for row in rows} == {p: len(s) for p, s in want.items()}
    assert len(rows) == len(want)
    for row in rows:
        data = Path(row["path"]).read_bytes()
        blob = data[row["offset"] : row["offset"] + row["length"]]
        assert set(oracle.decode_blob(blob)) == want[row["data_file"]]
        assert row["file_size"] == len(data)
    there = {str(path) for path in folder.iterdir()}
    assert there == {row["path"] for row in rows}
    assert len(there) > 2, "the target size had no effect"
    by_footer = [read_vectors(path) for path in there]
    assert {p: set(b) for vectors in by_footer for p, b in vectors.items()} == want


@law
def jobs_let_spark_cut_batches_by_rows_alone_unless_told(spark: SparkSession, folder: Path) -> None:
    def limits(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        from pyspark import TaskContext

        limit = TaskContext.get().getLocalProperty(LIMIT)  # type: ignore[union-attr]
        for batch in batches:
            yield batch.set_column(0, "file_path", pa.array([str(limit)] * batch.num_rows))

    df = frame(spark, [("a", 1), ("b", 2)]).mapInArrow(limits, SCHEMA)

    def seen() -> list[str]:
        return ps.write_deletion_vectors(df, folder)["data_file"].to_pylist()

    assert seen() == [NO_LIMIT]
    with pytest.raises(InvalidInputError):
        ps.write_deletion_vectors(frame(spark, [("a", -1)]), folder)
    assert spark.conf.get(LIMIT, None) is None
    spark.conf.set(LIMIT, "1048576")
    try:
        assert seen() == ["1048576"]
        assert spark.conf.get(LIMIT, None) == "1048576"
    finally:
        spark.conf.unset(LIMIT)


@law
def a_used_job_id_is_refused_and_nothing_changes(spark: SparkSession, folder: Path) -> None:
    df = frame(spark, [("a", 1)])
    ps.write_deletion_vectors(df, folder, job_id="nightly")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConflictError, match="nightly"):
        ps.write_deletion_vectors(df, folder, job_id="nightly")
    ps.write_deletion_vectors(df, folder, job_id="nightl")
    ps.write_deletion_vectors(df, folder, job_id="nightly-00001-2")
    assert before.items() <= {path: path.read_bytes() for path in folder.iterdir()}.items()


BAD_ROWS = {
    "null position": ([("a", 1), ("b", None)], "pos.*null.*b"),
    "null path": ([("a", 1), (None, 2)], "file_path.*null"),
    "negative": ([("a", 1), ("b", -7)], "pos.*-7.*b"),
    "too large": ([("a", 1), ("b", oracle.MAX_POSITION + 1)], f"pos.*{oracle.MAX_POSITION + 1}.*b"),
}


@law
def bad_rows_are_refused_by_column_before_a_file_is_written(spark: SparkSession, folder: Path) -> None:
    for rows, message in BAD_ROWS.values():
        df = frame(spark, rows)
        with pytest.raises(InvalidInputError, match=message):
            ps.write_deletion_vectors(df, folder)
        assert list(folder.iterdir()) == []
    with pytest.raises(InvalidInputError, match=message), own_errors():
        ps.encode_deletes(df).toArrow()


@law
def bad_columns_are_refused_at_once(spark: SparkSession, folder: Path) -> None:
    for schema, error in (
        ("file_path string, pos string", InvalidInputError),
        ("file_path string, pos double", InvalidInputError),
        ("file_path string, pos decimal(10,0)", InvalidInputError),
        ("file_path binary, pos long", InvalidInputError),
        ("file_path string, position long", NotFoundError),
    ):
        with pytest.raises(error, match="file_path" if "binary" in schema else "pos"):
            ps.write_deletion_vectors(spark.createDataFrame([], schema), folder)
    twice = spark.createDataFrame([], "file_path string, pos long, pos long")
    with pytest.raises(InvalidInputError, match="2 columns"):
        ps.encode_deletes(twice)
    with pytest.raises(UnsupportedError, match="foreachBatch"):
        ps.encode_deletes(spark.readStream.format("rate").load().selectExpr("'a' file_path", "value pos"))
    assert list(folder.iterdir()) == []


@law
def bad_options_are_refused_at_once(spark: SparkSession, folder: Path) -> None:
    df = frame(spark, [("a", 1)])
    for options in (
        {"job_id": ""},
        {"job_id": "../up"},
        {"job_id": "a/b"},
        {"target_file_size": 0},
        {"task_memory": 1},
        {"task_memory": 1 << 40},
    ):
        with pytest.raises(InvalidInputError, match=next(iter(options))):
            ps.write_deletion_vectors(df, folder, **options)  # type: ignore[arg-type]
    for not_a_frame in (None, df.schema, "df"):
        with pytest.raises(InvalidInputError, match="DataFrame"):
            ps.encode_deletes(not_a_frame)  # type: ignore[arg-type]


@law
def damaged_blobs_are_refused(spark: SparkSession, folder: Path) -> None:
    blob = bytearray(oracle.encode_blob([1, 2, 3]))
    blob[-1] ^= 1
    df = spark.createDataFrame(
        [("a", bytes(blob)), ("b", oracle.encode_blob([5]))], "file_path string, blob binary"
    )
    for transform in (ps.decode_vectors, ps.union_vectors):
        with pytest.raises(CorruptDataError), own_errors():
            transform(df.unionAll(df)).toArrow()
    holes = spark.createDataFrame([("a", None)], "file_path string, blob binary")
    for transform in (ps.decode_vectors, ps.union_vectors):
        with pytest.raises(InvalidInputError, match="blob"), own_errors():
            transform(holes).toArrow()


@law
def column_functions_agree_with_the_oracle(spark: SparkSession, folder: Path) -> None:
    lists = [[5, 1, 5], None, [], [2**40, 7], list(range(5000)), [oracle.MAX_POSITION]]
    rows = [(i, i % 2, positions) for i, positions in enumerate(lists)]
    df = spark.createDataFrame(rows, "i int, k int, p array<bigint>")
    ways = ("auto", "arrow", "pandas") if pyspark_version() >= (4, 1) else ("auto", "pandas")
    for via in ways:
        encoded = df.withColumn("b", dv.encode("p", via=via))
        found = (
            encoded.select(
                "i",
                "b",
                dv.decode("b", via=via).alias("q"),
                dv.cardinality("b", via=via).alias("n"),
                dv.contains("b", encoded["i"].cast("long"), via=via).alias("c"),
            )
            .orderBy("i")
            .toArrow()
            .to_pylist()
        )
        for i, (row, positions) in enumerate(zip(found, lists, strict=True)):
            if positions is None:
                assert (row["b"], row["q"], row["n"], row["c"]) == (None, None, None, None)
                continue
            assert row["b"] == oracle.encode_blob(positions)
            assert row["q"] == sorted(set(positions))
            assert (row["n"], row["c"]) == (len(set(positions)), i in positions)
        united = encoded.groupBy("k").agg(dv.union("b", via=via).alias("u")).toArrow().to_pylist()
        for row in united:
            members = {p for i, ps_ in enumerate(lists) if i % 2 == row["k"] for p in ps_ or ()}
            assert set(oracle.decode_blob(row["u"])) == members


@law
def functions_are_registered_for_sql(spark: SparkSession, folder: Path) -> None:
    ps.register(spark)
    if pyspark_version() < (4, 1):
        return
    rows = [(0, [5, 1, 5], "a"), (0, [7], "b"), (1, None, "a"), (0, [2**40, 7], None)]
    spark.createDataFrame(rows, "k int, p array<bigint>, s string").createOrReplaceTempView("registered")
    by_row = spark.sql("""
        SELECT puffin_decode(b) AS q, puffin_cardinality(b) AS n, puffin_contains(b, 7) AS c
        FROM (SELECT puffin_encode(p) AS b FROM registered)
    """)
    found = sorted(map(tuple, by_row.collect()), key=str)
    assert found == sorted(
        [([1, 5], 2, False), ([7], 1, True), (None, None, None), ([7, 2**40], 2, True)], key=str
    )
    united = spark.sql(
        "SELECT puffin_decode(puffin_union(puffin_encode(p))) AS q FROM registered GROUP BY k ORDER BY k"
    )
    assert [row.q for row in united.collect()] == [[1, 5, 7, 2**40], []]
    counted = spark.sql("""
        SELECT puffin_theta_estimate(puffin_theta_union(t)) AS n
        FROM (SELECT k, puffin_theta_sketch(s) AS t FROM registered GROUP BY k)
    """)
    assert counted.collect()[0].n == 2.0


@law
def column_functions_refuse_bad_values(spark: SparkSession, folder: Path) -> None:
    for positions in ([1, -1], [1, None]):
        df = spark.createDataFrame([(positions,)], "p array<bigint>")
        for via in ("auto", "pandas"):
            with pytest.raises(InvalidInputError), own_errors():
                df.select(dv.encode("p", via=via)).toArrow()
    with pytest.raises(InvalidInputError, match="via"):
        dv.encode("p", via="fast")  # type: ignore[arg-type]
    if pyspark_version() < (4, 1):
        with pytest.raises(UnsupportedError, match=r"4\.1.*via='pandas'"):
            dv.encode("p", via="arrow")


@law
def the_puffin_source_gives_blobs_bytes_or_positions(spark: SparkSession, folder: Path) -> None:
    deletes = some_deletes()
    report = ps.write_deletion_vectors(frame(spark, deletes), folder, target_file_size=4_000)
    ps.register(spark)
    source = spark.read.format("puffin")
    paths = sorted(set(report["path"].to_pylist()))
    rows = source.load(str(folder)).toArrow()
    assert "blob" not in rows.schema.names
    found = {
        (row["path"], row["offset"], row["length"], dict(row["properties"])["referenced-data-file"])
        for row in rows.to_pylist()
    }
    assert found == {
        (row["path"], row["offset"], row["length"], row["data_file"]) for row in report.to_pylist()
    }
    some = source.option("bytes", True).load(paths[:2]).toArrow().to_pylist()
    assert {row["path"] for row in some} == set(paths[:2])
    want = expected(deletes)
    for row in some:
        data = Path(row["path"]).read_bytes()
        assert row["blob"] == data[row["offset"] : row["offset"] + row["length"]]
        properties = dict(row["properties"])
        assert set(oracle.decode_blob(row["blob"])) == want[properties["referenced-data-file"]]
    positions = spark.read.format("puffin").option("positions", True).load(f"{folder}/*.puffin").toArrow()
    assert expected(positions.select(["file_path", "pos"])) == want
    (folder / "sub" / "deep").mkdir(parents=True)
    for number, path in enumerate(paths[:2]):
        Path(path).rename(folder / "sub" / ("deep" if number else "") / Path(path).name)
    recursive = spark.read.format("puffin").option("recursiveFileLookup", True)
    assert recursive.load(str(folder)).count() == len(report)
    below = spark.read.format("puffin").load(f"{folder}/s*/*.puffin").toArrow()
    assert set(below["path"].to_pylist()) == {f"{folder}/sub/{Path(paths[0]).name}"}


@law
def the_puffin_source_refuses_what_it_cannot_read(spark: SparkSession, folder: Path) -> None:
    ps.register(spark)
    (folder / "x.puffin").write_bytes(b"PFA1 not at all")
    for location, options, error, message in (
        (f"{folder}/x.puffin", {}, CorruptDataError, "x.puffin"),
        (f"{folder}/y.puffin", {}, NotFoundError, "y.puffin"),
        (f"{folder}/y*", {}, NotFoundError, "y"),
        (f"{folder}/x.puffin", {"bytes": "maybe"}, InvalidInputError, "bytes"),
        (f"{folder}/x.puffin", {"position": "true"}, InvalidInputError, "found position"),
        (f"{folder}/x.puffin", {"bytes": "true", "positions": "true"}, InvalidInputError, "positions"),
    ):
        with pytest.raises(error, match=message), own_errors():
            spark.read.format("puffin").options(**options).load(location).toArrow()
    with pytest.raises(InvalidInputError, match="SparkSession"):
        ps.register(None)  # type: ignore[arg-type]


@law
def tables_lose_rows_by_filter_and_by_position(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("laws", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    lose_rows(spark, catalog, "n.t")
    catalog.engine.dispose()


def lose_rows(spark: SparkSession, catalog: Catalog, name: str) -> None:
    """Deletes rows of a new table by a filter, by positions, by both, and with a filter that no row matches."""
    rows = pa.table({"id": range(900), "k": pa.array([i % 7 for i in range(900)], pa.int32())})
    table = iceberg.create_table(catalog, name, rows.schema)
    for start in (0, 300, 600):
        iceberg.append(table, rows.slice(start, 300))
    left = [i for i in range(900) if i % 7 != 3]
    assert ps.delete(spark, table, "k = 3").rows_deleted == 900 - len(left)
    first = next(
        t.data for t in plan_files(table, metrics=True).tasks if t.data.lower_bounds[1][:2] == b"\0\0"
    )
    places = frame(spark, [(first.file_path, pos) for pos in (1, 3, 299)] + [("s3://elsewhere/x.parquet", 1)])
    found = ps.delete_positions(places, table, job_id="nightly")
    left = [i for i in left if i not in (1, 299)]
    assert (found.rows_deleted, found.rows_dangling) == (2, 1)  # 3 was deleted before
    assert ps.delete_positions(places, table, job_id="nightly").commit.repeated
    with pytest.raises(NotFoundError, match="elsewhere"):
        ps.delete_positions(places, table, strict=True)
    with pytest.raises(InvalidInputError, match=r"pos.*300"):
        ps.delete_positions(frame(spark, [(first.file_path, 300)]), table)
    assert iceberg.verify(table) == []
    assert sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist()) == left
    assert set(ps.job_files(table, "nightly")) <= set(iceberg.deletes(table)["path"].to_pylist())
    assert ps.remove_job_files(table, "nightly") == []


@law
def tables_lose_rows_by_conditions_of_sql(spark: SparkSession, folder: Path) -> None:
    from pyspark.sql import functions

    catalog = SqlCatalog("laws", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    words = [None if i % 5 == 0 else "ab" * (i % 3) for i in range(400)]
    structs = [{"x": i, "a.b": -i} for i in range(400)]
    rows = pa.table({"id": range(400), "Größe `x`": words, "p.q": structs, "star": ["*"] * 400})
    spark.createDataFrame([(5,), (6,), (None,)], "v int").createOrReplaceTempView("gone")
    ids = range(400)
    for version, cases in (
        (
            3,
            [
                (functions.col("id") % 7 == 1, lambda i: i % 7 == 1),
                ("id * 2 = 4", lambda i: i == 2),
                ("length(`Größe ``x```) = 2 and id < 99", lambda i: i % 5 and i % 3 == 1 and i < 99),
                ("id in (select v from gone)", lambda i: i in (5, 6)),
                ("not (id in (select v from gone))", lambda i: False),  # null is among them
                ("coalesce(later, 12) + id = 24", lambda i: i == 12),
                ("struct(*).star <> '*'", lambda i: False),
                ("true or rand() > 2", lambda i: True),
                ("1 + 1 = 2", lambda i: True),
            ],
        ),
        (2, [("`p.q`.x > 390 and -`p.q`.`a.b` < 395", lambda i: 390 < i < 395)]),
    ):
        name, left = f"n.v{version}", list(ids)
        table = catalog.create_table(name, rows.schema)
        assert ps.delete(spark, table, "id % 2 = 0").commit.id is None
        for start in (0, 150):
            iceberg.append(table, rows.slice(start, 150 if start == 0 else 250))
        with table.update_schema() as change:
            change.add_column("later", LongType())
        if version == 3:
            iceberg.upgrade(table)
        for condition, holds in cases:
            found = ps.delete(spark, table, condition)
            assert found.rows_deleted == sum(map(bool, map(holds, left))), condition
            left = [i for i in left if not holds(i)]
            assert sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist()) == left, condition
        before = table.metadata_location
        for wrong, message in (
            ("nobody % 2 = 0", "nobody"),
            ("id % ", "filter id %"),
            ("id + 1", "BOOLEAN"),
            (functions.col("nobody") == 1, "nobody"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                ps.delete(spark, table, wrong)
        assert table.refresh().metadata_location == before
        assert iceberg.verify(table) == []
    catalog.engine.dispose()


@law
def tables_are_converted_packed_and_scanned(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("laws", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    rows = pa.table({"id": range(900), "k": pa.array([i % 7 for i in range(900)], pa.int32())})
    shared = {"format-version": "2", "write.delete.granularity": "partition"}
    table = catalog.create_table("n.t", rows.schema, properties=shared)
    for start in (0, 300, 600):
        iceberg.append(table, rows.slice(start, 300))
    iceberg.delete(table, "k = 3")
    iceberg.upgrade(table)
    left = [i for i in range(900) if i % 7 != 3]
    assert ps.convert_position_deletes(spark, table).vectors_written == 3
    assert ps.convert_equality_deletes(spark, table).commit.id is None
    keys = frame(spark, pa.table({"k": pa.array([1, 5, None], pa.int32())}), "k int")
    for start, way in ((0, 0), (450, 1 << 20)):
        some = keys.selectExpr("k", f"explode(sequence({start}, {start + 449})) as id")
        done = ps.delete_keys(some, table, ["id", "k"], broadcast_keys=way)
        left = [i for i in left if not (start <= i < start + 450 and i % 7 in (1, 5))]
        assert done.rows_deleted > 100
        assert sorted(ps.scan(spark, table, "k < 9", ["id"]).toArrow()["id"].to_pylist()) == left
    assert ps.compact(spark, table, target_file_size=1 << 20).puffin_files_written == 1
    assert ps.scan(spark, table).count() == len(left) == catalog.load_table("n.t").scan().to_arrow().num_rows
    catalog.engine.dispose()


@law
def no_function_changes_the_session(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("laws", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    rows = pa.table({"id": range(90), "k": [i % 7 for i in range(90)]})
    table: Any = iceberg.create_table(catalog, "n.t", rows.schema)
    for start in (0, 30, 60):
        iceberg.append(table, rows.slice(start, 30))
    given = frame(spark, [(5, 1), (90, 2)], "id long, k long")
    vectors = ps.encode_deletes(frame(spark, [("a", 1), ("b", 2)]))

    def place() -> DataFrame:
        return frame(spark, [(plan_files(table).tasks[0].data.file_path, 0)])

    calls: dict[str, Callable[[], Any]] = {
        "append": lambda: ps.append(given, table),
        "changes": lambda: ps.changes(spark, table).toArrow(),
        "collect_ndv": lambda: ps.collect_ndv(spark, table),
        "compact": lambda: ps.compact(spark, table),
        "convert_equality_deletes": lambda: ps.convert_equality_deletes(spark, table),
        "convert_position_deletes": lambda: ps.convert_position_deletes(spark, table),
        "decode_vectors": lambda: ps.decode_vectors(vectors).toArrow(),
        "delete": lambda: (ps.delete(spark, table, "k = 3"), ps.delete(spark, table, "sqrt(id) = 3")),
        "delete_keys": lambda: ps.delete_keys(given.selectExpr("id + 2 as id"), table, "id"),
        "delete_positions": lambda: ps.delete_positions(place(), table),
        "encode_deletes": lambda: vectors.toArrow(),
        "expire_snapshots": lambda: ps.expire_snapshots(spark, table),
        "functions": lambda: vectors.select(dv.cardinality("blob")).toArrow(),
        "index_keys": lambda: ps.index_keys(spark, table, "id"),
        "job_files": lambda: ps.job_files(table, "job"),
        "load_table": lambda: ps.load_table(spark, f"delta.`{folder}/d`"),
        "maintain": lambda: ps.maintain(spark, table),
        "overwrite": lambda: ps.overwrite(given, table),
        "register": lambda: ps.register(spark),
        "remove_job_files": lambda: ps.remove_job_files(table, "job"),
        "remove_orphan_files": lambda: ps.remove_orphan_files(spark, table),
        "report": lambda: ps.report(spark, table),
        "rewrite_data_files": lambda: ps.rewrite_data_files(spark, table, min_input_files=2),
        "scan": lambda: ps.scan(spark, table, "sqrt(id) > 3 and k < 9").toArrow(),
        "theta_sketches": lambda: ps.theta_sketches(given).toArrow(),
        "union_vectors": lambda: ps.union_vectors(vectors).toArrow(),
        "update": lambda: ps.update(spark, table, "id < 9", {"k": 4}),
        "upsert": lambda: ps.upsert(given, table, "id"),
        "verify": lambda: ps.verify(spark, table),
        "write_deletion_vectors": lambda: ps.write_deletion_vectors(frame(spark, [("a", 1)]), folder / "out"),
    }
    assert sorted(calls) == dir(ps)
    before = state_of(spark)
    for name, call in calls.items():
        call()
        assert state_of(spark) == before, name
    failing: tuple[Callable[[], Any], ...] = (
        lambda: ps.delete(spark, table, "1 / (id - id) > 0"),
        lambda: ps.update(spark, table, "nobody = 1", {"k": 1}),
        lambda: ps.write_deletion_vectors(frame(spark, [("a", -1)]), folder / "out"),
    )
    for number, call in enumerate(failing):
        with pytest.raises(InvalidInputError):
            call()
        assert state_of(spark) == before, number
    catalog.engine.dispose()


@law
def an_index_is_built_and_used(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("laws", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh")
    catalog.create_namespace("n")
    rows = pa.table({"id": range(900), "k": [f"k{i % 100}" for i in range(900)]})
    table = iceberg.create_table(catalog, "n.t", rows.schema)
    for start in (0, 300, 600):
        iceberg.append(table, rows.slice(start, 300))
    for key in ("id", "k"):
        index = ps.index_keys(spark, table, key)
        assert (index.data_files, index.rows, index.data_files_left) == (3, 900, 0)
    assert ps.delete_keys(frame(spark, [(7,), (500,), (5000,)], "id long"), table, "id").rows_deleted == 2
    assert ps.delete_keys(frame(spark, [("k3",)], "k string"), table, "k").rows_deleted == 9
    given = frame(spark, [(8, "new"), (900, "more")], "id long, k string")
    done = ps.upsert(given, table, "id")
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert iceberg.scan(table).count() == 890
    assert iceberg.verify(table, level="rows") == []
    catalog.engine.dispose()


@law
def columns_are_counted_as_on_one_machine(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("ndv", uri=f"sqlite:///{folder}/ndv.db", warehouse=f"file://{folder}/ndv")
    catalog.create_namespace("n")
    rows = pa.table({"id": range(9_000), "s": [f"name {i % 500}" for i in range(9_000)]})
    table = iceberg.create_table(catalog, "n.t", rows.schema)
    for start in (0, 4_500):
        iceberg.append(table, rows.slice(start, 4_500))
    found = ps.collect_ndv(spark, table)
    assert (found.commit.id is not None, found.ndv["s"]) == (True, 500)
    assert found.ndv == iceberg.collect_ndv(table, incremental=False).ndv
    tagged = ps.collect_ndv(spark, table, ["id"], snapshot_id=table.metadata.snapshots[0].snapshot_id)
    assert tagged.ndv["id"] == int(ThetaSketch.from_arrow(rows["id"][:4_500]).estimate)
    df = frame(spark, rows, "id long, s string")
    sketches = ps.theta_sketches(df.repartition(3)).toArrow().to_pylist()
    assert {row["column"]: row["estimate"] for row in sketches} == {
        name: ThetaSketch.from_arrow(rows[name]).estimate for name in rows.column_names
    }
    grouped = df.groupBy((df["id"] % 2).alias("g")).agg(dv.theta_sketch("s").alias("sketch"))
    union = grouped.agg(dv.theta_union("sketch").alias("sketch"))
    assert union.select(dv.theta_estimate("sketch").alias("n")).toArrow()["n"].to_pylist() == [500.0]
    catalog.engine.dispose()


@law
def changes_are_those_of_one_machine(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/c")
    catalog.create_namespace("n")
    rows = pa.table({"id": range(300), "s": [f"name {i % 5}" for i in range(300)]})
    table = iceberg.create_table(catalog, "n.t", rows.schema)
    delta.create_table(f"{folder}/d", rows.schema)
    for either, verbs in ((table, iceberg), (f"{folder}/d", delta)):
        target: Any = either
        verbs.append(target, rows)
        verbs.delete(target, "id < 30")
        verbs.update(target, "id >= 250", {"s": "new"})
        for options in ({}, {"net": True, "row_filter": "s = 'name 1'"}):
            given: Any = options
            expected = verbs.changes(target, **given).to_arrow()
            found = ps.changes(spark, target, **given).toArrow()
            assert found.schema.names == expected.schema.names
            shown = ["id", "s", "_change_type"]
            assert sorted(map(str, found.select(shown).to_pylist())) == sorted(
                map(str, expected.select(shown).to_pylist())
            )
    catalog.engine.dispose()


@law
def streams_have_the_changes_of_one_machine(spark: SparkSession, folder: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/c")
    catalog.create_namespace("n")
    rows = pa.table({"id": range(30), "s": [f"name {i % 5}" for i in range(30)]})
    table = iceberg.create_table(catalog, "n.t", rows.schema)
    ps.register(spark)
    given = {"catalog": "c"} | {f"catalog.{name}": catalog.properties[name] for name in ("uri", "warehouse")}
    reads = spark.readStream.format("puffin_changes").options(table="n.t", start="earliest", **given).load()
    for change in (lambda: iceberg.append(table, rows), lambda: iceberg.update(table, "id < 3", {"s": "x"})):
        change()
        writer = reads.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
    shown = ["id", "s", "_change_type", "_commit_snapshot_id"]
    found = spark.read.parquet(f"{folder}/out").select(*shown).toArrow().to_pylist()
    expected = iceberg.changes(table).to_arrow().select(shown).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected))
    with pytest.raises(Exception, match="'pol': unknown; expected path, table"):
        spark.readStream.format("puffin_changes").options(table="n.t", pol="1", **given).load().schema  # noqa: B018
    catalog.engine.dispose()


@law
def jobs_run_where_no_limit_of_rows_is_set_for_batches(spark: SparkSession, folder: Path) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "0")
    try:
        tables_lose_rows_by_filter_and_by_position(spark, folder)
    finally:
        spark.conf.unset(name)


@law
def column_functions_by_pandas_lose_no_bit_and_check_types(spark: SparkSession, folder: Path) -> None:
    pos = 2**53 + 1  # no float
    blob = oracle.encode_blob([pos])
    rows = [(blob, pos), (blob, None), (blob, pos - 1), (None, pos)]
    df = spark.createDataFrame(rows, "b binary, p long").coalesce(1)
    found = df.select(dv.contains("b", "p", via="pandas").alias("c")).toArrow()["c"].to_pylist()
    assert found == [True, None, False, None]
    for wrong in (
        dv.cardinality("p", via="pandas"),
        dv.encode("p", via="pandas"),
        dv.union("p", via="pandas"),
    ):
        with pytest.raises(InvalidInputError, match="expected"), own_errors():
            df.select(wrong).toArrow()


@law
def programs_of_the_page_on_arrow_functions_run(spark: SparkSession, folder: Path) -> None:
    builder = "SparkSession.builder.getOrCreate()"
    run_blocks(ROOT / "docs" / "arrow-udfs.md", {"spark.stop()": "", builder: "SparkSession.active()"})


def arrow_results(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Each function of `puffin_fast.arrow` that returns a column, on vectors and positions of Spark."""
    blobs = batch["b"]
    lists = pa.ListArray.from_arrays(
        pa.array(range(len(blobs) + 1), pa.int32()), blobs.fill_null(batch["c"][0])
    )
    return {
        "encode binary": arrow.encode(arrow.decode(blobs)),
        "decode array<bigint>": arrow.decode(blobs),
        "cardinality bigint": arrow.cardinality(blobs),
        "contains boolean": arrow.contains(blobs, batch["p"]),
        "mask array<boolean>": arrow.mask(blobs, 3),
        "union binary": arrow.union(lists),
        "difference binary": arrow.difference(blobs, batch["c"]),
        "native binary": arrow.encode(arrow.decode(blobs), codec="lance"),
    }


@law
def results_of_arrow_functions_have_types_that_spark_takes(spark: SparkSession, folder: Path) -> None:
    """In `mapInArrow` and `applyInArrow`, with blobs as Spark's settings pass them: binary or large_binary."""
    rows = [(oracle.encode_blob([0, 5]), oracle.encode_blob([5]), 5), (None, oracle.encode_blob([5]), 0)]
    df = spark.createDataFrame(rows, "b binary, c binary, p long").coalesce(1)
    batch = pa.RecordBatch.from_pylist([dict(zip("bcp", row, strict=True)) for row in rows])
    expected = [column.to_pylist() for column in arrow_results(batch).values()]
    ddl = ", ".join(f"{name.split()[0]}_ {name.split()[1]}" for name in arrow_results(batch))
    names = [name.split()[0] + "_" for name in arrow_results(batch)]

    def each(batches: Any) -> Any:
        for one in batches:
            yield pa.RecordBatch.from_arrays(list(arrow_results(one).values()), names)

    def whole(table: pa.Table) -> pa.Table:
        """The page says what PySpark takes here: binary up to 4.2, from 4.3 on the type of the setting."""
        found = pa.Table.from_batches(each(table.combine_chunks().to_batches()))
        if pyspark_version() < (4, 3):
            return found
        binary = table.schema.field("b").type
        kinds = [binary if pa.types.is_binary(kind) else kind for kind in found.schema.types]
        return found.cast(pa.schema(list(zip(names, kinds, strict=True))))

    for wide in ("false", "true"):
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", wide)
        try:
            for found in (df.mapInArrow(each, ddl), df.groupBy().applyInArrow(whole, ddl)):
                assert [column.to_pylist() for column in found.toArrow().columns] == expected
        finally:
            spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def main() -> int:
    """Runs all laws on a Connect session of this process. Returns the number of failures."""
    spark = connect_session({"spark.sql.shuffle.partitions": "3"})
    failed = 0
    for name, holds in LAWS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                holds(spark, Path(folder))
            except Exception:
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}")
            else:
                print(f"held {name}")
    spark.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main())
