"""Faults happen where and when they were planned, and then no more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.kit import tables
from tests.kit.faults import failing, kill_at_each_step

PLACE = "tests.kit.tables.parts"


@pytest.mark.parametrize("after", [False, True])
def test_one_call_of_a_place_fails(after: bool) -> None:
    rows, done = pa.table({"id": [1]}), []
    with failing(PLACE, OSError("gone"), after=after, call=2):
        done.append(tables.parts(rows, 1))
        with pytest.raises(OSError, match="gone"):
            tables.parts(rows, 1)
        done.append(tables.parts(rows, 1))
    assert done == [[rows], [rows]]
    with failing(PLACE), pytest.raises(KeyboardInterrupt):
        tables.parts(rows, 1)
    assert tables.parts(rows, 1) == [rows]


def test_a_job_is_killed_at_each_of_its_steps(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()

    def work(folder: Path) -> None:
        (folder / "a").write_text("12")
        (folder / "a").rename(folder / "b")

    kill_at_each_step(tmp_path / "t", tmp_path / "runs", work)
    left = {
        path.name: {file.name: file.read_text() for file in (path / "t").iterdir()}
        for path in (tmp_path / "runs").iterdir()
    }
    assert left == {"1": {}, "2": {"a": "1"}, "3": {"b": "12"}}
