"""The jobs of `bench_iceberg` that replace rows or data files: update, delete and upsert by keys, rewrite."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.engines import Stopwatch, duckdb_with_iceberg, rest_catalog, spark_with_iceberg
from benchmarks.iceberg_tables import CATALOG, ROWS_PER_FILE, Tables
from benchmarks.rounds import OURS

__all__ = ["JAVA", "WATCH", "Contenders", "duckdb_on_rest", "keys", "modulo", "on_java", "rewrite", "update"]

JAVA = "Java on Spark local[2]"

WATCH = Stopwatch()
"""A job starts it again when its table is ready."""

REWRITTEN_FILES = 8
"""About the number of data files that a rewrite makes: each contender may write several at a time."""

Contenders = dict[str, Callable[[int], "Callable[[], None] | None"]]
"""Each does the whole job; the argument is the number of the round. The result is called to check it, untimed."""


def update(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    """Sets a column of 1% of the rows by a filter that prunes nothing; ours and DuckDB's through one REST catalog."""
    from puffin_fast import iceberg

    rest, duckdb = duckdb_on_rest(tables.root, stack)
    start = tables.catalog.load_table("n.rows").metadata_location
    before = iceberg.scan(tables.catalog.load_table("n.rows")).to_arrow()["k"]
    n_rows, k_sum = len(before), pc.sum(before).as_py() + pc.sum(pc.less(before, 10)).as_py()

    def checked(name: str, catalog: Any = rest) -> Callable[[], None]:
        def check() -> None:
            found = iceberg.scan(catalog.load_table(f"n.{name}")).to_arrow()
            assert found.num_rows == n_rows, found.num_rows
            assert pc.sum(found["k"]).as_py() == k_sum

        return check

    def ours(number: int) -> Callable[[], None]:
        table = rest.register_table(f"n.ours{number}", start)
        WATCH.start()
        iceberg.update(table, "k < 10", {"k": pc.field("k") + 1})
        return checked(f"ours{number}")

    def theirs(number: int) -> Callable[[], None]:
        rest.register_table(f"n.duck{number}", start)
        WATCH.start()
        duckdb.execute(f"UPDATE rest.n.duck{number} SET k = k + 1 WHERE k < 10")
        return checked(f"duck{number}")

    contenders: Contenders = {OURS: ours, "DuckDB": theirs}
    if "java" in options.beside:
        statement = f"UPDATE {CATALOG}.n.{{}} SET k = k + 1 WHERE k < 10"
        contenders[JAVA] = on_java(
            tables, stack, "rows", statement, lambda name: checked(name, tables.catalog)
        )
    return {"update 1%": contenders}


def keys(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    """Deletes, or replaces, every twentieth row by its key; both through one REST catalog.

    DuckDB's MERGE is not compared: in DuckDB 1.5.5, it appends the new rows and deletes no old ones. Its UPDATE with a
    second table inserts no rows; here all keys are in the table.
    """
    from puffin_fast import iceberg

    rest, duckdb = duckdb_on_rest(tables.root, stack)
    start = tables.catalog.load_table("n.rows").metadata_location
    n_rows = tables.n_files * ROWS_PER_FILE
    ids = np.random.default_rng(1).permutation(np.arange(0, n_rows, 20))
    given = pa.table({"id": ids, "k": np.full(len(ids), -1, np.int32)})
    duckdb.register("given", given)
    deleting, replacing = "delete 5% by key", "upsert 5%"

    def check(job: str, name: str) -> Callable[[], None]:
        def run() -> None:
            found = iceberg.scan(rest.load_table(f"n.{name}")).to_arrow()
            left = n_rows - (len(ids) if job == deleting else 0)
            assert found.num_rows == left, found.num_rows
            assert found.filter(pc.equal(found["k"], -1)).num_rows == left - n_rows + len(ids)

        return run

    def ours(job: str, call: Callable[[Any], Any]) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            name = f"ours{job[0]}{number}"
            table = rest.register_table(f"n.{name}", start)
            WATCH.start()
            call(table)
            return check(job, name)

        return run

    def theirs(job: str, statement: str) -> Callable[[int], Callable[[], None]]:
        def run(number: int) -> Callable[[], None]:
            name = f"duck{job[0]}{number}"
            rest.register_table(f"n.{name}", start)
            WATCH.start()
            duckdb.execute(statement.format(f"rest.n.{name}"))
            return check(job, name)

        return run

    return {
        deleting: {
            OURS: ours(deleting, lambda table: iceberg.delete_keys(table, given, "id")),
            "DuckDB": theirs(deleting, "DELETE FROM {} WHERE id IN (SELECT id FROM given)"),
        },
        replacing: {
            OURS: ours(replacing, lambda table: iceberg.upsert(table, given, "id")),
            "DuckDB": theirs(replacing, "UPDATE {} t SET k = s.k FROM given s WHERE t.id = s.id"),
        },
    }


def rewrite(tables: Tables, options: argparse.Namespace, stack: ExitStack) -> dict[str, Contenders]:
    """Rewrites data files of which half of the rows are deleted by vectors."""
    from puffin_fast import iceberg

    halves = tables.fresh("base", "halves")
    iceberg.convert_position_deletes(halves)
    expected = tables.n_files * ROWS_PER_FILE // 2
    n_bytes = sum(task.data.file_size_in_bytes for task in iceberg.plan_files(halves).tasks)
    target = n_bytes // 2 // REWRITTEN_FILES

    def checked(name: str) -> Callable[[], None]:
        def check() -> None:
            table = tables.catalog.load_table(f"n.{name}")
            tasks = iceberg.plan_files(table).tasks
            assert 1 < len(tasks) <= tables.n_files // 4, len(tasks)
            assert not any(task.vector for task in tasks)
            assert pc.sum(iceberg.scan(table, selected_fields=["id"]).to_arrow()["id"]).as_py() == expected**2

        return check

    def ours(number: int) -> Callable[[], None]:
        table = tables.fresh("halves", f"ours{number}")
        WATCH.start()
        iceberg.rewrite_data_files(table, target_file_size=target)
        return checked(table.name()[1])

    contenders: Contenders = {OURS: ours}
    if "java" in options.beside:
        statement = (
            f"CALL {CATALOG}.system.rewrite_data_files(table => 'n.{{}}', "
            f"options => map('target-file-size-bytes', '{target}', 'rewrite-all', 'true'))"
        )
        contenders[JAVA] = on_java(tables, stack, "halves", statement, checked)
    return {"rewrite": contenders}


def on_java(
    tables: Tables,
    stack: ExitStack,
    state: str,
    statement: str,
    checked: Callable[[str], Callable[[], None]],
) -> Callable[[int], Callable[[], None]]:
    """Java's contender: runs a statement of Spark on a table that starts from a state, whose name it has as ``{}``."""
    spark = stack.enter_context(spark_with_iceberg(tables))

    def run(number: int) -> Callable[[], None]:
        name = f"java{number}"
        tables.fresh(state, name)
        WATCH.start()
        spark.sql(statement.format(name)).collect()
        return checked(name)

    return run


def duckdb_on_rest(root: Path, stack: ExitStack) -> tuple[Any, Any]:
    """A REST catalog in a folder, and DuckDB with this catalog as `rest`."""
    rest = stack.enter_context(rest_catalog(root))
    duckdb = stack.enter_context(duckdb_with_iceberg())
    rest.create_namespace_if_not_exists("n")
    uri = rest.properties["uri"]
    duckdb.execute(f"ATTACH 'wh' AS rest (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    return rest, duckdb


def modulo(where: str) -> Any:
    """`id % n = 0` as a PyArrow expression: neither Iceberg's expressions nor Arrow's functions have a modulo."""
    n = int(where.split()[2])
    column = pc.field("id")
    return column == pc.divide(column, n) * n
