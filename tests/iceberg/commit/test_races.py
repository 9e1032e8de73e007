"""Threads that share one `Table`, and processes that share one table, change rows of the same data files by all verbs
at once: all reported changes are in the table, and nothing comes back.

``PUFFIN_FAST_ROUNDS`` says how many jobs each of them does, one commit after the other; 5 by default.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, NotFoundError
from tests.iceberg.conftest import processes, rows_of_duckdb
from tests.kit.faults import RacingCatalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROUNDS = int(os.environ.get("PUFFIN_FAST_ROUNDS", "5"))
WRITERS = 8
EACH = 30
"""Rows of each writer at the start; all data files have rows of all writers."""

PATIENT = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
}
SCHEMA = pa.schema([("id", pa.int64()), ("w", pa.int64()), ("v", pa.int64())])
FEED = pa.schema([*SCHEMA, ("gone", pa.bool_())])

Rows = dict[int, int]
"""Values by id."""


def new_table(catalog: SqlCatalog) -> tuple[Table, Rows]:
    """A table of four data files, and its rows; `v` is 0 everywhere."""
    table, every = iceberg.create_table(catalog, "n.t", SCHEMA, properties=PATIENT), EACH * WRITERS
    for first in range(0, every, every // 4):
        ids = range(first, first + every // 4)
        given = {"id": ids, "w": [id % WRITERS for id in ids], "v": [0] * len(ids)}
        iceberg.append(table, pa.table(given, SCHEMA))
    return table, dict.fromkeys(range(every), 0)


class Writer:
    """A thread or a process, its rows (values by id), and the verbs that change them."""

    def __init__(self, table: Table, number: int) -> None:
        self.chance = random.Random(number)
        self.table, self.number, self.jobs = table, number, 0
        on_conflict = "refuse" if number % 3 == 0 else "merge"
        self.options: dict[str, Any] = {"on_conflict": on_conflict, "threads": 1}
        self.rows = dict.fromkeys(range(number, EACH * WRITERS, WRITERS), 0)
        self.next = EACH * WRITERS + number
        self.n_conflicts = 0

    def some(self) -> list[int]:
        return self.chance.sample(sorted(self.rows), min(len(self.rows), self.chance.choice([1, 3, 8])))

    def new(self) -> list[int]:
        ids = [self.next + WRITERS * at for at in range(self.chance.choice([1, 5]))]
        self.next = ids[-1] + WRITERS
        return ids

    def table_of(self, ids: list[int], v: int) -> pa.Table:
        return pa.table({"id": ids, "w": [self.number] * len(ids), "v": [v] * len(ids)}, SCHEMA)

    def where(self, ids: list[int]) -> str:
        return f"w = {self.number} and id in ({', '.join(map(str, [-1, *ids]))})"

    def done(self, job: Callable[[str], Any]) -> Any:
        """Repeats a job until it is committed."""
        self.jobs += 1
        while True:
            try:
                return job(f"{self.number}-{self.jobs}")
            except (ConflictError, NotFoundError):  # not found: a data file was rewritten, a snapshot expired
                self.n_conflicts += 1

    def append(self) -> None:
        ids = self.new()
        self.done(lambda job: iceberg.append(self.table, self.table_of(ids, 1), job_id=job))
        self.rows |= dict.fromkeys(ids, 1)

    def delete(self) -> None:
        ids = self.some()
        done = self.done(lambda job: iceberg.delete(self.table, self.where(ids), job_id=job, **self.options))
        assert done.rows_deleted == len(ids)
        self.drop(ids)

    def drop(self, ids: list[int]) -> None:
        for id in ids:
            del self.rows[id]

    def delete_keys(self) -> None:
        ids = self.some()
        keys = pa.table({"id": ids})
        done = self.done(lambda job: iceberg.delete_keys(self.table, keys, "id", job_id=job, **self.options))
        assert done.rows_deleted == len(ids)
        self.drop(ids)

    def delete_positions(self) -> None:
        ids = self.some()

        def job(name: str) -> Any:
            self.table.refresh()
            found = iceberg.scan(self.table, self.where(ids), ("_file", "_pos"), threads=1).to_arrow()
            assert found.num_rows == len(ids)
            places = found.rename_columns(["file_path", "pos"])
            return iceberg.delete_positions(self.table, places, job_id=name, **self.options)

        assert self.done(job).rows_deleted == len(ids)
        self.drop(ids)

    def update(self) -> None:
        ids = self.some()
        more = {"v": pc.field("v") + 1}
        done = self.done(
            lambda job: iceberg.update(self.table, self.where(ids), more, job_id=job, **self.options)
        )
        assert done.rows_updated == len(ids)
        self.add(ids)

    def add(self, ids: list[int]) -> None:
        for id in ids:
            self.rows[id] += 1

    def upsert(self) -> None:
        old, new = self.some(), self.new()
        v = 100 + self.jobs
        given = [
            {"id": id, "w": self.number, "v": v, "gone": self.chance.random() < 0.3} for id in (*old, *new)
        ]
        data = pa.Table.from_pylist(given, FEED)
        columns = self.chance.choice([None, ["v"]])
        options: dict[str, Any] = {"delete_column": "gone", "update_columns": columns, **self.options}
        done = self.done(lambda job: iceberg.upsert(self.table, data, "id", job_id=job, **options))
        gone = {row["id"] for row in given if row["gone"]}
        assert (done.keys_deleted, done.rows_deleted) == (len(gone & set(old)), len(old))
        self.rows = {id: one for id, one in self.rows.items() if id not in gone}
        self.rows |= dict.fromkeys({*old, *new} - gone, v)

    def overwrite(self) -> None:
        old, new = self.some(), self.new()
        data = self.table_of(new, 7)
        done = self.done(
            lambda job: iceberg.overwrite(self.table, data, self.where(old), job_id=job, **self.options),
        )
        assert done.rows_deleted == len(old)
        self.drop(old)
        self.rows |= dict.fromkeys(new, 7)

    def transaction(self) -> None:
        new = self.new()
        gone, changed = self.some(), [*self.some(), new[0]]
        changed = [id for id in changed if id not in gone]

        def job(name: str) -> Any:
            with iceberg.transaction(self.table, job_id=name, on_conflict=self.options["on_conflict"]) as tx:
                tx.append(self.table_of(new, 1))
                tx.delete(self.where(gone), threads=1)
                tx.update(self.where(changed), {"v": pc.field("v") + 1}, threads=1)
                tx.update(self.where(changed[-1:]), {"v": pc.field("v") + 1}, threads=1)
            return tx

        tx = self.done(job)
        counts = [tx.results[1].rows_deleted, tx.results[2].rows_updated, tx.results[3].rows_updated]
        assert counts == [len(gone), len(changed), 1]
        self.drop(gone)
        self.rows |= dict.fromkeys(new, 1)
        self.add([*changed, changed[-1]])

    def maintain(self) -> None:
        """Changes files and no rows, once: a conflict is no error."""
        jobs: list[Callable[[], Any]] = [
            lambda: iceberg.compact(self.table, threads=1),
            lambda: iceberg.rewrite_data_files(self.table, min_deleted=0.1, min_input_files=2, threads=1),
            lambda: iceberg.rewrite_data_files(
                self.table, min_input_files=2, sort_by=[self.chance.choice(["id desc", "v", "w"])], threads=1
            ),
            lambda: iceberg.expire_snapshots(self.table, older_than=timedelta(seconds=2), retain_last=3),
        ]
        try:
            self.chance.choice(jobs)()
        except (ConflictError, NotFoundError):
            self.n_conflicts += 1


VERBS = (
    Writer.append, Writer.delete, Writer.delete_keys, Writer.delete_positions, Writer.update, Writer.upsert,
    Writer.overwrite, Writer.transaction,
)  # fmt: skip


def write(table: Table, number: int, rounds: int) -> tuple[Rows, int]:
    """Does the jobs of one writer; returns its rows, and how many conflicts it met."""
    writer = Writer(table, number)
    for at in range(rounds):
        if len(writer.rows) < 10:
            writer.append()
        VERBS[(number + at) % len(VERBS)](writer)
        if rounds > 1 and writer.chance.random() < 0.3:
            writer.maintain()
    return writer.rows, writer.n_conflicts


def values(rows: pa.Table) -> Rows:
    found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def agree(table: Table, expected: Rows, duckdb: DuckDBPyConnection) -> None:
    """The object, the catalog, PyIceberg and DuckDB have the same rows, and nothing is broken or left over."""
    found = iceberg.scan(table, selected_fields=("*", "_row_id")).to_arrow()
    assert values(found) == expected
    assert len(set(found["_row_id"].to_pylist())) == found.num_rows
    fresh = table.catalog.load_table(table.name())
    assert fresh.metadata_location == table.metadata_location
    assert values(fresh.scan().to_arrow()) == expected
    assert values(rows_of_duckdb(duckdb, fresh)) == expected
    for snapshot in fresh.metadata.snapshots:
        iceberg.plan_files(fresh, snapshot_id=snapshot.snapshot_id)  # refuses two vectors for a data file
    assert iceberg.verify(fresh) == []
    numbers = [snapshot.sequence_number for snapshot in fresh.metadata.snapshots]
    assert numbers == sorted(set(numbers))
    times = [entry.timestamp_ms for entry in fresh.metadata.snapshot_log]
    assert times == sorted(times)
    orphans = iceberg.orphan_files(fresh, older_than=timedelta(0))["path"].to_pylist()
    assert not [path for path in orphans if not path.endswith(".metadata.json")], orphans


def opened(folder: Path) -> SqlCatalog:
    return SqlCatalog("one", uri=f"sqlite:///{folder}/catalog.db?timeout=60", warehouse=f"file://{folder}/wh")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = opened(tmp_path)
    catalog.create_namespace("n")
    yield catalog
    catalog.engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, ROUNDS])
def test_threads_that_share_a_table_lose_nothing(
    catalog: SqlCatalog, duckdb_iceberg: DuckDBPyConnection, rounds: int
) -> None:
    table, _ = new_table(catalog)
    together = threading.Barrier(WRITERS)

    def work(number: int) -> tuple[Rows, int]:
        together.wait()
        return write(table, number, rounds)

    with ThreadPoolExecutor(WRITERS) as pool:
        every = list(pool.map(work, range(WRITERS)))
    print(f"{rounds} rounds: {[n_conflicts for _, n_conflicts in every]}")
    agree(table, {id: v for rows, _ in every for id, v in rows.items()}, duckdb_iceberg)


def elsewhere(folder: Path, number: int, rounds: int) -> tuple[Rows, int]:
    """`write` in a process of its own."""
    return write(opened(folder).load_table("n.t"), number, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, ROUNDS])
def test_processes_that_share_a_table_lose_nothing(
    catalog: SqlCatalog, tmp_path: Path, duckdb_iceberg: DuckDBPyConnection, rounds: int
) -> None:
    table, _ = new_table(catalog)
    with processes(4) as pool:
        jobs = [pool.submit(elsewhere, tmp_path, number, rounds) for number in range(WRITERS)]
        every = [job.result() for job in jobs]
    print(f"{rounds} rounds: {[n_conflicts for _, n_conflicts in every]}")
    agree(table.refresh(), {id: v for rows, _ in every for id, v in rows.items()}, duckdb_iceberg)


def row(id: int) -> pa.Table:
    return pa.table({"id": [id], "w": [0], "v": [0]}, SCHEMA)


@pytest.mark.parametrize("verb", ["delete", "append"])
def test_what_threads_are_refused_did_not_happen(
    catalog: SqlCatalog, duckdb_iceberg: DuckDBPyConnection, verb: str
) -> None:
    """Without merging, a delete that meets another in its data file is a conflict; appends never are."""
    table, rows = new_table(catalog)
    together = threading.Barrier(WRITERS)

    def work(number: int) -> bool:
        together.wait()
        try:
            if verb == "delete":
                return iceberg.delete(table, f"id = {number}").rows_deleted == 1
            iceberg.append(table, row(1000 + number))
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        done = list(pool.map(work, range(WRITERS)))
    if verb == "append":
        assert all(done)
        rows |= {1000 + number: 0 for number in range(WRITERS)}
    else:
        assert any(done)
        rows = {id: v for id, v in rows.items() if id >= WRITERS or not done[id]}
    agree(table, rows, duckdb_iceberg)


@pytest.mark.parametrize("happening", ["append", "delete", "refresh"])
def test_a_job_commits_what_it_planned_though_another_thread_moved_the_table(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, happening: str
) -> None:
    """Right before the commit, the shared object itself moves: its snapshot is not the one planned on."""
    table, rows = new_table(racing)
    happenings: dict[str, Callable[[], object]] = {
        "append": lambda: iceberg.append(table, row(5000)),
        "delete": lambda: iceberg.delete(table, "id = 1"),
        "refresh": lambda: (iceberg.append(racing.load_table("n.t"), row(5000)), table.refresh()),
    }
    racing.before.append(happenings[happening])
    done = iceberg.delete(table, "id = 0", on_conflict="merge")
    assert (done.commit.attempts, done.rows_deleted) == (2, 1)
    gone, new = ({0, 1}, {}) if happening == "delete" else ({0}, {5000: 0})
    agree(table, {id: v for id, v in rows.items() if id not in gone} | new, duckdb_iceberg)


def test_a_table_object_never_moves_back(racing: RacingCatalog) -> None:
    table, _ = new_table(racing)
    other = racing.load_table("n.t")
    racing.after.append(lambda: iceberg.append(table, row(5000)))
    iceberg.delete(other, "id = 0")
    newest = table.metadata_location
    iceberg.delete(table, "id = -1")
    assert table.metadata_location == newest
