"""One commit: races, lost answers, failures at each state, and the files that are left in the folder afterwards."""

from __future__ import annotations

import itertools
import json
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from sqlalchemy.exc import OperationalError

from puffin_fast import iceberg
from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg import plan_files
from puffin_fast.iceberg.commit import protocol
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import TRANSITIONS, Event, Removed, State, commit
from puffin_fast.iceberg.commit.request import head_of
from puffin_fast.iceberg.manifest import read_manifest_list
from tests.iceberg.conftest import current_snapshot, refused, rows_of, set_properties
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

Patch = pytest.MonkeyPatch

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "half": pa.array([i // 50 for i in range(100)])})


QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of two data files: ids 0 to 49 and 50 to 99."""
    made = iceberg.create_table(racing, "n.t", ROWS.schema, properties=QUICK)
    iceberg.append(made, ROWS.slice(0, 50))
    iceberg.append(made, ROWS.slice(50))
    return made


def other(racing: RacingCatalog) -> Table:
    """The table as another writer holds it."""
    return racing.load_table("n.t")


def reachable(table: Table) -> set[Path]:
    """Every file that some snapshot or the metadata names."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        found |= {manifest.path for manifest in read_manifest_list(table.io, snapshot.manifest_list)}
        for task in plan_files(table, snapshot_id=snapshot.snapshot_id).tasks:
            found |= {task.data.file_path, *(entry.file_path for entry in task.deletes)}
    return {path_of(location) for location in found}


def orphans(table: Table) -> set[Path]:
    """Files that no snapshot names, except for metadata files, which are the catalog's."""
    return {path for path in files_of(table) - reachable(table) if not path.name.endswith(".metadata.json")}


def ids(table: Table) -> list[int]:
    found: list[int] = rows_of(table)["id"].to_pylist()
    return found


def rows_beside(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "half": [9] * len(ids)})


# Every transition happens, and leaves the files that the table says --------------------------------------------

FILTER = "id < 10"

LAST = {State.COMMITTED, State.REPEATED, State.UNCHANGED, State.UNKNOWN, State.FAILED}


def delete(table: Table, **options: Any) -> iceberg.DeleteResult:
    return iceberg.delete(table, FILTER, **options)


class Unsure(Exception):
    """The connection broke."""


def broken(*_: object) -> Any:
    raise Unsure("the connection broke")


Run = Callable[[RacingCatalog, "Table", Patch], iceberg.DeleteResult]


def before(happening: Callable[[Table], object], **options: Any) -> Run:
    """A delete, right before whose commit something happens to the table as another writer holds it."""

    def run(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
        racing.before.append(lambda: happening(other(racing)))
        return delete(table, **options)

    return run


def after(error: BaseException) -> Run:
    """The catalog makes the commit, and then raises an error."""

    def run(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
        def happening() -> None:
            raise error

        racing.after.append(happening)
        return delete(table)

    return run


def without_end(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
    def again() -> None:
        iceberg.append(other(racing), rows_beside(500))
        racing.before.append(again)

    racing.before.append(again)
    try:
        return delete(table)
    finally:
        assert len(table.refresh().metadata.snapshots) == 2 + 5


def interrupted(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
    def write(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    patch.setattr(protocol, "write_manifest_list", write)
    return delete(table)


def on_a_full_disk(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
    def write(**_: object) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(racing, "_write_metadata", write)
    return delete(table)


class Rejecting:
    """An engine whose first connection fails."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._is_first = engine, True

    def __getattr__(self, name: str) -> Any:
        if self._is_first:
            self._is_first = False
            raise BadRequestError("no commits today")
        return getattr(self._engine, name)


def rejected(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
    """After the metadata file was written, and without a commit."""
    write = racing._write_metadata

    def written(**arguments: Any) -> None:
        write(**arguments)
        patch.setattr(racing, "engine", Rejecting(racing.engine))

    patch.setattr(racing, "_write_metadata", written)
    return delete(table)


def without_an_answer(error: Exception) -> Run:
    """The catalog raises an error after what it has done, and does not answer any more."""

    def run(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
        def silent() -> None:
            patch.setattr(racing, "load_table", broken)
            raise error

        racing.after.append(silent)
        return delete(table)

    return run


def busy(racing: RacingCatalog, table: Table, patch: Patch) -> iceberg.DeleteResult:
    """The catalog's database is locked while the table is loaded in the commit, and after that once more."""
    load, locked = racing.load_table, [True, True]

    def loaded(name: Any) -> Table:
        if not locked:
            return load(name)
        locked.pop()
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise OperationalError("SELECT", {}, error)

    racing.before.append(lambda: patch.setattr(racing, "load_table", loaded))
    return delete(table)


class Case(NamedTuple):
    """What happens during a delete, what follows, and the transitions that it shows."""

    run: Run
    outcome: dict[str, Any] | tuple[type[BaseException], str | None]
    shows: set[tuple[State, Event]]


DONE = {"rows_deleted": 10, "attempts": 1, "repeated": False}
REFUSED = CommitFailedException("another commit came first: your own")
"""As if something between had repeated the request: the second was refused, for the first had come through."""

CASES: dict[str, Case] = {
    "nothing": Case(
        lambda racing, table, patch: delete(table),
        DONE,
        {
            (State.PLANNED, Event.NO_CONFLICT),
            (State.PLACED, Event.READY),
            (State.WRITTEN, Event.REQUESTED),
            (State.SENT, Event.AGREED),
        },
    ),
    "the same job": Case(
        before(lambda other: delete(other, job_id="j"), job_id="j"),
        {"rows_deleted": 0, "repeated": True},
        {(State.PLANNED, Event.DONE_BEFORE)},
    ),
    "an append of rows that match": Case(
        before(lambda other: iceberg.append(other, ROWS.slice(5, 1))),
        DONE | {"rows_deleted": 11, "attempts": 2},
        {(State.PLANNED, Event.PLANNED_AGAIN)},
    ),
    "an append of other rows": Case(
        before(lambda other: iceberg.append(other, rows_beside(500))),
        DONE | {"attempts": 2},
        {(State.WRITTEN, Event.REFUSED), (State.LOST, Event.NOT_FOUND)},
    ),
    "the same delete": Case(
        before(delete, on_conflict="merge"),
        {"rows_deleted": 0, "id": None},
        {(State.PLANNED, Event.NO_CHANGES)},
    ),
    "another delete": Case(
        before(lambda other: iceberg.delete(other, "id = 20")),
        (ConflictError, "another commit"),
        {(State.PLANNED, Event.ERROR)},
    ),
    "appends without end": Case(without_end, (ConflictError, None), {(State.LOST, Event.ERROR)}),
    "an interrupt": Case(interrupted, (KeyboardInterrupt, None), {(State.PLACED, Event.ERROR)}),
    "a full disk": Case(on_a_full_disk, (PuffinFastError, "No space left"), {(State.WRITTEN, Event.ERROR)}),
    "an interrupt after it was made": Case(
        after(KeyboardInterrupt()), (KeyboardInterrupt, None), {(State.SENT, Event.NO_ANSWER)}
    ),
    "a lost answer": Case(after(Unsure()), DONE, set()),
    "a refusal after it was made": Case(
        after(REFUSED), DONE, {(State.SENT, Event.REFUSED), (State.LOST, Event.FOUND)}
    ),
    "a rejection": Case(rejected, (PuffinFastError, "no commits today"), {(State.SENT, Event.ERROR)}),
    "no answer": Case(without_an_answer(Unsure()), (CommitUnknownError, "[Nn]o file was removed"), set()),
    "a refusal and then no answer": Case(
        without_an_answer(REFUSED),
        (CommitUnknownError, "[Nn]o file was removed"),
        {(State.LOST, Event.NO_ANSWER)},
    ),
    "a busy catalog": Case(busy, DONE | {"attempts": 3}, {(State.LOST, Event.BUSY)}),
}


class LeftByFailures(logging.Handler):
    """Collects the files that a commit leaves when it has failed. What called it may remove them later."""

    def __init__(self, racing: RacingCatalog) -> None:
        super().__init__()
        self.racing, self.found = racing, set[Path]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.DEBUG and record.args and tuple(record.args)[-1] == "FAILED":
            self.found |= orphans(other(self.racing))


@pytest.mark.parametrize("name", CASES)
def test_a_case_takes_its_transitions_and_leaves_the_files_that_the_table_needs(
    racing: RacingCatalog,
    table: Table,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    case = CASES[name]
    caplog.set_level(logging.DEBUG, protocol.__name__)
    caplog.clear()
    left, log = LeftByFailures(racing), logging.getLogger(protocol.__name__)
    log.addHandler(left)
    location, files = table.metadata_location, files_of(table)
    try:
        with monkeypatch.context() as patch:
            if isinstance(case.outcome, dict):
                done = case.run(racing, table, patch)
                facts = vars(done) | vars(done.commit)
                assert {key: facts[key] for key in case.outcome} == case.outcome
                assert done.commit.id in (None, table.metadata.current_snapshot_id)
            else:
                with pytest.raises(case.outcome[0], match=case.outcome[1]):
                    case.run(racing, table, patch)
    finally:
        log.removeHandler(left)
    racing.before.clear()
    steps = [record.args[1:] for record in caplog.records if record.levelno == logging.DEBUG]
    assert all(TRANSITIONS[State[at], Event[came]].to is State[to] for at, came, to in steps)
    assert {(state.name, event.name, TRANSITIONS[state, event].to.name) for state, event in case.shows} <= {
        *steps
    }
    last = State[steps[-1][-1]]
    assert last in LAST
    table.refresh()
    assert len(iceberg.scan(table, FILTER).to_arrow()) == (10 if last is State.FAILED else 0)
    assert not left.found
    assert not orphans(table)
    if table.metadata_location == location and case.run is not rejected:  # it leaves a metadata file
        assert files_of(table) == files


def test_cases_show_all_transitions_from_each_state_to_an_end() -> None:
    assert set[tuple[State, Event]]().union(*(case.shows for case in CASES.values())) == TRANSITIONS.keys()
    assert {state for state, _ in TRANSITIONS} == {*State} - LAST
    assert {one.to for one in TRANSITIONS.values()} == {*State}
    assert {event for _, event in TRANSITIONS} == {*Event}
    assert all((state, Event.ERROR) in TRANSITIONS for state in {*State} - LAST)


def test_files_of_a_commit_that_happened_or_may_have_happened_are_not_removed() -> None:
    kept = {one.removes for one in TRANSITIONS.values() if one.to in (State.COMMITTED, State.UNKNOWN)}
    assert kept == {Removed.NONE}


# Races of deletes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "left"), [("serializable", []), ("snapshot", [5])])
def test_rows_that_came_in_meanwhile_go_too_unless_isolation_is_snapshot(
    racing: RacingCatalog, table: Table, level: str, left: list[int]
) -> None:
    set_properties(table, {"write.delete.isolation-level": level})
    racing.before.append(lambda: iceberg.append(other(racing), rows_beside(5)))
    delete(table)
    assert ids(table) == [*left, *range(10, 100)]
    assert not orphans(table)


def test_deletes_from_different_data_files_stand_beside_each_other(
    racing: RacingCatalog, table: Table
) -> None:
    racing.before.append(lambda: iceberg.delete(other(racing), "id = 99"))
    assert delete(table).commit.attempts == 2
    assert ids(table) == list(range(10, 99))
    assert not orphans(table)


@pytest.mark.parametrize("theirs", ["id = 20", "half = 0"], ids=["vector", "dropped"])
@pytest.mark.parametrize("ours", ["id < 10", "half = 0"], ids=["vector", "dropped"])
def test_deletes_from_the_same_data_file_conflict(
    racing: RacingCatalog, table: Table, ours: str, theirs: str
) -> None:
    racing.before.append(lambda: iceberg.delete(other(racing), theirs))
    with pytest.raises(ConflictError, match="another commit"):
        iceberg.delete(table, ours)
    table.refresh()
    assert ids(table) == [i for i in range(100) if (i != 20 if theirs == "id = 20" else i >= 50)]
    assert not orphans(table)


@pytest.mark.parametrize("theirs", ["id = 20", "half = 0"], ids=["vector", "dropped"])
@pytest.mark.parametrize("ours", ["id < 10", "half = 0"], ids=["vector", "dropped"])
def test_conflicting_deletes_merge_when_asked(
    racing: RacingCatalog, table: Table, ours: str, theirs: str
) -> None:
    racing.before.append(lambda: iceberg.delete(other(racing), theirs))
    done = iceberg.delete(table, ours, on_conflict="merge")
    gone = {20 if theirs == "id = 20" else None, *(range(50) if "half = 0" in (ours, theirs) else range(10))}
    assert ids(table) == [i for i in range(100) if i not in gone]
    assert (done.commit.id is None) == (theirs == "half = 0")
    assert not orphans(table)


def test_the_last_attempt_finds_a_commit_that_the_catalog_refused_after_it_was_made(
    racing: RacingCatalog,
) -> None:
    properties = QUICK | {"commit.retry.num-retries": "0"}
    table = iceberg.create_table(racing, "n.t", ROWS.schema, properties=properties)
    iceberg.append(table, ROWS)
    done = after(REFUSED)(racing, table, Patch())
    assert done.commit.id == table.metadata.current_snapshot_id
    assert ids(table) == list(range(10, 100))
    assert not orphans(table)


# Failures, and what is kept -------------------------------------------------------------------------------------


def test_a_place_that_takes_no_files_is_our_error_and_leaves_nothing(
    racing: RacingCatalog, table: Table
) -> None:
    a_file = racing.properties["uri"].removeprefix("sqlite:///")
    set_properties(table, {"write.data.path": f"file://{a_file}/x"})
    with refused(table, PuffinFastError):
        delete(table)
    with refused(table, PuffinFastError, "could not be written"):
        iceberg.append(table, ROWS)
    assert ids(racing.load_table("n.t")) == list(range(100))


def test_manifests_that_lose_nothing_are_kept(table: Table) -> None:
    for key in (3, 60, 4):
        iceberg.delete(table, f"id = {key}")
    lists = [
        {m.path for m in read_manifest_list(table.io, s.manifest_list) if m.content == 0}
        for s in table.metadata.snapshots
    ]
    assert lists[1] == lists[2] == lists[3] == lists[4]
    last = current_snapshot(table)
    deletes = [m for m in read_manifest_list(table.io, last.manifest_list) if m.content == 1]
    assert sorted((m.added_files_count, m.existing_files_count, m.deleted_files_count) for m in deletes) == [
        (1, 0, 0),
        (1, 0, 1),
    ]


def test_rows_keep_their_ids_when_their_manifest_is_rewritten(racing: RacingCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    table = iceberg.create_table(racing, "n.p", schema, partition_spec=["part"])
    iceberg.append(table, pa.table({"id": list(range(90)), "part": [i % 3 for i in range(90)]}, schema))
    first = {t.data.file_path: t.data.first_row_id for t in plan_files(table).tasks}
    iceberg.delete(table, "part = 1")
    after = {t.data.file_path: t.data.first_row_id for t in plan_files(table).tasks}
    assert len(after) == 2
    assert after.items() <= first.items()
    iceberg.append(table, pa.table({"id": [1], "part": [1]}, schema))
    ranges = sorted((t.data.first_row_id, t.data.record_count) for t in plan_files(table).tasks)
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges))
    assert table.metadata.next_row_id >= sum(ranges[-1])


def test_one_commit_never_brings_two_vectors_for_a_data_file(table: Table) -> None:
    iceberg.delete(table, "id = 1")
    vector = next(task.vector for task in plan_files(table).tasks if task.vector is not None)
    with pytest.raises(InvalidInputError, match="two vectors"):
        Changes(added=(vector, vector))


def test_removing_a_file_that_is_not_there_is_a_conflict(table: Table) -> None:
    gone = plan_files(table).tasks[0].data
    gone.file_path += "x"
    with refused(table, ConflictError, "expected a live file"):
        commit(table, Changes(removed=(gone,)), base=head_of(table.metadata))


def test_a_static_table_takes_no_commits(table: Table) -> None:
    from pyiceberg.table import StaticTable

    fixed = StaticTable.from_metadata(table.metadata_location)
    changes = Changes(removed=(plan_files(table).tasks[0].data,))
    with refused(table, UnsupportedError, "NoopCatalog"):
        commit(fixed, changes, base=head_of(fixed.metadata))


@pytest.mark.parametrize("stated", ["n/a", "", "1.5", "9" * 5000, "٣", "-1"])
def test_a_total_that_is_no_count_is_not_carried_on(shared_catalog: Any, namespace: str, stated: str) -> None:
    table = iceberg.create_table(shared_catalog, f"{namespace}.t", pa.schema([("id", pa.int64())]))
    iceberg.append(table, pa.table({"id": [1, 2]}))
    file = path_of(table.metadata_location)
    document = json.loads(file.read_text())
    document["snapshots"][-1]["summary"]["total-records"] = stated
    file.write_text(json.dumps(document))
    table = shared_catalog.load_table(f"{namespace}.t")
    iceberg.append(table, pa.table({"id": [3]}))
    iceberg.delete(table, "id = 1")
    assert sorted(iceberg.scan(table).to_arrow()["id"].to_pylist()) == [2, 3]
    assert "total-records" not in table.metadata.snapshots[-1].summary.additional_properties
