"""Tables of a report: deletes by partition and over snapshots, and what the key indexes of a snapshot cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.iceberg.catalogs.working_table import with_history
from puffin_fast.iceberg.commit.changes import stated_count
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id
from puffin_fast.iceberg.compat.snapshot_rows import table_of_snapshots
from puffin_fast.iceberg.index.properties import may_be_keys
from puffin_fast.iceberg.index.stored import StoredSegment, indexed, opened
from puffin_fast.iceberg.manifest import ManifestEntry, partition_type
from puffin_fast.verbs.table_report import KEY_INDEXES, PARTITIONS, SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.plan.inventory import DeleteInventory

TIMES = range(-62_135_596_800_000, 253_402_300_800_000)
"""Milliseconds of the years 1 to 9999, which Python and Matplotlib can show."""


def by_partition(metadata: TableMetadata, found: DeleteInventory, deleted: Mapping[str, int]) -> pa.Table:
    """Returns a row per partition that has data files, sorted by descending number of deleted rows.

    Args:
        found: the data files.
        deleted: the number of deleted rows by path of the data file; none of those that are left out.
    """
    sums: dict[str, list[int]] = {}
    for file in found.files:
        counts = sums.setdefault(_partition(metadata, file.data), [0, 0, 0])
        counts[0] += 1
        counts[1] += file.data.record_count
        counts[2] += deleted.get(file.data.file_path, 0)
    rows = [
        (name, n_files, n_rows, gone, gone / n_rows if n_rows else 0.0)
        for name, (n_files, n_rows, gone) in sorted(sums.items(), key=lambda item: (-item[1][2], item[0]))
    ]
    return pa.Table.from_pylist([dict(zip(PARTITIONS.names, row, strict=True)) for row in rows], PARTITIONS)


def over_snapshots(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns a row for the snapshot and each of its ancestors that the table has, the oldest first.

    ``delete_files`` counts deletion vectors as files. A number that a summary does not have is null.
    """
    rows: list[dict[str, Any]] = []
    for known in ancestors(snapshot, by_id(with_history(table, snapshot))):
        summary = known.summary
        stated = {} if summary is None else summary.additional_properties
        rows.append(
            {
                "committed_at": known.timestamp_ms if known.timestamp_ms in TIMES else None,
                "snapshot_id": known.snapshot_id,
                "operation": None if summary is None else summary.operation.value,
                "delete_files": stated_count(stated.get("total-delete-files")),
                "position_deletes": stated_count(stated.get("total-position-deletes")),
            }
        )
    return table_of_snapshots(rows[::-1], SNAPSHOTS)


def _partition(metadata: TableMetadata, data: ManifestEntry) -> str:
    """The partition of a data file as text, like ``country=PL/day=2024-01-14``; empty without partition fields."""
    spec = metadata.specs()[data.spec_id]
    types = partition_type(metadata, spec).fields
    return "/".join(
        f"{field.name}={field.transform.to_human_string(kind.field_type, value)}"
        for field, kind, value in zip(spec.fields, types, data.partition, strict=True)
    )


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
        metadata: the metadata of the table, with its history.
        schema: names the key columns.
        data_files: those of the snapshot.
        notes: what cannot be read is added to these.
    """
    live = {data.file_path: data for data in data_files}
    age = {known.snapshot_id: at for at, known in enumerate(ancestors(snapshot, by_id(metadata)))}
    rows: dict[tuple[int, ...], dict[str, Any]] = {}
    for known, statistics in indexed(metadata, snapshot):
        with opened(io, statistics, notes) as found:
            for fields, segments in found.items():
                if fields not in rows and may_be_keys(schema, fields):
                    counts = _counts(segments, live)
                    rows[fields] = {
                        "columns": ", ".join(str(schema.find_column_name(id)) for id in fields),
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
