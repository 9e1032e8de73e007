"""What is read is counted by several threads, while others ask for the counts."""

from __future__ import annotations

import pickle
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from puffin_fast.rows.scan.explain import STEPS, TABLE, Reads, ScanStep


@pytest.fixture
def switching() -> Any:
    """Threads that switch at each chance."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_counts_are_read_while_other_threads_count(switching: None) -> None:
    """A job that has all its keys ends while data files are still being opened ahead."""
    one_each = []
    for step in STEPS:
        counted = Reads()
        counted._add(step, 1, 1, 1, 1)
        one_each.append(counted)
    for _ in range(200):
        reads = Reads()
        reads.plan(ScanStep(TABLE, 0, None, 0, 0), [], [])
        tasks: Any = [SimpleNamespace() for _ in one_each]

        def count(reads: Reads = reads, tasks: Any = tasks) -> None:
            for task, counted in zip(tasks, one_each, strict=True):
                reads.opened_there(task, counted)

        thread = threading.Thread(target=count)
        thread.start()
        while thread.is_alive():
            reads.explanation("t")
            pickle.dumps(reads)
        thread.join()
        found = reads.explanation("t")
        assert found is not None
        assert all(part.data_files for part in found.left_out)
