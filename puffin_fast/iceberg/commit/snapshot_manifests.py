"""The manifests of a new snapshot: unchanged ones are reused, those with removed entries are rewritten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from puffin_fast.errors import ConflictError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.manifest import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    ManifestEntry,
    ManifestFile,
    key_of,
    manifests_of,
    read_manifests,
    write_manifest,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["SnapshotManifests"]

ENTRIES_PER_MANIFEST = 10_000


class SnapshotManifests:
    """Writes the manifests of one snapshot.

    Args:
        table: its metadata is the base.
        snapshot_id: of the new snapshot.
        place: returns the path of a new manifest for its number.
    """

    def __init__(self, table: Table, snapshot_id: int, place: Callable[[int], str]) -> None:
        self._table = table
        self._snapshot_id = snapshot_id
        self._place = place
        self._n_written = 0

    def on_top_of(self, head: Snapshot | None, changes: Changes) -> list[ManifestFile]:
        """Returns all manifests of the snapshot.

        Raises:
            ConflictError: an entry to remove is not live in the head.
        """
        current = [] if head is None else manifests_of(self._table.io, head)
        current = [manifest for manifest in current if manifest.may_be_live]
        result = []
        for content in (DATA, DELETES):
            mine = [manifest for manifest in current if manifest.content == content]
            removed = {key_of(entry) for entry in changes.removed if _lists(content, entry)}
            unchanged, rewritten = self._without(mine, removed)
            groups: list[tuple[int, list[ManifestEntry]]] = []
            added = [entry for entry in changes.added if _lists(content, entry)]
            for spec_id in dict.fromkeys(entry.spec_id for entry in added):
                groups.append((spec_id, [entry for entry in added if entry.spec_id == spec_id]))
            if content == DELETES:
                groups = _merged(groups + rewritten)
            else:  # row ids are inherited by order: data manifests are not merged
                groups += rewritten
            for spec_id, entries in groups:
                result += self._write(content, spec_id, entries)
            result += unchanged
        return result

    def _without(
        self, manifests: list[ManifestFile], removed: set[tuple[str, int | None]]
    ) -> tuple[list[ManifestFile], list[tuple[int, list[ManifestEntry]]]]:
        """Removes entries: returns the manifests without them, and the entries of the others."""
        if not removed:
            return manifests, []
        unchanged, rewritten, found = [], [], set()
        for manifest, entries in read_manifests(self._table.io, manifests, self._table.specs()):
            hits = {key for entry in entries if (key := key_of(entry)) in removed}
            if not hits:
                unchanged.append(manifest)
                continue
            found |= hits
            for entry in entries:
                if key_of(entry) in hits:
                    entry.status, entry.snapshot_id = DELETED, self._snapshot_id
                elif entry.status == ADDED:
                    entry.status = EXISTING
            rewritten.append((manifest.spec_id, entries))
        if found != removed:
            path, _ = next(iter(removed - found))
            raise ConflictError(f"{path}: expected a live file of the table, found none")
        return unchanged, rewritten

    def _write(self, content: int, spec_id: int, entries: list[ManifestEntry]) -> list[ManifestFile]:
        result = []
        for start in range(0, len(entries), ENTRIES_PER_MANIFEST):
            path = self._place(self._n_written)
            self._n_written += 1
            result.append(
                write_manifest(
                    self._table.io,
                    path,
                    metadata=self._table.metadata,
                    spec=self._table.specs()[spec_id],
                    content=content,
                    snapshot_id=self._snapshot_id,
                    entries=entries[start : start + ENTRIES_PER_MANIFEST],
                )
            )
        return result


def _lists(content: int, entry: ManifestEntry) -> bool:
    """Whether an entry belongs to manifests of this content."""
    return (entry.content == DATA) == (content == DATA)


def _merged(groups: Iterable[tuple[int, list[ManifestEntry]]]) -> list[tuple[int, list[ManifestEntry]]]:
    """Merges the entries of each spec into one list."""
    merged: dict[int, list[ManifestEntry]] = defaultdict(list)
    for spec_id, entries in groups:
        merged[spec_id] += entries
    return list(merged.items())
