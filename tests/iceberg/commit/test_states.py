"""Every transition of a commit's table happens, and leaves the files that the table says."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from sqlalchemy.exc import OperationalError

from puffin_fast import iceberg
from puffin_fast.iceberg.commit import protocol
from puffin_fast.iceberg.commit.protocol import TRANSITIONS, Event, Removed, State
from tests.iceberg.commit.writers import ROWS, broken, other, reachable, table
from tests.iceberg.conftest import RacingCatalog, files_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["table"]

FILTER = "id < 10"

LAST = {State.COMMITTED, State.REPEATED, State.UNCHANGED, State.UNKNOWN, State.FAILED}

Patch = pytest.MonkeyPatch


def delete(table: Table, **options: Any) -> None:
    iceberg.delete(table, FILTER, **options)


def plain(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    delete(table)


def before(racing: RacingCatalog, table: Table, happening: Callable[[], object], **options: Any) -> None:
    racing.before.append(happening)
    delete(table, **options)


def after(racing: RacingCatalog, table: Table, error: BaseException) -> None:
    """The catalog makes the commit, and then raises an error."""

    def happening() -> None:
        raise error

    racing.after.append(happening)
    delete(table)


def beside_itself(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    before(racing, table, lambda: delete(other(racing), job_id="j"), job_id="j")


def beside_an_append(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    before(racing, table, lambda: iceberg.append(other(racing), ROWS.slice(5, 1)))


def beside_the_same_delete(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    before(racing, table, lambda: delete(other(racing)), on_conflict="merge")


def beside_another_delete(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    before(racing, table, lambda: iceberg.delete(other(racing), "id = 20"))


def beside_other_rows(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    before(racing, table, lambda: iceberg.append(other(racing), pa.table({"id": [500], "half": [9]})))


def without_end(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    def again() -> None:
        iceberg.append(other(racing), pa.table({"id": [500], "half": [9]}))
        racing.before.append(again)

    before(racing, table, again)


def interrupted(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    def write(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    patch.setattr(protocol, "write_manifest_list", write)
    delete(table)


def on_a_full_disk(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    def write(*_: object) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(racing, "_write_metadata", write)
    delete(table)


def interrupted_afterwards(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    after(racing, table, KeyboardInterrupt())


def refused_afterwards(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    after(racing, table, CommitFailedException("another commit came first: your own"))


def rejected(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    """After the metadata file was written, and without a commit."""
    write = racing._write_metadata

    def written(*args: Any) -> None:
        write(*args)
        patch.setattr(racing, "engine", Rejecting(racing.engine))

    patch.setattr(racing, "_write_metadata", written)
    delete(table)


class Rejecting:
    """An engine whose first connection fails."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._is_first = engine, True

    def __getattr__(self, name: str) -> Any:
        if self._is_first:
            self._is_first = False
            raise BadRequestError("no commits today")
        return getattr(self._engine, name)


def without_an_answer(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    """The catalog refuses what it has done, and does not answer any more."""

    def refused() -> None:
        patch.setattr(racing, "load_table", lambda _: broken())
        raise CommitFailedException("another commit came first: your own")

    racing.after.append(refused)
    delete(table)


def busy(racing: RacingCatalog, table: Table, patch: Patch) -> None:
    """The catalog's database is locked while the table is loaded in the commit, and after that once more."""
    load, locked = racing.load_table, [True, True]

    def loaded(name: Any) -> Table:
        if not locked:
            return load(name)
        locked.pop()
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise OperationalError("SELECT", {}, error)

    before(racing, table, lambda: patch.setattr(racing, "load_table", loaded))


CASES: dict[tuple[State, Event], Callable[[RacingCatalog, Table, Patch], None]] = {
    (State.PLANNED, Event.DONE_BEFORE): beside_itself,
    (State.PLANNED, Event.NO_CONFLICT): plain,
    (State.PLANNED, Event.PLANNED_AGAIN): beside_an_append,
    (State.PLANNED, Event.NO_CHANGES): beside_the_same_delete,
    (State.PLANNED, Event.ERROR): beside_another_delete,
    (State.PLACED, Event.READY): plain,
    (State.PLACED, Event.ERROR): interrupted,
    (State.WRITTEN, Event.REQUESTED): plain,
    (State.WRITTEN, Event.REFUSED): beside_other_rows,
    (State.WRITTEN, Event.ERROR): on_a_full_disk,
    (State.SENT, Event.AGREED): plain,
    (State.SENT, Event.REFUSED): refused_afterwards,
    (State.SENT, Event.NO_ANSWER): interrupted_afterwards,
    (State.SENT, Event.ERROR): rejected,
    (State.LOST, Event.FOUND): refused_afterwards,
    (State.LOST, Event.NOT_FOUND): beside_other_rows,
    (State.LOST, Event.BUSY): busy,
    (State.LOST, Event.NO_ANSWER): without_an_answer,
    (State.LOST, Event.ERROR): without_end,
}


def orphans(table: Table) -> set[Path]:
    """Files that no snapshot names, except for metadata files, which are the catalog's."""
    return {path for path in files_of(table) - reachable(table) if not path.name.endswith(".metadata.json")}


class LeftByFailures(logging.Handler):
    """Collects the files that a commit leaves when it has failed. What called it may remove them later."""

    def __init__(self, racing: RacingCatalog) -> None:
        super().__init__()
        self.racing, self.found = racing, set[Path]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.DEBUG and record.args and tuple(record.args)[-1] == "FAILED":
            self.found |= orphans(other(self.racing))


@pytest.mark.parametrize(("state", "event"), TRANSITIONS, ids=lambda one: one.name)
def test_a_transition_happens_and_leaves_the_files_that_the_table_needs(
    state: State,
    event: Event,
    racing: RacingCatalog,
    table: Table,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, protocol.__name__)
    caplog.clear()
    left, log = LeftByFailures(racing), logging.getLogger(protocol.__name__)
    log.addHandler(left)
    try:
        with monkeypatch.context() as patch, suppress(Exception, KeyboardInterrupt):
            CASES[state, event](racing, table, patch)
    finally:
        log.removeHandler(left)
    racing.before.clear()
    steps = [record.args[1:] for record in caplog.records if record.levelno == logging.DEBUG]
    assert all(TRANSITIONS[State[at], Event[came]].to is State[to] for at, came, to in steps)
    assert (state.name, event.name, TRANSITIONS[state, event].to.name) in steps
    last = State[steps[-1][-1]]
    assert last in LAST
    table.refresh()
    assert len(iceberg.scan(table, FILTER).to_arrow()) == (10 if last is State.FAILED else 0)
    assert not left.found
    assert not orphans(table)


def test_every_state_is_reached_and_each_but_the_last_ones_has_an_end() -> None:
    assert {state for state, _ in TRANSITIONS} == {*State} - LAST
    assert {one.to for one in TRANSITIONS.values()} == {*State}
    assert {event for _, event in TRANSITIONS} == {*Event}
    assert all((state, Event.ERROR) in TRANSITIONS for state in {*State} - LAST)


def test_files_of_a_commit_that_happened_or_may_have_happened_are_not_removed() -> None:
    kept = {one.removes for one in TRANSITIONS.values() if one.to in (State.COMMITTED, State.UNKNOWN)}
    assert kept == {Removed.NONE}
