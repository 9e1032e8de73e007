"""Commits during writes of others: listings of a growing log, and commit files replaced by a rename."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from puffin_fast import delta, errors
from puffin_fast._runtime import sink
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

    def wait_for_renames(self, path: str) -> bool:
        self._rename, rename = lambda: None, self._rename
        rename()
        return super().wait_for_renames(path)

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
