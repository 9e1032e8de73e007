"""Benchmarks of what a job must do at least: its files opened and read, their pages decompressed. Run as a script.

    python -m benchmarks.bench_floors                all jobs; prints JSON
    python -m benchmarks.bench_floors --only update  the jobs whose name holds this; given twice, both

The tables are those of `bench_iceberg`, `bench_lineitem` and `bench_delta`, which compare the same jobs with other
libraries. Here each job runs on one thread, in turn with its two floors: all its data files are opened, and their
footers and the column chunks of its columns are read; and all pages of these chunks are decompressed, and nothing is
decoded. An update and an upsert find and compute their rows, and write nothing. The CPU time that counts is the least
of all rounds.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import bench_delta, bench_lineitem
from benchmarks.iceberg_tables import ROWS_PER_FILE, Tables
from benchmarks.machine import report
from benchmarks.rounds import OURS, Figures, take_turns, timed

READING, DECOMPRESSING = "opening and reading", "decompressing"
TAIL_BYTES = 1 << 13
"""Bytes at the end of a file that are read first; a longer footer is read once more."""


class Job(NamedTuple):
    """A job, and what its floors read.

    Attributes:
        run: does it, and returns the number of rows.
        n_rows: how many these are.
        files: the paths of the data files.
        columns: the columns that it needs; none: all.
    """

    run: Callable[[], int]
    n_rows: int
    files: Sequence[str]
    columns: Sequence[str]


# The jobs --------------------------------------------------------------------------------------------------


def update(folder: Path) -> Job:
    from puffin_fast import iceberg

    tables = Tables(folder / "iceberg", 1000)
    table = tables.catalog.load_table("n.rows")

    def run() -> int:
        values = {"k": pc.field("k") + 1}
        return iceberg.update(table, "k < 10", values, threads=1, dry_run=True).rows_updated

    return Job(run, run(), _files(table), ("id", "k"))


def upsert(folder: Path) -> Job:
    from puffin_fast import iceberg

    tables = Tables(folder / "iceberg", 1000)
    table, n_rows = tables.catalog.load_table("n.rows"), tables.n_files * ROWS_PER_FILE
    ids = np.random.default_rng(1).permutation(np.arange(0, n_rows, 20))
    given = pa.table({"id": ids, "k": np.full(len(ids), -1, np.int32)})

    def run() -> int:
        return iceberg.upsert(table, given, "id", threads=1, dry_run=True).rows_updated

    return Job(run, len(ids), _files(table), ("id", "k"))


def tiny(folder: Path) -> Job:
    from puffin_fast import delta

    n_rows = 1000 * bench_delta.TINY_ROWS
    table = bench_delta.rows_table(folder / "delta", 1000, n_rows, deleted=bench_delta.DELETED)
    n_live = delta.scan(table).count()
    files = sorted(str(path) for path in table.glob("*.parquet"))
    return Job(lambda: delta.scan(table, threads=1).to_arrow().num_rows, n_live, files, ("id", "k"))


def lineitem(folder: Path) -> Job:
    from puffin_fast import iceberg

    table = bench_lineitem.tables(folder / "lineitem", 0.5, 12)[bench_lineitem.TENTH]
    where = bench_lineitem.WHERE

    def run() -> int:
        return iceberg.scan(table, where, threads=1).to_arrow().num_rows

    return Job(run, iceberg.scan(table, where).count(), _files(table), ())


JOBS: dict[str, Callable[[Path], Job]] = {
    "update 1%, 1000 files": update,
    "upsert 5%, 1000 files": upsert,
    "Delta scan, 1000 tiny files": tiny,
    "lineitem at scale 0.5, 2% filter": lineitem,
}
"""By the names that other scripts give them in the results."""


def _files(table: Any) -> list[str]:
    from puffin_fast import iceberg

    return [task.data.file_path.removeprefix("file://") for task in iceberg.plan_files(table).tasks]


# The floors ------------------------------------------------------------------------------------------------


def ranges(path: str, columns: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """The offset, the bytes and the compression of each column chunk of some columns."""
    footer = pq.read_metadata(path)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            if not columns or chunk.path_in_schema in columns:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                yield start, chunk.total_compressed_size, chunk.compression


def pages(path: str, columns: Sequence[str]) -> Iterator[tuple[bytes, int, str]]:
    """The stored bytes of each page, how many they are decompressed, and the compression."""
    from puffin_fast._kernels.parquet.pages import page_header

    with open(path, "rb") as file:
        for start, n_bytes, codec in ranges(path, columns):
            file.seek(start)
            chunk, at = file.read(n_bytes), 0
            while at < n_bytes:
                head = page_header(chunk, at)
                raw, stored, header = head[1], head[2], head[-1]
                levels = max(head[8], 0) + max(head[9], 0)  # of a page of version 2: these are not compressed
                yield chunk[at + header + levels : at + header + stored], raw - levels, codec
                at += header + stored


def read_all(files: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> int:
    """Opens files, and reads the ends of them and some ranges."""
    n_bytes = 0
    for path, wanted in files:
        descriptor = os.open(path, os.O_RDONLY)
        size = os.fstat(descriptor).st_size
        n_bytes += len(os.pread(descriptor, TAIL_BYTES, max(size - TAIL_BYTES, 0)))
        for start, n in wanted:
            n_bytes += len(os.pread(descriptor, n, start))
        os.close(descriptor)
    return n_bytes


def decompress_all(stored: Iterable[tuple[bytes, int, str]], out: bytearray) -> int:
    """Decompresses pages, each to the same memory, by the libraries that scans use."""
    from puffin_fast._kernels.parquet import pages as kernel
    from puffin_fast._kernels.parquet import snappy

    n_bytes, whole = 0, memoryview(out)
    for data, n, codec in stored:
        if codec == "ZSTD":
            assert kernel.zstd_into(data, whole[:n]) == n
        elif codec == "SNAPPY":
            snappy.decode_into(data, whole[:n])
        else:
            raise ValueError(f"compression {codec}")
        n_bytes += n
    return n_bytes


# Timing ----------------------------------------------------------------------------------------------------


def measure(job: Job, rounds: int) -> dict[str, Any]:
    """The least CPU time of the job and of its floors."""
    import puffin_fast.parquet.page_codecs  # noqa: F401  # gives the kernel the functions of zstd

    stored = [page for path in job.files for page in pages(path, job.columns)]
    files = [(path, [(start, n) for start, n, _ in ranges(path, job.columns)]) for path in job.files]
    out = bytearray(max(n for _, n, _ in stored))
    expected = {
        OURS: job.n_rows,
        READING: read_all(files),
        DECOMPRESSING: sum(n for _, n, _ in stored),
    }
    calls = {
        OURS: job.run,
        READING: partial(read_all, files),
        DECOMPRESSING: partial(decompress_all, stored, out),
    }

    def once(name: str, number: int) -> Figures:
        gc.collect()
        figures, found = timed(calls[name])
        assert found == expected[name], (name, found, expected[name])
        return figures

    samples = take_turns({name: partial(once, name) for name in calls}, rounds=rounds, warm_up=1)
    least = {name: {key: min(one[key] for one in some) for key in some[0]} for name, some in samples.items()}
    print({name: round(one["cpu"], 4) for name, one in least.items()}, file=sys.stderr, flush=True)
    return {"contenders": least, "targets": [], "pages": len(stored), "bytes": expected[DECOMPRESSING]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="the jobs whose name holds this")
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    folder = options.folder.resolve()
    found = {
        f"floors: {name}": measure(make(folder), options.rounds)
        for name, make in JOBS.items()
        if all(word in name for word in options.only)
    }
    report(found, options.into)


if __name__ == "__main__":
    main()
