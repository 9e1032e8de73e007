"""Measures what the driver of a Spark job does for each data file, and what executors do with its tasks; prints JSON.

    python -m benchmarks.bench_spark_costs                        300,000 data files, with and without vectors
    python -m benchmarks.bench_spark_costs --files 10000 --rounds 1
    python -m benchmarks.bench_spark_costs --into benchmarks/results/costs.json

CPU time of one process, without Spark; the least of some rounds. The tables have metadata only, as in `bench_plan`.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import bench_plan
from benchmarks.machine import report

LENGTH = 118
"""Bytes of the path of a data file."""

COMMITTED = 100_000
"""Number of data files whose vectors are committed."""

JOB = "costs "
"""The first word of the jobs in the results."""

SHAPES = {"even": (1000, 20_000), "many": (10_000, 100)}
"""Number of vectors, and of positions of each, as in `bench_spark`."""

Cost = dict[str, float]


def least(work: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The CPU seconds of the fastest round, and what the last returns."""
    found, result = float("inf"), None
    for _ in range(rounds):
        result = None
        gc.collect()
        start = time.process_time()
        result = work()
        found = min(found, time.process_time() - start)
    return found, result


def per_file(table: Any, n: int, rounds: int) -> Cost:
    """The costs of planning and of sending tasks: µs and bytes for each data file."""
    from puffin_fast import iceberg
    from puffin_fast.rows.tasks import columns_of, paths_of
    from puffin_fast.spark.session.executor_calls import pack, unpack
    from puffin_fast.spark.table.job import bins_of_shares, shares_of
    from puffin_fast.spark.worker.marked import pickled_tasks

    planning, plan = least(lambda: iceberg.plan_files(table), rounds)
    decoding, columns = least(lambda: columns_of(plan.tasks), rounds)
    dividing, bins = least(lambda: bins_of_shares(shares_of(columns)), rounds)
    packing, packed = least(lambda: [pack(some) for some in bins], rounds)
    unpacking, _ = least(lambda: [sum(1 for _ in unpack(data)) for data in packed], rounds)
    rows, (values, _) = least(lambda: pickled_tasks(columns), rounds)
    before = resident()
    held = columns_of(iceberg.plan_files(table).tasks)
    memory = resident() - before
    assert len(paths_of(held)) == n == sum(map(len, bins))
    return {
        "plan_us": planning / n * 1e6,
        "columns_us": decoding / n * 1e6,
        "bins_us": dividing / n * 1e6,
        "pack_us": packing / n * 1e6,
        "packed_bytes": sum(map(len, packed)) / n,
        "unpack_us": unpacking / n * 1e6,
        "rows_us": rows / n * 1e6,
        "row_bytes": sum(map(len, values)) / n,
        "columns_bytes": memory / n,
        "files_per_bin": n / len(bins),
    }


def resident() -> int:
    """Bytes of memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def committing(table: Any) -> Cost:
    """The costs of a commit of a vector for each data file: µs for each."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    from puffin_fast._process.gc_pause import paused_gc
    from puffin_fast.iceberg.commit.protocol import commit
    from puffin_fast.iceberg.delete_files.writer import DeleteFiles, WrittenDeletes
    from puffin_fast.iceberg.plan.files import plan_files
    from puffin_fast.puffin.vectors import DeletionVectorLocation
    from puffin_fast.rows.deletes.outcome import Outcome
    from puffin_fast.rows.tasks import columns_of, named, paths_of

    root = Path(table.metadata_location.removeprefix("file://")).parents[1]
    before = {path for path in root.rglob("*") if path.is_file()}
    catalog = InMemoryCatalog("bench")
    catalog.create_namespace("n")
    current = catalog.register_table("n.t", table.metadata_location)
    try:
        columns = columns_of(plan_files(current).tasks)
        paths = paths_of(columns)
        puffin = f"{root}/data/{{}}.puffin"

        def changes() -> Any:
            found = (
                DeletionVectorLocation(
                    path, puffin.format(at // 1000), 4 + at % 1000 * 5000, 5000, 1, 5_000_000
                )
                for at, path in enumerate(paths)
            )
            with paused_gc():  # as jobs do
                pairs = zip(named(columns, paths), found, strict=True)
                outcomes = tuple(Outcome(task, 1, vector) for task, vector in pairs)
                return WrittenDeletes.of(current, DeleteFiles(outcomes)).changes

        making, made = least(changes, 1)
        head = current.current_snapshot()
        writing, _ = least(lambda: commit(current, made, base=head), 1)
    finally:
        for path in {path for path in root.rglob("*") if path.is_file()} - before:
            path.unlink()
    return {"changes_us": making / len(paths) * 1e6, "commit_us": writing / len(paths) * 1e6}


def vectors(n_vectors: int, n_positions: int, rounds: int) -> Cost:
    """The costs of writing vectors of every fifth row to a Puffin file: µs for each, bytes for each position."""
    import numpy as np

    from puffin_fast import PositionBitmap
    from puffin_fast.dv import iceberg as codec
    from puffin_fast.puffin.vectors import write_vectors

    blob = codec.encode(PositionBitmap.from_positions(np.arange(n_positions) * 5))
    paths = [f"{at:0{LENGTH}}" for at in range(n_vectors)]
    with tempfile.TemporaryDirectory(prefix="bench-costs-") as folder:
        names = (f"{folder}/{number}.puffin" for number in count())
        writing, found = least(lambda: write_vectors(next(names), [(one, blob) for one in paths]), rounds)
        n_bytes = found[0].file_size
    return {"write_us": writing / n_vectors * 1e6, "position_bytes": n_bytes / n_vectors / n_positions}


def worker() -> Cost:
    """The costs of the imports of a Python worker."""
    code = (
        "import time; import pyarrow, pyspark.worker, puffin_fast.spark.worker.tasks, puffin_fast.spark.worker.scan; "
        "from benchmarks.bench_spark_costs import resident; print(time.process_time(), resident())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(3)
    ]
    return {
        "imports_s": min(float(run[0]) for run in runs),
        "imports_bytes": min(float(run[1]) for run in runs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/costs"))
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    n, few, rounds = options.files, min(options.files, COMMITTED), options.rounds
    folder = options.folder.resolve()
    folder /= "x" * (LENGTH - 1 - len(bench_plan._path(folder / "v", n - 1)))
    found: dict[str, Any] = {}
    for name, letter in (("without vectors", "n"), ("with vectors", "v")):
        table = bench_plan.make(folder / letter, n, bounds=True, vectors=letter == "v")
        small = bench_plan.make(folder / f"{letter}{few}", few, bounds=True, vectors=letter == "v")
        found[JOB + name] = per_file(table, n, rounds) | committing(small)
    found[JOB + "of a worker"] = worker()
    for name, shape in SHAPES.items():
        found[f"{JOB}of vectors, {name}"] = vectors(*shape, rounds)
    report(found, options.into)


if __name__ == "__main__":
    main()
