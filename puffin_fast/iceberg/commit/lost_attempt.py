"""Whether an attempt of a commit that the catalog refused was made after all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin_fast.errors import CommitUnknownError
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable


def has_landed(table: WorkingTable, snapshot: Snapshot, base: str) -> bool:
    """Returns whether a snapshot was added to the loaded table, also if it has expired since.

    Another snapshot with its sequence number shows that it was not, if both have a parent: others may share a number.
    If all snapshots with the number have expired, the metadata files after the base show it.

    Args:
        table: loaded after the catalog's answer.
        snapshot: the snapshot of the attempt.
        base: the metadata file that the attempt was based on.

    Raises:
        UnsupportedError: the catalog's answer may lack snapshots.
        CommitUnknownError: the base is no longer in the metadata log.
        PuffinFastError: a metadata file cannot be read.
    """
    table.complete()
    metadata, number = table.metadata, snapshot.sequence_number or 0
    if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
        return True
    numbered = (other for other in metadata.snapshots if other.sequence_number == number)
    is_taken = any(other.parent_snapshot_id is not None for other in numbered)
    if metadata.next_sequence_number() <= number or (is_taken and snapshot.parent_snapshot_id is not None):
        return False
    log = [entry.metadata_file for entry in metadata.metadata_log]
    if base not in log:
        raise CommitUnknownError(
            f"{table.shown}: it is unknown whether the commit happened: the catalog refused it, and neither a "
            f"snapshot with sequence number {number} nor {base} is in the newest metadata. No file was removed"
        )
    later = (read_metadata_file(table.io, path) for path in log[log.index(base) + 1 :])
    ids = (other["snapshot-id"] for document in later for other in document.get("snapshots") or ())
    return snapshot.snapshot_id in ids
