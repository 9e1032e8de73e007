"""Benchmarks of Iceberg tables, compared with other engines. Run as a script; prints JSON.

    python -m benchmarks.bench_iceberg convert              20M position deletes in 1000 files -> vectors
    python -m benchmarks.bench_iceberg convert --with java  beside Iceberg's rewrite_position_delete_files
    python -m benchmarks.bench_iceberg scan                 40M rows, half deleted, beside DuckDB, Polars, PyIceberg
    python -m benchmarks.bench_iceberg delete               delete half, then a third, beside DuckDB through REST
    python -m benchmarks.bench_iceberg delete --with java   and beside Spark's DELETE on a catalog in SQLite
    python -m benchmarks.bench_iceberg update --with java   update 1%, beside DuckDB through REST and Spark's UPDATE
    python -m benchmarks.bench_iceberg keys                 delete and upsert by 2M keys, beside DuckDB through REST
    python -m benchmarks.bench_iceberg rewrite --with java  half deleted, beside Iceberg's rewrite_data_files

The table: 1000 data files, 40M rows of (id bigint, k int), every second row deleted. It is kept in ``--folder``
for the next run. ``--files`` makes it smaller. Contenders alternate in one process; each round of `convert`
starts from the same metadata, registered under another name. Seconds are wall time; `cpu`, which targets are
about, is that of this process and of Spark's JVM; the CPU time of the REST server is not counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.engines import duckdb_with_iceberg, spark_with_iceberg
from benchmarks.iceberg_tables import CATALOG, ROWS_PER_FILE, Tables
from benchmarks.machine import report
from benchmarks.replaced_rows import (
    JAVA,
    WATCH,
    Contenders,
    duckdb_on_rest,
    keys,
    modulo,
    on_java,
    rewrite,
    update,
)
from benchmarks.rounds import OURS, Figures, compare, medians, take_turns

TARGETS = {
    "convert": {JAVA: 20.0},
    "delete half": {"DuckDB": 2.0, JAVA: 4.0},
    "delete a third": {"DuckDB": 2.0, JAVA: 4.0},
    "scan": {"DuckDB": 1.3},
    "update 1%": {"DuckDB": 2.0, JAVA: 4.0},
    "delete 5% by key": {"DuckDB": 2.0},
    "upsert 5%": {"DuckDB": 2.0},
    "rewrite": {JAVA: 3.0},
}


# The jobs --------------------------------------------------------------------------------------------------


def convert(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    from puffin_fast import iceberg

    def checked(name: str) -> Callable[[], None]:
        def check() -> None:
            tasks = iceberg.plan_files(tables.catalog.load_table(f"n.{name}")).tasks
            assert len(tasks) == tables.n_files, len(tasks)
            assert {(t.vector and t.vector.record_count) for t in tasks} == {ROWS_PER_FILE // 2}
            assert not any(task.position_deletes for task in tasks)

        return check

    def ours(number: int) -> Callable[[], None]:
        table = tables.fresh("base", f"ours{number}")
        WATCH.start()
        iceberg.convert_position_deletes(table)
        return checked(table.name()[1])

    contenders: Contenders = {OURS: ours}
    if "java" in options.beside:
        statement = f"CALL {CATALOG}.system.rewrite_position_delete_files(table => 'n.{{}}')"
        contenders[JAVA] = on_java(tables, stack, "base", statement, checked)
    return {"convert": contenders}


def scan(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    import polars

    from puffin_fast import iceberg

    table = tables.fresh("base", "scanned")
    iceberg.convert_position_deletes(table)
    expected = tables.n_files * ROWS_PER_FILE // 2
    duckdb = stack.enter_context(duckdb_with_iceberg())
    location = table.metadata_location

    def checked(found: pa.Table) -> Callable[[], None]:
        def check() -> None:
            assert found.num_rows == expected, found.num_rows
            assert pc.sum(found["id"]).as_py() == expected**2  # odd numbers
            assert pc.sum(found["k"]).as_py() == k_sum

        return check

    k_sum = pc.sum(iceberg.scan(table, selected_fields=["k"]).to_arrow()["k"]).as_py()
    contenders: Contenders = {
        OURS: lambda _: checked(iceberg.scan(table).to_arrow()),
        "DuckDB": lambda _: checked(duckdb.sql(f"FROM iceberg_scan('{location}')").to_arrow_table()),
        "Polars": lambda _: checked(polars.scan_iceberg(table).collect().to_arrow()),
    }
    if "pyiceberg" in options.beside:
        contenders["PyIceberg"] = lambda _: checked(table.scan().to_arrow())
    return {"scan": contenders}


def delete(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    """Both through one REST catalog on loopback: the tables are registered there under names of their own."""
    from puffin_fast import iceberg

    rest, duckdb = duckdb_on_rest(tables.root, stack)
    start = tables.catalog.load_table("n.rows").metadata_location
    left = {"delete half": tables.n_files * ROWS_PER_FILE // 2}
    rows = range(1, tables.n_files * ROWS_PER_FILE, 2)
    left["delete a third"] = len(rows) - len(range(3, tables.n_files * ROWS_PER_FILE, 6))

    def ready(name: str, job: str) -> None:
        if job == "delete half":
            rest.register_table(f"n.{name}", start)

    def check(name: str, job: str, catalog: Any = rest) -> Callable[[], None]:
        def run() -> None:
            table = catalog.load_table(f"n.{name}")
            totals = iceberg.report(table).totals
            assert totals["rows"] - totals["deleted"] == left[job], totals
            tasks = iceberg.plan_files(table).tasks
            ids = iceberg.scan(table, selected_fields=["id"], limit=ROWS_PER_FILE).to_arrow()["id"].to_numpy()
            assert len(tasks) == tables.n_files
            assert (ids % 2 == 1).all()
            assert job == "delete half" or (ids % 3 != 0).all()

        return run

    def ours(job: str, where: Any) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            ready(f"ours{number}", job)
            WATCH.start()
            iceberg.delete(rest.load_table(f"n.ours{number}"), where)
            return check(f"ours{number}", job)

        return run

    def theirs(job: str, where: str) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            ready(f"duck{number}", job)
            WATCH.start()
            duckdb.execute(f"DELETE FROM rest.n.duck{number} WHERE {where}")
            return check(f"duck{number}", job)

        return run

    def java(job: str, where: str) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            name = f"java{number}"
            if job == "delete half":
                tables.fresh("rows", name)
            WATCH.start()
            spark.sql(f"DELETE FROM {CATALOG}.n.{name} WHERE {where}")
            return check(name, job, tables.catalog)

        return run

    jobs = {"delete half": "id % 2 = 0", "delete a third": "id % 3 = 0"}
    found: dict[str, Contenders] = {
        job: {OURS: ours(job, modulo(where)), "DuckDB": theirs(job, where)} for job, where in jobs.items()
    }
    if "java" in options.beside:
        spark = stack.enter_context(spark_with_iceberg(tables))
        for job, where in jobs.items():
            found[job][JAVA] = java(job, where)
    return found


JOBS = {
    "convert": convert,
    "scan": scan,
    "delete": delete,
    "update": update,
    "keys": keys,
    "rewrite": rewrite,
}

# Timing ----------------------------------------------------------------------------------------------------


def measure(contenders: dict[str, Contenders], rounds: int) -> dict[str, Any]:
    """Medians of jobs that follow each other: in its turn a contender does all of them."""

    def once(name: str, number: int) -> dict[str, Figures]:
        found = {}
        for job, those in contenders.items():
            WATCH.start()
            check = those[name](number)
            found[job] = WATCH.figures()
            if check is not None:
                check()
            del check
            seconds, cpu = found[job]["seconds"], found[job]["cpu"]
            print(f"{job}: {name}: {seconds:.2f} s, cpu {cpu:.2f} s", file=sys.stderr, flush=True)
        return found

    names = next(iter(contenders.values()))
    samples = take_turns({name: partial(once, name) for name in names}, rounds=rounds)
    return {
        job: compare(
            job,
            medians({name: [sample[job] for sample in some] for name, some in samples.items()}),
            TARGETS[job],
        )
        for job in contenders
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--folder", type=Path, default=Path("build/bench/iceberg"))
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--with", dest="beside", action="append", default=[], choices=["java", "pyiceberg"])
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    tables = Tables(options.folder.resolve(), options.files)
    with ExitStack() as stack:
        found = measure(JOBS[options.job](tables, options, stack), options.rounds)
    report({f"{job}, {options.files} files": said for job, said in found.items()}, options.into)


if __name__ == "__main__":
    main()
