"""Deletes by partition and over snapshots, from the manifests and the snapshots' summaries: tables of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast._show.report import PARTITIONS, SNAPSHOTS
from puffin_fast.iceberg.commit.changes import stated_count
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id
from puffin_fast.iceberg.compat.snapshot_rows import table_of_snapshots
from puffin_fast.iceberg.compat.working_table import with_history
from puffin_fast.iceberg.manifest import ManifestEntry, partition_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.plan.inventory import DeleteInventory

TIMES = range(-62_135_596_800_000, 253_402_300_800_000)
"""Milliseconds of the years 1 to 9999, which Python and Matplotlib can show."""


def by_partition(metadata: TableMetadata, found: DeleteInventory, deleted: Mapping[str, int]) -> pa.Table:
    """Returns a row per partition that has data files, sorted by descending number of deleted rows.

    Args:
        metadata: the metadata of the table.
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
