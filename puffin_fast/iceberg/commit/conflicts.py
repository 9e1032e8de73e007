"""What other commits did to a branch between two snapshots, and whether a commit can stand beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from puffin_fast.iceberg.commit.changes import Changes, key_of
from puffin_fast.iceberg.manifest import (
    DATA,
    EQUALITY_DELETES,
    ManifestEntry,
    ManifestFile,
    manifests_of,
    read_manifests,
)
from puffin_fast.iceberg.plan.files import FILE_PATH_ID

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["ConcurrentChanges", "concurrent_changes"]


@dataclass(frozen=True)
class ConcurrentChanges:
    """The live entries that came and went between two snapshots, whatever commits did it."""

    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]

    def conflict(self, changes: Changes) -> str | None:
        """Why changes that were planned before cannot stand after; None: they can.

        A data file is gone or got other deletes, or a delete file that would be replaced is gone already.
        """
        touched = changes.touched
        replaced = {key_of(entry) for entry in changes.removed}
        for entry in self.removed:
            if entry.content == DATA and entry.file_path in touched:
                return f"{entry.file_path}: another commit removed this data file"
            if key_of(entry) in replaced:
                return f"{entry.file_path}: another commit removed this delete file"
        for entry in self.added:
            if entry.content in (DATA, EQUALITY_DELETES):
                continue
            if (hit := _covers(entry, changes)) is not None:
                return f"{hit}: another commit added deletes for this data file"
        return None

    def missed(self, changes: Changes) -> str | None:
        """A data file that came in and that the changes should have looked at."""
        for entry in self.added:
            if (
                entry.content == DATA
                and changes.conflict_filter is not None
                and changes.conflict_filter(entry)
            ):
                return (
                    f"{entry.file_path}: another commit added this data file, which may hold rows to delete"
                )
        return None


def _covers(entry: ManifestEntry, changes: Changes) -> str | None:
    """A data file that the changes touch and that a new vector or position-delete file may be about."""
    if entry.referenced_data_file is not None:
        return entry.referenced_data_file if entry.referenced_data_file in changes.touched else None
    lower = (entry.lower_bounds or {}).get(FILE_PATH_ID, b"")
    upper = (entry.upper_bounds or {}).get(FILE_PATH_ID)
    for path in changes.touched:
        encoded = path.encode()
        # bounds may be truncated: an upper bound is then larger than all, a lower one smaller
        if lower <= encoded and (upper is None or encoded <= upper or encoded.startswith(upper)):
            return path
    return None


def concurrent_changes(table: Table, base: Snapshot | None, head: Snapshot | None) -> ConcurrentChanges:
    """What differs between two snapshots; reads only the manifests that are not in both."""

    def manifests(snapshot: Snapshot | None) -> dict[str, ManifestFile]:
        if snapshot is None:
            return {}
        return {m.path: m for m in manifests_of(table.io, snapshot)}

    before, after = manifests(base), manifests(head)

    def live(mine: dict[str, ManifestFile], other: dict[str, ManifestFile]) -> list[ManifestEntry]:
        own = [m for path, m in mine.items() if path not in other and m.may_be_live]
        found = read_manifests(table.io, own, table.specs(), metrics=True)
        return [entry for _, entries in found for entry in entries]

    gone, new = live(before, after), live(after, before)
    gone_keys, new_keys = {key_of(e) for e in gone}, {key_of(e) for e in new}
    return ConcurrentChanges(
        added=tuple(entry for entry in new if key_of(entry) not in gone_keys),
        removed=tuple(entry for entry in gone if key_of(entry) not in new_keys),
    )
