"""Jobs that are killed at each of their steps: the table has the commit or not, and the next run does the job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from puffin_fast import delta
from tests.kit.faults import kill_at_each_step
from tests.kit.rows import by_us

ROWS = pa.table({"id": [41, 5000], "v": ["new", "new"], "part": ["p 2", "p 0"]})
VERBS: dict[str, Callable[[Path], object]] = {
    "delete": lambda table: delta.delete(table, "id < 30"),
    "update": lambda table: delta.update(table, "id >= 40 and id < 60", {"v": "new"}),
    "upsert": lambda table: delta.upsert(table, ROWS, "id"),
    "purge": lambda table: delta.purge(table, min_deleted=1e-9),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_killed_job_is_whole_or_not_there(verb: str, partitioned: Path, tmp_path: Path) -> None:
    kill_at_each_step(partitioned, tmp_path / "copies", VERBS[verb])
    tables = [tmp_path / "copies" / str(step) / partitioned.name for step in range(1, 1000)]
    *killed, done = [table for table in tables if table.exists()]
    states, left = [by_us(partitioned), by_us(done)], set()
    for table in killed:
        happened = delta.snapshot(table).version == 4
        assert by_us(table) == states[happened]
        assert delta.verify(table) == []
        orphans = delta.orphan_files(table, older_than=timedelta(days=-1)).num_rows
        assert not (happened and orphans)
        left.add((happened, orphans > 0))
        if not happened:
            VERBS[verb](table)
            assert by_us(table) == states[True]
    assert left == {(False, False), (False, True), (True, False)}
