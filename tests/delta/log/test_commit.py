"""Every transition of a commit's table happens, and leaves the rows and the files that the table says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from puffin_fast import delta
from puffin_fast.delta.log import commit
from puffin_fast.delta.log.commit import TRANSITIONS, Event, State
from puffin_fast.errors import CommitUnknownError, ConflictError, NotFoundError
from tests.delta.tables import append, ids
from tests.kit.faults import LosingStorage, RacingStorage

VERSION = 4
"""The version that the delete of a case commits."""

LAST = {State.COMMITTED, State.REPEATED, State.UNCHANGED, State.UNKNOWN, State.FAILED}

Patch = pytest.MonkeyPatch


class Case(NamedTuple):
    """A job, the error that it ends with, and how many of the rows with ``id < 30`` are left; 26 were there."""

    job: Callable[[Path, Patch], object]
    error: type[BaseException] | None = None
    left: int = 0


def delete(table: Any, patch: Patch | None = None, **options: Any) -> Any:
    return delta.delete(table, "id < 30", **options)


def again(table: Path, patch: Patch) -> None:
    delete(table)
    for _ in range(2):
        delta.purge(table, job_id="once")


def without_a_data_file(table: Path, patch: Patch) -> None:
    for file in table.glob("part=*/*.parquet"):
        file.unlink()
    delta.purge(table, min_deleted=1e-9)


def interrupted(table: Path, patch: Patch) -> None:
    def time() -> float:
        raise KeyboardInterrupt

    patch.setattr(commit, "time", SimpleNamespace(time=time))
    delete(table)


def beside_an_append(*, blind: bool) -> Callable[[Path, Patch], object]:
    return lambda table, patch: delete(RacingStorage(table, lambda: append(table, VERSION, blind=blind)))


def beside_itself(table: Path, patch: Patch) -> None:
    delete(RacingStorage(table, lambda: delete(table, job_id="once")), job_id="once")


def beside_another_delete(table: Path, patch: Patch) -> None:
    delete(RacingStorage(table, lambda: delta.delete(table, "id < 20")))


def losing(**options: Any) -> Callable[[Path, Patch], object]:
    return lambda table, patch: delete(LosingStorage(table, **options))


CASES: dict[tuple[State, Event], tuple[Case, ...]] = {
    (State.LOADED, Event.DONE_BEFORE): (Case(again),),
    (State.LOADED, Event.NO_CHANGES): (
        Case(lambda table, patch: delta.purge(table, min_deleted=1.0), None, 26),
    ),
    (State.LOADED, Event.CHANGES): (Case(delete),),
    (State.LOADED, Event.ERROR): (Case(without_a_data_file, NotFoundError, -1),),
    (State.PLANNED, Event.READY): (Case(delete),),
    (State.PLANNED, Event.ERROR): (Case(interrupted, KeyboardInterrupt, 26),),
    (State.SENT, Event.WRITTEN): (Case(delete), Case(losing(written=True))),
    (State.SENT, Event.EXISTS): (Case(beside_an_append(blind=True), None, 10),),
    (State.SENT, Event.NO_ANSWER): (
        Case(losing(written=False, mute=True), CommitUnknownError, 26),
        Case(losing(written=True, mute=True), CommitUnknownError),
    ),
    (State.SENT, Event.ERROR): (
        Case(losing(written=False), OSError, 26),
        Case(losing(written=False, error=KeyboardInterrupt()), KeyboardInterrupt, 26),
    ),
    (State.LOST, Event.NO_CONFLICT): (Case(beside_an_append(blind=True), None, 10),),
    (State.LOST, Event.PLAN_AGAIN): (Case(beside_an_append(blind=False)),),
    (State.LOST, Event.DONE_BEFORE): (Case(beside_itself),),
    (State.LOST, Event.ERROR): (Case(beside_another_delete, ConflictError, 8),),
}


@pytest.mark.parametrize(
    ("state", "event", "number"),
    [(*transition, number) for transition in TRANSITIONS for number in range(len(CASES[transition]))],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_a_transition_happens_and_leaves_its_rows_and_no_orphan_file_unless_the_outcome_is_unknown(
    state: State,
    event: Event,
    number: int,
    partitioned: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table, case = partitioned, CASES[state, event][number]
    caplog.set_level(logging.DEBUG, commit.__name__)
    with monkeypatch.context() as patch, pytest.raises(case.error) if case.error else nullcontext() as caught:
        case.job(table, patch)
    assert case.error is not CommitUnknownError or "txnId" in str(caught.value)
    steps = [record.args[1:] for record in caplog.records if record.levelno == logging.DEBUG]
    assert all(TRANSITIONS[State[at], Event[came]].to is State[to] for at, came, to in steps)
    assert (state.name, event.name, TRANSITIONS[state, event].to.name) in steps
    assert State[steps[-1][-1]] in LAST
    if case.left >= 0:
        assert len([id for id in ids(table) if id < 30]) == case.left
        orphans = delta.orphan_files(table, older_than=timedelta(0))
        may_be_orphan = steps[-1][-1] == "UNKNOWN" and case.left > 0
        assert orphans.num_rows == may_be_orphan


def test_every_state_is_reached_and_each_but_the_last_ones_has_an_end() -> None:
    assert {state for state, _ in TRANSITIONS} == {*State} - LAST
    assert {one.to for one in TRANSITIONS.values()} == {*State}
    assert {event for _, event in TRANSITIONS} == {*Event}
    assert all((state, Event.ERROR) in TRANSITIONS for state in {*State} - LAST)


def test_files_of_a_commit_that_happened_or_may_have_happened_are_not_removed() -> None:
    assert not any(one.removes for one in TRANSITIONS.values() if one.to in (State.COMMITTED, State.UNKNOWN))
