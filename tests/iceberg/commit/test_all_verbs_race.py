"""Four processes change the rows of the same data files by all verbs at once: nothing is lost, and nothing comes back.

``PUFFIN_FAST_ROUNDS`` says how many jobs each of them does, one commit after the other; 5 by default.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, NotFoundError
from tests.iceberg.conftest import files_of, processes

ROUNDS = int(os.environ.get("PUFFIN_FAST_ROUNDS", "5"))
WRITERS = 4
EACH = 60
"""Rows of each writer at the start; all data files have rows of all writers."""

PATIENT = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
}
SCHEMA = pa.schema([("id", pa.int64()), ("w", pa.int64()), ("v", pa.int64())])
FEED = pa.schema([*SCHEMA, ("gone", pa.bool_())])
MERGE: dict[str, Any] = {"on_conflict": "merge", "threads": 1}

pytestmark = pytest.mark.slow


def opened(folder: str) -> Table:
    properties = {"uri": f"sqlite:///{folder}/catalog.db?timeout=60", "warehouse": f"file://{folder}/wh"}
    return SqlCatalog("races", **properties).load_table("n.t")


class Writer:
    """One process, its rows (values by id), and the verbs that change them."""

    def __init__(self, folder: str, number: int) -> None:
        self.chance = random.Random(number)
        self.table, self.number, self.jobs = opened(folder), number, 0
        self.rows = dict.fromkeys(range(number, EACH * WRITERS, WRITERS), 0)
        self.next = EACH * WRITERS + number
        self.conflicts: Counter[str] = Counter()

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

    def done(self, name: str, job: Callable[[str], Any]) -> Any:
        """Repeats a job until it is committed."""
        self.jobs += 1
        while True:
            try:
                return job(f"{self.number}-{self.jobs}")
            except (
                ConflictError,
                NotFoundError,
            ):  # NotFoundError: a data file was rewritten, a snapshot expired
                self.conflicts[name] += 1

    def append(self) -> None:
        ids = self.new()
        self.done("append", lambda job: iceberg.append(self.table, self.table_of(ids, 1), job_id=job))
        self.rows |= dict.fromkeys(ids, 1)

    def delete(self) -> None:
        ids = self.some()
        done = self.done(
            "delete", lambda job: iceberg.delete(self.table, self.where(ids), job_id=job, **MERGE)
        )
        assert done.rows_deleted == len(ids)
        self.drop(ids)

    def drop(self, ids: list[int]) -> None:
        for id in ids:
            del self.rows[id]

    def delete_keys(self) -> None:
        ids = self.some()
        keys = pa.table({"id": ids})
        done = self.done(
            "delete_keys", lambda job: iceberg.delete_keys(self.table, keys, "id", job_id=job, **MERGE)
        )
        assert done.rows_deleted == len(ids)
        self.drop(ids)

    def delete_positions(self) -> None:
        ids = self.some()

        def job(name: str) -> Any:
            self.table.refresh()
            found = iceberg.scan(self.table, self.where(ids), ("_file", "_pos"), threads=1).to_arrow()
            assert found.num_rows == len(ids)
            places = found.rename_columns(["file_path", "pos"])
            return iceberg.delete_positions(self.table, places, job_id=name, threads=1)

        assert self.done("delete_positions", job).rows_deleted == len(ids)
        self.drop(ids)

    def update(self) -> None:
        ids = self.some()
        more = {"v": pc.field("v") + 1}
        done = self.done(
            "update", lambda job: iceberg.update(self.table, self.where(ids), more, job_id=job, **MERGE)
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
        options: dict[str, Any] = {"delete_column": "gone", "update_columns": columns, **MERGE}
        done = self.done("upsert", lambda job: iceberg.upsert(self.table, data, "id", job_id=job, **options))
        gone = {row["id"] for row in given if row["gone"]}
        assert (done.keys_deleted, done.rows_deleted) == (len(gone & set(old)), len(old))
        self.rows = {id: one for id, one in self.rows.items() if id not in gone}
        self.rows |= dict.fromkeys({*old, *new} - gone, v)

    def overwrite(self) -> None:
        old, new = self.some(), self.new()
        data = self.table_of(new, 7)
        done = self.done(
            "overwrite",
            lambda job: iceberg.overwrite(self.table, data, self.where(old), job_id=job, **MERGE),
        )
        assert done.rows_deleted == len(old)
        self.drop(old)
        self.rows |= dict.fromkeys(new, 7)

    def transaction(self) -> None:
        new = self.new()
        gone, changed = self.some(), [*self.some(), new[0]]
        changed = [id for id in changed if id not in gone]

        def job(name: str) -> Any:
            with iceberg.transaction(self.table, job_id=name, on_conflict="merge") as tx:
                tx.append(self.table_of(new, 1))
                tx.delete(self.where(gone), threads=1)
                tx.update(self.where(changed), {"v": pc.field("v") + 1}, threads=1)
                tx.update(self.where(changed[-1:]), {"v": pc.field("v") + 1}, threads=1)
            return tx

        tx = self.done("transaction", job)
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
            self.conflicts["maintain"] += 1


VERBS = (
    Writer.append,
    Writer.delete,
    Writer.delete_keys,
    Writer.delete_positions,
    Writer.update,
    Writer.upsert,
    Writer.overwrite,
    Writer.transaction,
)


def write(folder: str, number: int) -> tuple[dict[int, int], Counter[str]]:
    """Does the jobs of one process; returns its rows and its conflicts."""
    writer = Writer(folder, number)
    for _ in range(ROUNDS):
        if len(writer.rows) < 10:
            writer.append()
        writer.chance.choice(VERBS)(writer)
        if writer.chance.random() < 0.3:
            writer.maintain()
    return writer.rows, writer.conflicts


def test_all_verbs_at_once_lose_nothing(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db?timeout=60", "warehouse": f"file://{tmp_path}/wh"}
    catalog = SqlCatalog("races", **properties)
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", SCHEMA, properties=PATIENT)
    every = EACH * WRITERS
    for first in (0, every // 2):
        ids = range(first, first + every // 2)
        given = {"id": ids, "w": [id % WRITERS for id in ids], "v": [0] * len(ids)}
        iceberg.append(table, pa.table(given, SCHEMA))
    conflicts: Counter[str] = Counter()
    expected: dict[int, int] = {}
    with processes(WRITERS) as pool:
        for writer in [pool.submit(write, str(tmp_path), number) for number in range(WRITERS)]:
            rows, mine = writer.result()
            expected |= rows
            conflicts += mine
    print(f"{ROUNDS} rounds: {dict(conflicts)}")
    table.refresh()
    for snapshot in table.metadata.snapshots:
        iceberg.plan_files(table, snapshot_id=snapshot.snapshot_id)  # refuses two vectors for a data file
    assert iceberg.verify(table) == []
    found = iceberg.scan(table, selected_fields=("*", "_row_id")).to_arrow()
    assert found.num_rows == len(expected)
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert len(set(found["_row_id"].to_pylist())) == found.num_rows
    theirs = table.scan().to_arrow()
    assert dict(zip(theirs["id"].to_pylist(), theirs["v"].to_pylist(), strict=True)) == expected
    orphans = iceberg.orphan_files(table, older_than=timedelta(0))["path"].to_pylist()
    assert not [path for path in orphans if not path.endswith(".metadata.json")], orphans
    assert files_of(table)
    catalog.engine.dispose()
