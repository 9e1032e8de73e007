"""Threads that share one `Table`, and processes that share one table: all reported changes are in the table."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError
from tests.iceberg.conftest import RacingCatalog, files_of, processes, rows_of_duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])

PATIENT = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
    "commit.manifest-merge.enabled": "false",
}

N_FILES, FILE_ROWS = 4, 200

ROUNDS = int(os.environ.get("PUFFIN_FAST_ROUNDS", "5"))

Rows = dict[int, int]


@dataclass(frozen=True)
class Place:
    """Where a row stands."""

    file_path: str
    pos: int


def made(catalog: SqlCatalog, name: str = "n.t") -> Table:
    """A table of 800 rows in four data files; `v` is 0 everywhere."""
    table = iceberg.create_table(catalog, name, SCHEMA, properties=PATIENT)
    for file in range(N_FILES):
        ids = range(file * FILE_ROWS, (file + 1) * FILE_ROWS)
        iceberg.append(table, pa.table({"id": ids, "v": [0] * FILE_ROWS}, SCHEMA))
    return table


def places(table: Table) -> dict[int, Place]:
    rows = iceberg.scan(table, selected_fields=("id", "_file", "_pos")).to_arrow().to_pylist()
    return {row["id"]: Place(row["_file"], row["_pos"]) for row in rows}


def change(table: Table, worker: int, step: int, where: dict[int, Place], rows: Rows) -> bool:
    """One change of rows that no other worker and no other step touches.

    Args:
        table: shared.
        worker, step: say which change, and of which rows.
        where: the rows' places when the table was made.
        rows: what the table must hold afterwards; changed with it.

    Returns:
        whether the change was reported as done.
    """
    mine = [file * FILE_ROWS + worker * 10 + step for file in (worker % N_FILES, (worker + 1) % N_FILES)]
    new = 10_000 + worker * 100 + step
    verb = (worker + step) % 6
    if verb == 0:
        done: Any = iceberg.delete(table, f"id in ({mine[0]}, {mine[1]})", on_conflict="merge")
        for id in mine:
            del rows[id]
        return bool(done.rows_deleted == 2)
    if verb == 1:
        at = pa.table(
            {"file_path": [where[id].file_path for id in mine], "pos": [where[id].pos for id in mine]}
        )
        done = iceberg.delete_positions(table, at, on_conflict="merge")
        for id in mine:
            del rows[id]
        return bool(done.rows_deleted == 2)
    if verb == 2:
        done = iceberg.append(table, pa.table({"id": [new], "v": [worker]}, SCHEMA))
        rows[new] = worker
        return done is not None
    if verb == 3:
        done = iceberg.delete_keys(table, pa.table({"id": mine}), "id", on_conflict="merge")
        for id in mine:
            del rows[id]
        return bool(done.rows_deleted == 2)
    if verb == 4:
        done = iceberg.update(table, f"id in ({mine[0]}, {mine[1]})", {"v": worker + 2}, on_conflict="merge")
        for id in mine:
            rows[id] = worker + 2
        return bool(done.rows_updated == 2)
    given = pa.table({"id": [mine[0], new], "v": [worker + 1, worker + 1]}, SCHEMA)
    done = iceberg.upsert(table, given, "id", on_conflict="merge")
    rows[mine[0]] = rows[new] = worker + 1
    return bool((done.rows_updated, done.rows_inserted) == (1, 1))


def everything(rows: pa.Table) -> Rows:
    found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def agree(table: Table, expected: Rows, duckdb: DuckDBPyConnection) -> None:
    """The shared object, the catalog, PyIceberg and DuckDB have the same rows, and nothing is broken."""
    assert everything(iceberg.scan(table).to_arrow()) == expected
    fresh = table.catalog.load_table(table.name())
    assert fresh.metadata_location == table.metadata_location
    assert everything(fresh.scan().to_arrow()) == expected
    assert everything(rows_of_duckdb(duckdb, fresh)) == expected
    assert list(iceberg.verify(fresh)) == []
    numbers = [snapshot.sequence_number for snapshot in fresh.metadata.snapshots]
    assert numbers == sorted(set(numbers))
    times = [entry.timestamp_ms for entry in fresh.metadata.snapshot_log]
    assert times == sorted(times)


def opened(folder: Path) -> SqlCatalog:
    return SqlCatalog("one", uri=f"sqlite:///{folder}/catalog.db?timeout=60", warehouse=f"file://{folder}/wh")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = opened(tmp_path)
    catalog.create_namespace("n")
    yield catalog
    catalog.engine.dispose()


def one_round(catalog: SqlCatalog, name: str, threads: int, duckdb: DuckDBPyConnection) -> None:
    table = made(catalog, name)
    where, rows = places(table), dict.fromkeys(range(N_FILES * FILE_ROWS), 0)
    together = threading.Barrier(threads)

    def work(worker: int) -> bool:
        together.wait()
        return change(table, worker, 0, where, rows)

    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(work, range(threads)))
    agree(table, rows, duckdb)


@pytest.mark.slow
def test_threads_that_share_a_table_lose_nothing(
    catalog: SqlCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    one_round(catalog, "n.t", 16, duckdb_iceberg)


@pytest.mark.slow
def test_threads_that_share_a_table_lose_nothing_in_many_rounds(
    catalog: SqlCatalog, duckdb_iceberg: DuckDBPyConnection
) -> None:
    for number in range(ROUNDS):
        one_round(catalog, f"n.t{number}", 16, duckdb_iceberg)


@pytest.mark.parametrize("verb", ["delete", "append"])
def test_what_threads_are_refused_did_not_happen(
    catalog: SqlCatalog, duckdb_iceberg: DuckDBPyConnection, verb: str
) -> None:
    """Without merging, a delete that meets another in its data file is a conflict; appends never are."""
    table, threads = made(catalog), 8
    together = threading.Barrier(threads)

    def work(worker: int) -> bool:
        together.wait()
        try:
            if verb == "delete":
                return iceberg.delete(table, f"id = {worker}").rows_deleted == 1
            iceberg.append(table, pa.table({"id": [1000 + worker], "v": [0]}, SCHEMA))
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(threads) as pool:
        done = list(pool.map(work, range(threads)))
    rows = dict.fromkeys(range(N_FILES * FILE_ROWS), 0)
    for worker, happened in enumerate(done):
        if happened and verb == "delete":
            del rows[worker]
        if verb == "append":
            assert happened
            rows[1000 + worker] = 0
    assert any(done)
    agree(table, rows, duckdb_iceberg)


def changes(folder: Path, worker: int, steps: int, where: dict[int, Place]) -> tuple[list[int], Rows]:
    """One process: the ids that it deleted, and the rows that it changed."""
    table = opened(folder).load_table("n.t")
    before = dict.fromkeys(where, 0)
    rows = dict(before)
    done = [change(table, worker, step, where, rows) for step in range(steps)]
    assert all(done), done
    return [id for id in before if id not in rows], {id: v for id, v in rows.items() if before.get(id) != v}


@pytest.mark.slow
def test_processes_that_share_a_table_lose_nothing(
    catalog: SqlCatalog, tmp_path: Path, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(catalog)
    where = places(table)
    rows = dict.fromkeys(where, 0)
    with processes(4) as pool:
        for done in [pool.submit(changes, tmp_path, worker, 3, where) for worker in range(4)]:
            gone, changed = done.result()
            for id in gone:
                del rows[id]
            rows |= changed
    agree(table.refresh(), rows, duckdb_iceberg)


@pytest.mark.parametrize("happening", ["append", "delete", "refresh"])
def test_a_job_commits_what_it_planned_though_another_thread_moved_the_table(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, happening: str
) -> None:
    """Right before the commit, the shared object itself moves: its snapshot is not the one planned on."""
    table = made(racing)
    happenings: dict[str, Callable[[], object]] = {
        "append": lambda: iceberg.append(table, pa.table({"id": [5000], "v": [0]}, SCHEMA)),
        "delete": lambda: iceberg.delete(table, "id = 1"),
        "refresh": lambda: (
            iceberg.append(racing.load_table("n.t"), pa.table({"id": [5000], "v": [0]}, SCHEMA)),
            table.refresh(),
        ),
    }
    racing.before.append(happenings[happening])
    done = iceberg.delete(table, "id = 0", on_conflict="merge")
    assert (done.attempts, done.rows_deleted) == (2, 1)
    rows = dict.fromkeys(range(1, N_FILES * FILE_ROWS), 0)
    if happening == "delete":
        del rows[1]
    else:
        rows[5000] = 0
    agree(table, rows, duckdb_iceberg)


def test_a_table_object_never_moves_back(racing: RacingCatalog) -> None:
    table = made(racing)
    other = racing.load_table("n.t")
    racing.after.append(lambda: iceberg.append(table, pa.table({"id": [5000], "v": [0]}, SCHEMA)))
    iceberg.delete(other, "id = 0")
    newest = table.metadata_location
    iceberg.delete(table, "id = -1")
    assert table.metadata_location == newest
    assert files_of(table)
