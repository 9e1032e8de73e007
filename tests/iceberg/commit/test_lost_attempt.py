"""Whether an attempt that the catalog refused was made after all, as the loaded table shows it."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from puffin_fast import iceberg
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.commit.lost_attempt import has_landed
from puffin_fast.iceberg.manifest import write_manifest_list
from tests.iceberg.conftest import current_snapshot
from tests.kit.faults import RacingCatalog

ROWS = pa.table({"id": [1]})


def test_a_snapshot_without_a_parent_may_have_the_number_of_one_that_was_made_and_expired(
    racing: RacingCatalog,
) -> None:
    table = racing.create_table("n.t", ROWS.schema, properties={"format-version": "2"})
    iceberg.append(table, ROWS)
    base = table.metadata_location
    iceberg.append(table, ROWS)
    made = current_snapshot(table)
    path = f"{table.location()}/metadata/snap-7.avro"
    write_manifest_list(
        table.io,
        path,
        snapshot_id=7,
        parent_snapshot_id=None,
        sequence_number=2,
        manifests=(),
        format_version=2,
    )
    first = made.model_copy(
        update={
            "snapshot_id": 7,
            "parent_snapshot_id": None,
            "manifest_list": path,
            "summary": Summary(Operation.APPEND),
        }
    )
    reference = {"ref-name": "new", "type": SnapshotRefType.BRANCH, "snapshot-id": 7}
    updates = (AddSnapshotUpdate(snapshot=first), SetSnapshotRefUpdate.model_validate(reference))
    racing.commit_table(table, (), updates)
    iceberg.append(table.refresh(), ROWS)
    iceberg.expire_snapshots(table, snapshot_ids=[made.snapshot_id])
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == [1, 2, 3]
    assert has_landed(WorkingTable(table), made, base)
