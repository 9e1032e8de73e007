"""Benchmarks of rows by key in data files with Bloom filters, compared with DuckDB. Run as a script; prints JSON.

    python -m benchmarks.bench_bloom                 40M rows in 1,000 files, keys at random: bounds exclude no file
    python -m benchmarks.bench_bloom --share 0.1     a tenth of the rows and of the files

DuckDB is given the paths of the data files, and plans nothing; it asks Bloom filters for `=`, and not for IN. One
thread.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS

if TYPE_CHECKING:
    from pyiceberg.table import Table

DUCKDB = "DuckDB"
ROWS_PER_FILE = 40_000
FILTERS = {"write.parquet.bloom-filter-enabled.column.id": "true"}


def make(root: Path, n_files: int) -> Table:
    """The table; made once, then kept."""
    from puffin_fast import iceberg

    catalog = iceberg.HadoopCatalog("bench", warehouse=str(root))
    if not (root / "done").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        catalog.create_namespace("n")
        types = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("text", pa.string())])
        table = iceberg.create_table(catalog, "n.t", types, properties=FILTERS)
        ids = np.random.default_rng(0).permutation(n_files * ROWS_PER_FILE)
        with iceberg.transaction(table) as transaction:
            for part in np.split(ids, n_files):
                transaction.append(
                    pa.table([part, part % 97, pa.array(part).cast(pa.string())], schema=types)
                )
        (root / "done").touch()
    return catalog.load_table("n.t")


def contenders(table: Table, keys: list[int]) -> Contenders:
    """Scans for the rows of some keys."""
    import duckdb

    from puffin_fast import iceberg

    where = f"id = {keys[0]}" if len(keys) == 1 else f"id in ({', '.join(map(str, keys))})"
    paths = [task.data.file_path.removeprefix("file://") for task in iceberg.plan_files(table).tasks]
    connection = duckdb.connect(config={"threads": 1})

    def checked(found: pa.Table) -> Callable[[], None]:
        def check() -> None:
            assert sorted(found["id"].to_pylist()) == sorted(keys)

        return check

    def theirs() -> Callable[[], None]:
        rows = connection.execute(f"SELECT * FROM read_parquet(?) WHERE {where}", [paths])
        return checked(rows.to_arrow_table())

    return {OURS: lambda: checked(iceberg.scan(table, where, threads=1).to_arrow()), DUCKDB: theirs}


def deletes(table: Table, keys: list[int]) -> Contenders:
    """The search of a delete; nothing is written."""
    from puffin_fast import iceberg

    given = pa.table({"id": keys})

    def ours() -> Callable[[], None]:
        found = iceberg.delete_keys(table, given, "id", threads=1, dry_run=True)

        def check() -> None:
            assert found.rows_deleted == len(keys), found

        return check

    return {OURS: ours}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/bloom"))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    n_files = max(int(1000 * options.share), 1)
    table = make(options.folder.resolve() / f"files-{n_files}", n_files)
    keys = np.random.default_rng(1).choice(n_files * ROWS_PER_FILE, 10, replace=False).tolist()
    jobs: dict[str, tuple[Any, dict[str, float]]] = {
        f"scan for one key in {n_files} files with Bloom filters": (
            contenders(table, keys[:1]),
            {DUCKDB: 1.0},
        ),
        f"scan for ten keys in {n_files} files with Bloom filters": (contenders(table, keys), {DUCKDB: 3.0}),
        f"delete ten keys of {n_files} files with Bloom filters, dry run": (deletes(table, keys), {}),
    }
    report(
        {job: measure_job(job, those, options.rounds, targets) for job, (those, targets) in jobs.items()},
        options.into,
    )


if __name__ == "__main__":
    main()
