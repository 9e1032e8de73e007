"""Laws that hold if parts of a cluster are killed: ``python -m tests.spark.faults.cluster FOLDER``.

All cases share a session with two executors, which are JVMs of their own. To Spark they are on two hosts, because a
speculative attempt never runs on the host of the first attempt. The cases run in a process of their own, which at the
end kills itself in the middle of a job.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import iceberg, read_vectors
from puffin_fast import spark as ps
from puffin_fast.errors import ConflictError, MissingExtraError
from puffin_fast.iceberg.commit.request import JOB_ID
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.spark.session import workers
from puffin_fast.spark.table import saved_rows
from tests.conftest import JVM
from tests.iceberg.conftest import rows_of
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of
from tests.rows.deletes.equality_deletes import delete_equal
from tests.spark.faults import injection
from tests.spark.faults.killing_file_io import KillingFileIO
from tests.spark.laws import expected, frame, some_deletes
from tests.spark.results import lineage
from tests.spark.table.tables import ROWS, N, made, positions_of, puffin_files, referenced

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
JOB = "nightly"

NO_SPECULATION = {"spark.speculation.quantile": "1", "spark.speculation.task.duration.threshold": "1h"}
"""Without speculation: on a busy machine Spark would repeat healthy tasks, whose files no case expects."""

SPECULATION = {"spark.speculation.quantile": "0.1", "spark.speculation.task.duration.threshold": "1s"}

LAST = "the_driver_dies"

Case = Callable[["SparkSession", Path], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def faults_folder(folder: Path) -> Path:
    """The folder of the injected fault."""
    return folder.parent / "faults"


# The cluster ---------------------------------------------------------------------------------------------------


def session(folder: Path) -> SparkSession:
    """Two executors of one core each, on 127.0.0.1 and 127.0.0.2."""
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    faults_folder(folder / "x").mkdir()
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(injection.SITE)
    home = folder / "home"  # of Spark: workers keep logs there
    home.mkdir()
    for part in ("bin", "jars"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.app.name": "cluster",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JVM,
        "spark.executorEnv.PYTHONPATH": f"{folder / 'site'}:{ROOT}",
        f"spark.executorEnv.{injection.FOLDER}": str(faults_folder(folder / "x")),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "OFF",
        "spark.master.rest.enabled": "false",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        **NO_SPECULATION,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    conf = SparkConf().setMaster("spark://none").setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf)
    jvm: Any = SparkContext._jvm
    deploy, none = jvm.org.apache.spark.deploy, jvm.scala.Option.empty()
    jconf = jvm.org.apache.spark.SparkConf()
    masters = deploy.LocalSparkCluster.apply(1, 1, 1024, jconf).start()
    deploy.worker.Worker.startRpcEnvAndEndpoint(
        "127.0.0.2", 0, 0, 1, 1024, masters, str(home / "work"), none, jconf, none
    )
    return SparkSession.builder.config(conf=conf.setMaster(masters[0])).getOrCreate()


@contextmanager
def with_fault(what: str, step: str, spark: SparkSession, folder: Path) -> Iterator[None]:
    """Injects a fault into one attempt of the jobs in this context."""
    settings = spark.sparkContext._jsc.sc().conf()  # read again for each set of tasks
    injection.plan(faults_folder(folder), what, step)
    for key, value in (SPECULATION if what == "wait-for-copy" else NO_SPECULATION).items():
        settings.set(key, value)
    yield
    for key, value in NO_SPECULATION.items():
        settings.set(key, value)
    assert injection.happened(faults_folder(folder)), what


# Files --------------------------------------------------------------------------------------------------------


def _write_under(what: str, step: str, spark: SparkSession, folder: Path) -> set[str]:
    """Writes vectors while a fault happens to one attempt. Returns the other files that remain."""
    deletes = some_deletes(5_000)
    with with_fault(what, step, spark, folder):
        report = ps.write_deletion_vectors(frame(spark, deletes), folder, target_file_size=1_000, job_id=JOB)
    kept = set(report["path"].to_pylist())
    vectors = [(path, set(bitmap)) for file in kept for path, bitmap in read_vectors(file).items()]
    assert len(vectors) == len(dict(vectors)), "two vectors for one data file"
    assert dict(vectors) == expected(deletes)
    left = {str(path) for path in folder.iterdir()} - kept
    removed: set[str] = set()

    def tidy() -> bool:
        removed.update(ps.remove_job_files(folder, JOB, keep=kept))
        return {str(path) for path in folder.iterdir()} == kept

    injection.wait(tidy)  # an attempt may still write when its executor or another attempt has ended
    assert left <= removed
    return left


@case
def a_worker_killed_before_its_file_is_visible_leaves_nothing(spark: SparkSession, folder: Path) -> None:
    assert _write_under("kill", "whole", spark, folder) == set()


@case
def a_task_that_fails_after_its_file_was_written_leaves_nothing(spark: SparkSession, folder: Path) -> None:
    assert _write_under("raise", "visible", spark, folder) == set()


@case
def a_worker_that_survives_its_killed_executor_changes_nothing(spark: SparkSession, folder: Path) -> None:
    _write_under("kill-executor", "whole", spark, folder)


@case
def a_speculative_attempt_that_ends_later_changes_nothing(spark: SparkSession, folder: Path) -> None:
    _write_under("wait-for-copy", "whole", spark, folder)


@case
def of_two_runs_of_a_job_at_once_at_most_one_counts(spark: SparkSession, folder: Path) -> None:
    deletes = some_deletes(5_000)

    def run(_: int) -> Any:
        try:
            return ps.write_deletion_vectors(frame(spark, deletes), folder, job_id=JOB)
        except ConflictError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        reports = [found for found in pool.map(run, range(2)) if not isinstance(found, ConflictError)]
    assert len(reports) <= 1
    kept = {path for report in reports for path in report["path"].to_pylist()}
    assert {str(path) for path in folder.iterdir()} == kept
    vectors = {path: set(bitmap) for file in kept for path, bitmap in read_vectors(file).items()}
    assert vectors == (expected(deletes) if reports else {})


@case
def executors_without_the_package_are_named_before_a_file_is_written(
    spark: SparkSession, folder: Path
) -> None:
    import pyspark

    wrapper = folder / "python"
    site = Path(pyspark.__file__).parents[1]
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    context, ours = spark.sparkContext, spark.sparkContext.pythonExec
    table = made(_catalog(folder), "n")
    before = files_of(table)
    context.pythonExec = str(wrapper)
    try:
        for job in (
            lambda: ps.write_deletion_vectors(frame(spark, [("a", 1)]), folder / "out"),
            lambda: ps.delete(spark, table, "small > 25"),
            lambda: ps.delete_positions(frame(spark, [("a", 1)]), table),
        ):
            with pytest.raises(MissingExtraError, match=r"puffin_fast on the executor .+ \(/.+, Python 3"):
                job()
    finally:
        context.pythonExec = ours
    assert not (folder / "out").exists()
    assert files_of(table) == before


# Tables ------------------------------------------------------------------------------------------------------


def _catalog(folder: Path, **properties: str) -> RacingCatalog:
    catalog = RacingCatalog(
        "racing", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/wh", **properties
    )
    catalog.create_namespace_if_not_exists("n")
    return catalog


def _check(table: Table, gone: set[int]) -> None:
    """Checks that exactly these rows are deleted, for PyIceberg too, and that no data file has two vectors."""
    table.refresh()
    assert iceberg.verify(table) == []
    left = [i for i in range(N) if i not in gone]
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == left
    assert rows_of(table)["id"].to_pylist() == left
    vectors = [path for path in iceberg.deletes(table)["data_file"].to_pylist() if path]
    assert len(vectors) == len(set(vectors))


def _needed(table: Table, snapshot_id: int) -> set[Path]:
    """Data files and Puffin files of a snapshot."""
    tasks = plan_files(table, snapshot_id=snapshot_id).tasks
    files = [*(t.data for t in tasks), *(t.vector for t in tasks if t.vector is not None)]
    return {Path(file.file_path.removeprefix("file://")) for file in files}


def _strays(table: Table, job: str = JOB) -> set[Path]:
    """Files of a job, complete or not, that no snapshot of the table needs."""
    needed = {path for snapshot in table.snapshots() for path in _needed(table, snapshot.snapshot_id)}
    return {path for path in files_of(table) if path.name.lstrip(".").startswith(f"{job}-")} - needed


def _tidy(table: Table, job: str = JOB) -> None:
    """Removes the remaining files of a job, also of attempts that end later, by their names."""
    strays = _strays(table, job)
    removed: set[Path] = set()

    def tidy() -> bool:
        removed.update(Path(path.removeprefix("file://")) for path in ps.remove_job_files(table, job))
        return not _strays(table, job)

    injection.wait(tidy)
    assert strays <= removed
    assert referenced(table) <= puffin_files(table)


def _filter(
    spark: SparkSession, table: Table, first: int = 0, job: str = JOB
) -> tuple[Callable[[], Any], set[int]]:
    """A delete by filter whose rows executors find, and the deleted rows."""
    filter = pc.equal(pc.bit_wise_and(pc.field("id"), 3), first)
    return lambda: ps.delete(spark, table, filter, job_id=job), set(range(first, N, 4))


def _places(
    spark: SparkSession, table: Table, first: int = 5, job: str = JOB
) -> tuple[Callable[[], Any], set[int]]:
    """A delete by position, and the deleted rows."""
    gone = set(range(first, N, 300))
    rows = frame(spark, positions_of(table, gone))
    return lambda: ps.delete_positions(rows, table, job_id=job), gone


def _keys(
    spark: SparkSession, table: Table, first: int = 0, job: str = JOB
) -> tuple[Callable[[], Any], set[int]]:
    """A delete by keys that Spark joins, and the deleted rows."""
    gone = set(range(first, N, 7))
    keys = frame(spark, [(i,) for i in gone], "id long")
    return lambda: ps.delete_keys(keys, table, ["id"], broadcast_keys=0, job_id=job), gone


@case
def table_jobs_survive_their_tasks_and_executors(spark: SparkSession, folder: Path) -> None:
    table = made(_catalog(folder), "n")
    gone: set[int] = set()
    for number, (job_of, what, step) in enumerate(
        (
            (_filter, "kill", "whole"),
            (_filter, "kill-executor", "visible"),
            (_places, "raise", "visible"),
            (_places, "wait-for-copy", "whole"),
            (_keys, "kill", "visible"),
        )
    ):
        job, more = job_of(spark, table, number, f"{JOB}{number}")
        with with_fault(what, step, spark, folder):
            result = job()
        assert result.rows_deleted == len(more - gone)
        gone |= more
        _check(table, gone)
        _tidy(table, f"{JOB}{number}")


@case
def rewrites_survive_their_tasks_and_executors(spark: SparkSession, folder: Path) -> None:
    properties = {"format-version": "2", "write.delete.granularity": "partition"}
    table = _catalog(folder).create_table("n.t", ROWS.schema, properties=properties)
    for start in range(0, N, N // 3):
        iceberg.append(table, ROWS.slice(start, N // 3))
    iceberg.delete(table, "id < 900 or word = 'w1'")
    delete_equal(table, [1], [(i,) for i in range(0, N, 9)])
    iceberg.upgrade(table)
    gone = set(range(N)) - set(iceberg.scan(table).to_arrow()["id"].to_pylist())

    def survives(rewrite: Any, what: str, step: str) -> None:
        job = f"{JOB}-{rewrite.__name__}"
        with with_fault(what, step, spark, folder):
            assert rewrite(spark, table, job_id=job).vectors_written > 0
        _tidy(table, job)

    survives(ps.convert_position_deletes, "kill", "whole")
    survives(ps.convert_equality_deletes, "raise", "visible")
    _check(table, gone)
    for one in (1004, 2501):  # into Puffin files of their own
        iceberg.delete(table, f"id = {one}")
        gone.add(one)
    survives(ps.compact, "wait-for-copy", "whole")
    _check(table, gone)
    assert all(task.vector and not task.equality_deletes for task in plan_files(table).tasks)


ROW_COUNTS = ("rows", "rows_updated", "rows_inserted", "rows_unchanged")


def _in_both(table: Table, single: Table, sent: Callable[[], Any], local: Callable[[], Any]) -> None:
    """Runs a job here and on the single machine; rows, lineage and counts are then equal."""
    done = [run() for run in (sent, local)]  # the data files differ, which writers on executors begin
    found, expected = ([getattr(one, name, None) for name in ROW_COUNTS] for one in done)
    assert found == expected, (found, expected)
    assert lineage(table.refresh()) == lineage(single.refresh())
    assert iceberg.verify(table) == []


@case
def replaced_rows_survive_their_tasks_and_executors(spark: SparkSession, folder: Path) -> None:
    from pyspark.sql import functions as f

    catalog = _catalog(folder, **{"py-io-impl": "tests.spark.faults.killing_file_io.FaultyFileIO"})
    table = made(catalog, "n")
    single = catalog.register_table("n.single", table.metadata_location)
    changed = ROWS.slice(1000, 900).set_column(2, "small", [pa.array([77] * 900, pa.int32())])
    given = spark.createDataFrame(changed).repartition(3)
    places = {"min_deleted": 0.01, "min_input_files": 2}
    for number, (sent, local, what, step) in enumerate(
        (
            (
                lambda **job: ps.update(spark, table, "id < 1500", {"word": "new"}, **job),
                lambda: iceberg.update(single, "id < 1500", {"word": "new"}),
                "kill",
                "data-begun",
            ),
            (
                lambda **job: ps.update(spark, table, "small = 4", {"small": f.col("small") + 100}, **job),
                lambda: iceberg.update(single, "small = 4", {"small": 104}),
                "raise",
                "vectors-begun",
            ),
            (
                lambda **job: ps.upsert(given, table, "id", **job),
                lambda: iceberg.upsert(single, changed, "id"),
                "kill-executor",
                "vectors-begun",
            ),
            (
                lambda **job: ps.update(spark, table, "id >= 2900", {"small": 5}, **job),
                lambda: iceberg.update(single, "id >= 2900", {"small": 5}),
                "kill-executor",
                "data-begun",
            ),
            (
                lambda **job: ps.rewrite_data_files(spark, table, **places, **job),
                lambda: iceberg.rewrite_data_files(single, **places),
                "kill",
                "data-begun",
            ),
        )
    ):
        job = f"{JOB}{number}"
        with with_fault(what, step, spark, folder):
            _in_both(table, single, partial(sent, job_id=job), local)
        _tidy(table, job)


@case
def rows_kept_for_a_job_survive_the_tasks_and_executors_that_write_them(
    spark: SparkSession, folder: Path
) -> None:
    def computed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:  # other words each time, so long that a task does not send them to the driver
            ids = batch[0]
            words = pa.array([os.urandom(512).hex() for _ in ids])
            columns = [ids, words, ids.cast(pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, names=ROWS.schema.names)

    table = made(_catalog(folder), "n")
    given = spark.range(0, 900, 1, 3).mapInArrow(computed, "id long, word string, small int")
    for number, (what, step) in enumerate(
        (("kill", "whole"), ("raise", "visible"), ("kill-executor", "whole"), ("kill-executor", "visible"))
    ):
        job = f"{JOB}{number}"
        with with_fault(what, step, spark, folder):
            result = ps.upsert(given, table, "id", job_id=job)
            assert ".arrow" in (faults_folder(folder) / "faulted").read_text()
        assert (result.rows_updated, result.rows_inserted) == (900, 0)
        rows = iceberg.scan(table.refresh()).to_arrow().sort_by("id")
        assert rows["id"].to_pylist() == list(range(N))
        assert [*map(len, rows["word"].to_pylist()[:900])] == [1024] * 900
        assert iceberg.verify(table) == []
        _tidy(table, job)
        assert not [path for path in files_of(table) if ".arrow" in path.name]


@case
def a_job_started_twice_is_done_once(spark: SparkSession, folder: Path) -> None:
    catalog = _catalog(folder)
    table = made(catalog, "n")
    job, gone = _places(spark, table)
    other, _ = _places(spark, catalog.load_table("n.t"))
    catalog.before.append(other)  # commits all of the second run right before the first one's commit
    first = job()
    assert first.commit.repeated
    _check(table, gone)
    assert job().commit.repeated
    _check(table, gone)
    _tidy(table)
    summaries = [snapshot.summary.additional_properties for snapshot in table.snapshots()]
    assert [summary[JOB_ID] for summary in summaries if JOB_ID in summary] == [JOB]


def _killed_at(step: str, folder: Path, spark: SparkSession, job_of: Any) -> None:
    """Runs a job in a fork that dies at a step of its commit."""
    child = os.fork()
    if child:
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        return
    try:
        catalog = _catalog(folder, **{"py-io-impl": "tests.spark.faults.killing_file_io.KillingFileIO"})
        table = catalog.load_table("n.t")
        if step in ("before", "after"):
            getattr(catalog, step).append(injection.die)
        else:
            KillingFileIO.at = step
        job_of(spark, table)[0]()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


@case
def a_driver_killed_around_its_commit_loses_nothing(spark: SparkSession, folder: Path) -> None:
    for number, (job_of, step) in enumerate(
        ((_filter, "-m0.avro"), (_filter, "after"), (_places, "snap-"), (_places, "before"))
    ):
        place = folder / str(number)
        place.mkdir()
        table = made(_catalog(place), "n")
        _, gone = job_of(spark, table)
        _killed_at(step, place, spark, job_of)
        _check(table, gone if step == "after" else set())
        assert bool(_strays(table)) == (step != "after")
        _tidy(table)
        again = job_of(spark, table)[0]()
        assert again.commit.repeated == (step == "after")
        _check(table, gone)
        _tidy(table)


def kill_the_driver_within_a_job(spark: SparkSession, folder: Path) -> None:
    """Never returns: this process dies while an executor writes."""
    table = made(_catalog(folder), "n")
    nothing = Event()

    def watch() -> None:
        while not (faults_folder(folder) / "faulted").exists():
            nothing.wait(0.05)
        injection.die()

    injection.plan(faults_folder(folder), "hang", "whole")
    Thread(target=watch, daemon=True).start()
    _places(spark, table)[0]()


def main() -> int:
    folder = Path(sys.argv[1])
    spark = session(folder)
    # the tables and the given rows are so small that the driver would do all
    workers.HERE_BYTES = saved_rows.MOST_BYTES = -1
    failed = 0
    for name in sys.argv[2:] or CASES:
        place = folder / name  # of its own: a worker without its executor may still write
        place.mkdir()
        try:
            CASES[name](spark, place)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"held {name}", flush=True)
        injection.happened(faults_folder(place))
    if failed:
        return failed
    place = folder / LAST
    place.mkdir()
    kill_the_driver_within_a_job(spark, place)
    return 1


if __name__ == "__main__":
    sys.exit(main())
