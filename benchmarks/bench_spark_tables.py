"""Benchmarks of jobs on tables, compared with those of Iceberg's Spark runtime, in one warm Spark session; prints JSON.

    python -m benchmarks.bench_spark_tables                        all jobs, 1000 files of 40,000 rows
    python -m benchmarks.bench_spark_tables --rounds 3 --into benchmarks/results/spark.json
    python -m benchmarks.bench_spark_tables --jobs convert --files 100 --rounds 1

- ``convert``: 20M position deletes in 1000 files to vectors; Java's ``rewrite_position_delete_files``.
- ``delete``: every second row, by a filter; Java's ``DELETE``.
- ``keys``: every 20th row, by 2M keys in a DataFrame; Java's ``MERGE``.
- ``positions``: every fifth row, by 8M paths and positions in no order; Java's ``MERGE`` on ``_file`` and ``_pos``.

The table is that of `bench_iceberg`, kept in ``--folder``. Each contender gets a table of its own that starts from
the same metadata, and what it left is counted and summed by a reader that is neither. Wall and CPU seconds of
the whole process tree, bytes shuffled, the largest Python worker.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_iceberg import JAVA, modulo
from benchmarks.bench_spark import Report, line, watched
from benchmarks.engines import duckdb_with_iceberg, spark_with_iceberg
from benchmarks.iceberg_tables import CATALOG, ROWS_PER_FILE, Tables
from benchmarks.machine import report
from benchmarks.rounds import OURS, compare, medians, take_turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS_EVERY = 20
POSITIONS_EVERY = 5

CORES = 2
"""Cores of the Spark session."""

Job = Callable[["SparkSession", Tables, str], None]
"""Does the work on the table ``n.<name>``."""


def convert_ours(spark: SparkSession, tables: Tables, name: str) -> None:
    from puffin_fast import spark as ps

    ps.convert_position_deletes(spark, tables.catalog.load_table(f"n.{name}"))


def convert_java(spark: SparkSession, tables: Tables, name: str) -> None:
    spark.sql(f"CALL {CATALOG}.system.rewrite_position_delete_files(table => 'n.{name}')").collect()


def delete_ours(spark: SparkSession, tables: Tables, name: str) -> None:
    from puffin_fast import spark as ps

    ps.delete(spark, tables.catalog.load_table(f"n.{name}"), modulo("id % 2 = 0"))


def delete_java(spark: SparkSession, tables: Tables, name: str) -> None:
    spark.sql(f"DELETE FROM {CATALOG}.n.{name} WHERE id % 2 = 0").collect()


def keys_ours(spark: SparkSession, tables: Tables, name: str) -> None:
    from puffin_fast import spark as ps

    keys = spark.range(0, tables.n_files * ROWS_PER_FILE, KEYS_EVERY)
    ps.delete_keys(keys, tables.catalog.load_table(f"n.{name}"), ["id"])


def keys_java(spark: SparkSession, tables: Tables, name: str) -> None:
    spark.range(0, tables.n_files * ROWS_PER_FILE, KEYS_EVERY).createOrReplaceTempView("keys")
    merge = f"MERGE INTO {CATALOG}.n.{name} t USING keys ON t.id = keys.id WHEN MATCHED THEN DELETE"
    spark.sql(merge).collect()


def positions_of(spark: SparkSession, tables: Tables) -> DataFrame:
    """(file_path, pos) of every fifth row in no order, in eight Parquet files that are made once."""
    folder = tables.root / "positions"
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        files = tables.catalog.load_table("n.rows").inspect.data_files()
        paths = pa.array(sorted(files["file_path"].to_pylist()))
        rows = np.random.default_rng(5).permutation(np.arange(0, len(paths) * ROWS_PER_FILE, POSITIONS_EVERY))
        for number, part in enumerate(np.array_split(rows, 8)):
            columns = {"file_path": paths.take(pa.array(part // ROWS_PER_FILE)), "pos": part % ROWS_PER_FILE}
            pq.write_table(pa.table(columns), folder / f"{number}.parquet")
        (folder / "done").touch()
    return spark.read.parquet(str(folder / "*.parquet"))


def positions_ours(spark: SparkSession, tables: Tables, name: str) -> None:
    from puffin_fast import spark as ps

    ps.delete_positions(positions_of(spark, tables), tables.catalog.load_table(f"n.{name}"))


def positions_java(spark: SparkSession, tables: Tables, name: str) -> None:
    positions_of(spark, tables).createOrReplaceTempView("positions")
    match = "t._file = p.file_path AND t._pos = p.pos"
    spark.sql(
        f"MERGE INTO {CATALOG}.n.{name} t USING positions p ON {match} WHEN MATCHED THEN DELETE"
    ).collect()


JOBS: dict[str, tuple[str, int, float, dict[str, Job]]] = {
    "convert": ("base", 2, 5.0, {OURS: convert_ours, JAVA: convert_java}),
    "delete": ("rows", 2, 1.0, {OURS: delete_ours, JAVA: delete_java}),
    "keys": ("rows", KEYS_EVERY, 1.0, {OURS: keys_ours, JAVA: keys_java}),
    "positions": ("rows", POSITIONS_EVERY, 1.0, {OURS: positions_ours, JAVA: positions_java}),
}
"""Where it starts, that every so manieth row goes, the ratio to reach, who does it."""


def check(tables: Tables, name: str, every: int) -> None:
    """Checks DuckDB's count and sum of the live rows: one row in every `every` is deleted."""
    location = tables.catalog.load_table(f"n.{name}").metadata_location
    with duckdb_with_iceberg() as connection:
        found = connection.execute(f"SELECT count(*), sum(id) FROM iceberg_scan('{location}')").fetchone()
    n = tables.n_files * ROWS_PER_FILE
    deleted = range(0, n, every)
    assert found == (n - len(deleted), n * (n - 1) // 2 - sum(deleted)), (name, found)


def warm_workers(spark: SparkSession) -> None:
    """Spark ends Python workers that had nothing to do for a minute: starts them, with what they import."""

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import puffin_fast.spark.worker.tasks  # noqa: F401

        yield from batches

    spark.range(0, 100, 1, CORES).mapInArrow(load, "id long").toArrow()


def measure(spark: SparkSession, tables: Tables, job: str, rounds: int) -> dict[str, Any]:
    """Medians of the rounds after one that warms up."""
    state, every, target, contenders = JOBS[job]

    def once(who: str, number: int) -> Report:
        name = f"{job}_{'ours' if who == OURS else 'java'}{number}"
        tables.fresh(state, name)
        found: Report = {}
        warm_workers(spark)
        with watched(spark, found):
            contenders[who](spark, tables, name)
        check(tables, name, every)
        return found

    samples = take_turns(
        {who: partial(once, who) for who in contenders},
        rounds=rounds,
        warm_up=1,
        log=lambda who, found: print(f"{job:<8} {who:<22} {line(found)}", file=sys.stderr, flush=True),
    )
    return compare(job, medians(samples), {JAVA: target}, by="seconds")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--folder", type=Path, default=Path("build/bench/iceberg"))
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    tables = Tables(options.folder.resolve(), options.files)
    with spark_with_iceberg(tables) as spark:
        found = {
            f"{job} on Spark, {options.files} files": measure(spark, tables, job, options.rounds)
            for job in options.jobs
        }
    report(found, options.into)


if __name__ == "__main__":
    main()
