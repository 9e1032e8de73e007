"""Commits during writes of others: listings of a growing log, and commit files replaced by a rename."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, errors
from puffin_fast._io import sink
from puffin_fast.delta.log import segment
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.storage import TableStorage
from tests.delta.tables import Golden, refused, remove_commits
from tests.kit.faults import RacingStorage
from tests.kit.rows import by_us


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


def test_a_commit_that_another_renames_over_is_made_again(partitioned: Path) -> None:
    other = '{"commitInfo":{"operation":"WRITE","isBlindAppend":true}}\n'
    done = delta.delete(RenamedOver(partitioned, other), "id < 30")
    assert (done.commit.id, done.commit.attempts) == (5, 2)
    assert (partitioned / commit_path(4)).read_text() == other
    assert delta.scan(partitioned, "id < 30").to_arrow().num_rows == 0


def test_what_a_killed_writer_left_is_waited_for_once(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "RENAME_S", 0.01)
    table = golden("spark_partitioned")
    (table / "_delta_log" / f".{4:020d}.json.{uuid.uuid4()}.tmp").write_text("{}")
    assert delta.delete(table, "id < 30").commit.id == 4


def test_a_commit_that_is_empty_is_waited_for_and_not_passed_over(
    partitioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem without hard links shows an empty file first; its commit may delete from the same data file."""
    base = delta.snapshot(partitioned)
    ours, theirs = (partitioned / commit_path(base.version + at) for at in (1, 2))
    one, other, *_ = delta.scan(partitioned, selected_fields=("id",)).to_arrow()["id"].to_pylist()
    delta.delete(partitioned, f"id = {one}")
    complete = ours.read_bytes()
    monkeypatch.setattr(segment, "EMPTY_S", 0.05)
    ours.write_bytes(b"")
    with refused(partitioned, errors.ConflictError, "empty file"):
        delta.delete(partitioned, f"id = {other}")
    assert not theirs.exists()
    monkeypatch.setattr(segment, "EMPTY_S", 60.0)
    timer = threading.Timer(0.2, lambda: ours.write_bytes(complete))
    timer.start()
    assert delta.delete(partitioned, f"id = {other}").commit.id == base.version + 2
    timer.join()
    assert delta.scan(partitioned, f"id = {one} or id = {other}").to_arrow().num_rows == 0


def test_a_concurrent_commit_that_is_empty_is_a_conflict(
    partitioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "EMPTY_S", 0.05)
    files = {*partitioned.rglob("*.bin")}
    storage = RacingStorage(
        partitioned, (partitioned / commit_path(delta.snapshot(partitioned).version + 1)).touch
    )
    with pytest.raises(errors.ConflictError, match="empty file"):
        delta.delete(storage, "id > 0", on_conflict="merge")
    assert {*partitioned.rglob("*.bin")} == files


# Checkpoints and gaps ----------------------------------------------------------------------------------------


def test_a_log_with_a_gap_is_refused(partitioned: Path) -> None:
    (partitioned / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(errors.CorruptDataError, match=f"no {2:020d}.json"):
        delta.snapshot(partitioned)
    assert delta.snapshot(partitioned, version=1).version == 1
    (partitioned / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(errors.NotFoundError, match="the log begins at version 1"):
        delta.snapshot(partitioned)


def test_a_checkpoint_stands_for_the_commits_before_it(golden: Golden) -> None:
    for name in ("spark_v1_checkpoint", "spark_v2_checkpoint"):
        table = golden(name)
        remove_commits(table, (0, 1, 2))
        assert delta.scan(table).to_arrow().num_rows == 257
        assert delta.snapshot(table, version=2).version == 2
        (table / "_delta_log" / f"{3:020d}.json").unlink()
        assert delta.scan(table).to_arrow().num_rows == 270
        with pytest.raises(errors.NotFoundError, match="the log begins at version 2"):
            delta.snapshot(table, version=1)


def test_a_last_checkpoint_that_lies_does_no_harm(golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version":99,"size":5,"parts":7}')
    assert delta.scan(table).to_arrow().num_rows == 257


def test_compacted_logs_and_checksums_are_passed_over(partitioned: Path) -> None:
    (partitioned / "_delta_log" / f"{0:020d}.{2:020d}.compacted.json").write_text("{broken")
    (partitioned / "_delta_log" / f"{3:020d}.crc").write_text("{broken")
    (partitioned / "_delta_log" / f".{4:020d}.json.abc.tmp").write_text("{broken")
    assert delta.scan(partitioned).to_arrow().num_rows == 257


def split_checkpoint(log: Path, parts: int) -> None:
    """A classic checkpoint as one of several parts, the metadata in the last."""
    whole = log / f"{2:020d}.checkpoint.parquet"
    rows = pq.read_table(whole)
    n = rows.num_rows
    order = rows.take(pa.array(sorted(range(n), key=lambda at: rows["add"][at].as_py() is None)))
    for part in range(parts):
        start, stop = n * part // parts, n * (part + 1) // parts
        name = f"{2:020d}.checkpoint.{part + 1:010d}.{parts:010d}.parquet"
        pq.write_table(order.slice(start, stop - start), log / name)
    whole.unlink()


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_checkpoint_in_parts_is_the_same(parts: int, golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    before = by_us(table)
    split_checkpoint(table / "_delta_log", parts)
    remove_commits(table, (0, 1, 2))
    assert by_us(table) == before


def test_a_checkpoint_that_lacks_a_part_is_none(golden: Golden) -> None:
    table = golden("spark_v1_checkpoint")
    log = table / "_delta_log"
    split_checkpoint(log, 3)
    (log / f"{2:020d}.checkpoint.{2:010d}.{3:010d}.parquet").unlink()
    assert delta.scan(table).to_arrow().num_rows == 257
    (log / f"{1:020d}.json").unlink()
    with pytest.raises(errors.CorruptDataError, match=f"no {1:020d}.json"):
        delta.snapshot(table)
