"""Threads and processes that write beside one that expires snapshots and removes orphan files: no live file is removed.

With processes, all files that the table needs are made old before each removal, so that their age does not protect
them; those of commits in progress stay young. ``PUFFIN_FAST_ROUNDS`` says how many rounds each process does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, NotFoundError
from puffin_fast.iceberg.maintenance.orphan_files import needed_files
from tests.iceberg.conftest import processes
from tests.kit.faults import RacingCatalog
from tests.kit.tables import path_of

ROUNDS = int(os.environ.get("PUFFIN_FAST_ROUNDS", "3"))

PATIENT = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
}

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
HOUR = timedelta(hours=1)
MERGE: dict[str, Any] = {"on_conflict": "merge", "threads": 1}


def opened(folder: str) -> Table:
    properties = {"uri": f"sqlite:///{folder}/catalog.db?timeout=60", "warehouse": f"file://{folder}/wh"}
    return SqlCatalog("races", **properties).load_table("n.t")


def until_done(job: Callable[[], Any]) -> Any:
    """Repeats a job that lost all races, or that reads a file of a snapshot that expires: nothing was committed."""
    while True:
        with suppress(ConflictError, NotFoundError):
            return job()


def rows(first: int, n: int) -> pa.Table:
    return pa.table({"id": range(first, first + n), "v": [0] * n}, SCHEMA)


def write(folder: str, worker: int) -> dict[int, int]:
    """Appends, deletes and updates rows that no other writer touches, and changes files; returns the rows."""
    table, left = opened(folder), dict[int, int]()
    for number in range(ROUNDS):
        first = (worker * ROUNDS + number) * 100
        until_done(partial(iceberg.append, table, rows(first, 100)))
        left |= dict.fromkeys(range(first, first + 100), 0)
        where = f"id >= {first} and id < {first + 40}"
        done = until_done(partial(iceberg.delete, table, where, **MERGE))
        assert done.rows_deleted == 40
        for id in range(first, first + 40):
            del left[id]
        where = f"id >= {first + 90} and id < {first + 100}"
        done = until_done(partial(iceberg.update, table, where, {"v": 7}, **MERGE))
        assert done.rows_updated == 10
        left |= dict.fromkeys(range(first + 90, first + 100), 7)
        with suppress(ConflictError, NotFoundError):
            if worker % 2:
                iceberg.compact(table, threads=1)
            else:
                iceberg.rewrite_data_files(table, min_deleted=0.2, min_input_files=2, threads=1)
    return left


def remove(table: Table, orphan: Path) -> tuple[int, int]:
    """Expires and cleans once; returns the numbers of expired snapshots and of removed orphan files."""
    expired = removed = 0
    with suppress(ConflictError, NotFoundError):
        expired = len(iceberg.expire_snapshots(table, older_than=timedelta(seconds=0.2)).snapshot_ids)
    orphan.write_bytes(b"x")
    os.utime(orphan, (1e9, 1e9))
    with suppress(ConflictError, NotFoundError):
        table.refresh()
        for path in needed_files(table, table.metadata.snapshots):
            with suppress(FileNotFoundError):
                os.utime(path_of(path), (1e9, 1e9))
        removed = iceberg.remove_orphan_files(table, older_than=HOUR, dry_run=False).files.num_rows
    return expired, removed


@pytest.mark.slow
def test_beside_four_writing_processes_no_live_file_is_removed(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db?timeout=60", "warehouse": f"file://{tmp_path}/wh"}
    catalog = SqlCatalog("races", **properties)
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", SCHEMA, properties=PATIENT)
    (tmp_path / "wh" / "n" / "t" / "data").mkdir(parents=True, exist_ok=True)
    orphan = tmp_path / "wh" / "n" / "t" / "data" / "orphan.parquet"
    expired = removed = 0
    with processes(4) as pool:
        writers = [pool.submit(write, str(tmp_path), worker) for worker in range(4)]
        while not all(writer.done() for writer in writers):
            done = remove(table, orphan)
            expired, removed = expired + done[0], removed + done[1]
        expected = {id: v for writer in writers for id, v in writer.result().items()}
    print(f"{ROUNDS} rounds: {expired} snapshots expired, {removed} orphan files removed")
    assert expired
    assert removed
    table.refresh()
    for snapshot in table.metadata.snapshots:
        iceberg.scan(table, snapshot_id=snapshot.snapshot_id).to_arrow()
    assert iceberg.verify(table) == []
    found = iceberg.scan(table).to_arrow()
    assert found.num_rows == len(expected)
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    iceberg.expire_snapshots(table, older_than=timedelta())
    iceberg.remove_orphan_files(table, older_than=timedelta(), dry_run=False)
    assert iceberg.scan(table).to_arrow().num_rows == len(expected)
    catalog.engine.dispose()


def test_beside_two_writing_threads_no_live_file_is_removed(racing: RacingCatalog) -> None:
    """Two writers write at least six times each, and until a snapshot has expired."""
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    expected, some_expired = set[int](), Event()

    def write(number: int) -> None:
        own = racing.load_table("n.t")
        for at, first in enumerate(range(1000 * (number + 1), 1000 * (number + 2), 10)):
            if at >= 6 and some_expired.wait(1):  # without other commits for a while
                return
            until_done(partial(iceberg.append, own, rows(first, 10)))
            until_done(
                partial(iceberg.delete, own, f"id >= {first} and id < {first + 3}", on_conflict="merge")
            )
            expected.update(range(first + 3, first + 10))

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, number) for number in range(2)]
        while not all(writer.done() for writer in writers):
            with suppress(ConflictError):
                if iceberg.expire_snapshots(table, older_than=timedelta(seconds=0.2)).snapshot_ids:
                    some_expired.set()
        for writer in writers:
            writer.result()
    assert some_expired.is_set()
    table.refresh()
    assert iceberg.verify(table) == []
    assert set(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected
    iceberg.expire_snapshots(table, older_than=timedelta())
    assert set(iceberg.scan(table).to_arrow()["id"].to_pylist()) == expected
