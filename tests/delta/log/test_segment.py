"""Commits during writes of others: listings of a growing log, and commit files replaced by a rename."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from puffin_fast import delta, errors
from puffin_fast._io import sink
from puffin_fast.delta.log import segment
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.storage import TableStorage


class Listed(TableStorage):
    """A storage whose listings are given."""

    def __init__(self, table: Path, listings: list[list[int]]) -> None:
        super().__init__(str(table))
        self._listings = listings

    def names(self, folder: str) -> list[str]:
        return [f"{version:020d}.json" for version in self._listings.pop(0)]


def test_a_listing_may_show_a_commit_and_not_the_one_before_it(tmp_path: Path) -> None:
    listing = LogListing.of(Listed(tmp_path, [[0, 1, 3], [0, 1, 2, 3, 5]]))
    assert listing.commits == (0, 1, 2, 3)
    assert listing.segment().commits == (0, 1, 2, 3)
    with pytest.raises(errors.CorruptDataError, match=r"expected all of 0 to 3.*0002\.json"):
        LogListing.of(Listed(tmp_path, [[0, 1, 3], [0, 1, 3]])).segment()


class RenamedOver(TableStorage):
    """A storage beside a writer that found no commit before ours, and renames its own to it after ours."""

    def __init__(self, table: Path, text: str) -> None:
        super().__init__(str(table))
        self._text: str | None = text

    def put(self, path: str, data: bytes) -> bool:
        if self._text is None:
            return super().put(path, data)
        folder, name = os.path.split(f"{self.root}/{path}")
        temporary = Path(folder, f".{name}.{uuid.uuid4()}.tmp")
        temporary.write_text(self._text)
        self._text = None
        assert super().put(path, data)
        self._rename = lambda: os.replace(temporary, f"{folder}/{name}")
        return True

    def wait_for_renames(self, path: str) -> None:
        self._rename, rename = lambda: None, self._rename
        rename()
        super().wait_for_renames(path)

    _rename = staticmethod(lambda: None)


def test_a_commit_that_another_renames_over_is_made_again(golden: Callable[[str], Path]) -> None:
    table = golden("spark_partitioned")
    other = '{"commitInfo":{"operation":"WRITE","isBlindAppend":true}}\n'
    done = delta.delete(RenamedOver(table, other), "id < 30")
    assert (done.version, done.attempts) == (5, 2)
    assert (table / commit_path(4)).read_text() == other
    assert delta.scan(table, "id < 30").to_arrow().num_rows == 0


def test_what_a_killed_writer_left_is_waited_for_once(
    golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "RENAME_S", 0.01)
    table = golden("spark_partitioned")
    (table / "_delta_log" / f".{4:020d}.json.{uuid.uuid4()}.tmp").write_text("{}")
    assert delta.delete(table, "id < 30").version == 4


def test_a_commit_that_is_empty_is_waited_for_and_not_passed_over(
    golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem without hard links shows an empty file first; its commit may delete from the same data file."""
    table = golden("spark_partitioned")
    base = delta.snapshot(table)
    ours, theirs = (table / commit_path(base.version + at) for at in (1, 2))
    one, other, *_ = delta.scan(table, selected_fields=("id",)).to_arrow()["id"].to_pylist()
    delta.delete(table, f"id = {one}")
    complete = ours.read_bytes()
    before = sorted(table.rglob("*"))
    monkeypatch.setattr(segment, "EMPTY_S", 0.05)
    ours.write_bytes(b"")
    with pytest.raises(errors.ConflictError, match="empty file"):
        delta.delete(table, f"id = {other}")
    assert sorted(table.rglob("*")) == before
    assert not theirs.exists()
    monkeypatch.setattr(segment, "EMPTY_S", 60.0)
    timer = threading.Timer(0.2, lambda: ours.write_bytes(complete))
    timer.start()
    assert delta.delete(table, f"id = {other}").version == base.version + 2
    timer.join()
    assert delta.scan(table, f"id = {one} or id = {other}").to_arrow().num_rows == 0


def test_a_concurrent_commit_that_is_empty_is_a_conflict(
    golden: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = golden("spark_partitioned")
    version = delta.snapshot(table).version + 1
    monkeypatch.setattr(segment, "EMPTY_S", 0.05)
    put = TableStorage.put

    def put_after_another(self: TableStorage, path: str, data: bytes) -> bool:
        (table / commit_path(version)).touch()
        return put(self, path, data)

    monkeypatch.setattr(TableStorage, "put", put_after_another)
    files = {*table.rglob("*.bin")}
    with pytest.raises(errors.ConflictError, match="empty file"):
        delta.delete(table, "id > 0", on_conflict="merge")
    assert {*table.rglob("*.bin")} == files
