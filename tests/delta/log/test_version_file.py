"""Commits on a local disk whose answer is lost, that are interrupted, or whose error comes too late."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from puffin_fast import delta, errors
from tests.delta.tables import files_of, ids
from tests.kit.faults import LosingStorage


def test_a_commit_whose_answer_was_lost_counts(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = ids(table)
    done = delta.delete(LosingStorage(table, written=True), "id < 30")
    assert done.version == 4
    assert ids(table) == [i for i in before if i >= 30]


def test_a_commit_that_was_lost_leaves_the_table_as_it_was(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    with pytest.raises(OSError, match="connection reset"):
        delta.delete(LosingStorage(table, written=False), "id < 30")
    assert files_of(table) == before


@pytest.mark.parametrize(
    "error", [errno.EACCES, errno.ENOENT, errno.EROFS, errno.EIO], ids=errno.errorcode.get
)
@pytest.mark.parametrize("call", ["link", "unlink"])
def test_an_error_after_the_version_has_its_name_is_no_failure(
    call: str, error: int, golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a network's disk, or of somebody who removes temporary files."""
    table = golden("spark_partitioned")
    done = getattr(os, call)

    def failing(path: str, *rest: str) -> None:
        done(path, *rest)
        if path.endswith(".tmp") and "00004.json" in path:
            raise OSError(error, os.strerror(error), path)

    monkeypatch.setattr(os, call, failing)
    assert delta.delete(table, "id < 30").version == 4
    monkeypatch.undo()
    assert min(ids(table)) >= 30
    assert delta.verify(table) == []


def test_an_interrupted_commit_keeps_its_files_if_it_happened(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    before, rows = files_of(table), ids(table)
    with pytest.raises(KeyboardInterrupt):
        delta.delete(LosingStorage(table, written=False, error=KeyboardInterrupt()), "id < 30")
    assert files_of(table) == before
    with pytest.raises(KeyboardInterrupt):
        delta.update(LosingStorage(table, written=True, error=KeyboardInterrupt()), "id < 30", {"id": 10**6})
    assert ids(table) == [i if i >= 30 else 10**6 for i in sorted(rows, key=lambda i: (i < 30, i))]


@pytest.mark.parametrize("written", [True, False])
def test_an_unknown_outcome_is_said_and_nothing_is_removed(
    written: bool, golden: Callable[[str], Path]
) -> None:
    table = golden("spark_partitioned")
    before = files_of(table)
    with pytest.raises(errors.CommitUnknownError, match="txnId"):
        delta.delete(LosingStorage(table, written=written, mute=True), "id < 30")
    assert len([path for path in files_of(table) - before if path.suffix == ".bin"]) == 1
    assert (min(ids(table)) >= 30) == written
