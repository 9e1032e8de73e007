"""Benchmarks of small changes on Spark, compared with the verbs of Iceberg's runtime, in one warm session; prints JSON.

    python -m benchmarks.bench_spark_dml                           all jobs, 10M rows in 200 files
    python -m benchmarks.bench_spark_dml --rounds 5 --into benchmarks/results/spark_dml.json
    python -m benchmarks.bench_spark_dml --jobs upsert --files 20 --rounds 1
    python -m benchmarks.bench_spark_dml --files 2000 --master 'local-cluster[2,1,1024]'

The table is of format version 3, merge-on-read, ``id bigint, customer bigint, price double``, with 50,000 rows in each
file: ids ascend, customers are in no order, so that every file has rows of each change. ``column %`` and the like
change one row in a hundred; ``keys`` deletes 10,000 rows; ``upsert`` replaces 50,000 rows and inserts as many;
``batch`` upserts 50 rows, half new, in ``foreachBatch``.

Each contender gets a table of its own that starts from the same metadata. Afterwards, DuckDB compares the number of
rows, the sum of the ids and the sum of the prices. Wall and CPU seconds of the driver, the JVM and the Python workers,
and the number of Spark jobs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_iceberg import JAVA
from benchmarks.bench_spark_tables import warm_workers
from benchmarks.engines import Stopwatch, duckdb_with_iceberg, spark_with_iceberg
from benchmarks.iceberg_tables import CATALOG, Tables
from benchmarks.machine import report
from benchmarks.rounds import OURS, Figures, compare, medians, take_turns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE = 50_000
CUSTOMERS = 1_000_000
KEYS = 10_000
UPSERTED = 100_000
BATCH = 50


def rows_of(number: int) -> pa.Table:
    """The rows of one data file."""
    ids = np.arange(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    random = np.random.default_rng(number)
    customers = random.integers(0, CUSTOMERS, ROWS_PER_FILE)
    return pa.table(
        {"id": ids, "customer": customers, "price": random.integers(1, 1000, ROWS_PER_FILE) * 1.0}
    )


class Orders(Tables):
    """A catalog in a folder, with the table from which the jobs start."""

    prefix = "orders"

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.n_files * ROWS_PER_FILE

    def _make(self) -> None:
        from pyiceberg.schema import Schema
        from pyiceberg.types import DoubleType, LongType, NestedField

        from puffin_fast.iceberg import upgrade

        modes = {f"write.{job}.mode": "merge-on-read" for job in ("delete", "update", "merge")}
        properties = {"format-version": "2", "write.parquet.compression-codec": "zstd", **modes}
        self.catalog.create_namespace("n")
        kinds = {"id": LongType(), "customer": LongType(), "price": DoubleType()}
        schema = Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate(kinds.items(), 1)))
        table = self.catalog.create_table("n.orders", schema, properties=properties)
        folder = Path(table.location().removeprefix("file://"), "data")
        folder.mkdir(parents=True)
        paths = [folder / f"{number:05d}.parquet" for number in range(self.n_files)]

        def write(number: int) -> None:
            pq.write_table(rows_of(number), paths[number], compression="zstd")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, range(self.n_files)))
        table.add_files([f"file://{path}" for path in paths])  # PyIceberg adds none in version 3
        upgrade(table)


@dataclass(frozen=True)
class Job:
    """A change of a table, by us and by Iceberg's runtime; each gets the session, the orders and the table's name."""

    ours: Callable[[SparkSession, Orders, str], Any]
    java: Callable[[SparkSession, Orders, str], Any]
    target: float


def verb(name: str, *arguments: Callable[[], Any]) -> Callable[[SparkSession, Orders, str], Any]:
    """Our verb on a table that PyIceberg loads; the arguments are made in the session."""

    def change(spark: SparkSession, orders: Orders, table: str) -> Any:
        import puffin_fast as pf

        return getattr(pf.spark, name)(
            spark, orders.catalog.load_table(f"n.{table}"), *(make() for make in arguments)
        )

    return change


def sql(text: str) -> Callable[[SparkSession, Orders, str], Any]:
    return lambda spark, orders, table: spark.sql(text.format(table=f"{CATALOG}.n.{table}")).collect()


def remainder() -> Any:
    from pyspark.sql import functions

    return functions.col("customer") % 100 == 7


def below() -> Any:
    from pyspark.sql import functions

    return functions.col("customer") < CUSTOMERS // 100


def expression() -> Any:
    from pyiceberg.expressions import LessThan

    return LessThan("customer", CUSTOMERS // 100)  # type: ignore[arg-type]


def reduced() -> Any:
    from pyspark.sql import functions

    return {"price": functions.col("price") * 2}


def keys(spark: SparkSession, orders: Orders) -> DataFrame:
    step = orders.n_rows // KEYS
    return spark.range(0, step * KEYS, step)


def keys_ours(spark: SparkSession, orders: Orders, table: str) -> None:
    import puffin_fast as pf

    pf.spark.delete_keys(keys(spark, orders), orders.catalog.load_table(f"n.{table}"), "id")


def keys_java(spark: SparkSession, orders: Orders, table: str) -> None:
    keys(spark, orders).createOrReplaceTempView("keys")
    spark.sql(f"DELETE FROM {CATALOG}.n.{table} WHERE id IN (SELECT id FROM keys)").collect()


def keys_merge(spark: SparkSession, orders: Orders, table: str) -> None:
    keys(spark, orders).createOrReplaceTempView("keys")
    spark.sql(
        f"MERGE INTO {CATALOG}.n.{table} t USING keys ON t.id = keys.id WHEN MATCHED THEN DELETE"
    ).collect()


def changed(spark: SparkSession, orders: Orders, count: int) -> DataFrame:
    """As many rows: half of them with ids of the table, spread over all files, half with new ids."""
    half = count // 2
    step = orders.n_rows // half
    return spark.range(0, count).selectExpr(
        f"if(id < {half}, id * {step}, id + {orders.n_rows}) AS id", "id AS customer", "1.5D AS price"
    )


MERGE = (
    "MERGE INTO {table} t USING given s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def upsert_ours(spark: SparkSession, orders: Orders, table: str) -> None:
    import puffin_fast as pf

    pf.spark.upsert(changed(spark, orders, UPSERTED), orders.catalog.load_table(f"n.{table}"), "id")


def upsert_java(spark: SparkSession, orders: Orders, table: str) -> None:
    changed(spark, orders, UPSERTED).createOrReplaceTempView("given")
    sql(MERGE)(spark, orders, table)


def stream(spark: SparkSession, orders: Orders, batch: Callable[[DataFrame, int], None]) -> None:
    """Runs one micro-batch with rows of a file."""
    source = orders.root / "source"
    if not source.exists():
        changed(spark, orders, BATCH).coalesce(1).write.parquet(str(source))
    read = spark.readStream.schema("id long, customer long, price double").parquet(str(source))
    query = read.writeStream.foreachBatch(batch).trigger(availableNow=True).start()
    query.awaitTermination()


def batch_ours(spark: SparkSession, orders: Orders, table: str) -> None:
    import puffin_fast as pf

    def change(rows: DataFrame, number: int) -> None:
        pf.spark.upsert(rows, orders.catalog.load_table(f"n.{table}"), "id", job_id=f"batch-{number}")

    stream(spark, orders, change)


def batch_java(spark: SparkSession, orders: Orders, table: str) -> None:
    def change(rows: DataFrame, number: int) -> None:
        rows.createOrReplaceTempView("given")
        rows.sparkSession.sql(MERGE.format(table=f"{CATALOG}.n.{table}")).collect()

    stream(spark, orders, change)


DELETE = "DELETE FROM {table} WHERE "
UPDATE = "UPDATE {table} SET price = "
TEXT = f"customer < {CUSTOMERS // 100}"
REMAINDER = "customer % 100 = 7"

JOBS = {
    "delete, column %": Job(verb("delete", remainder), sql(DELETE + REMAINDER), 2.0),
    "delete, column <": Job(verb("delete", below), sql(DELETE + TEXT), 2.0),
    "delete, text": Job(verb("delete", lambda: TEXT), sql(DELETE + TEXT), 3.0),
    "delete, expression": Job(verb("delete", expression), sql(DELETE + TEXT), 3.0),
    "keys": Job(keys_ours, keys_java, 2.0),
    "keys, MERGE": Job(keys_ours, keys_merge, 2.0),
    "upsert": Job(upsert_ours, upsert_java, 2.0),
    "update, a value": Job(
        verb("update", remainder, lambda: {"price": 0.0}), sql(f"{UPDATE}0 WHERE {REMAINDER}"), 2.0
    ),
    "update, a column": Job(
        verb("update", remainder, reduced), sql(f"{UPDATE}price * 2 WHERE {REMAINDER}"), 2.0
    ),
    "batch": Job(batch_ours, batch_java, 2.0),
}


def state(orders: Orders, table: str) -> tuple[Any, ...]:
    location = orders.catalog.load_table(f"n.{table}").metadata_location
    with duckdb_with_iceberg() as connection:
        found = connection.execute(
            f"SELECT count(*), sum(id), sum(price::BIGINT) FROM iceberg_scan('{location}')"
        ).fetchone()
    assert found is not None
    return tuple(found)


def jobs_so_far(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    return int(context.dagScheduler().nextJobId())


def measure(spark: SparkSession, orders: Orders, name: str, rounds: int, warm_up: int) -> dict[str, Any]:
    job = JOBS[name]
    states = set()

    def once(who: str, number: int) -> Figures:
        table = f"{'ours' if who == OURS else 'java'}{number}"
        orders.fresh("orders", table)
        warm_workers(spark)
        before = jobs_so_far(spark)
        watch = Stopwatch()
        (job.ours if who == OURS else job.java)(spark, orders, table)
        found = watch.figures()
        found["jobs"] = jobs_so_far(spark) - before
        states.add(state(orders, table))
        assert len(states) == 1, (name, who, states)
        return found

    samples = take_turns(
        {who: partial(once, who) for who in (OURS, JAVA)},
        rounds=rounds,
        warm_up=warm_up,
        log=lambda who, found: print(
            f"{name:<20} {who:<22} {found['seconds']:6.2f} s, CPU {found['cpu']:6.2f} s, {found['jobs']:.0f} jobs",
            file=sys.stderr,
            flush=True,
        ),
    )
    return compare(name, medians(samples), {JAVA: job.target}, by="seconds")


def first_calls(spark: SparkSession, orders: Orders) -> dict[str, Any]:
    """An upsert of three rows in a new session, and the same once more."""
    import puffin_fast as pf

    found = {}
    for number, name in enumerate(("first call in a session", "second call in a session")):
        table = orders.fresh("orders", "first")
        given = [(1, 2, 3.0), (5_000_000, 2, 3.0), (-number - 1, 2, 3.0)]
        rows = spark.createDataFrame(given, "id long, customer long, price double")
        watch = Stopwatch()
        pf.spark.upsert(rows, table, "id")
        found[f"{name}, upsert of 3 rows on Spark"] = {"contenders": {OURS: watch.figures()}, "targets": []}
    print(found, file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--folder", type=Path, default=Path("build/bench/iceberg"))
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--warm-up", type=int, default=4, help="rounds before them: the JVM compiles what a job runs"
    )
    parser.add_argument(
        "--master", default="local[2]", help="of the session; with others, names of jobs end with it"
    )
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    orders = Orders(options.folder.resolve(), options.files)
    where = "" if options.master == "local[2]" else f", {options.master}"
    with spark_with_iceberg(orders, options.master) as spark:
        found = {f"{name}{where}": one for name, one in first_calls(spark, orders).items()}
        found |= {
            f"{job} on Spark, {orders.n_rows:,} rows{where}": measure(
                spark, orders, job, options.rounds, options.warm_up
            )
            for job in options.jobs
        }
    report(found, options.into)


if __name__ == "__main__":
    main()
