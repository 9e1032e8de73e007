"""Commits on a local disk that are interrupted, or whose error comes too late."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from puffin_fast import delta
from tests.delta.tables import ids
from tests.kit.faults import LosingStorage


@pytest.mark.parametrize(
    "error", [errno.EACCES, errno.ENOENT, errno.EROFS, errno.EIO], ids=errno.errorcode.get
)
@pytest.mark.parametrize("call", ["link", "unlink"])
def test_an_error_after_the_version_has_its_name_is_no_failure(
    call: str, error: int, partitioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a network's disk, or of somebody who removes temporary files."""
    done = getattr(os, call)

    def failing(path: str, *rest: str) -> None:
        done(path, *rest)
        if path.endswith(".tmp") and "00004.json" in path:
            raise OSError(error, os.strerror(error), path)

    monkeypatch.setattr(os, call, failing)
    assert delta.delete(partitioned, "id < 30").commit.id == 4
    monkeypatch.undo()
    assert min(ids(partitioned)) >= 30
    assert delta.verify(partitioned) == []


def test_an_interrupted_commit_keeps_its_files_if_it_happened(partitioned: Path) -> None:
    rows = ids(partitioned)
    storage = LosingStorage(partitioned, written=True, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        delta.update(storage, "id < 30", {"id": 10**6})
    assert ids(partitioned) == sorted(i if i >= 30 else 10**6 for i in rows)
