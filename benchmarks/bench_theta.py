"""Benchmarks of theta sketches of columns in memory, and of NDV statistics compared with Java and DuckDB; prints JSON.

    python -m benchmarks.bench_theta                         12M rows of 16 columns, written by Spark
    python -m benchmarks.bench_theta --scale 0.2 --rounds 1  a smoke run
    python -m benchmarks.bench_theta --into benchmarks/results/tables.json

- ``NDV``: all columns, planning and commit included; Java's ``compute_table_stats``, DuckDB's
  ``approx_count_distinct``. Ours counts columns from dictionary pages where they are enough.
- ``NDV, decoding``: the same without dictionary pages.
- ``NDV on Spark``: `spark.collect_ndv` in the same session as Java's job.
- ``NDV, append of 1%``: the run after an append of a hundredth of the rows, and a full run; both write the same bytes.

`cases` lists the columns in memory, for ``benchmarks.run``, which also runs these. The table is kept in the user's
cache folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.engines import Stopwatch, duckdb_with_iceberg, spark_with_iceberg
from benchmarks.iceberg_tables import CATALOG
from benchmarks.machine import report
from benchmarks.rounds import OURS, Figures, compare, medians, take_turns
from benchmarks.timing import Case, Contenders, Target
from puffin_fast.puffin import PuffinReader
from puffin_fast.theta import ThetaSketch
from tests import jars

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

JAVA = "Java compute_table_stats"
DECODING = "decoding"
DUCKDB = "DuckDB approx_count_distinct"
FULL = "full run"
DATASKETCHES = "datasketches"

N, LOOPED = 12_000_000, 100_000
ERROR, DUCKDB_ERROR = 0.08, 0.3
"""What counts may be off: five standard deviations of a sketch; DuckDB's were off by 18% for lineitem's comments."""


# Columns in memory -------------------------------------------------------------------------------------------


def columns(n: int) -> dict[str, tuple[pa.Array, int]]:
    """Arrow arrays, and how many distinct values each has, roughly."""
    rng = np.random.default_rng(1)
    words = rng.integers(0, n, n // 4)
    numbers = rng.permutation(n)
    cents = np.zeros((n, 2), np.int64)
    cents[:, 0] = rng.integers(90_000, 10_500_000, n)
    decimals = pa.Array.from_buffers(pa.decimal128(12, 2), n, [None, pa.py_buffer(cents)])
    modes = pa.array(["AIR", "MAIL", "SHIP"])
    strings = pa.array([f"{word:010d}" for word in words.tolist()])
    return {
        "int64": (pa.array(numbers), n),
        "int32": (pa.array(numbers.astype(np.int32)), n),
        "double": (pa.array(numbers / 8), n),
        "decimal(12, 2)": (decimals, len(np.unique(cents[:, 0]))),
        "int64, 50 distinct": (pa.array(rng.integers(0, 50, n)), 50),
        "strings of 10 bytes": (strings, len(np.unique(words))),
        "strings as a dictionary": (modes.take(pa.array(rng.integers(0, 3, n))).dictionary_encode(), 3),
    }


def prepare(array: pa.Array, distinct: int) -> Contenders:
    import datasketches
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.register("t", pa.table({"c": array}))
    query = "SELECT approx_count_distinct(c) FROM t"
    few = array[:LOOPED].to_pylist()

    def loop() -> Any:
        sketch = datasketches.update_theta_sketch(12)
        for value in few:
            sketch.update(value if isinstance(value, int | str) else float(value))
        return sketch

    calls: Contenders = {
        OURS: partial(ThetaSketch.from_arrow, array),
        DUCKDB: lambda: connection.execute(query).fetchone()[0],
        DATASKETCHES: loop,
    }
    assert abs(calls[OURS]().estimate / distinct - 1) < ERROR
    assert abs(calls[DUCKDB]() / distinct - 1) < DUCKDB_ERROR
    return calls


def cases(quick: bool) -> list[Case]:
    n = N // 20 if quick else N
    return [
        Case(
            "sketch",
            name,
            "value",
            len(array),
            partial(prepare, array, distinct),
            targets=(Target(DUCKDB, 2.0),),
            counts={DATASKETCHES: min(LOOPED, len(array))},
        )
        for name, (array, distinct) in columns(n).items()
    ]


# A table -----------------------------------------------------------------------------------------------------


class Lineitem:
    """TPC-H's lineitem as Spark writes it, in a catalog in a folder."""

    def __init__(self, folder: Path, scale: float) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self.root = folder / f"lineitem-{scale:g}"
        self.database = self.root / "catalog.db"
        self.root.mkdir(parents=True, exist_ok=True)
        self.source = self.root / "lineitem.parquet"
        if not self.source.exists():
            generator = Path(sys.executable).with_name("tpchgen-cli")
            scratch = self.root / "source"
            arguments = ["parquet", "--scale-factor", f"{scale:g}", "--tables", "lineitem"]
            subprocess.run([generator, *arguments, "--output-dir", scratch], check=True)
            (scratch / "lineitem.parquet").rename(self.source)
        self.catalog = SqlCatalog(
            CATALOG, uri=f"sqlite:///{self.database}", warehouse=f"file://{self.root}/wh"
        )
        self.catalog.create_namespace_if_not_exists("n")

    def write(self, spark: SparkSession, files: int) -> None:
        """The table ``n.base``, once."""
        if not self.catalog.table_exists("n.base"):
            rows = spark.read.parquet(str(self.source)).repartition(files)
            rows.writeTo(f"{CATALOG}.n.base").using("iceberg").tableProperty("format-version", "3").create()

    def fresh(self, name: str) -> Table:
        """A table of its own that starts from ``n.base``."""
        if self.catalog.table_exists(f"n.{name}"):
            self.catalog.drop_table(f"n.{name}")
        base = self.catalog.load_table("n.base").metadata_location
        return self.catalog.register_table(f"n.{name}", base)


def ours(lineitem: Lineitem, name: str) -> dict[str, int]:
    from puffin_fast import iceberg

    return dict(iceberg.collect_ndv(lineitem.catalog.load_table(f"n.{name}")).ndv)


def ours_decoding(lineitem: Lineitem, name: str) -> dict[str, int]:
    from puffin_fast.parquet.dictionary_pages import DictionaryPages

    with patch.object(DictionaryPages, "values", lambda *arguments: None):
        return ours(lineitem, name)


def ours_on_spark(spark: SparkSession, lineitem: Lineitem, name: str) -> dict[str, int]:
    from puffin_fast import spark as ps

    return dict(ps.collect_ndv(spark, lineitem.catalog.load_table(f"n.{name}")).ndv)


def java(spark: SparkSession, lineitem: Lineitem, name: str) -> dict[str, int]:
    spark.sql(f"CALL {CATALOG}.system.compute_table_stats(table => 'n.{name}')").collect()
    table = lineitem.catalog.load_table(f"n.{name}")
    (statistics,) = table.metadata.statistics
    names = {field.field_id: field.name for field in table.schema().fields}
    return {names[blob.fields[0]]: int((blob.properties or {})["ndv"]) for blob in statistics.blob_metadata}


def duckdb(connection: Any, lineitem: Lineitem, name: str) -> dict[str, int]:
    table = lineitem.catalog.load_table(f"n.{name}")
    names = [field.name for field in table.schema().fields]
    counts = ", ".join(f"approx_count_distinct({column})" for column in names)
    query = f"SELECT {counts} FROM iceberg_scan('{table.metadata_location}')"
    return dict(zip(names, connection.execute(query).fetchone(), strict=True))


def measured(
    lineitem: Lineitem, job: str, contenders: Mapping[str, Callable[[str], dict[str, int]]], rounds: int
) -> dict[str, Figures]:
    """Medians of the rounds after one that warms up; counts are compared each time."""
    lineitem.fresh("truth")
    truth = ours(lineitem, "truth")

    def once(who: str, number: int) -> Figures:
        lineitem.fresh(table := f"t{number}_{sum(map(ord, who))}")
        watch = Stopwatch()
        counts = contenders[who](table)
        figures = watch.figures()
        allowed = DUCKDB_ERROR if who == DUCKDB else 2 * ERROR
        for column, count in truth.items():
            assert abs(counts[column] / count - 1) < allowed, (who, column, counts[column], count)
        return figures

    calls = {who: partial(once, who) for who in contenders}
    return medians(take_turns(calls, rounds=rounds, warm_up=1, log=partial(log, job)))


def log(job: str, who: str, figures: Figures) -> None:
    print(
        f"{job}: {who}: {figures['seconds']:.2f} s, {figures['cpu']:.2f} CPU s", file=sys.stderr, flush=True
    )


def appended(lineitem: Lineitem, job: str, rounds: int) -> dict[str, Figures]:
    """An incremental and a full run after an append of a hundredth of the rows."""
    import pyarrow.parquet as pq

    from puffin_fast import iceberg

    part = pa.Table.from_batches(pq.ParquetFile(lineitem.source).iter_batches(1 << 20, row_groups=[0]))

    def once(incremental: Any, number: int) -> Figures:
        table = lineitem.fresh(f"a{number}_{incremental or 'full'}")
        iceberg.collect_ndv(table)
        n_rows = sum(task.data.record_count for task in iceberg.plan_files(table).tasks)
        iceberg.append(table, part.slice(0, n_rows // 100).cast(iceberg.scan(table).schema))
        watch = Stopwatch()
        iceberg.collect_ndv(table, incremental=incremental)
        figures = watch.figures()
        written[number].append(sketches_of(table))
        assert written[number][0] == written[number][-1]
        return figures

    written: defaultdict[int, list[list[bytes]]] = defaultdict(list)
    calls = {OURS: partial(once, "auto"), FULL: partial(once, False)}
    return medians(take_turns(calls, rounds=rounds, warm_up=1, log=partial(log, job)))


def sketches_of(table: Table) -> list[bytes]:
    """The sketches of the current snapshot, as its statistics file has them."""
    (statistics,) = (
        known
        for known in table.metadata.statistics
        if known.snapshot_id == table.metadata.current_snapshot_id
    )
    with PuffinReader(statistics.statistics_path) as reader:
        return [data for _, data in reader.read_many()]


def measure_all(lineitem: Lineitem, files: int, rounds: int) -> dict[str, Any]:
    found = {}
    with spark_with_iceberg(lineitem) as spark, duckdb_with_iceberg() as connection:  # type: ignore[arg-type]
        lineitem.write(spark, files)
        here = {
            OURS: partial(ours, lineitem),
            DECODING: partial(ours_decoding, lineitem),
            JAVA: partial(java, spark, lineitem),
            DUCKDB: partial(duckdb, connection, lineitem),
        }
        figures = measured(lineitem, "NDV", here, rounds)
        decoding = figures.pop(DECODING)
        found["NDV"] = compare("NDV", figures, {JAVA: 12.0, DUCKDB: 2.0})
        found["NDV, decoding"] = compare(
            "NDV, decoding", {**figures, OURS: decoding}, {JAVA: 8.0, DUCKDB: 2.0}
        )
        there = {OURS: partial(ours_on_spark, spark, lineitem), JAVA: partial(java, spark, lineitem)}
        on_spark = measured(lineitem, "NDV on Spark", there, rounds)
        found["NDV on Spark"] = compare("NDV on Spark", on_spark, {JAVA: 4.0})
    name = "NDV, append of 1%"
    found[name] = compare(name, appended(lineitem, name, rounds), {FULL: 10.0})
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=jars.cache().parent / "bench")
    parser.add_argument("--scale", type=float, default=2.0, help="of TPC-H; 2 has 12M rows")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args(arguments)
    if not jars.find("spark"):
        raise SystemExit("Iceberg's jar for Spark is missing: make jars")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    lineitem = Lineitem(options.folder.resolve(), options.scale)
    rows = f"lineitem x {options.scale:g}"
    found = measure_all(lineitem, options.files, options.rounds)
    report({f"{job}, {rows}": said for job, said in found.items()}, options.into)


if __name__ == "__main__":
    main()
