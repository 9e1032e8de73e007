"""Delta tables on Spark executors: the same rows as on one machine, in one commit that other readers accept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, dv, errors
from puffin_fast import spark as on_spark
from puffin_fast.rows.findings import Level
from puffin_fast.spark.session.sessions import own_errors
from tests.conftest import require_module
from tests.delta.conftest import GOLDEN, TABLES
from tests.delta.tables import Golden, ids, ids_of_others, refused
from tests.kit.cases import each
from tests.kit.kinds import TRACKED
from tests.kit.rows import by_us, in_order, row_ids
from tests.kit.tables import delta_table, parts
from tests.spark.conftest import work_on_executors
from tests.spark.faults.injection import wait
from tests.spark.results import facts
from tests.verbs.test_workers import damaged_delta

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["work_on_executors"]
_NOTHING = timedelta(0)


@pytest.mark.parametrize("name", TABLES)
def test_a_scan_on_executors_has_the_rows_of_one_here(spark: SparkSession, name: str, golden: Golden) -> None:
    table = golden(name)
    rows = on_spark.scan(spark, table).toArrow()
    assert rows.schema.names == delta.scan(table).schema.names
    assert in_order(rows) == by_us(table)
    found = on_spark.scan(spark, table, "id < 50", ("id", "_pos"), snapshot_id=0).toArrow()
    assert sorted(found["id"].to_pylist()) == ids(table, row_filter="id < 50", snapshot_id=0)
    assert on_spark.scan(spark, table, "id % 7 = 0", ("id",)).count() == sum(i % 7 == 0 for i in ids(table))


@pytest.mark.parametrize("name", TABLES)
def test_a_delete_on_executors_is_one_commit_that_others_read(
    spark: SparkSession, name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = ids(table)
    version = delta.snapshot(table).version
    done = on_spark.delete(spark, table, "id >= 100 and id < 150")
    kept = [i for i in before if not 100 <= i < 150]
    assert (done.commit.id, done.rows_deleted) == (version + 1, len(before) - len(kept))
    assert done.vectors_written + done.data_files_dropped == done.data_files
    assert ids(table) == kept
    assert name == "hand_native" or ids_of_others(duckdb_delta, table) == [kept, kept]
    assert delta.verify(table) == []
    by_sql = on_spark.delete(spark, table, "id % 7 = 3")
    kept = [i for i in kept if i % 7 != 3]
    assert by_sql.commit.id == version + 2
    assert ids(table) == kept
    assert delta.delete(table, "id < 9").rows_deleted == sum(i < 9 for i in kept)
    kept = [i for i in kept if i >= 9]
    assert ids_of_others(duckdb_delta, table) == [kept, kept]
    assert delta.orphan_files(table, older_than=_NOTHING).num_rows == 0


def test_executors_find_the_damage_that_threads_find(spark: SparkSession, tmp_path: Path) -> None:
    table = damaged_delta(tmp_path / "t")
    levels: list[tuple[Level, int]] = [("files", 1), ("rows", 2)]
    for level, n in levels:
        found = delta.verify(table, level=level, workers=spark)
        assert len(found) == n
        assert found == on_spark.verify(spark, table, level=level) == delta.verify(table, level=level)


def test_executors_do_the_maintenance_of_threads(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": range(400), "s": [f"k{at % 3}" for at in range(400)]})
    tables = [
        delta_table(
            tmp_path / name,
            [rows.slice(at, 100) for at in range(0, 400, 100)],
            partition=["s"],
            properties=TRACKED,
        )
        for name in ("spark", "threads", "purged")
    ]
    for table in tables:
        delta.delete(table, "id % 5 = 1")
    ids_before, (ours, theirs, purged) = row_ids(tables[0]), tables
    done, expected = on_spark.maintain(spark, ours), delta.maintain(theirs)
    assert isinstance(done, delta.MaintainResult)
    assert facts(done.data_files) == facts(expected.data_files)
    assert done.orphan_files is not None
    assert done.orphan_files.files.num_rows == 0
    found = delta.purge(purged, workers=spark)
    assert (found.data_files, found.data_files_written, found.rows_purged) == (12, 3, 80)
    for table in tables:
        assert by_us(table) == by_us(theirs)
        assert row_ids(table) == ids_before
        assert delta.verify(table, level="rows") == []
        assert delta.orphan_files(table, older_than=_NOTHING).num_rows == 0


def test_rows_go_by_keys_of_a_dataframe(spark: SparkSession, golden: Golden) -> None:
    for name, broadcast_keys in (("spark_partitioned", 1 << 20), ("spark_many_features", 0)):
        table = golden(name)
        before = ids(table)
        keys = spark.createDataFrame([(i,) for i in (2, 3, 8, 9, 5000)], "id long")
        done = on_spark.delete_keys(keys, table, "id", broadcast_keys=broadcast_keys)
        assert ids(table) == [i for i in before if i not in (2, 3, 8, 9)]
        assert done.rows_deleted == len(before) - len(ids(table)) > 0
        assert delta.verify(table) == []


def test_rows_go_by_file_and_position(spark: SparkSession, partitioned: Path) -> None:
    rows = delta.scan(partitioned, "id < 60", ("id", "_file", "_pos")).to_arrow()
    pairs = list(zip(rows["_file"].to_pylist(), rows["_pos"].to_pylist(), strict=True))
    deletes = spark.createDataFrame([*pairs, *pairs, ("/nowhere.parquet", 1)], "file_path string, pos int")
    before = ids(partitioned)
    done = on_spark.delete_positions(deletes, partitioned)
    assert (done.rows_deleted, done.rows_dangling) == (rows.num_rows, 1)
    assert ids(partitioned) == [i for i in before if i >= 60]
    assert on_spark.delete_positions(deletes, partitioned).commit.id is None
    with refused(partitioned, errors.NotFoundError, "nowhere"):
        on_spark.delete_positions(deletes, partitioned, strict=True)
    beyond = spark.createDataFrame([(pairs[0][0], 100)], "file_path string, pos int")
    with refused(partitioned, errors.InvalidInputError, "100 rows"):
        on_spark.delete_positions(beyond, partitioned)


@each(
    "options, named",
    [
        ({"branch": "b"}, "branch"),
        ({"row_filter": "nothing = 1"}, "nothing"),
        ({"row_filter": "id = "}, "id = "),
        ({"job_id": "a/b"}, "job_id"),
        ({"snapshot_properties": {"operation": "x"}}, "operation"),
    ],
)
def test_what_cannot_be_is_refused_and_the_table_stays(
    spark: SparkSession, partitioned: Path, options: dict[str, Any], named: str
) -> None:
    with refused(partitioned, errors.PuffinFastError, named):
        on_spark.delete(spark, partitioned, **({"row_filter": "id = 2"} | options))


def test_tables_and_states_that_are_not_there_are_refused(
    spark: SparkSession, partitioned: Path, tmp_path: Path
) -> None:
    with pytest.raises(errors.NotFoundError, match="nothing"):
        on_spark.scan(spark, tmp_path / "nothing")
    with pytest.raises(errors.NotFoundError, match="99"):
        on_spark.scan(spark, partitioned, snapshot_id=99)
    with pytest.raises(errors.UnsupportedError, match="tag"):
        on_spark.scan(spark, partitioned, tag="t")
    plain = delta_table(tmp_path / "plain", {"id": [1, 2, 3]}, by="deltalake")
    with refused(plain, errors.UnsupportedError, "enable"):
        on_spark.delete(spark, plain, "id = 1")
    delta.enable(plain)
    deltalake: Any = require_module("deltalake")
    assert on_spark.delete(spark, deltalake.DeltaTable(str(plain)), "id = 1").rows_deleted == 1
    assert ids(plain) == [2, 3]


def test_executors_that_fail_leave_no_file(spark: SparkSession, partitioned: Path) -> None:
    for path in partitioned.glob("*.bin"):
        path.write_bytes(path.read_bytes()[:30])
    with refused(partitioned, errors.CorruptDataError, "deletion_vector"):
        on_spark.delete(spark, partitioned, "id < 100")
    with refused(partitioned, errors.CorruptDataError, "deletion_vector"), own_errors():
        on_spark.scan(spark, partitioned).toArrow()


@pytest.mark.parametrize("form", ["delta", "paimon-v1", "lance"])
def test_deletes_of_a_dataframe_are_encoded_for_other_formats(spark: SparkSession, form: str) -> None:
    rows = [("a", i) for i in range(0, 70_000, 7)] + [("b", 3)]
    deletes = spark.createDataFrame(rows, "file_path string, pos long")
    found = deletes.transform(on_spark.encode_deletes, format=form).collect()
    expected = {"a": range(0, 70_000, 7), "b": [3]}
    decode = getattr(dv, form.partition("-")[0]).decode
    assert {row.file_path: list(decode(bytes(row.blob))) for row in found} == {
        path: list(positions) for path, positions in expected.items()
    }
    with pytest.raises(errors.InvalidInputError, match="one of"):
        on_spark.encode_deletes(deletes, format="parquet")


# Files of jobs -----------------------------------------------------------------------------------------------


def test_the_files_of_a_job_are_found_and_those_in_use_stay(spark: SparkSession, partitioned: Path) -> None:
    on_spark.delete(spark, partitioned, "id < 50", job_id="nightly")
    (live,) = partitioned.glob("nightly-*/*.bin")
    assert list(map(Path, on_spark.job_files(partitioned, "nightly"))) == [live]
    run = partitioned / "nightly-0123456789ab"
    run.mkdir()
    name = f"deletion_vector_{uuid.uuid4()}.bin"
    left = {run / name, run / f".{name}.0123456789abcdef.tmp", live.parent / name}
    others = {
        run / "x.bin",
        partitioned / name,
        partitioned / "other-0123456789ab" / name,
        run / f"{name}.tmp",
    }
    for path in left | others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(live.read_bytes())
    deltalake: Any = require_module("deltalake")
    assert {Path(path) for path in on_spark.job_files(deltalake.DeltaTable(str(partitioned)), "nightly")} == {
        live,
        *left,
    }
    before = ids(partitioned)
    assert set(map(Path, on_spark.remove_job_files(partitioned.as_uri(), "nightly"))) == left
    assert all(path.exists() for path in others)
    assert ids(partitioned) == before
    delta.delete(partitioned, "id < 60")  # time travel still needs the file
    assert on_spark.remove_job_files(partitioned, "nightly") == []
    assert ids(partitioned, snapshot_id=4) == before
    (partitioned / "_delta_log" / f"{4:020d}.json").unlink()
    with pytest.raises(errors.CorruptDataError, match=f"no {4:020d}.json"):
        on_spark.remove_job_files(partitioned, "nightly")
    assert live.exists()


KILLED = """
import os, signal, sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from puffin_fast import spark as on_spark
from puffin_fast.delta.log.storage import TableStorage

put = TableStorage.put

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def watch(table):
    while not any(Path(table).glob("nightly-*/*")):
        pass
    kill()

from puffin_fast.spark.session import workers

workers.HERE_BYTES = -1  # executors write
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
for step, table in zip(sys.argv[1::2], sys.argv[2::2]):
    if step == "while_vectors_are_written":  # the last one: all of the session ends
        threading.Thread(target=watch, args=(table,), daemon=True).start()
    elif child := os.fork():
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        continue
    elif step == "before_the_commit":
        TableStorage.put = kill
    else:
        TableStorage.put = lambda *arguments: (put(*arguments), kill())
    on_spark.delete(session, table, "id < 30", job_id="nightly")
    os._exit(1)
"""
STEPS = ["before_the_commit", "after_the_commit", "while_vectors_are_written"]


@pytest.fixture(scope="module")
def died(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a table for each step at which its driver died; all drivers used one session."""
    folder = tmp_path_factory.mktemp("died")
    tables = {step: shutil.copytree(GOLDEN / "spark_partitioned", folder / step) for step in STEPS}
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with (folder / "log").open("wb") as log:  # processes that outlive the driver would keep a pipe open
        command = [sys.executable, "-c", KILLED, *(str(part) for pair in tables.items() for part in pair)]
        done = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False, timeout=900)
    assert done.returncode == -signal.SIGKILL, (folder / "log").read_text()[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_driver_leaves_all_or_nothing(step: str, died: Path) -> None:
    table, before = died / step, ids(GOLDEN / "spark_partitioned")
    happened = step == "after_the_commit"
    assert ids(table) == ([i for i in before if i >= 30] if happened else before)
    assert delta.verify(table) == []
    found = set(map(Path, on_spark.job_files(table, "nightly")))
    orphans = set(map(Path, delta.orphan_files(table, older_than=timedelta(days=-1))["path"].to_pylist()))
    assert len(found) >= (step != "while_vectors_are_written")
    if happened:
        assert orphans == set()
    else:  # a task may end after its driver
        assert orphans >= {path for path in found if path.suffix == ".bin"}
        assert all(path.parent.name.startswith("nightly-") for path in orphans)

    def tidy() -> bool:
        on_spark.remove_job_files(table, "nightly")
        return happened or not list(table.glob("nightly-*/*"))

    wait(tidy)
    assert ids(table) == ([i for i in before if i >= 30] if happened else before)
    left = 0 if happened else sum(i < 30 for i in before)
    assert delta.delete(table, "id < 30").rows_deleted == left


def test_some_columns_are_read_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    rows = {"id": range(12), "customer": [i % 3 for i in range(12)], "price": range(100, 112)}
    table = delta_table(tmp_path, rows)
    found = on_spark.scan(spark, table, "customer = 2", ["price"]).toArrow()
    assert sorted(found["price"].to_pylist()) == [102, 105, 108, 111]
    assert on_spark.delete(spark, table, f.sqrt("price") > f.sqrt(f.lit(109.5))).rows_deleted == 2
    assert on_spark.update(spark, table, "customer = 1", {"price": f.col("price") + 1}).rows_updated == 3
    left = delta.scan(table).to_arrow().sort_by("id")
    assert left["id"].to_pylist() == [*range(10)]
    assert left["price"].to_pylist() == [100 + i + (i % 3 == 1) for i in range(10)]


# Rows --------------------------------------------------------------------------------------------------------

DDL = "id bigint, g string, x double"
ROWS = pa.table({"id": range(20), "g": ["a", "b"] * 10, "x": [0.0] * 20})
COUNTS = [
    "rows_updated",
    "rows_inserted",
    "rows_unchanged",
    "rows_deleted",
    "keys_deleted",
    "rows_superseded",
]


def counts(result: Any) -> list[int]:
    return [getattr(result, name) for name in COUNTS]


@pytest.mark.parametrize(
    "options",
    [
        {"properties": {"delta.enableRowTracking": "true"}},
        {"properties": {"delta.enableChangeDataFeed": "true"}, "partition": ["g"]},
    ],
    ids=["row tracking", "feed and partitions"],
)
def test_updates_of_columns_deletes_and_order(spark: SparkSession, tmp_path: Path, options: Any) -> None:
    table, twin = (delta_table(tmp_path / name, parts(ROWS, 2), **options) for name in ("t", "twin"))
    is_tracked = "partition" not in options
    first = [(id, "b", 1.0, id % 3 == 0, n) for id in (3, 4, 5, 15, 30, 33) for n in (1, 2)]
    names = f"{DDL}, gone boolean, n int"
    steps: list[tuple[Any, str, dict[str, Any]]] = [
        (first, names, {"delete_column": "gone", "order_column": "n"}),
        ([(id, 7.0) for id in (1, 2, 90)], "id bigint, x double", {"update_columns": ["x"]}),
        ([(1, "c", 0.0), (91, "c", 0.0)], DDL, {"when_matched_update_all": False}),
        ([(1, "d", 0.0), (4, "b", 1.0)], DDL, {"skip_unchanged": False}),
    ]
    for given, ddl, arguments in steps:
        if "update_columns" in arguments:
            arguments["when_not_matched_insert_all"] = False
        frame = spark.createDataFrame(given, ddl)
        if "order_column" in arguments:
            frame = frame.repartition(3)
        here = delta.upsert(twin, frame.toArrow(), "id", **arguments)
        assert counts(on_spark.upsert(frame, table, "id", **arguments)) == counts(here)
        assert by_us(table) == by_us(twin)
        if is_tracked:
            assert row_ids(table) == row_ids(twin)
        assert delta.verify(table) == []
    if not is_tracked:
        changed = delta.changes(table, 2).to_arrow()
        assert set(changed["_change_type"].to_pylist()) >= {"insert", "delete"}


def test_what_is_refused_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    table = delta_table(tmp_path / "t", parts(ROWS, 2))
    delta.append(table, ROWS.slice(0, 1))  # key 0 is there twice
    given = spark.createDataFrame([(0, "z", 1.0), (77, "z", 1.0)], DDL)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "several rows|more than one row|rows of key"),
        ({"branch": "b"}, "branch"),
        ({"join_cols": None}, "join_cols"),
        ({"changes": True}, "expected a column _change_type"),
    ]
    for arguments, message in wrong:
        with refused(table, errors.PuffinFastError, message):
            on_spark.upsert(given, table, **{"join_cols": "id", **arguments})
    done = on_spark.upsert(given, table, "id", duplicate_keys="replace")
    assert (done.rows_updated, done.rows_deleted, done.rows_inserted) == (1, 2, 1)
    delta.delete(table, "id = 5", job_id="other")
    with pytest.raises(errors.InvalidInputError, match="job_id 'other'"):
        on_spark.upsert(given, table, "id", job_id="other")


def test_values_of_partition_columns_are_written_as_on_one_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
    table = delta_table(tmp_path, schema, partition=["s", "x"])
    given = [(1, "😀", -0.0, -0.0), (2, "😀", 0.0, 0.0), (3, "b", 0.0, -0.0)]
    ddl = "id long, s string, x double, y double"
    on_spark.append(spark.createDataFrame(given, ddl).coalesce(1), table)
    base = delta.snapshot(table)
    adds = base.adds(range(base.files.num_rows))
    assert {tuple(add["partitionValues"].items()) for add in adds} == {
        (("s", "😀"), ("x", "0")),
        (("s", "b"), ("x", "0")),
    }
    assert all('"minValues":{"id":' in add["stats"] and '"y":-0.0}' in add["stats"] for add in adds)
    assert all('"y":0.0}' in add["stats"] for add in adds)
    empty = spark.createDataFrame([(4, "", 0.0, 0.0)], ddl)
    for write in (
        lambda: on_spark.append(empty, table),
        lambda: on_spark.upsert(empty, table, "s"),
        lambda: on_spark.overwrite(empty, table, "id = 1"),
        lambda: on_spark.update(spark, table, "id = 1", {"s": ""}),
    ):
        with refused(table, errors.InvalidInputError, "column s: expected no empty text"):
            write()
