"""Benchmarks of scans of a table on an object store, compared with other engines. Run as a script; prints JSON.

    python -m benchmarks.bench_object_store                    24 files of 60,000 rows, 20 ms before each request
    python -m benchmarks.bench_object_store --milliseconds 50
    python -m benchmarks.bench_object_store --only filter      the jobs whose name holds this; given twice, both

The store is moto's S3 server on this machine: with 2 cores it takes more of the processor than the contenders, so that
seconds say less than the numbers of requests and bytes beside them. Contenders take turns, and each begins without what
it read before: a table is loaded anew, and DuckDB's connections, which cache files, are new ones. Each begins with the
location of the metadata file; a catalog or a connection is made, and DuckDB's extensions are loaded, before the time.

A connection to this server has any number of bytes a second. S3 sends about 90 MB a second on one
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html), which the jobs
"… at 90 MB/s" have.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.engines import duckdb_with_iceberg
from benchmarks.machine import report
from benchmarks.object_store import KEYS, ObjectStore, object_store
from benchmarks.rounds import OURS, Figures, compare, medians, take_turns, timed

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

N_COLUMNS = 6
DELETED = "c0 < 100"
"""A tenth of the rows."""
THROUGH_ARROW, PYICEBERG, DUCKDB = f"{OURS}, PyArrow", "PyIceberg", "DuckDB"

PARTS, WHOLE, GROUP = "n.t", "n.whole", "n.group"
"""Tables of several files; of one file with the rows of 16; of one with a row group of 128 MiB, Iceberg's default.

Pages of the last two are left out by their page indexes. Those of the first 260,000 rows need the dictionaries of the
column chunks, of 2 MiB each.
"""
ROWS_OF_WHOLE, ROWS_OF_GROUP = 16, 58
"""Rows of the files, as multiples of those of one of several files."""


class Job(NamedTuple):
    """What is read.

    Attributes:
        table: its name.
        columns: none: all.
        where: the filter.
        targets: peers and the ratio of their seconds to ours.
        rate: bytes a second of each connection.
    """

    table: str
    columns: Sequence[str]
    where: str | None
    targets: dict[str, float]
    rate: float = math.inf


AHEAD = {PYICEBERG: 1.0, DUCKDB: 1.0}
TEN_OF_LARGE = "id >= 480000 and id < 480010"

JOBS = {
    "all columns": Job(PARTS, (), None, AHEAD),
    "2 of 8 columns": Job(PARTS, ("id", "c5"), None, AHEAD),
    "filter for 10 rows": Job(PARTS, (), "id >= 90000 and id < 90010", AHEAD),
    "10 rows of a large file": Job(WHOLE, (), TEN_OF_LARGE, {PYICEBERG: 5.0, DUCKDB: 5.0}),
    "10 rows of a large file at 90 MB/s": Job(WHOLE, (), TEN_OF_LARGE, {PYICEBERG: 5.0, DUCKDB: 5.0}, 90e6),
    "10 rows of a row group of 128 MiB": Job(GROUP, (), TEN_OF_LARGE, {PYICEBERG: 5.0, DUCKDB: 5.0}),
    "10 rows of a row group of 128 MiB at 90 MB/s": Job(
        GROUP, (), TEN_OF_LARGE, {PYICEBERG: 5.0, DUCKDB: 5.0}, 90e6
    ),
}


DELAY_MS = 20.0
"""Default milliseconds before each request."""


def job_name(name: str, milliseconds: float = DELAY_MS) -> str:
    """The name of a job in the results."""
    return f"object store, {milliseconds:g} ms: {name}"


@contextmanager
def catalog(store: ObjectStore, folder: Path, file_io: str) -> Iterator[SqlCatalog]:
    from pyiceberg.catalog.sql import SqlCatalog

    made = SqlCatalog(
        "bench",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse="s3://lake/bench",
        **{f"s3.{name}": value for name, value in KEYS.items()},
        **{"s3.endpoint": store.endpoint, "py-io-impl": file_io},
    )
    yield made
    made.engine.dispose()


ARROW = "pyiceberg.io.pyarrow.PyArrowFileIO"
FSSPEC = "pyiceberg.io.fsspec.FsspecFileIO"


def make(store: ObjectStore, folder: Path, n_files: int, n_rows: int) -> None:
    from puffin_fast import iceberg

    rng = np.random.default_rng(0)
    names = [f"c{number}" for number in range(N_COLUMNS)]
    types = [("id", pa.int64()), *((name, pa.int64()) for name in names), ("text", pa.string())]
    with catalog(store, folder, ARROW) as made:
        made.create_namespace("n")
        table = iceberg.create_table(made, PARTS, pa.schema(types))

        def rows(first: int, n: int) -> pa.Table:
            ids = np.arange(first, first + n)
            some = [rng.integers(0, 1000 if name == "c0" else 1 << 40, n) for name in names]
            texts = [f"text {id * 7919}" for id in ids.tolist()]
            return pa.table([ids, *some, texts], schema=table.schema().as_arrow())

        for first in range(0, n_files * n_rows, n_rows):
            iceberg.append(table, rows(first, n_rows))
        iceberg.delete(table, DELETED)
        for name, times in ((WHOLE, ROWS_OF_WHOLE), (GROUP, ROWS_OF_GROUP)):
            one = {"write.parquet.row-group-limit": str(times * n_rows)}
            whole = iceberg.create_table(made, name, pa.schema(types), properties=one)
            iceberg.append(whole, rows(0, times * n_rows))


Contender = Callable[[ExitStack], Callable[[], int]]
"""Prepares a scan, which returns the number of rows."""


def scans(store: ObjectStore, folder: Path, job: Job) -> dict[str, Contender]:
    """The contenders."""
    from puffin_fast import iceberg

    columns, where = job.columns, job.where
    options: dict[str, Any] = {"selected_fields": tuple(columns) or ("*",)}
    if where is not None:
        options["row_filter"] = where

    def ours(file_io: str, stack: ExitStack) -> Callable[[], int]:
        made = stack.enter_context(catalog(store, folder, file_io))
        return lambda: iceberg.scan(made.load_table(job.table), **options).to_arrow().num_rows

    def pyiceberg(stack: ExitStack) -> Callable[[], int]:
        made = stack.enter_context(catalog(store, folder, ARROW))
        return lambda: made.load_table(job.table).scan(**options).to_arrow().num_rows

    def duckdb(stack: ExitStack) -> Callable[[], int]:
        location = stack.enter_context(catalog(store, folder, ARROW)).load_table(job.table).metadata_location
        connection = stack.enter_context(duckdb_with_iceberg())
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{KEYS['access-key-id']}', SECRET '{KEYS['secret-access-key']}', "
            f"REGION '{KEYS['region']}', ENDPOINT '127.0.0.1:{store.port}', URL_STYLE 'path', USE_SSL false)"
        )
        query = f"SELECT {', '.join(columns) or '*'} FROM iceberg_scan('{location}')"
        return lambda: connection.sql(query + (f" WHERE {where}" if where else "")).to_arrow_table().num_rows

    return {
        OURS: partial(ours, FSSPEC),
        THROUGH_ARROW: partial(ours, ARROW),
        PYICEBERG: pyiceberg,
        DUCKDB: duckdb,
    }


def run_job(
    name: str, store: ObjectStore, contenders: dict[str, Contender], rounds: int, targets: dict[str, float]
) -> dict[str, Any]:
    """Measures one job; figures are seconds, CPU seconds, and those of `ObjectStore.taken`."""
    n_rows: set[int] = set()

    def once(prepare: Contender, number: int) -> Figures:
        with ExitStack() as stack:
            call = prepare(stack)
            store.taken()
            figures, found = timed(call)
            taken = store.taken()
        n_rows.add(found)
        return figures | taken

    def log(contender: str, found: Figures) -> None:
        text = f"{found['seconds']:.3f} s, {found['requests']:.0f} requests, {found['bytes'] / 1e6:.1f} MB"
        print(
            f"{name}: {contender}: {text}, {found['in_turn']:.0f} one after another",
            file=sys.stderr,
            flush=True,
        )

    samples = take_turns(
        {contender: partial(once, prepare) for contender, prepare in contenders.items()},
        rounds=rounds,
        warm_up=1,
        log=log,
    )
    assert len(n_rows) == 1, n_rows
    return compare(name, medians(samples), targets, by="seconds")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rows", type=int, default=60_000, help="of each file")
    parser.add_argument("--milliseconds", type=float, default=DELAY_MS, help="before each request")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="jobs whose name holds this")
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    found = {}
    with object_store() as store, tempfile.TemporaryDirectory() as folder:
        make(store, Path(folder), options.files, options.rows)
        for short, job in JOBS.items():
            name = job_name(short, options.milliseconds)
            if all(word in name for word in options.only):
                store.delay(options.milliseconds / 1000, job.rate)
                found[name] = run_job(
                    name, store, scans(store, Path(folder), job), options.rounds, job.targets
                )
    report(found, options.into)


if __name__ == "__main__":
    main()
