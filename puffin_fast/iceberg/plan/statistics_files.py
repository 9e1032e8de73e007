"""The statistics files of snapshots in a table's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile


def statistics_of(metadata: TableMetadata, snapshot_id: int) -> StatisticsFile | None:
    """Returns the statistics file of a snapshot, if there is one."""
    return next((known for known in metadata.statistics if known.snapshot_id == snapshot_id), None)


def files_of_history(
    metadata: TableMetadata, snapshot: Snapshot
) -> Iterator[tuple[Snapshot, StatisticsFile]]:
    """Yields the statistics files of a snapshot and its ancestors, newest first."""
    if not metadata.statistics:
        return
    for ancestor in ancestors(snapshot, by_id(metadata)):
        found = statistics_of(metadata, ancestor.snapshot_id)
        if found is not None:
            yield ancestor, found
