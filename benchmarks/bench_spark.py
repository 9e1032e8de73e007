"""The DataFrame pipeline beside the naive one, each in a warm session of this process; JSON on request.

    python -m benchmarks.bench_spark                       20M rows, three distributions, ours and the naive
    python -m benchmarks.bench_spark --rows 2000000 --contenders ours floor --out spark.json

- ``ours``: `puffin_fast.spark.write_deletion_vectors`, Puffin files written;
- ``naive``: groupBy(file_path).applyInArrow with pyroaring, its blobs thrown away;
- ``floor``: the rows shipped to Python and dropped.

Wall and CPU seconds of the whole process tree, bytes shuffled, and the largest Python worker. A process of its
own, because a Spark session is one per process and its JVM must not weigh on the other benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 8
PATH = "s3://warehouse-eu-central-1/db/events/data/event_day=2026-01-01/{:08d}-17-0f3c9a5e-6f1b-4c55-9d0e-5b7a3e.parquet"
GOLDEN = 0x9E3779B97F4A7C15
"""Multiplied by an odd number modulo a power of two, numbers come in an order that looks random."""

TICKS = os.sysconf("SC_CLK_TCK")

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


SHAPES = {"even": "1000 files", "half": "half in one file", "many": "files of 100 rows"}


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

    return {"rows": df.mapInArrow(count, "n long").groupBy().sum().toArrow()[0][0].as_py()}


CONTENDERS: dict[str, Callable[[DataFrame, Path], Report]] = {"ours": ours, "naive": naive, "floor": floor}


# Measuring -----------------------------------------------------------------------------------------------------


def tree(root: int) -> dict[int, tuple[float, int]]:
    """CPU seconds (of dead children too) and peak bytes of each process below one, Python workers marked."""
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
        facts[int(entry.name)] = (sum(map(int, fields[11:15])) / TICKS, peak * 1024 if is_python else 0)
    inside = {root}
    while more := {pid for pid, parent in parents.items() if parent in inside} - inside:
        inside |= more
    return {pid: facts[pid] for pid in inside if pid in facts and pid != root}


@contextmanager
def watched(report: Report) -> Iterator[None]:
    """Adds wall_s, cpu_s and worker_bytes, the peak of the largest Python worker seen."""
    done = threading.Event()
    peak = 0

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.2):
            peak = max([peak, *(n_bytes for _, n_bytes in tree(os.getpid()).values())])

    def cpu() -> float:
        return time.process_time() + sum(seconds for seconds, _ in tree(os.getpid()).values())

    before = cpu()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started = time.perf_counter()
    try:
        yield
    finally:
        report["wall_s"] = round(time.perf_counter() - started, 2)
        report["cpu_s"] = round(cpu() - before, 2)
        done.set()
        watcher.join()
        report["worker_bytes"] = peak


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
        "spark.python.worker.reuse": "false",  # so that a worker's peak is one task's
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def measure(spark: SparkSession, name: str, rows: Path, scratch: Path) -> Report:
    report: Report = {"contender": name}
    out = scratch / "out"
    df = spark.read.parquet(str(rows))
    before = shuffled(spark)
    with watched(report):
        report |= CONTENDERS[name](df, out)
    report["shuffle_bytes"] = shuffled(spark) - before
    shutil.rmtree(out, ignore_errors=True)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        scratch = Path(folder)
        spark = session(options.cores, scratch)
        for shape in options.shapes:
            rows = scratch / shape
            rows.mkdir()
            n_files = write_rows(rows, shape, options.rows)
            floor(spark.read.parquet(str(rows)).limit(1000), scratch)  # warms the JVM
            for turn in range(options.rounds):
                for name in options.contenders:
                    report = {"shape": shape, "round": turn} | measure(spark, name, rows, scratch)
                    assert report["rows"] == options.rows, report
                    assert report.get("files", n_files) == n_files, report
                    found.append(report)
                    print(
                        f"{SHAPES[shape]:<18} {name:<6} {report['wall_s']:>7.1f} s  CPU {report['cpu_s']:>7.1f} s  "
                        f"shuffle {report['shuffle_bytes'] / 1e6:>7.1f} MB  "
                        f"largest worker {report['worker_bytes'] / 1e6:>6.0f} MB",
                        flush=True,
                    )
            shutil.rmtree(rows)
        spark.stop()
    if options.out:
        options.out.write_text(
            json.dumps({"machine": machine(), "rows": options.rows, "results": found}, indent=1)
        )


if __name__ == "__main__":
    main()
