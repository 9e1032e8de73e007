"""Benchmarks of key indexes. Run as a script; prints JSON.

    python -m benchmarks.bench_key_index                 all jobs at full size: 40M rows in 1000 files
    python -m benchmarks.bench_key_index --share 0.1     a tenth of the rows and of the files
    python -m benchmarks.bench_key_index --files 40      fewer and larger files
    python -m benchmarks.bench_key_index --only strings  the jobs whose name holds this; given twice, both

Keys are distinct integers below ten times the number of rows, in no order, or their texts of 32 bytes. Contenders take
turns in one process; planning is included in ours:

- the same job on a twin of the table without an index
- DuckDB over the same files, without a plan: IN, or a semi-join for many keys

`cpu` is what targets are about. The index is built before, and its size and CPU time are printed to standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.jobs import Contenders, measure_job
from benchmarks.machine import report
from benchmarks.rounds import OURS, checked

ROWS, FILES = 40_000_000, 1000
WITHOUT, DUCKDB, ANEW = "without an index", "DuckDB, without a plan", "an index built anew"
SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("v", pa.float64())])
FEW = 1000
"""Keys up to this number are literals of IN in DuckDB."""


def keys_of(n_rows: int) -> np.ndarray:
    """The distinct keys of a table, in the order of its rows."""
    random = np.random.default_rng(7)
    keys = np.sort(random.integers(0, 10 * n_rows, n_rows + n_rows // 4))
    keys = keys[np.append(True, keys[1:] != keys[:-1])]  # not `np.unique`, which takes minutes for so many
    return random.permutation(keys)[:n_rows]


def texts(keys: np.ndarray) -> pa.Array:
    return pa.array([f"{key:032x}" for key in keys.tolist()])


class Tables:
    """A table with indexes, and its twin without them; made once."""

    def __init__(self, folder: Path, n_rows: int, n_files: int) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        from puffin_fast import iceberg

        folder.mkdir(parents=True, exist_ok=True)
        self.catalog = catalog = SqlCatalog(
            "bench", uri=f"sqlite:///{folder}/keys.db", warehouse=f"file://{folder}/warehouse"
        )
        catalog.create_namespace_if_not_exists("keys")
        self.keys, found = keys_of(n_rows), []
        for kind in ("indexed", "plain"):
            name = f"keys.{kind}{n_rows}_{n_files}"
            if not catalog.table_exists(name):
                table = iceberg.create_table(catalog, name, SCHEMA)
                with iceberg.transaction(table) as transaction:
                    for part in np.array_split(self.keys, n_files):
                        columns = [pa.array(part), texts(part), pa.array(part / 7)]
                        transaction.append(pa.table(columns, schema=SCHEMA))
            found.append(catalog.load_table(name))
        self.indexed, self.plain = found
        if not self.indexed.metadata.statistics:
            for column in ("id", "s"):
                started = time.process_time()
                index = iceberg.index_keys(self.indexed, column)
                print(
                    f"index of {column}: {time.process_time() - started:.2f} s of CPU time, "
                    f"{index.n_bytes / index.rows:.2f} bytes a row, {index.segments} segments",
                    file=sys.stderr,
                )
        self.paths = [
            task.data.file_path.removeprefix("file://") for task in iceberg.plan_files(self.plain).tasks
        ]

    def some(self, n: int, column: str) -> pa.Array:
        """Keys at random."""
        keys = np.random.default_rng(n).choice(self.keys, n, replace=False)
        return pa.array(keys) if column == "id" else texts(keys)


def in_duckdb(paths: list[str], keys: pa.Array, column: str) -> int:
    """The number of rows with one of the keys."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("keys", pa.table({"key": keys}))
        where = "IN (FROM keys)"
        if len(keys) <= FEW:
            where = f"IN ({', '.join(map(repr, keys.to_pylist()))})"
        query = f"SELECT count(*) FROM read_parquet(?) WHERE {column} {where}"
        row = connection.execute(query, [paths]).fetchone()
        return 0 if row is None else int(row[0])


def delete_job(n: int, column: str, tables: Tables) -> Contenders:
    """Finds the rows of keys as `delete_keys` does; a dry run, so that each round is the same."""
    from puffin_fast import iceberg

    keys = tables.some(n, column)

    def deleted(table: Any) -> int:
        return iceberg.delete_keys(table, keys, column, threads=1, dry_run=True).rows_deleted

    return {
        OURS: checked(lambda: deleted(tables.indexed), n),
        WITHOUT: checked(lambda: deleted(tables.plain), n),
        DUCKDB: checked(lambda: in_duckdb(tables.paths, keys, column), n),
    }


def upsert_job(n: int, tables: Tables) -> Contenders:
    """Finds which of the given rows are there, as `upsert` does; half of them are new. A dry run.

    DuckDB only finds the rows with the keys, as the join of a MERGE does.
    """
    from puffin_fast import iceberg

    known = tables.some(n // 2, "id").to_numpy()
    keys = np.concatenate([known, -1 - known])
    rows = pa.table([pa.array(keys), texts(np.abs(keys)), pa.array(keys / 7)], schema=SCHEMA)

    def updated(table: Any) -> int:
        result = iceberg.upsert(table, rows, "id", skip_unchanged=False, threads=1, dry_run=True)
        return result.rows_updated

    return {
        OURS: checked(lambda: updated(tables.indexed), n // 2),
        WITHOUT: checked(lambda: updated(tables.plain), n // 2),
        DUCKDB: checked(lambda: in_duckdb(tables.paths, rows["id"].combine_chunks(), "id"), n // 2),
    }


def row_job(tables: Tables) -> Contenders:
    """Reads the row of a key, all columns."""
    from puffin_fast import iceberg

    where = f"id = {tables.keys[5]}"

    def read(table: Any) -> int:
        return int(iceberg.scan(table, where, threads=1).to_arrow().num_rows)

    return {
        OURS: checked(lambda: read(tables.indexed), 1),
        WITHOUT: checked(lambda: read(tables.plain), 1),
    }


def convert_job(n: int, tables: Tables) -> Contenders:
    """Converts an equality-delete file with keys to deletion vectors, on copies of the tables' metadata. A dry run."""
    from puffin_fast import iceberg

    found = {}
    for contender, original in ((OURS, tables.indexed), (WITHOUT, tables.plain)):
        name = ("keys", f"{original.name()[-1]}_equal")
        if tables.catalog.table_exists(name):
            tables.catalog.drop_table(name)
        table = tables.catalog.register_table(name, original.metadata_location)
        delete_equal(table, tables.some(n, "id"))
        found[contender] = table

    def converted(table: Any) -> int:
        return int(iceberg.convert_equality_deletes(table, threads=1, dry_run=True).rows_deleted)

    return {name: checked(partial(converted, table), n) for name, table in found.items()}


def add_job(n: int, tables: Tables) -> Contenders:
    """Adds the keys of new rows to an index and merges all of its segments, with the copy of the other index."""
    from puffin_fast import iceberg
    from puffin_fast.iceberg.index import build

    build.MOST_SEGMENTS = build.FEW_SEGMENTS = 1
    name = ("keys", f"{tables.indexed.name()[-1]}_added")

    def registered(location: str) -> Any:
        if tables.catalog.table_exists(name):
            tables.catalog.drop_table(name)
        return tables.catalog.register_table(name, location)

    more = np.arange(10 * len(tables.keys), 10 * len(tables.keys) + n)
    table = registered(tables.indexed.metadata_location)
    with iceberg.transaction(table) as transaction:
        for part in np.array_split(more, max(1, n * FILES // ROWS)):
            transaction.append(pa.table([pa.array(part), texts(part), pa.array(part / 7)], schema=SCHEMA))
    location = table.metadata_location

    def indexed(incremental: Any) -> int:
        table = registered(location)
        index = iceberg.index_keys(table, "id", incremental=incremental, threads=1)
        Path(str(index.statistics_path).removeprefix("file://")).unlink()
        return index.rows if index.segments == 1 else 0

    n_rows = len(tables.keys) + n
    return {
        OURS: checked(lambda: indexed("auto"), n_rows),
        ANEW: checked(lambda: indexed(False), n_rows),
    }


def delete_equal(table: Any, keys: pa.Array) -> None:
    """Commits an equality-delete file, as Flink writes it, with the keys of the column `id`."""
    import pyarrow.parquet as pq

    from puffin_fast.iceberg.commit.changes import Changes
    from puffin_fast.iceberg.commit.protocol import commit
    from puffin_fast.iceberg.manifest import ADDED, EQUALITY_DELETES, ManifestEntry

    field_id = table.schema().find_field("id").field_id
    path = table.location_provider().new_data_location(f"equal-{time.time_ns()}.parquet")
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(field_id)})])
    pq.write_table(pa.table([keys], schema=schema), path.removeprefix("file://"), store_schema=False)
    entry = ManifestEntry(
        status=ADDED,
        snapshot_id=None,
        sequence_number=None,
        file_sequence_number=None,
        content=EQUALITY_DELETES,
        file_path=path,
        file_format="PARQUET",
        spec_id=0,
        partition=(),
        record_count=len(keys),
        file_size_in_bytes=len(table.io.new_input(path)),
        equality_ids=[field_id],
    )
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())


JOBS: dict[str, tuple[Callable[[Tables], Contenders], dict[str, float]]] = {
    "1 integer": (partial(delete_job, 1, "id"), {WITHOUT: 25.0, DUCKDB: 25.0}),
    "10 integers": (partial(delete_job, 10, "id"), {WITHOUT: 25.0, DUCKDB: 25.0}),
    "100 integers": (partial(delete_job, 100, "id"), {WITHOUT: 12.0, DUCKDB: 12.0}),
    "100,000 integers": (partial(delete_job, 100_000, "id"), {DUCKDB: 10.0}),
    "100 strings": (partial(delete_job, 100, "s"), {DUCKDB: 20.0}),
    "10,000 strings": (partial(delete_job, 10_000, "s"), {}),
    "100,000 strings": (partial(delete_job, 100_000, "s"), {}),
    "upsert of 1,000 integers": (partial(upsert_job, 1000), {WITHOUT: 5.0, DUCKDB: 10.0}),
    "upsert of 100,000 integers": (partial(upsert_job, 100_000), {DUCKDB: 3.0}),
    "the row of an integer": (row_job, {WITHOUT: 25.0}),
    "equality deletes of 1,000 integers": (partial(convert_job, 1000), {WITHOUT: 8.0}),
    "1,000,000 integers added": (partial(add_job, 1_000_000), {}),
}
"""The jobs, with their targets at full size."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench/keys"))
    parser.add_argument("--share", type=float, default=1.0, help="of the rows and of the files")
    parser.add_argument("--files", type=int, default=FILES, help="at full size")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="the jobs whose name holds this")
    parser.add_argument("--into", type=Path, help="keep the results in this JSON file, too")
    options = parser.parse_args()
    n_rows, n_files = int(ROWS * options.share), max(1, int(options.files * options.share))
    tables = Tables(options.folder.resolve(), n_rows, n_files)
    found = {
        f"keys: {name}, {n_rows:,} rows in {n_files} files": measure_job(
            name, make(tables), options.rounds, targets
        )
        for name, (make, targets) in JOBS.items()
        if all(word in name for word in options.only)
    }
    report(found, options.into)


if __name__ == "__main__":
    main()
