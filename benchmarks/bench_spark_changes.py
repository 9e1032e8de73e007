"""Benchmarks of row-level changes, compared with Spark's own; prints JSON.

    python -m benchmarks.bench_spark_changes iceberg --share 0.1      a tenth of the rows and of the files
    python -m benchmarks.bench_spark_changes delta --into benchmarks/results/tables.json

The tables are those of `bench_changes`, in the same folder. Spark cannot read changes of merge-on-read tables:

- ``iceberg``: `create_changelog_view` of a twin that Spark changed by the same statements, as copy on write
- ``delta``: the change data feed of the twin whose commits wrote one

Spark discards its rows; ours are made into Arrow. Each engine needs a process of its own. CPU time is that of all
processes, in a session that is warm.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.bench_changes import FILES, ROWS, SCHEMA, catalog_of, delta_table, iceberg_table, parts
from benchmarks.engines import Stopwatch, spark_with_delta, spark_with_iceberg
from benchmarks.iceberg_tables import CATALOG
from benchmarks.machine import report
from benchmarks.rounds import OURS, Figures, compare, medians, take_turns

VIEW, FEED = "Iceberg's changelog view on Spark, of copies on write", "Delta's feed on Spark"

Contenders = dict[str, Callable[[], Any]]
"""Each reads all lines."""


@contextmanager
def iceberg_contenders(folder: Path, n_rows: int, n_files: int) -> Iterator[Contenders]:
    from puffin_fast import iceberg

    table, (start, _, end) = iceberg_table(folder, n_rows, n_files)
    expected = iceberg.changes(table, start, end).count()
    catalog, name = catalog_of(folder), f"changes.cow{n_rows}_{n_files}"
    if not catalog.table_exists(name):
        modes = {f"write.{job}.mode": "copy-on-write" for job in ("delete", "update")}
        made = iceberg.create_table(catalog, name, SCHEMA, properties=modes)
        with iceberg.transaction(made) as transaction:
            for part in parts(n_rows, n_files):
                transaction.append(part)
    with spark_with_iceberg(SimpleNamespace(database=folder / "changes.db", root=folder)) as spark:  # type: ignore[arg-type]
        twin = f"{CATALOG}.{name}"
        if len(catalog.load_table(name).metadata.snapshots) < 3:
            spark.sql(f"DELETE FROM {twin} WHERE k = 0").collect()
            spark.sql(f"UPDATE {twin} SET v = 2.0 WHERE k = 1").collect()
        first, *_, last = (one.snapshot_id for one in catalog.load_table(name).metadata.snapshots)

        def view() -> Any:
            options = f"map('start-snapshot-id', '{first}', 'end-snapshot-id', '{last}')"
            spark.sql(
                f"CALL {CATALOG}.system.create_changelog_view(table => '{name}', changelog_view => 'seen', "
                f"options => {options}, identifier_columns => array('id'))"
            )
            return spark.table("seen")

        assert view().count() == expected
        yield {
            OURS: lambda: iceberg.changes(table, start, end).to_arrow(),
            VIEW: lambda: view().write.format("noop").mode("overwrite").save(),
        }


@contextmanager
def delta_contenders(folder: Path, n_rows: int, n_files: int) -> Iterator[Contenders]:
    from puffin_fast import delta

    table, twin = (delta_table(folder, n_rows, n_files, feed=feed) for feed in (False, True))
    start = n_files + 1
    with spark_with_delta(folder) as spark:

        def feed() -> Any:
            return (
                spark.read.option("readChangeFeed", "true")
                .option("startingVersion", start)
                .format("delta")
                .load(twin)
            )

        assert feed().count() == delta.changes(table, start - 1).count()
        yield {
            OURS: lambda: delta.changes(table, start - 1).to_arrow(),
            FEED: lambda: feed().write.format("noop").mode("overwrite").save(),
        }


ENGINES = {
    "iceberg": ("changes, Iceberg and Spark", iceberg_contenders, {VIEW: 10.0}),
    "delta": ("changes, Delta and Spark", delta_contenders, {FEED: 5.0}),
}
"""The job, its contenders and the target."""


def once(call: Callable[[], Any], number: int) -> Figures:
    watch = Stopwatch()
    call()
    return watch.figures()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--folder", type=Path, default=Path("build/bench/changes"))
    parser.add_argument("--share", type=float, default=1.0, help="of the rows and of the files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    n_rows, n_files = int(ROWS * options.share), int(FILES * options.share)
    job, make, target = ENGINES[options.engine]
    with make(options.folder.resolve(), n_rows, n_files) as contenders:
        samples = take_turns(
            {who: partial(once, call) for who, call in contenders.items()},
            rounds=options.rounds,
            warm_up=1,
            log=lambda who, found: print(f"{job}: {who}: {found}", file=sys.stderr, flush=True),
        )
    found = {f"{job}, {n_rows:,} rows in {n_files} files": compare(job, medians(samples), target)}
    report(found, options.into)


if __name__ == "__main__":
    main()
