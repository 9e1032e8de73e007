"""Every transition of a commit's table happens, and leaves the files that the table says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from puffin_fast import delta
from puffin_fast.delta.log import commit
from puffin_fast.delta.log.commit import TRANSITIONS, Event, State
from tests.delta.tables import append
from tests.kit.faults import LosingStorage, RacingStorage

FILTER, VERSION = "id < 30", 4
"""A delete from the table, and the version that it commits."""

LAST = {State.COMMITTED, State.REPEATED, State.UNCHANGED, State.UNKNOWN, State.FAILED}

Patch = pytest.MonkeyPatch


def plain(table: Path, patch: Patch) -> None:
    delta.delete(table, FILTER)


def nothing(table: Path, patch: Patch) -> None:
    delta.purge(table, min_deleted=1.0)


def again(table: Path, patch: Patch) -> None:
    delta.delete(table, FILTER)
    for _ in range(2):
        delta.purge(table, job_id="once")


def without_a_data_file(table: Path, patch: Patch) -> None:
    delta.delete(table, FILTER)
    for file in table.glob("part=*/*.parquet"):
        file.unlink()
    delta.purge(table)


def interrupted(table: Path, patch: Patch) -> None:
    def time() -> float:
        raise KeyboardInterrupt

    patch.setattr(commit, "time", SimpleNamespace(time=time))
    delta.delete(table, FILTER)


def beside_a_blind_append(table: Path, patch: Patch) -> None:
    delta.delete(RacingStorage(table, lambda: append(table, VERSION)), FILTER)


def beside_an_append(table: Path, patch: Patch) -> None:
    delta.delete(RacingStorage(table, lambda: append(table, VERSION, blind=False)), FILTER)


def beside_itself(table: Path, patch: Patch) -> None:
    def same() -> None:
        delta.delete(table, FILTER, job_id="once")

    delta.delete(RacingStorage(table, same), FILTER, job_id="once")


def beside_another_delete(table: Path, patch: Patch) -> None:
    delta.delete(RacingStorage(table, lambda: delta.delete(table, "id < 20")), FILTER)


def not_sent(table: Path, patch: Patch) -> None:
    delta.delete(LosingStorage(table, written=False), FILTER)


def without_an_answer(table: Path, patch: Patch) -> None:
    delta.delete(LosingStorage(table, written=False, mute=True), FILTER)


CASES: dict[tuple[State, Event], Callable[[Path, Patch], None]] = {
    (State.LOADED, Event.DONE_BEFORE): again,
    (State.LOADED, Event.NO_CHANGES): nothing,
    (State.LOADED, Event.CHANGES): plain,
    (State.LOADED, Event.ERROR): without_a_data_file,
    (State.PLANNED, Event.READY): plain,
    (State.PLANNED, Event.ERROR): interrupted,
    (State.SENT, Event.WRITTEN): plain,
    (State.SENT, Event.EXISTS): beside_a_blind_append,
    (State.SENT, Event.NO_ANSWER): without_an_answer,
    (State.SENT, Event.ERROR): not_sent,
    (State.LOST, Event.NO_CONFLICT): beside_a_blind_append,
    (State.LOST, Event.PLAN_AGAIN): beside_an_append,
    (State.LOST, Event.DONE_BEFORE): beside_itself,
    (State.LOST, Event.ERROR): beside_another_delete,
}


@pytest.mark.parametrize(("state", "event"), TRANSITIONS, ids=lambda one: one.name)
def test_a_transition_happens_and_leaves_no_orphan_file_unless_the_outcome_is_unknown(
    state: State,
    event: Event,
    golden: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = golden("spark_partitioned")
    caplog.set_level(logging.DEBUG, commit.__name__)
    with monkeypatch.context() as patch, suppress(Exception, KeyboardInterrupt):
        CASES[state, event](table, patch)
    steps = [record.args[1:] for record in caplog.records if record.levelno == logging.DEBUG]
    assert all(TRANSITIONS[State[at], Event[came]].to is State[to] for at, came, to in steps)
    assert (state.name, event.name, TRANSITIONS[state, event].to.name) in steps
    assert State[steps[-1][-1]] in LAST
    orphans = delta.remove_orphan_files(table, older_than=timedelta(0), dry_run=True)
    assert len(orphans.files) == (steps[-1][-1] == "UNKNOWN")


def test_every_state_is_reached_and_each_but_the_last_ones_has_an_end() -> None:
    assert {state for state, _ in TRANSITIONS} == {*State} - LAST
    assert {one.to for one in TRANSITIONS.values()} == {*State}
    assert {event for _, event in TRANSITIONS} == {*Event}
    assert all((state, Event.ERROR) in TRANSITIONS for state in {*State} - LAST)


def test_files_of_a_commit_that_happened_or_may_have_happened_are_not_removed() -> None:
    assert not any(one.removes for one in TRANSITIONS.values() if one.to in (State.COMMITTED, State.UNKNOWN))
