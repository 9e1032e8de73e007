"""Delta tables on Spark executors: the same rows as on one machine, in one commit that other readers accept."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta, dv, errors
from puffin_fast import spark as on_spark
from puffin_fast.spark.session.sessions import own_errors
from tests.conftest import require_module
from tests.delta.conftest import GOLDEN, TABLES
from tests.delta.tables import files_of, ids, ids_of_others
from tests.spark.conftest import work_on_executors
from tests.spark.faults.injection import wait

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["work_on_executors"]
_NOTHING = timedelta(0)


@pytest.mark.parametrize("name", TABLES)
def test_a_scan_on_executors_has_the_rows_of_one_here(
    spark: SparkSession, name: str, golden: Callable[[str], Path]
) -> None:
    table = golden(name)
    rows = on_spark.scan(spark, table).toArrow()
    here = delta.scan(table).to_arrow()
    assert rows.schema.names == here.schema.names
    order = [("id", "ascending")]
    assert rows.sort_by(order).to_pylist() == here.sort_by(order).to_pylist()
    found = on_spark.scan(spark, table, "id < 50", ("id", "_pos"), version=0).toArrow()
    assert sorted(found["id"].to_pylist()) == ids(table, row_filter="id < 50", version=0)
    assert on_spark.scan(spark, table, "id % 7 = 0", ("id",)).count() == sum(i % 7 == 0 for i in ids(table))


@pytest.mark.parametrize("name", [name for name in TABLES if name != "hand_native"])
def test_a_delete_on_executors_is_one_commit_that_others_read(
    spark: SparkSession, name: str, golden: Callable[[str], Path], duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)
    before = ids(table)
    version = delta.snapshot(table).version
    properties = {"who": "me"}
    done = on_spark.delete(spark, table, "id >= 100 and id < 150", snapshot_properties=properties, job_id="j")
    kept = [i for i in before if not 100 <= i < 150]
    assert (done.version, done.rows_deleted) == (version + 1, len(before) - len(kept))
    assert done.vectors_written + done.data_files_dropped == done.data_files
    assert ids(table) == kept
    assert ids_of_others(duckdb_delta, table) == [kept, kept]
    assert delta.verify(table) == []
    again = on_spark.delete(spark, table, "id >= 100 and id < 150", job_id="j")
    assert again.repeated
    assert again.version is None
    info = json.loads((table / "_delta_log" / f"{version + 1:020d}.json").read_text().splitlines()[0])
    assert info["commitInfo"]["who"] == "me"
    by_sql = on_spark.delete(spark, table, "id % 7 = 3")
    kept = [i for i in kept if i % 7 != 3]
    assert by_sql.version == version + 2
    assert ids(table) == kept
    assert delta.delete(table, "id < 9").rows_deleted == sum(i < 9 for i in kept)
    kept = [i for i in kept if i >= 9]
    assert ids_of_others(duckdb_delta, table) == [kept, kept]
    assert delta.orphan_files(table, older_than=_NOTHING).num_rows == 0


def test_the_native_payload_is_taken_over(spark: SparkSession, golden: Callable[[str], Path]) -> None:
    table = golden("hand_native")
    before = ids(table)
    assert on_spark.delete(spark, table, "id < 15").vectors_merged == 1
    assert ids(table) == [i for i in before if i >= 15]


def test_rows_go_by_keys_of_a_dataframe(spark: SparkSession, golden: Callable[[str], Path]) -> None:
    for broadcast_keys in (1 << 20, 0):
        table = golden("spark_partitioned") if broadcast_keys else golden("spark_many_features")
        before = ids(table)
        keys = spark.createDataFrame([(i,) for i in (2, 3, 8, 9, 5000)], "id long")
        done = on_spark.delete_keys(keys, table, "id", broadcast_keys=broadcast_keys)
        assert ids(table) == [i for i in before if i not in (2, 3, 8, 9)]
        assert done.rows_deleted == len(before) - len(ids(table)) > 0
        assert delta.verify(table) == []


def test_rows_go_by_file_and_position(spark: SparkSession, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    rows = delta.scan(table, "id < 60", ("id", "_file", "_pos")).to_arrow()
    pairs = list(zip(rows["_file"].to_pylist(), rows["_pos"].to_pylist(), strict=True))
    deletes = spark.createDataFrame([*pairs, *pairs, ("/nowhere.parquet", 1)], "file_path string, pos int")
    before, state = ids(table), files_of(table)
    dry = on_spark.delete_positions(deletes, table, dry_run=True)
    assert files_of(table) == state
    done = on_spark.delete_positions(deletes, table)
    assert dry.rows_deleted == done.rows_deleted == rows.num_rows
    assert done.rows_dangling == 1
    assert ids(table) == [i for i in before if i >= 60]
    assert on_spark.delete_positions(deletes, table).version is None
    state = files_of(table)
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        on_spark.delete_positions(deletes, table, strict=True)
    beyond = spark.createDataFrame([(pairs[0][0], 100)], "file_path string, pos int")
    with pytest.raises(errors.InvalidInputError, match="100 rows"):
        on_spark.delete_positions(beyond, table)
    assert files_of(table) == state


def test_a_data_file_without_rows_left_is_removed(spark: SparkSession, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = ids(table)
    done = on_spark.delete(spark, table, "part = 'p 1' or id = 3")
    assert (done.data_files_dropped, done.vectors_written) == (1, 1)
    assert ids(table) == [i for i in before if i % 3 != 1 and i != 3]


def test_a_dry_run_writes_nothing(spark: SparkSession, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    found = on_spark.delete(spark, table, "id < 50", dry_run=True)
    assert (found.version, found.rows_deleted) == (None, sum(i < 50 for i in ids(table)))
    assert on_spark.delete(spark, table, "id % 1000 = 999").version is None
    assert files_of(table) == before


def test_a_commit_between_is_seen(
    spark: SparkSession, golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another delete from the same data files comes first: refused, with no file left; or planned again."""
    from puffin_fast.spark.table.delta import DeltaPart

    table = golden("spark_partitioned")
    planned, rows = DeltaPart.planned, iter(["id = 52", "id = 82"])

    def late(self: Any, outcomes: Any) -> Any:
        found = planned(self, outcomes)
        if row := next(rows, None):
            delta.delete(table, row)
        return found

    monkeypatch.setattr(DeltaPart, "planned", late)
    before = ids(table)
    with pytest.raises(errors.ConflictError):
        on_spark.delete(spark, table, "id < 100")
    assert ids(table) == [i for i in before if i != 52]
    assert not list(table.glob("delete-*/*"))
    done = on_spark.delete(spark, table, "id < 100", on_conflict="merge")
    assert done.attempts == 2
    assert ids(table) == [i for i in before if i >= 100]
    assert delta.verify(table) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"branch": "b"}, "branch"),
        ({"row_filter": "nothing = 1"}, "nothing"),
        ({"row_filter": "id = "}, "id = "),
        ({"job_id": "a/b"}, "job_id"),
        ({"snapshot_properties": {"operation": "x"}}, "operation"),
    ],
)
def test_what_cannot_be_is_refused_and_the_table_stays(
    spark: SparkSession, golden: Callable[[str], Path], options: dict[str, Any], named: str
) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    with pytest.raises(errors.PuffinFastError, match=named):
        on_spark.delete(spark, table, **({"row_filter": "id = 2"} | options))
    assert files_of(table) == before


def test_tables_and_states_that_are_not_there_are_refused(
    spark: SparkSession, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    table = golden("spark_partitioned")
    with pytest.raises(errors.NotFoundError, match="nothing"):
        on_spark.scan(spark, tmp_path / "nothing")
    with pytest.raises(errors.NotFoundError, match="99"):
        on_spark.scan(spark, table, version=99)
    with pytest.raises(errors.UnsupportedError, match="tag"):
        on_spark.scan(spark, table, tag="t")
    deltalake: Any = require_module("deltalake")
    plain = tmp_path / "plain"
    deltalake.write_deltalake(str(plain), pa.table({"id": [1, 2, 3]}))
    before = files_of(plain)
    with pytest.raises(errors.UnsupportedError, match="enable"):
        on_spark.delete(spark, plain, "id = 1")
    assert files_of(plain) == before
    delta.enable(plain)
    assert on_spark.delete(spark, deltalake.DeltaTable(str(plain)), "id = 1").rows_deleted == 1
    assert ids(plain) == [2, 3]


def test_executors_that_fail_leave_no_file(spark: SparkSession, golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    for path in before:
        if path.suffix == ".bin":
            path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(errors.CorruptDataError, match="deletion_vector"):
        on_spark.delete(spark, table, "id < 100")
    with pytest.raises(errors.CorruptDataError, match="deletion_vector"), own_errors():
        on_spark.scan(spark, table).toArrow()
    assert files_of(table) == before


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


def test_the_files_of_a_job_are_found_and_those_in_use_stay(
    spark: SparkSession, golden: Callable[[str], Path]
) -> None:
    table = golden("spark_partitioned")
    on_spark.delete(spark, table, "id < 50", job_id="nightly")
    (live,) = table.glob("nightly-*/*.bin")
    assert list(map(Path, on_spark.job_files(table, "nightly"))) == [live]
    run = table / "nightly-0123456789ab"
    run.mkdir()
    name = f"deletion_vector_{uuid.uuid4()}.bin"
    left = {run / name, run / f".{name}.0123456789abcdef.tmp", live.parent / name}
    others = {run / "x.bin", table / name, table / "other-0123456789ab" / name, run / f"{name}.tmp"}
    for path in left | others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(live.read_bytes())
    deltalake: Any = require_module("deltalake")
    assert {Path(path) for path in on_spark.job_files(deltalake.DeltaTable(str(table)), "nightly")} == {
        live,
        *left,
    }
    before = ids(table)
    assert set(map(Path, on_spark.remove_job_files(table.as_uri(), "nightly"))) == left
    assert all(path.exists() for path in others)
    assert ids(table) == before
    delta.delete(table, "id < 60")  # time travel still needs the file
    assert on_spark.remove_job_files(table, "nightly") == []
    assert ids(table, version=4) == before
    (table / "_delta_log" / f"{4:020d}.json").unlink()
    with pytest.raises(errors.CorruptDataError, match=f"no {4:020d}.json"):
        on_spark.remove_job_files(table, "nightly")
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

from puffin_fast.spark.table import job

job.HERE_BYTES = -1  # executors write
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
    with (folder / "log").open(
        "wb"
    ) as log:  # a file: processes that outlive the driver would keep a pipe open
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

    table = tmp_path / "t"
    rows = pa.table({"id": range(12), "customer": [i % 3 for i in range(12)], "price": range(100, 112)})
    delta.create_table(table, rows.schema)
    delta.append(table, rows)
    found = on_spark.scan(spark, table, "customer = 2", ["price"]).toArrow()
    assert sorted(found["price"].to_pylist()) == [102, 105, 108, 111]
    assert on_spark.delete(spark, table, f.sqrt("price") > f.sqrt(f.lit(109.5))).rows_deleted == 2
    assert on_spark.update(spark, table, "customer = 1", {"price": f.col("price") + 1}).rows_updated == 3
    left = delta.scan(table).to_arrow().sort_by("id")
    assert left["id"].to_pylist() == [*range(10)]
    assert left["price"].to_pylist() == [100 + i + (i % 3 == 1) for i in range(10)]
