"""The changes of other commits between two snapshots of a branch, and their conflicts with a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.manifest import (
    DATA,
    EQUALITY_DELETES,
    Key,
    ManifestEntry,
    ManifestFile,
    content_of,
    key_of,
    manifests_of,
    read_manifests,
)
from puffin_fast.rows.shared_deletes import FILE_PATH_ID

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class ConcurrentChanges:
    """What any number of commits changed between two snapshots.

    Attributes:
        added, removed: live entries, without the vectors that were moved.
        moved: the new entries of vectors that were moved to another Puffin file, by their old keys.
        assigned_row_ids: whether data manifests without row ids were given some, as by the first commit after an
            upgrade.
    """

    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]
    moved: Mapping[Key, ManifestEntry]
    assigned_row_ids: bool

    def followed(self, changes: Changes) -> Changes:
        """Returns changes that remove the vectors that were moved from where they are now."""
        if self.moved.keys().isdisjoint(map(key_of, changes.removed)):
            return changes
        return replace(
            changes, removed=tuple(self.moved.get(key_of(entry), entry) for entry in changes.removed)
        )

    def conflict(self, changes: Changes) -> str | None:
        """Returns the conflict with changes that were planned on the first snapshot, or None.

        A conflict is a data file that was removed or has new deletes, or a delete file to be replaced that was removed.
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
        """Returns the conflict with changes that another plan resolves, or None.

        An added data file that `conflict_filter` selects; or new row ids, which replaced rows must keep.
        """
        if self.assigned_row_ids and changes.required_data_files and changes.adds_data:
            path = min(changes.required_data_files)
            return f"{path}: another commit assigned row ids, which replaced rows keep"
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
    """Returns a data file that the changes touch and that a new vector or position-delete file may refer to."""
    if entry.referenced_data_file is not None:
        return entry.referenced_data_file if entry.referenced_data_file in changes.touched else None
    lower = (entry.lower_bounds or {}).get(FILE_PATH_ID, b"")
    upper = (entry.upper_bounds or {}).get(FILE_PATH_ID)
    for path in changes.touched:
        encoded = path.encode()
        # bounds may be truncated: an upper bound is then larger than all values, and a lower bound smaller
        if lower <= encoded and (upper is None or encoded <= upper or encoded.startswith(upper)):
            return path
    return None


def concurrent_changes(table: Table, base: Snapshot | None, head: Snapshot | None) -> ConcurrentChanges:
    """Compares two snapshots. Reads only the manifests that are not in both."""

    def manifests(snapshot: Snapshot | None) -> dict[str, ManifestFile]:
        if snapshot is None:
            return {}
        return {m.path: m for m in manifests_of(table.io, snapshot)}

    before, after = manifests(base), manifests(head)

    def live(mine: dict[str, ManifestFile], other: dict[str, ManifestFile]) -> list[ManifestEntry]:
        own = [manifest for path, manifest in mine.items() if path not in other]
        found = read_manifests(table.io, own, table.specs(), metrics=True)
        return [entry for _, entries in found for entry in entries]

    old, new = live(before, after), live(after, before)
    old_keys, new_keys = {key_of(e) for e in old}, {key_of(e) for e in new}
    added = [entry for entry in new if key_of(entry) not in old_keys]
    removed = [entry for entry in old if key_of(entry) not in new_keys]
    places = {content_of(entry): entry for entry in added if entry.is_vector}
    moved = {
        key_of(entry): places[content_of(entry)]
        for entry in removed
        if entry.is_vector and content_of(entry) in places
    }
    is_moved = {id(entry) for entry in moved.values()}
    had_ids, have_ids = (
        [manifest.first_row_id is not None for manifest in side.values() if manifest.content == DATA]
        for side in (before, after)
    )
    return ConcurrentChanges(
        added=tuple(entry for entry in added if id(entry) not in is_moved),
        removed=tuple(entry for entry in removed if key_of(entry) not in moved),
        moved=moved,
        assigned_row_ids=not all(had_ids) and any(have_ids),
    )
