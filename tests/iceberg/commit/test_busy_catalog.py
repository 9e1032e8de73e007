"""A SQLite catalog that is locked, or whose disk is full: the reported outcome agrees with the catalog."""

from __future__ import annotations

import ast
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, InvalidInputError, PuffinFastError
from tests.iceberg.verbs import ROWS, WRITES
from tests.kit.faults import RacingCatalog
from tests.kit.mounts import may_mount
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from pyiceberg.table import Table


VERBS = {name: WRITES[name] for name in ("append", "delete", "delete_keys", "update", "upsert")}

BEGIN = {"reader": "BEGIN", "writer": "BEGIN IMMEDIATE", "exclusive": "BEGIN EXCLUSIVE"}
"""How another program opens the transaction in which it stays; each of them then reads."""


class Database:
    """A catalog's SQLite file, and another program's connection to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "catalog.db"

    def catalog(self, timeout_s: float = 0.05) -> RacingCatalog:
        return RacingCatalog(
            "busy", uri=f"sqlite:///{self.path}?timeout={timeout_s}", warehouse=f"file://{self.folder}/wh"
        )

    def lock(self, kind: str) -> sqlite3.Connection:
        other = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        other.execute(BEGIN[kind])
        other.execute("SELECT * FROM iceberg_tables").fetchall()
        return other

    def rows(self) -> int:
        """What a program that starts now reads."""
        catalog = self.catalog()
        try:
            return len(catalog.load_table("n.t").scan().to_arrow())
        finally:
            catalog.engine.dispose()

    def is_free(self) -> bool:
        """Whether no connection holds a lock."""
        other = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN EXCLUSIVE")
            return True
        finally:
            other.close()


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


@pytest.fixture
def table(database: Database) -> Iterator[Table]:
    catalog = database.catalog()
    catalog.create_namespace("n")
    quick = {f"commit.retry.{name}-wait-ms": "1" for name in ("min", "max")}
    yield iceberg_table(catalog, ROWS, properties={"commit.retry.num-retries": "2", **quick})
    catalog.engine.dispose()


def racing(table: Table) -> RacingCatalog:
    assert isinstance(table.catalog, RacingCatalog)
    return table.catalog


@pytest.mark.parametrize("kind", BEGIN)
@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_that_a_lock_prevents_is_reported_as_not_committed(
    database: Database, table: Table, verb: str, kind: str
) -> None:
    held: list[sqlite3.Connection] = []
    racing(table).before.append(lambda: held.append(database.lock(kind)))
    with pytest.raises(ConflictError, match=r"n\.t: the catalog's database is busy: database is locked"):
        VERBS[verb](table)
    held[0].close()
    assert database.is_free()
    assert database.rows() == 100
    assert len(table.refresh().scan().to_arrow()) == 100
    before = table.metadata.current_snapshot_id
    VERBS[verb](table)
    assert len(table.scan().to_arrow()) == database.rows()
    assert table.refresh().metadata.current_snapshot_id != before


@pytest.mark.parametrize("kind", BEGIN)
@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_is_tried_again_when_the_lock_is_gone(
    database: Database, table: Table, verb: str, kind: str
) -> None:
    def lock() -> None:
        held = database.lock(kind)
        load = racing(table).load_table

        def unlocked(identifier: Any) -> Table:
            """The lock ends when the job asks the catalog again."""
            if refreshed:
                held.close()
            refreshed.append(identifier)
            return load(identifier)

        refreshed: list[object] = []
        racing(table).load_table = unlocked  # type: ignore[method-assign]

    before = table.metadata.current_snapshot_id
    racing(table).before.append(lock)
    result: Any = VERBS[verb](table)
    assert result.commit.attempts == 2
    assert database.is_free()
    assert table.metadata.current_snapshot_id == result.commit.id != before
    other = database.catalog()
    assert other.load_table("n.t").metadata == table.metadata
    other.engine.dispose()


@pytest.mark.parametrize("kind", BEGIN)
def test_an_upgrade_that_a_lock_prevents_changes_nothing_and_leaves_no_lock(
    database: Database, table: Table, kind: str
) -> None:
    old = iceberg_table(table.catalog, ROWS.schema, name="n.old", version=2)
    held: list[sqlite3.Connection] = []
    racing(table).before.append(lambda: held.append(database.lock(kind)))
    with pytest.raises(ConflictError, match="database is busy"):
        iceberg.upgrade(old)
    held[0].close()
    assert database.is_free()
    assert old.refresh().metadata.format_version == 2
    assert iceberg.upgrade(old).metadata.format_version == 3


@pytest.mark.parametrize("kind", BEGIN)
def test_a_table_that_a_lock_keeps_from_being_made_is_not_there(
    database: Database, table: Table, kind: str
) -> None:
    held = database.lock(kind)
    with pytest.raises(ConflictError, match=r"n\.new: the catalog's database is busy"):
        iceberg.create_table(table.catalog, "n.new", ROWS.schema)
    held.close()
    assert database.is_free()
    assert not table.catalog.table_exists("n.new")
    assert not list(database.folder.glob("wh/n/new/**/*.json"))
    iceberg.create_table(table.catalog, "n.new", ROWS.schema)


def test_a_table_that_exists_or_has_no_space_leaves_no_metadata_file(
    database: Database, table: Table
) -> None:
    files = set(database.folder.glob("wh/**/*.json"))
    with pytest.raises(InvalidInputError, match=r"n\.t: the table already exists"):
        iceberg.create_table(table.catalog, "n.t", ROWS.schema)
    assert set(database.folder.glob("wh/**/*.json")) == files
    with sqlite3.connect(database.path) as connection:
        (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    engine = racing(table).engine
    engine.dispose()
    event.listen(engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {n_pages}"))
    error: PuffinFastError | None = None
    for name in (f"n.{'x' * 1000}{number}" for number in range(9)):
        files = set(database.folder.glob("**/*.json"))
        try:
            iceberg.create_table(table.catalog, name, ROWS.schema, location=f"file://{database.folder}/new")
        except PuffinFastError as full:
            error = full
            break
    assert "the catalog refused the table: database or disk is full" in str(error)
    assert set(database.folder.glob("**/*.json")) == files
    assert database.is_free()


def test_a_table_that_cannot_be_loaded_is_our_error(database: Database, table: Table) -> None:
    held = database.lock("exclusive")
    with pytest.raises(ConflictError, match="database is busy"):
        iceberg.delete(table, "id < 50")
    held.close()
    assert database.rows() == 100


@pytest.mark.parametrize("verb", VERBS)
def test_what_another_library_failed_to_commit_is_not_there(
    database: Database, table: Table, verb: str
) -> None:
    """PyIceberg's own commit fails, and its connection returns to the pool that this library shares."""
    iceberg_table(table.catalog, ROWS, name="n.old", version=2)
    catalog = SqlCatalog("busy", **table.catalog.properties)
    mine = catalog.load_table("n.old")
    held = database.lock("reader")
    with pytest.raises(OperationalError, match="locked"):
        mine.append(ROWS.slice(0, 2))
    held.close()
    VERBS[verb](mine)
    assert len(mine.metadata.snapshots) == 2
    assert database.is_free()
    catalog.engine.dispose()


FULL = """
import sys, errno
from pathlib import Path
from puffin_fast.errors import PuffinFastError
from tests.iceberg.commit.test_busy_catalog import VERBS
from tests.kit.faults import RacingCatalog
from tests.iceberg.verbs import ROWS
from tests.kit.tables import iceberg_table
from sqlalchemy import text

disk, folder = Path(sys.argv[1]), sys.argv[2]

def fill():
    with open(disk / "ballast", "wb", buffering=0) as ballast:
        while True:
            try:
                ballast.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC
                return

for verb, work in VERBS.items():
    where = {"uri": f"sqlite:///{disk}/{verb}.db", "warehouse": f"file://{folder}/{verb}"}
    catalog = RacingCatalog("full", **where)
    with catalog.engine.connect() as connection:
        connection.execute(text("PRAGMA journal_mode=WAL"))  # COMMIT is what writes then
    catalog.create_namespace("n")
    table = iceberg_table(catalog, ROWS)
    catalog.before.append(fill)
    try:
        said = f"COMMITTED {work(table)}"
    except PuffinFastError as error:
        said = f"{type(error).__name__} {error}"
    (disk / "ballast").unlink()
    other = RacingCatalog("full", **where)
    rows = len(other.load_table("n.t").scan().to_arrow()), len(table.refresh().scan().to_arrow())
    again = work(table) is not None, other.load_table("n.t").metadata == table.metadata
    print(repr((verb, said, rows, again)))
    for one in (catalog, other):
        one.engine.dispose()
    for file in disk.iterdir():
        file.unlink()
"""


@pytest.mark.skipif(not may_mount(), reason="needs unshare and user namespaces to mount a small disk")
def test_a_commit_for_which_the_catalog_has_no_space_is_reported_as_not_committed(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = tmp_path / "full.py"
    script.write_text(FULL)
    command = f"mount -t tmpfs -o size=512k none {disk} && exec {sys.executable} {script} {disk} {tmp_path}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 0, done.stderr
    found = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    assert [verb for verb, *_ in found] == list(VERBS)
    for verb, said, rows, again in found:
        assert said.startswith("PuffinFastError n.t: the catalog refused the commit"), (verb, said)
        assert "full" in said, verb
        assert rows == (100, 100), verb
        assert again == (True, True), verb


@pytest.mark.slow
@pytest.mark.parametrize("timeouts", [0.2, 1.4, 10])
@pytest.mark.parametrize("kind", BEGIN)
def test_a_lock_of_some_timeouts_delays_a_commit_or_prevents_it(
    tmp_path: Path, kind: str, timeouts: float
) -> None:
    """A lock that ends within SQLite's timeout, within that of a retry, or after the last retry."""
    timeout_s = 0.2
    seconds = timeouts * timeout_s
    database = Database(tmp_path)
    catalog = database.catalog(timeout_s=timeout_s)
    catalog.create_namespace("n")
    quick = {f"commit.retry.{name}-wait-ms": "50" for name in ("min", "max")}
    table = iceberg_table(catalog, ROWS, properties=quick)
    timers: list[threading.Timer] = []

    def lock() -> None:
        timers.append(threading.Timer(seconds, database.lock(kind).close))
        timers[0].start()

    catalog.before.append(lock)
    done: iceberg.DeleteResult | None = None
    with nullcontext() if timeouts < 10 else suppress(ConflictError):
        done = iceberg.delete(table, "id < 50")
        assert (done.rows_deleted, done.commit.id) == (50, table.metadata.current_snapshot_id)
    for timer in timers:
        timer.join()
    assert database.is_free()
    assert len(table.scan().to_arrow()) == database.rows() == (100 if done is None else 50)
    catalog.engine.dispose()
