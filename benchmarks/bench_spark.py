"""Benchmarks of the DataFrame transforms, compared with `applyInArrow`, in one warm Spark session; prints JSON.

    python -m benchmarks.bench_spark                       20M rows, three distributions, ours and the naive
    python -m benchmarks.bench_spark --shapes even --rounds 3 --into benchmarks/results/spark.json
    python -m benchmarks.bench_spark --rows 2000000 --contenders ours floor

- ``ours``: `puffin_fast.spark.write_deletion_vectors`, Puffin files written;
- ``naive``: groupBy(file_path).applyInArrow with pyroaring, its blobs thrown away;
- ``floor``: the rows shipped to Python, as ours has Spark do it, and dropped.

Wall and CPU seconds of the whole process tree, bytes shuffled, and the largest Python worker. A process of its
own, because a Spark session is one per process and its JVM must not weigh on the other benchmarks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import report
from benchmarks.rounds import OURS, compare, medians, take_turns
from puffin_fast.spark.session.batches import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 8
PATH = "s3://warehouse-eu-central-1/db/events/data/event_day=2026-01-01/{:08d}-17-0f3c9a5e-6f1b-4c55-9d0e-5b7a3e.parquet"
GOLDEN = 0x9E3779B97F4A7C15
"""Multiplied by an odd number modulo a power of two, numbers come in an order that looks random."""

TICKS = os.sysconf("SC_CLK_TCK")

WORKS_S = 0.1
"""CPU seconds from which on a worker does more than look whether there is work."""

Report = dict[str, Any]


# Rows --------------------------------------------------------------------------------------------------------


def files_of(shape: str, order: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    """File number and position of each row, all different, and the number of files."""
    if shape == "half":
        first = order % 2 == 0
        files = np.where(first, 0, 1 + order // 2 % 999)
        positions = np.where(first, order // 2, order // 2 // 999) * 5 + order % 5
        return files, positions, 1000
    n_files = {"even": 1000, "many": max(n_rows // 100, 1)}[shape]
    return order % n_files, order // n_files * 5 + order % 5, n_files


SHAPES = {"even": "1000 files", "half": "1000 files, half in one", "many": "files of 100 rows"}


def write_rows(folder: Path, shape: str, n_rows: int) -> int:
    """Parquet files of (file_path, pos) in no order; returns the number of data files."""
    bits = max(n_rows - 1, 1).bit_length()
    n_files = 0
    steps = np.array_split(np.arange(1 << bits, dtype=np.uint64), PARTS)
    for part, step in enumerate(steps):
        order = (step * np.uint64(GOLDEN | 1) & np.uint64((1 << bits) - 1)).astype(np.int64)
        files, positions, n_files = files_of(shape, order[order < n_rows], n_rows)
        paths = pa.array([PATH.format(i) for i in range(n_files)])
        table = pa.table({"file_path": paths.take(pa.array(files)), "pos": positions})
        pq.write_table(table, folder / f"part-{part}.parquet", row_group_size=1 << 20)
    return n_files


# Contenders ----------------------------------------------------------------------------------------------------


def ours(df: DataFrame, folder: Path) -> Report:
    from puffin_fast import spark as ps

    table = ps.write_deletion_vectors(df, folder)
    return {"files": table.num_rows, "rows": int(np.sum(table["cardinality"].to_numpy()))}


def naive(df: DataFrame, folder: Path) -> Report:
    def encode(table: pa.Table) -> pa.Table:
        from pyroaring import BitMap64

        positions = BitMap64(table["pos"].to_numpy())
        return pa.table(
            {"path": [table["file_path"][0].as_py()], "blob": [positions.serialize()], "n": [len(positions)]}
        )

    schema = "path string, blob binary, n long"
    found = df.groupBy("file_path").applyInArrow(encode, schema).selectExpr("count(blob) c", "sum(n) n")
    row = found.toArrow().to_pylist()[0]
    return {"files": row["c"], "rows": row["n"]}


def floor(df: DataFrame, folder: Path) -> Report:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [sum(batch.num_rows for batch in batches)]})

    return {"rows": collected(df.mapInArrow(count, "n long").groupBy().sum())[0][0].as_py()}


CONTENDERS: dict[str, Callable[[DataFrame, Path], Report]] = {"ours": ours, "naive": naive, "floor": floor}

NAMES = {"ours": OURS, "naive": "naive pyroaring", "floor": "rows to Python, no work"}

TARGETS = {NAMES["naive"]: 3.0}

WARM_ROWS = 200_000


# Measuring -----------------------------------------------------------------------------------------------------


def tree(root: int) -> dict[int, tuple[float, int]]:
    """CPU seconds of each process below one; of Python workers their peak of bytes, of others 0."""
    parents: dict[int, int] = {}
    facts: dict[int, tuple[float, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            status = (entry / "status").read_text()
        except OSError:
            continue
        peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
        is_python = "Name:\tpython" in status
        parents[int(entry.name)] = int(fields[1])
        facts[int(entry.name)] = (sum(map(int, fields[11:13])) / TICKS, peak * 1024 if is_python else 0)
    inside = {root}
    while more := {pid for pid, parent in parents.items() if parent in inside} - inside:
        inside |= more
    return {pid: facts[pid] for pid in inside if pid in facts and pid != root}


@contextmanager
def watched(spark: SparkSession, said: Report) -> Iterator[None]:
    """Adds seconds, cpu (seconds), shuffle_bytes and worker_bytes, the peak of the largest Python worker that works."""
    done = threading.Event()
    idle = tree(os.getpid())
    cpu = {
        pid: seconds for pid, (seconds, _) in idle.items()
    }  # Spark reaps workers: they are watched as they live
    peak = 0

    def look() -> None:
        nonlocal peak
        for pid, (seconds, n_bytes) in tree(os.getpid()).items():
            cpu[pid] = seconds
            if seconds - idle.get(pid, (0.0, 0))[0] >= WORKS_S:
                peak = max(peak, n_bytes)

    def watch() -> None:
        while not done.wait(0.2):
            look()

    for pid in idle:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # peaks begin anew
    bytes_before = shuffled(spark)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started, own = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        said["seconds"] = round(time.perf_counter() - started, 2)
        own = time.process_time() - own
        done.set()
        watcher.join()
        look()
        said["cpu"] = round(own + sum(cpu.values()) - sum(seconds for seconds, _ in idle.values()), 2)
        said["shuffle_bytes"] = shuffled(spark) - bytes_before
        said["worker_bytes"] = peak


def line(said: Report) -> str:
    """What `watched` measured, for the log."""
    return (
        f"{said['seconds']:>7.1f} s  CPU {said['cpu']:>7.1f} s  shuffle {said['shuffle_bytes'] / 1e6:>7.1f} MB  "
        f"largest worker {said['worker_bytes'] / 1e6:>6.0f} MB"
    )


def shuffled(spark: SparkSession) -> int:
    """Bytes that all tasks so far have written to shuffles."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)  # type: ignore[union-attr]
    return sum(int(executors.apply(i).totalShuffleWrite()) for i in range(executors.size()))


def session(cores: int, scratch: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]")
    settings = {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def measure(spark: SparkSession, name: str, rows: Path, scratch: Path, n_rows: int, n_files: int) -> Report:
    """Lets one contender work; all of its rows and files must come out."""
    out, said = scratch / "out", {}
    df = spark.read.parquet(str(rows))
    # workers of its own: another contender's keep what that one took
    spark.sparkContext.environment["BENCHMARK_CONTENDER"] = name
    CONTENDERS[name](df.limit(WARM_ROWS), out)
    shutil.rmtree(out, ignore_errors=True)
    with watched(spark, said):
        found = CONTENDERS[name](df, out)
    shutil.rmtree(out, ignore_errors=True)
    assert found["rows"] == n_rows, found
    assert found.get("files", n_files) == n_files, found
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    jobs = {}
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        scratch = Path(folder)
        spark = session(options.cores, scratch)
        for shape in options.shapes:
            job = f"DataFrame to vectors, {options.rows:,} rows, {SHAPES[shape]}"
            rows = scratch / shape
            rows.mkdir()
            n_files = write_rows(rows, shape, options.rows)
            samples = take_turns(
                {
                    NAMES[name]: lambda _, name=name, rows=rows, n=n_files: measure(
                        spark, name, rows, scratch, options.rows, n
                    )
                    for name in options.contenders
                },
                rounds=options.rounds,
                log=lambda name, found, job=job: print(
                    f"{job}: {name:<24} {line(found)}", file=sys.stderr, flush=True
                ),
            )
            jobs[job] = compare(job, medians(samples), TARGETS, by="seconds")
            shutil.rmtree(rows)
        spark.stop()
    report(jobs, options.into)


if __name__ == "__main__":
    main()
