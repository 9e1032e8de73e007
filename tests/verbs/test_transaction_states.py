"""Each event is followed by the state of the table of transitions, or refused; files are removed as its text says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.errors import InvalidInputError
from puffin_fast.verbs.transaction import TRANSITIONS, Event, State

ROWS = pa.table({"id": range(4)})


def fail(*_: object, **__: object) -> None:
    raise InvalidInputError("written")


def verb(transaction: Any, monkeypatch: pytest.MonkeyPatch, table: Path) -> None:
    """One that succeeds, and one that fails after it has written its files."""
    transaction.update("id = 1", {"id": 10})
    before = files_of(table)
    with monkeypatch.context() as patch:
        patch.setattr("puffin_fast.delta.dml.attempt.DeltaWriter.stage", fail)
        with pytest.raises(InvalidInputError, match="written"):
            transaction.update("id = 2", {"id": 20})
    assert files_of(table) == before


def begun(transaction: Any, *_: object) -> None:
    transaction.__enter__()


def commit(transaction: Any, *_: object) -> None:
    transaction.commit_transaction()


def left(transaction: Any, *_: object) -> None:
    transaction.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


HAPPENS: dict[Event, Callable[[Any, pytest.MonkeyPatch, Path], None]] = {
    Event.BEGUN: begun,
    Event.VERB: verb,
    Event.COMMIT: commit,
    Event.LEFT: left,
}

BEFORE: dict[State, list[Event]] = {
    State.NEW: [],
    State.OPEN: [Event.BEGUN, Event.VERB],
    State.ENDED: [Event.BEGUN, Event.VERB, Event.COMMIT],
}


def state_of(transaction: Any) -> State:
    return State(repr(transaction).partition("(")[2].partition(",")[0])


def files_of(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_each_event_in_each_state(
    state: State, event: Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t"
    delta.create_table(table, ROWS.schema)
    delta.append(table, ROWS)
    files = files_of(table)
    transaction = delta.transaction(table)
    for earlier in BEFORE[state]:
        HAPPENS[earlier](transaction, monkeypatch, table)
    before = files_of(table)
    assert state_of(transaction) is state
    found = TRANSITIONS.get((state, event))
    if found is not None:
        HAPPENS[event](transaction, monkeypatch, table)
    elif (state, event) != (State.ENDED, Event.LEFT):  # the block of an ended transaction may end in any way
        with pytest.raises(InvalidInputError, match="transaction: expected "):
            HAPPENS[event](transaction, monkeypatch, table)
    assert state_of(transaction) is (found or state)
    is_committed = Event.COMMIT in (*BEFORE[state], event if found else None)
    if event is Event.LEFT and found:
        assert files_of(table) == files
    elif not is_committed and event is not Event.VERB:
        assert files_of(table) == before
    assert (transaction.committed is not None) == is_committed
    ids = [10, *ROWS["id"].to_pylist()[2:], 0] if is_committed else ROWS["id"].to_pylist()
    assert sorted(delta.scan(table).to_arrow()["id"].to_pylist()) == sorted(ids)
