"""Jobs that are interrupted in the middle, in a process of their own: ``python -m tests.spark.faults.interrupted``.

``classic FOLDER`` runs them in sessions with two executors, which are JVMs of their own, ``connect FOLDER`` in sessions
of Spark Connect. Each interruption meets a delete, an upsert, and the second commit of a rewrite: a task begins a file,
and waits. The error says what was committed, the table has nothing else, no file is left, and the same call works
afterwards.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, JobInterruptedError
from puffin_fast.spark.session import workers
from puffin_fast.spark.table import saved_rows
from tests.conftest import JVM, QUICK
from tests.spark.connect import connect_session
from tests.spark.faults import injection
from tests.spark.faults.cluster import _catalog, _strays
from tests.spark.table.tables import ROWS, N, made

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

KIND, FOLDER = sys.argv[1:3] if __name__ == "__main__" else ("classic", "")

NEW = ROWS.slice(N - 100).set_column(0, "id", pa.array(range(N - 50, N + 50), pa.int64()))
"""Rows of which half have keys of the table."""

GROUP = "a group"


def session() -> SparkSession:
    """The session of this process, or a new one if it was stopped."""
    import pyspark
    from pyspark.sql import SparkSession

    settings = {
        "spark.app.name": "interrupted",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    if KIND == "connect":
        return connect_session(settings)
    home = Path(FOLDER) / "home"  # of Spark: workers keep logs there
    home.mkdir(exist_ok=True)
    for part in ("bin", "jars", "python"):
        if not (home / part).exists():
            (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    os.environ["SPARK_HOME"] = str(home)
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    settings |= QUICK | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JVM,
        "spark.local.dir": f"{FOLDER}/local",
        "spark.task.maxFailures": "1",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


# The jobs -----------------------------------------------------------------------------------------------------

Run = Callable[["SparkSession", "Table"], Any]


def _upsert(spark: SparkSession, table: Table) -> Any:
    given = spark.createDataFrame(NEW, "id long, word string, small int")
    return ps.upsert(given, table, "id", job_id="upsert")


RUNS: dict[str, Run] = {
    "delete": lambda spark, table: ps.delete(spark, table, "small < 25", job_id="delete"),
    "upsert": _upsert,
    "rewrite": lambda spark, table: ps.rewrite_data_files(
        spark, table, min_input_files=2, target_file_size=10_000, max_commits=3
    ),
}

ALL = set(range(N))
LEFT = {
    "delete": {i for i, small in enumerate(ROWS["small"].to_pylist()) if small is None or small >= 25},
    "upsert": ALL | set(range(N, N + 50)),
    "rewrite": ALL,
}
"""The rows after each job."""


# The interruptions ------------------------------------------------------------------------------------------------


def _interrupt(spark: SparkSession) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _cancel_group(spark: SparkSession) -> None:
    spark.sparkContext.cancelJobGroup(GROUP)


def _stop(spark: SparkSession) -> None:
    spark.stop()


HOW: dict[str, Callable[[SparkSession], None] | None] = {
    "ctrl-c": _interrupt,
    "group": _cancel_group,
    "executor": None,  # the task kills it
    "stop": _stop,
}
if KIND == "connect":
    HOW = {"ctrl-c": _interrupt, "all": lambda spark: spark.interruptAll(), "stop": _stop}  # type: ignore[dict-item]


def interrupted(spark: SparkSession, folder: Path, verb: str, how: str) -> SparkSession:
    """Interrupts a job, looks at what it left, and runs it again. Returns the session afterwards."""
    catalog: RacingCatalog = _catalog(
        folder, **{"py-io-impl": "tests.spark.faults.killing_file_io.HeldFileIO", "held": str(folder)}
    )
    table = made(catalog, "n")
    hold, held = folder / "hold", folder / "is-held"

    def begin() -> None:
        hold.write_text("kill-executor" if how == "executor" else "hold")

    def disturb() -> None:
        injection.wait(held.exists)
        act = HOW[how]
        if act is not None:
            act(spark)

    if verb == "rewrite":
        catalog.after.append(begin)
    else:
        begin()
    if how == "group":
        spark.sparkContext.setJobGroup(GROUP, "a job of a test")
    disturber = Thread(target=disturb)
    disturber.start()
    error: BaseException | None = None
    try:
        RUNS[verb](spark, table)
    except (Exception, KeyboardInterrupt) as found:
        error = found
    finally:
        disturber.join()
        hold.unlink(missing_ok=True)
    assert error is not None, "the job was not interrupted"
    if os.environ.get("SHOW"):
        traceback.print_exception(error)
    _check(table, error, verb, how)
    if how == "stop":
        with pytest.raises(InvalidInputError, match="found one that is stopped"):
            ps.delete(spark, table, "id = 1")
        spark = session()
    elif how == "group":
        spark.sparkContext._jsc.clearJobGroup()  # type: ignore[union-attr]
    again = RUNS[verb](spark, table)
    assert not again.commit.repeated if verb != "rewrite" else again.commits
    assert _ids(table) == sorted(LEFT[verb])
    assert iceberg.verify(table) == []
    catalog.engine.dispose()
    return spark


def _ids(table: Table) -> list[int]:
    found: list[int] = iceberg.scan(table.refresh()).to_arrow()["id"].to_pylist()
    return sorted(found)


def _check(table: Table, error: BaseException, verb: str, how: str) -> None:
    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert isinstance(error, KeyboardInterrupt if how == "ctrl-c" else JobInterruptedError), said
    assert "nothing was committed" in said, said
    assert "\n\t" not in said, said  # no stack of Java
    assert len(str(error)) < 1_500, said
    snapshots = table.refresh().metadata.snapshots
    assert _ids(table) == sorted(ALL)
    rewritten = [one for one in snapshots if one.summary and one.summary.operation.value == "replace"]
    assert len(snapshots) == 5 + len(rewritten)
    assert len(rewritten) == (verb == "rewrite")
    if rewritten:
        assert f"earlier parts are committed up to snapshot {rewritten[0].snapshot_id}" in said, said

    def tidy() -> bool:  # the task that was held may have written its file
        ps.remove_job_files(table, verb)
        return not _strays(table, verb)

    injection.wait(tidy)
    assert iceberg.verify(table) == []


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
    # the tables and the given rows are so small that the driver would do all
    workers.HERE_BYTES = saved_rows.MOST_BYTES = -1
    spark = session()
    failed = 0
    for how in HOW:
        for verb in RUNS:
            if sys.argv[3:] and f"{how}-{verb}" not in sys.argv[3:]:
                continue
            place = Path(FOLDER) / f"{how}-{verb}"
            place.mkdir()
            try:
                spark = interrupted(spark, place, verb, how)
            except Exception:
                failed += 1
                print(f"FAILED {how}-{verb}\n{traceback.format_exc()}", flush=True)
                spark = session()
            else:
                print(f"held {how}-{verb}", flush=True)
    spark.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main())
