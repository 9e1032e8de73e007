"""Transactions of many actions on Delta tables: their cost is linear, and the log gets the net changes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from tests.delta.tables import commit_of, ids
from tests.kit.steps import steps_of
from tests.kit.tables import delta_table


def made(path: Path) -> Path:
    return delta_table(path, {"id": range(10)})


def test_a_transaction_takes_a_linear_number_of_steps(tmp_path: Path) -> None:
    steps = []
    for n in (2, 30, 60):
        path = made(tmp_path / f"t{n}")

        def work(path: Path = path, n: int = n) -> None:
            with delta.transaction(path) as actions:
                for at in range(n):
                    actions.append(pa.table({"id": [1000 + at]}))

        steps.append(steps_of(work))
        assert delta.scan(path).count() == 10 + n
        assert delta.snapshot(path).version == 2
    fixed, once, twice = steps
    assert twice - fixed < 2.2 * (once - fixed), steps


def test_actions_that_undo_each_other_leave_nothing_in_the_log(tmp_path: Path) -> None:
    path = made(tmp_path / "t")
    with delta.transaction(path) as actions:
        actions.append(pa.table({"id": [100, 101]}))
        actions.delete("id = 3 or id = 100")
        actions.delete("id = 101 or id = 4")
        actions.append(pa.table({"id": [200]}))
        actions.delete("id = 5")
    found = commit_of(path, 2)
    assert (len(found["add"]), len(found["remove"])) == (2, 1)
    assert ids(path) == [0, 1, 2, 6, 7, 8, 9, 200]
    assert len([*path.glob("*.parquet")]) == 2  # that of rows 100 and 101 was removed
    assert len([*path.rglob("*.bin")]) == 1
    assert delta.verify(path) == []


def test_an_action_that_fails_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    path = made(tmp_path / "t")
    with delta.transaction(path) as actions:
        actions.append(pa.table({"id": [100]}))
        actions.delete("id = 3")
        with pytest.raises(errors.NotFoundError):
            actions.delete("gone = 3")
        with pytest.raises(errors.InvalidInputError):
            actions.append(pa.table({"id": ["text"]}))
        actions.delete("id = 100 or id = 4")
    assert ids(path) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert len([*path.glob("*.parquet")]) == 1
    assert delta.verify(path) == []
