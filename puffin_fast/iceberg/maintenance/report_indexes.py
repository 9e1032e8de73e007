"""Which data files and rows the key indexes of a snapshot cover: a table of a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._show.report import KEY_INDEXES
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id
from puffin_fast.iceberg.compat.snapshot_rows import table_of_snapshots
from puffin_fast.iceberg.index.stored import StoredSegment, indexed, opened
from puffin_fast.iceberg.maintenance.report_tables import TIMES

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.manifest import ManifestEntry


def key_indexes(
    io: FileIO,
    metadata: TableMetadata,
    schema: Schema,
    snapshot: Snapshot,
    data_files: Iterable[ManifestEntry],
    notes: list[str],
) -> pa.Table:
    """Returns a row for each index that plans of a snapshot may use, of each key the newest.

    Args:
        io: PyIceberg's file access.
        metadata: the metadata of the table, with its history.
        schema: names the key columns.
        snapshot: the snapshot.
        data_files: those of the snapshot.
        notes: what cannot be read is added to these.
    """
    live = {data.file_path: data for data in data_files}
    age = {known.snapshot_id: at for at, known in enumerate(ancestors(snapshot, by_id(metadata)))}
    rows: dict[tuple[int, ...], dict[str, Any]] = {}
    for known, statistics in indexed(metadata, snapshot):
        with opened(io, statistics, notes) as found:
            for fields, segments in found.items():
                if fields not in rows:
                    counts = _counts(segments, live)
                    rows[fields] = {
                        "columns": ", ".join(schema.find_column_name(id) or f"field {id}" for id in fields),
                        "snapshot_id": known.snapshot_id,
                        "committed_at": known.timestamp_ms if known.timestamp_ms in TIMES else None,
                        "snapshots_since": age[known.snapshot_id],
                    } | counts
    return table_of_snapshots([*rows.values()], KEY_INDEXES)


def _counts(segments: Iterable[StoredSegment], live: dict[str, ManifestEntry]) -> dict[str, Any]:
    segments = list(segments)
    named = {file.location: file for stored in segments for file in stored.segment.files}
    covered = [
        data
        for path, data in live.items()
        if (file := named.get(path)) is not None
        and (file.n_bytes, file.n_rows) == (data.file_size_in_bytes, data.record_count)
    ]
    n_rows, every = (sum(data.record_count for data in some) for some in (covered, live.values()))
    return {
        "segments": len(segments),
        "n_bytes": sum(stored.segment.n_bytes for stored in segments),
        "data_files": len(covered),
        "share_of_files": len(covered) / len(live) if live else 1.0,
        "rows": n_rows,
        "share_of_rows": n_rows / every if every else 1.0,
    }
