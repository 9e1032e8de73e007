"""Numbers of manifest lists that scans of this package and of PyIceberg rely on, as docs/limits.md states them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import iceberg
from puffin_fast.iceberg.manifest import (
    ManifestFile,
    PartitionSummary,
    manifests_of,
    read_manifest,
    write_manifest_list,
)


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """Three rows in each of the partitions a and b, in a manifest for each."""
    made = iceberg.create_table(
        racing, "n.t", pa.schema([("id", pa.int64()), ("part", pa.string())]), partition_spec=["part"]
    )
    for part in ("a", "b"):
        iceberg.append(made, pa.table({"id": range(3), "part": [part] * 3}))
    return made


def relist(table: Table, **changes: Any) -> None:
    """Writes the current manifest list anew, with other values in the first manifest of partition a."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = manifests_of(table.io, snapshot)

    def changed(manifest: ManifestFile) -> ManifestFile:
        (entry,) = read_manifest(table.io, manifest)
        return replace(manifest, **changes) if entry.partition == ("a",) else manifest

    write_manifest_list(
        table.io,
        snapshot.manifest_list,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        manifests=[changed(manifest) for manifest in manifests],
        first_row_id=0,
        format_version=3,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"added_files_count": 7, "existing_files_count": 7},
        {"added_files_count": 0, "existing_files_count": 0},
        {"deleted_files_count": 7},
        {"added_rows_count": 70, "existing_rows_count": 70},
        {"length": 10**6},
        {"length": 10},
    ],
    ids=str,
)
def test_counts_and_lengths_are_ignored_by_scans_and_reported(table: Table, changes: dict[str, int]) -> None:
    relist(table, **changes)
    for rows in (iceberg.scan(table).to_arrow(), table.scan().to_arrow()):
        assert rows.num_rows == 6
    assert iceberg.scan(table).count() == table.scan().count() == 6
    assert iceberg.verify(table)


def test_entries_inherit_sequence_numbers_and_row_ids(table: Table) -> None:
    relist(table, first_row_id=500)
    found = {task.data.partition: task.data for task in iceberg.plan_files(table).tasks}
    assert (found[("a",)].sequence_number, found[("a",)].first_row_id) == (1, 500)
    assert {entry["sequence_number"] for entry in table.inspect.entries().to_pylist()} == {1, 2}


def test_bounds_of_partitions_exclude_manifests_from_a_filter(table: Table) -> None:
    relist(table, partitions=[PartitionSummary(False, False, b"x", b"z")])
    assert iceberg.scan(table).count() == table.scan().count() == 6
    assert iceberg.scan(table, "part = 'a'").count() == 0
    assert table.scan("part = 'a'").to_arrow().num_rows == 0
    assert iceberg.scan(table, "part = 'b'").count() == table.scan("part = 'b'").count() == 3
