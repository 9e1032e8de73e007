"""Times of versions: time travel, changes since a time, and the history, in logs that were copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from puffin_fast import delta
from puffin_fast.cli import main
from puffin_fast.delta.log.segment import commit_path
from puffin_fast.errors import CorruptDataError, NotFoundError
from tests.delta.log.timed_logs import BEGIN, TimedLog
from tests.delta.tables import alter
from tests.kit.seeds import seeds

LOGS = {
    "ascending": TimedLog((0, 5, 10, 15), {}),
    "copied": TimedLog((0, 5, 10, 7, 8, 14), {}),  # the example in Delta's source
    "equal": TimedLog((3, 3, 3, 20), {}),
    "descending": TimedLog((20, 15, 10, 5), {}),
    "stamped": TimedLog((90, 80, 70), {0: 1, 1: 4, 2: 9}),
    "stamped later": TimedLog((0, 1, 2, 90, 91), {2: 5, 3: 8, 4: 12}),
    "stamped later, then copied": TimedLog((90, 90, 90, 90, 90), {2: 5, 3: 8, 4: 12}),
    "stamped later, the first part copied": TimedLog((90, 95, 2, 8, 12), {2: 5, 3: 8, 4: 12}),
    "cleaned": TimedLog((0, 5, 10, 7, 8, 14), {}, first=2, checkpoint=3),
    "cleaned before the checkpoint": TimedLog((0, 5, 10, 7, 8, 14), {}, first=3, checkpoint=2),
    "cleaned up to the stamps": TimedLog((0, 5, 90, 90, 90), {2: 5, 3: 8, 4: 12}, first=2, checkpoint=2),
} | {f"random {seed}": TimedLog.random(seed) for seed in seeds(12)}


@pytest.mark.parametrize("name", LOGS)
def test_a_time_selects_the_version_that_was_the_newest(name: str, tmp_path: Path) -> None:
    log, table = LOGS[name], tmp_path / "t"
    log.write(table)
    last, before = len(log.modified) - 1, log.first - 1 if log.first else None
    bounds = {time + step for time in (*log.modified, *log.stamps.values()) for step in (-1, 0, 1)}
    for time in sorted(bounds):
        expected = log.newest_at(time, log.loadable)
        if expected is None:
            with pytest.raises(NotFoundError, match="no version at or before"):
                delta.snapshot(table, as_of=BEGIN + time)
        else:
            assert delta.snapshot(table, as_of=BEGIN + time).version == expected, time
    for time in sorted(bounds):
        newest = log.newest_at(time, log.first)
        if newest is None and log.first:
            with pytest.raises(NotFoundError, match=f"the log begins at version {log.first}"):
                delta.changes(table, from_timestamp_exclusive=BEGIN + time)
            continue
        start = 0 if newest is None else newest + 1
        changes = delta.changes(table, from_timestamp_exclusive=BEGIN + time).to_arrow()
        assert sorted(changes["id"].to_pylist()) == list(range(max(start, 1), last + 1)), time
        if newest is not None and newest >= log.loadable:
            ids = delta.changes(table, before, to_timestamp_inclusive=BEGIN + time).to_arrow()["id"]
            assert sorted(ids.to_pylist()) == list(range(max(log.first, 1), newest + 1))


@pytest.mark.parametrize("name", LOGS)
def test_lines_of_changes_and_the_history_have_the_times_of_the_versions(name: str, tmp_path: Path) -> None:
    log, table = LOGS[name], tmp_path / "t"
    log.write(table)
    expected = {version: BEGIN + time for version, time in log.times(log.first).items()}
    done = CliRunner().invoke(main, ["history", str(table), "--output", "json"], catch_exceptions=False)
    assert {row["version"]: row["timestamp_ms"] for row in json.loads(done.stdout)} == expected
    rows = delta.changes(table, log.first - 1 if log.first else None).to_arrow().to_pylist()
    times = {row["_commit_version"]: row["_commit_timestamp"].timestamp() for row in rows}
    assert times == {version: time / 1000 for version, time in expected.items() if version}


def enable_stamps(table: Path, **enablement: str) -> None:
    """Other properties of the version that enables stamps."""
    given = {f"delta.inCommitTimestampEnablement{name}": value for name, value in enablement.items()}
    given["delta.enableInCommitTimestamps"] = "true"
    alter(table, "metaData", lambda metadata: metadata.update(configuration=given), 2)


@pytest.mark.parametrize(
    "enablement", [{"Version": "1"}, {"Timestamp": "5"}, {"Version": "1", "Timestamp": "x"}], ids=str
)
def test_a_part_of_the_enablement_is_refused(enablement: dict[str, str], tmp_path: Path) -> None:
    table = tmp_path / "t"
    LOGS["stamped later"].write(table)
    enable_stamps(table, **enablement)
    with pytest.raises(CorruptDataError, match="expected two integers, found"):
        delta.snapshot(table, as_of=BEGIN)
    assert delta.scan(table).count() == 4


def test_a_commit_without_the_time_that_it_must_have_is_named(tmp_path: Path) -> None:
    table = tmp_path / "t"
    LOGS["stamped later"].write(table)
    path = table / commit_path(3)
    path.write_text(path.read_text().replace("inCommitTimestamp", "other"))
    with pytest.raises(
        CorruptDataError, match=f"{path.name}.*inCommitTimestamp.*expected a time, found none"
    ):
        delta.snapshot(table, as_of=BEGIN + 20)
    assert delta.snapshot(table, as_of=BEGIN + 1).version == 1


def test_a_table_without_the_properties_of_the_enablement_has_the_times_of_its_commits(
    tmp_path: Path,
) -> None:
    table = tmp_path / "t"
    log = LOGS["stamped later, then copied"]
    log.write(table)
    enable_stamps(table)
    for time in range(5, 15):
        assert delta.snapshot(table, as_of=BEGIN + time).version == log.newest_at(time, 0)
