"""Commits write checkpoints: what other engines and this package read from them is what the log says."""

from __future__ import annotations

import json
import logging
import math
import shutil
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.delta.log.checkpoint import _plain
from puffin_fast.errors import NotFoundError
from tests.delta.engines import ids_of_deltalake, ids_of_duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("at", pa.timestamp("us", "UTC"))])
FEATURES = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def rows(first: int, n: int) -> pa.Table:
    return pa.table(
        {"id": range(first, first + n), "g": [None, "a b", "ü"] * (n // 3), "at": [1] * n}, SCHEMA
    )


def made(folder: Path, **properties: str) -> Path:
    delta.create_table(folder, SCHEMA, partition_columns=["g"], properties={**FEATURES, **properties})
    return folder


def changed(table: Path, first: int) -> None:
    """Four commits: rows, vectors, files without rows, and a job."""
    delta.append(table, rows(first, 30), job_id=f"job {first}")
    delta.delete(table, f"id = {first} or id = {first + 7}")
    delta.update(table, f"id = {first + 3}", {"at": None})
    delta.delete(table, f"id >= {first + 24} and g = 'ü'")


def log(table: Path, suffix: str) -> list[Path]:
    return sorted((table / "_delta_log").glob(f"*{suffix}"))


def without_checkpoints(table: Path, folder: Path) -> Path:
    shutil.copytree(table, folder)
    for path in log(folder, ".checkpoint.parquet"):
        path.unlink()
    return folder


def state(table: Path) -> dict[str, Any]:
    found = delta.snapshot(table)
    adds, removes = found.adds(range(found.files.num_rows)), found.tombstones(0)
    for action in (*adds, *removes):
        action.pop("dataChange")  # of the commit
    key = lambda action: (action["path"], json.dumps(action.get("deletionVector")))  # noqa: E731
    return {
        "adds": sorted(adds, key=key),
        "removes": sorted(removes, key=key),
        "metadata": found.metadata,
        "protocol": found.protocol,
        "domains": found.domain_metadata,
        "transactions": found.transactions,
        "rows": delta.scan(table).to_arrow().sort_by("id").to_pylist(),
    }


def test_a_version_from_its_checkpoint_is_the_version_of_the_log(
    tmp_path: Path, duckdb_delta: DuckDBPyConnection
) -> None:
    table = made(tmp_path / "t")
    for first in range(0, 150, 30):
        changed(table, first)
    assert [int(path.name[:20]) for path in log(table, ".checkpoint.parquet")] == [10, 20]
    plain = without_checkpoints(table, tmp_path / "plain")
    expected = state(plain)
    assert state(table) == expected
    for path in log(table, ".json"):
        if int(path.name[:20]) <= 20:
            path.unlink()  # the second checkpoint was made from the first one
    assert state(table) == expected
    ids = [row["id"] for row in expected["rows"]]
    assert ids_of_duckdb(duckdb_delta, table) == ids_of_deltalake(table) == ids
    hint = json.loads((table / "_delta_log/_last_checkpoint").read_text())
    assert (hint["version"], hint["numOfAddFiles"]) == (20, len(expected["adds"]))
    changed(table, 300)
    assert delta.append(table, rows(30, 3), job_id="job 30").repeated
    assert delta.verify(table) == []


def test_deltalake_writes_the_same_actions(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"delta.checkpointInterval": "1000"})
    for first in range(0, 60, 30):
        changed(table, first)
    other = tmp_path / "other"
    shutil.copytree(table, other)
    deltalake.DeltaTable(other).create_checkpoint()
    from puffin_fast.delta.log.checkpoint_writer import write_checkpoint
    from puffin_fast.delta.log.storage import storage_of

    assert write_checkpoint(storage_of(table), 8)
    assert not write_checkpoint(storage_of(table), 8)
    found = []
    for folder in (table, other):
        (path,) = log(folder, ".checkpoint.parquet")
        actions: dict[str, list[str]] = {}
        for row in pa.parquet.read_table(path).to_pylist(maps_as_pydicts="strict"):
            for kind, action in row.items():
                if action is not None:
                    known = {name: value for name, value in action.items() if value not in (None, {}, [])}
                    known.pop("dataChange", None)
                    known.pop("stats", None) if kind == "remove" else None
                    actions.setdefault(kind, []).append(json.dumps(known, sort_keys=True))
        found.append({kind: sorted(values) for kind, values in actions.items()})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("interval", "versions"),
    [("3", [3, 6, 9, 12]), ("0", [10]), ("-1", [10]), ("x", [10]), ("100", [])],
)
def test_the_table_says_how_often(tmp_path: Path, interval: str, versions: list[int]) -> None:
    table = made(tmp_path / "t", **{"delta.checkpointInterval": interval})
    for first in range(0, 90, 30):
        changed(table, first)
    assert [int(path.name[:20]) for path in log(table, ".checkpoint.parquet")] == versions


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        ("interval 0 seconds", False),
        ("interval 1 week", True),
        ("interval 2 days 3 hours", True),
        ("?", True),
    ],
)
def test_removed_files_stay_for_the_time_of_the_table(tmp_path: Path, retention: str, kept: bool) -> None:
    table = made(
        tmp_path / "t", **{"delta.checkpointInterval": "1", "delta.deletedFileRetentionDuration": retention}
    )
    delta.append(table, rows(0, 3))
    delta.delete(table, "true")
    delta.append(table, rows(0, 3))
    for path in log(table, ".json"):
        path.unlink()
    assert bool(delta.snapshot(table).tombstones(0)) is kept


def test_a_checkpoint_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(tmp_path / "t", **{"delta.checkpointInterval": "1"})
    (table / "_delta_log/00000000000000000001.checkpoint.parquet").mkdir()
    (table / "_delta_log/_last_checkpoint").unlink(missing_ok=True)
    (table / "_delta_log/_last_checkpoint").mkdir()
    with caplog.at_level(logging.WARNING, "puffin_fast"):
        assert delta.append(table, rows(0, 3)).version == 1
        assert delta.append(table, rows(3, 3)).version == 2
    assert "version 2 is committed, but has no checkpoint" in caplog.text
    assert delta.scan(table).count() == 6


def test_tables_of_other_checkpoints_get_none(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"delta.checkpointInterval": "1"})
    first = log(table, "0.json")[0]
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        for name in ("readerFeatures", "writerFeatures"):
            line.get("protocol", {}).get(name, []).append("v2Checkpoint")
    first.write_text("\n".join(map(json.dumps, lines)))
    shutil.rmtree(table / "_delta_log/_last_checkpoint", ignore_errors=True)
    for path in log(table, ".checkpoint.parquet"):
        path.unlink()
    delta.append(table, rows(0, 3))
    assert log(table, ".checkpoint.parquet") == []


def test_a_commit_on_a_table_whose_actions_have_null_maps_writes_its_checkpoint(tmp_path: Path) -> None:
    """deltalake writes ``"tags":null``."""
    path = tmp_path / "t"
    deltalake.write_deltalake(path, pa.table({"id": range(10)}))
    log = path / "_delta_log" / f"{0:020}.json"
    assert '"tags":null' in log.read_text()
    for at in range(10):
        delta.append(path, pa.table({"id": [100 + at]}))
    assert (path / "_delta_log" / f"{10:020}.checkpoint.parquet").exists()
    log.unlink()
    for found in (delta.scan(path).to_arrow(), deltalake.DeltaTable(path).to_pyarrow_table()):
        assert sorted(found["id"].to_pylist()) == [*range(10), *range(100, 110)]


def test_times_of_commits_ascend_over_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(
        tmp_path / "t", **{"delta.checkpointInterval": "2", "delta.enableInCommitTimestamps": "true"}
    )
    delta.append(table, rows(0, 3))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    delta.append(table, rows(3, 3))
    monkeypatch.undo()
    delta.append(table, rows(6, 3))
    times = [delta.snapshot(table, version=at).commit_info["inCommitTimestamp"] for at in range(4)]
    assert times == sorted(set(times))


def test_a_version_that_was_cleaned_away_is_not_found(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"delta.checkpointInterval": "2"})
    for first in range(0, 18, 3):
        delta.append(table, rows(first, 3))
    for path in log(table, ".json"):
        if int(path.name[:20]) < 5:
            path.unlink()
    with pytest.raises(NotFoundError, match="version 3 cannot be built: the log begins at version 4"):
        delta.scan(table, version=3)
    log(table, "5.json")[0].unlink()
    with pytest.raises(NotFoundError, match="version 5 cannot be built"):
        delta.scan(table, version=5)
    assert delta.scan(table).count() == 18


def test_an_interval_of_thousands_of_digits_is_no_interval(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"delta.checkpointInterval": "9" * 5000})
    assert delta.append(table, rows(0, 3)).version == 1


def test_parsed_statistics_that_json_has_no_numbers_for_are_left_out() -> None:
    exact, rounded = Decimal("12.34"), Decimal("90071992547409931234.01")
    values = {"a": math.inf, "b": -math.inf, "c": math.nan, "d": 1.5, "e": rounded, "f": exact, "g": None}
    found = json.loads(_plain({"path": "p", "stats_parsed": {"numRecords": 1, "minValues": values}})["stats"])
    assert found == {"numRecords": 1, "minValues": {"d": 1.5, "f": 12.34}}
