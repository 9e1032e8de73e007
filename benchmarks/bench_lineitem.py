"""Benchmarks of TPC-H's lineitem with deleted rows: scans and a delete, compared. Run as a script; prints JSON.

    python -m benchmarks.bench_lineitem                              12M rows of 16 columns in 48 files
    python -m benchmarks.bench_lineitem --scale 0.5 --files 12       3M rows
    python -m benchmarks.bench_lineitem --only filter                the jobs whose name holds this; given twice, both

Tables: every tenth row deleted at random, 95% deleted at random, and none. Contenders take turns in one process; every
answer is compared with DuckDB's number of rows and sum of keys. `cpu` is what targets are about.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.engines import duckdb_with_iceberg
from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.replaced_rows import duckdb_on_rest
from benchmarks.rounds import OURS
from tests import jars

if TYPE_CHECKING:
    from pyiceberg.table import Table

TENTH, MOST, NONE = "t10", "t95", "none"
SHARES = {TENTH: 0.1, MOST: 0.95}
WHERE = "l_shipdate >= '1998-06-01' and l_quantity < 10"
DATES = ("l_shipdate", "l_commitdate", "l_receiptdate")
NUMBERS = ("orderkey", "partkey", "suppkey", "linenumber", "quantity", "extendedprice", "discount", "tax")
NUMERIC = (*(f"l_{name}" for name in NUMBERS), *DATES)
THREE = ("l_orderkey", "l_quantity", "l_shipdate")

DUCKDB, VIEWS, PLANNING = "DuckDB", "puffin_fast, string views", "planning"

JOBS: dict[str, tuple[str, Sequence[str], str | None, float]] = {
    "all columns": (TENTH, (), None, 1.5),
    "11 numeric columns": (TENTH, NUMERIC, None, 2.0),
    "3 columns": (TENTH, THREE, None, 1.5),
    "2% filter": (TENTH, (), WHERE, 1.5),
    "95% deleted": (MOST, (), None, 3.0),
}
"""The table, the columns (none: all), the filter, and the target beside DuckDB."""


COUNT = "count"
"""The job that counts rows; its target is beside planning."""

DELETE = "delete by the 2% filter"
"""The job that deletes from the table with every tenth row deleted; ours and DuckDB's through one REST catalog."""


def job_name(scale: float, name: str) -> str:
    """The name of a job in the results."""
    return f"lineitem at scale {scale:g}, {name}"


def tables(folder: Path, scale: float, n_files: int) -> dict[str, Table]:
    """The tables; made once, then kept."""
    from pyiceberg.catalog.sql import SqlCatalog

    from puffin_fast import iceberg

    root = folder / f"lineitem-{scale:g}-{n_files}"
    new = not (root / "done").exists()
    if new:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/wh")
    if new:
        generator = Path(sys.executable).with_name("tpchgen-cli")
        arguments = [
            "parquet",
            "--scale-factor",
            f"{scale:g}",
            "--tables",
            "lineitem",
            "--parts",
            str(n_files),
        ]
        subprocess.run([generator, *arguments, "--output-dir", root / "source", "--quiet"], check=True)
        sources = sorted((root / "source" / "lineitem").glob("*.parquet"))
        catalog.create_namespace("n")
        base = iceberg.create_table(catalog, f"n.{NONE}", pq.read_schema(sources[0]))
        for source in sources:
            iceberg.append(base, pq.read_table(source))
        rng = np.random.default_rng(0)
        for name, share in SHARES.items():
            table = catalog.register_table(f"n.{name}", base.metadata_location)
            for task in iceberg.plan_files(table).tasks:
                n_rows = task.data.record_count
                gone = pa.array(rng.choice(n_rows, int(n_rows * share), replace=False))
                paths = pa.repeat(pa.scalar(task.data.file_path), len(gone))
                iceberg.delete_positions(table, pa.table({"file_path": paths, "pos": gone}))
        shutil.rmtree(root / "source")
        (root / "done").touch()
    return {name: catalog.load_table(f"n.{name}") for name in (NONE, *SHARES)}


def scans(duckdb: Any, table: Table, columns: Sequence[str], where: str | None, *, text: bool) -> Contenders:
    """Scans into Arrow: ours, ours into views of text, and DuckDB's."""
    from puffin_fast import iceberg

    chosen = ", ".join(columns) or "*"
    query = f"SELECT {chosen} FROM iceberg_scan('{table.metadata_location}')" + (
        f" WHERE {where}" if where else ""
    )
    n_rows, total = duckdb.sql(f"SELECT count(*), sum(l_orderkey)::BIGINT FROM ({query})").fetchall()[0]
    options: dict[str, Any] = {"selected_fields": columns or ("*",)}
    if where is not None:
        options["row_filter"] = where

    def checked(found: pa.Table) -> Callable[[], None]:
        def check() -> None:
            assert found.num_rows == n_rows, found.num_rows
            assert pc.sum(found["l_orderkey"]).as_py() == total

        return check

    result: Contenders = {
        OURS: lambda: checked(iceberg.scan(table, **options).to_arrow()),
        DUCKDB: lambda: checked(duckdb.sql(query).to_arrow_table()),
    }
    if text:
        result[VIEWS] = lambda: checked(iceberg.scan(table, string_views=True, **options).to_arrow())
    return result


def counts(duckdb: Any, table: Table) -> Contenders:
    """Counts, ours and DuckDB's, and the planning alone."""
    from puffin_fast import iceberg

    query = f"SELECT count(*) FROM iceberg_scan('{table.metadata_location}')"
    (expected,) = duckdb.sql(query).fetchone()

    def checked(found: int) -> Callable[[], None]:
        def check() -> None:
            assert found == expected, (found, expected)

        return check

    return {
        OURS: lambda: checked(iceberg.scan(table).count()),
        DUCKDB: lambda: checked(duckdb.sql(query).fetchone()[0]),
        PLANNING: lambda: iceberg.plan_files(table) and None,
    }


def deletes(root: Path, table: Table, rounds: int, stack: ExitStack) -> Contenders:
    """Deletes by the filter, each from a table of its own that is registered outside of the measured time."""
    from puffin_fast import iceberg

    rest, duckdb = duckdb_on_rest(root, stack)
    left = f"FROM iceberg_scan('{table.metadata_location}') WHERE NOT ({WHERE})"
    n_rows, total = duckdb.sql(f"SELECT count(*), sum(l_orderkey)::BIGINT {left}").fetchone()
    names = {who: [f"{who}{number}" for number in range(rounds + 1)] for who in ("ours", "duck")}
    for name in (*names["ours"], *names["duck"]):
        rest.register_table(f"n.{name}", table.metadata_location)
    tables = [rest.load_table(f"n.{name}") for name in names["ours"]]

    def checked(name: str) -> Callable[[], None]:
        def check() -> None:
            found = iceberg.scan(rest.load_table(f"n.{name}"), selected_fields=("l_orderkey",)).to_arrow()
            assert found.num_rows == n_rows, found.num_rows
            assert pc.sum(found["l_orderkey"]).as_py() == total

        return check

    def ours() -> Callable[[], None]:
        iceberg.delete(tables.pop(), WHERE)
        return checked(names["ours"].pop())

    def theirs() -> Callable[[], None]:
        name = names["duck"].pop()
        duckdb.execute(f"DELETE FROM rest.n.{name} WHERE {WHERE}")
        return checked(name)

    return {OURS: ours, DUCKDB: theirs}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/lineitem"))
    parser.add_argument("--scale", type=float, default=2.0, help="of TPC-H; 2 has 12M rows")
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="jobs whose name holds this")
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    folder = options.folder.resolve()
    made = tables(folder, options.scale, options.files)
    found = {}
    with ExitStack() as stack:
        duckdb = stack.enter_context(duckdb_with_iceberg())
        for name, (state, columns, where, target) in JOBS.items():
            job = job_name(options.scale, name)
            if all(word in job for word in options.only):
                those = scans(duckdb, made[state], columns, where, text=not columns)
                found[job] = measure_job(job, those, options.rounds, {DUCKDB: target})
        job = job_name(options.scale, COUNT)
        if all(word in job for word in options.only):
            found[job] = measure_job(job, counts(duckdb, made[TENTH]), options.rounds, {PLANNING: 0.5})
        job = job_name(options.scale, DELETE)
        if all(word in job for word in options.only):
            if jars.find("rest"):
                those = deletes(folder, made[TENTH], options.rounds, stack)
                found[job] = measure_job(job, those, options.rounds, {DUCKDB: 1.5})
            else:
                print(f"{job}: left out, the REST catalog's jar is missing: make jars", file=sys.stderr)
    report(found, options.into)


if __name__ == "__main__":
    main()
