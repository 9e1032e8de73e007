"""Clocks that go back or differ between machines: the snapshot log stays in order, and `as_of` follows it."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING

import pytest
from pyiceberg.table.snapshots import SnapshotLogEntry

from puffin_fast import iceberg
from puffin_fast.iceberg.compat import table_updates
from tests.iceberg.conftest import set_properties
from tests.iceberg.verbs import ROWS, WRITES
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, path_of

if TYPE_CHECKING:
    from pyiceberg.table import Table


TEN_MINUTES_MS = 600_000


class Clock:
    """The wall clock, turned by some milliseconds."""

    def __init__(self) -> None:
        self.turned_ms = 0

    def time(self) -> float:
        return time.time() + self.turned_ms / 1000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of commits; PyIceberg's own is the machine's, so an hour ahead here is an hour back there."""
    turned = Clock()
    monkeypatch.setattr(table_updates, "time", turned)
    return turned


def is_what_java_accepts(table: Table) -> bool:
    """The checks of Iceberg's Java `TableMetadata`, without the minute that it tolerates."""
    document = json.loads(path_of(table.metadata_location).read_text())
    logs = [
        [entry["timestamp-ms"] for entry in document.get(name, ())]
        for name in ("snapshot-log", "metadata-log")
    ]
    in_order = all(earlier <= later for log in logs for earlier, later in itertools.pairwise(log))
    return in_order and all(not log or log[-1] <= document["last-updated-ms"] for log in logs)


@pytest.mark.parametrize("turned_ms", [-TEN_MINUTES_MS, -1, 0, TEN_MINUTES_MS])
def test_the_logs_stay_in_order_when_the_clock_goes_back(
    racing: RacingCatalog, clock: Clock, turned_ms: int
) -> None:
    """Two turns: the first may be forgiven, since the last update is still known; the second was not."""
    table = iceberg.create_table(racing, "n.t", ROWS.schema)
    clock.turned_ms = max(0, -turned_ms)
    iceberg.append(table, ROWS)
    clock.turned_ms += turned_ms
    for change in WRITES.values():
        change(table)
        assert is_what_java_accepts(table)
        clock.turned_ms += turned_ms
    times = [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]
    assert times == sorted(set(times))


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_upgrade_after_the_clock_went_back_keeps_the_logs_in_order(
    racing: RacingCatalog, clock: Clock, version: str
) -> None:
    table = iceberg_table(racing, ROWS.schema, version=int(version))
    table.append(ROWS)
    clock.turned_ms = TEN_MINUTES_MS
    if version == "2":
        iceberg.append(table, ROWS)
    clock.turned_ms = 0
    iceberg.upgrade(table)
    assert is_what_java_accepts(table)
    assert table.metadata.format_version == 3


def test_other_changes_after_the_clock_went_back_keep_the_logs_in_order(
    racing: RacingCatalog, clock: Clock
) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema)
    clock.turned_ms = TEN_MINUTES_MS
    iceberg.append(table, ROWS)
    clock.turned_ms = 0
    set_properties(table, {"a": "b"})
    assert is_what_java_accepts(table.refresh())
    WRITES["delete"](table)
    assert is_what_java_accepts(table)


def test_as_of_takes_the_last_entry_of_the_log_and_not_the_latest_time(racing: RacingCatalog) -> None:
    """A writer whose clock was five seconds ahead appended, then one with the right time deleted."""
    table = iceberg_table(racing, ROWS)
    iceberg.delete(table, "id < 10")
    first, second = table.metadata.snapshots
    now = second.timestamp_ms
    log = [
        SnapshotLogEntry(snapshot_id=first.snapshot_id, timestamp_ms=now + 5000),
        SnapshotLogEntry(snapshot_id=second.snapshot_id, timestamp_ms=now),
    ]
    table.metadata = table.metadata.model_copy(update={"snapshot_log": log})
    for as_of in (now, now + 4999, now + 5000, now + 10_000):
        assert len(iceberg.scan(table, as_of=as_of).to_arrow()) == 90
