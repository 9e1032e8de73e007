"""The manifests of a new snapshot: unchanged ones are reused, those with removed entries are rewritten.

Many small manifests are merged by the same table properties and rules as in Java's `ManifestMergeManager`. The
manifests of a partition spec are packed into bins of the target size, from the oldest on, and each bin becomes one
manifest. The bin with the newest manifest is only merged if it has the minimum count, so that not every commit merges.
A manifest that cannot be read is not merged.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.table import TableProperties

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._pyiceberg.v3_types import unordered_fields
from puffin_fast.errors import ConflictError
from puffin_fast.iceberg.commit.carried_vectors import UNREADABLE, can_carry, carry, has_others
from puffin_fast.iceberg.commit.changes import MANIFEST_COUNTS, Changes
from puffin_fast.iceberg.commit.sorted_manifests import unsorted
from puffin_fast.iceberg.compat.table_properties import choice_property, integer_property, vectors_per_file
from puffin_fast.iceberg.manifest import (
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    Key,
    ManifestEntry,
    ManifestFile,
    can_write,
    counts_of,
    key_of,
    manifests_of,
    read_manifest,
    read_manifests,
    read_many,
    write_manifest,
)
from puffin_fast.iceberg.manifest.columns import FileColumns, Paths
from puffin_fast.iceberg.manifest.copies import EntryCopies
from puffin_fast.iceberg.manifest.geo_bounds import without_wrong_bounds

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable

ENTRIES_PER_MANIFEST = 10_000

Merges = dict[tuple[object, ...], ManifestFile]
"""Merged manifests, by the format version and the paths and first row ids of the committed manifests they replace."""


class SnapshotManifests:
    """Writes the manifests of one snapshot.

    Args:
        table: its metadata is the base.
        snapshot_id: the id of the new snapshot.
        merges: the merges of earlier attempts of the commit, which are reused or removed. Those of this attempt are
            added.

    Attributes:
        carried: the vectors that `on_top_of` moved to new Puffin files, besides the changes that it was given.
    """

    def __init__(self, table: WorkingTable, snapshot_id: int, merges: Merges) -> None:
        self._table = table
        self._snapshot_id = snapshot_id
        self._merges = merges
        self._name, self._n_written = uuid.uuid4(), 0
        self._own: dict[str, Sequence[Iterable[ManifestEntry]]] = {}
        self.carried, self._before = Changes(), frozenset[str]()

    def on_top_of(self, head: Snapshot | None, changes: Changes) -> list[ManifestFile]:
        """Returns all manifests of the snapshot.

        Raises:
            ConflictError: an entry to remove is not live in the head.
            InvalidInputError: a property ``commit.manifest…`` of the table has a value that is not allowed.
        """
        every = [] if head is None else manifests_of(self._table.io, head)
        self._before = frozenset(manifest.path for manifest in every)
        current = self._counted(every)
        if changes.sorts_manifests:
            return list(self._sorted(current))
        if changes.unbounded:
            current = [written for one in current for written in self._without_bounds(one, changes.unbounded)]
        result: list[ManifestFile] = []
        for content in (DATA, DELETES):
            mine = [manifest for manifest in current if manifest.content == content]
            removed = {key_of(entry) for entry in changes.removed if _lists(content, entry)}
            shared = {entry.file_path for entry in changes.removed if content == DELETES and can_carry(entry)}
            if vectors_per_file(self._table.metadata.properties) is None:
                shared.clear()
            unchanged, rewritten = self._without(mine, removed, changes.manifests, shared)
            added = [entry for entry in changes.added if _lists(content, entry)]
            if content == DATA and added and (fields := unordered_fields(self._table.metadata.schema())):
                added = [without_wrong_bounds(entry, fields) for entry in added]  # of files that others wrote
            if content == DELETES:
                added += self.carried.added
            groups = [
                _Group(spec_id, [entry for entry in added if entry.spec_id == spec_id], [])
                for spec_id in dict.fromkeys(entry.spec_id for entry in added)
            ]
            if content == DELETES:
                groups = _merged([*groups, *rewritten])
            else:
                groups += rewritten
            written = [manifest for group in groups for manifest in self._write_group(content, group)]
            result += self._packed([*written, *unchanged])
        replaceable = {*self._own, *(merged.path for merged in self._merges.values())}
        self._table.remove(
            replaceable.intersection(self._table.created) - {manifest.path for manifest in result}
        )
        return result

    def counts(self, manifests: Sequence[ManifestFile]) -> dict[str, str]:
        """The numbers of manifests in the snapshot's summary, for those that `on_top_of` returned."""
        kept = self._before.intersection(manifest.path for manifest in manifests)
        numbers = len(manifests) - len(kept), len(kept), len(self._before) - len(kept)
        return dict(zip(MANIFEST_COUNTS, map(str, numbers), strict=True))

    def _sorted(self, manifests: list[ManifestFile]) -> Iterator[ManifestFile]:
        """Yields manifests in order: new ones in the place of the first one of their content and spec."""
        found, done = unsorted(self._table.io, self._table.metadata, manifests), set[tuple[int, int]]()
        for manifest in manifests:
            key = manifest.content, manifest.spec_id
            if key not in found:
                yield manifest
            elif key not in done:
                done.add(key)
                for entries in found[key].chunks():
                    yield self._write(*key, entries)

    def _without_bounds(self, manifest: ManifestFile, fields: frozenset[int]) -> list[ManifestFile]:
        """Returns a manifest, or a new one in which no data file has wrong bounds of some fields."""
        if manifest.content != DATA or not self._can_merge([manifest]):
            return [manifest]
        entries = list(self._existing([manifest]))
        changed = [without_wrong_bounds(entry, fields) for entry in entries]
        if all(new is old for new, old in zip(changed, entries, strict=True)):
            return [manifest]
        return list(self._write_group(DATA, _Group(manifest.spec_id, changed, [])))

    def _counted(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Returns the manifests that have live files. Counts are taken from the entries if they are missing or decide.

        They decide where a manifest seems to have no live file, and where its rows get their ids by them.
        """
        assigns_ids = self._table.metadata.format_version >= 3
        found = read_manifests(
            self._table.io,
            [
                manifest
                for manifest in manifests
                if not _has_live_files(manifest)
                or None in (getattr(manifest, name) for name in counts_of(()))
                or (assigns_ids and manifest.content == DATA and manifest.first_row_id is None)
            ],
            self._table.specs(),
            live_only=False,
            metrics=False,
        )
        counted = {m.path: replace(m, **counts_of(entries)) for m, entries in found}  # type: ignore[arg-type]
        return [m for m in (counted.get(m.path, m) for m in manifests) if _has_live_files(m)]

    def _without(
        self, manifests: list[ManifestFile], removed: set[Key], near: frozenset[str], shared: Set[str]
    ) -> tuple[list[ManifestFile], list[_Group]]:
        """Removes entries: returns the manifests without them, and the entries of the others.

        Other live vectors in the Puffin files `shared` are carried along. Manifests in `near` are read first: if all
        removed entries and all vectors of these files are there, no other manifest is read.
        """
        if not removed:
            return manifests, []
        paths, found = Paths(path for path, _ in removed), set[Key]()
        matched: list[tuple[FileColumns, npt.NDArray[np.intp], list[Key]]] = []
        others: dict[Key, ManifestEntry] = {}
        first = [manifest for manifest in manifests if manifest.path in near]
        for some in (first, [manifest for manifest in manifests if manifest.path not in near]):
            if (
                some is not first
                and first
                and found == removed
                and not has_others(self._table.io, shared, found | others.keys())
            ):
                break
            for files in read_many(self._table.io, some, self._table.specs(), live_only=False):
                is_live = files.integers("status").values != DELETED
                rows = np.flatnonzero(paths.among(files) & is_live)
                entries = [(key_of(entry), entry) for entry in files.take(rows).entries()]
                if not entries:
                    continue
                keys = [key for key, _ in entries]
                matched.append((files, rows, keys))
                found |= removed.intersection(keys)
                others |= {
                    key: entry
                    for key, entry in entries
                    if key not in removed and entry.file_path in shared and can_carry(entry)
                }
        if found != removed:
            path, _ = next(iter(removed - found))
            raise ConflictError(f"{path}: expected a live file of the table, found none")
        carried = dict(carry(self._table, others.values()))
        self.carried = Changes(added=tuple(carried.values()), removed=tuple(others[key] for key in carried))
        gone = removed | carried.keys()
        rewritten: dict[str, _Group] = {}
        for files, rows, keys in matched:
            if gone.isdisjoint(keys):
                continue
            mask = np.zeros(len(files), np.bool_)
            mask[rows] = [key in gone for key in keys]
            was_deleted = files.integers("status").values == DELETED
            copies = EntryCopies(files, mask, self._snapshot_id, was_deleted)
            rewritten[files.manifest.path] = _Group(files.manifest.spec_id, [], [copies])
        unchanged = [manifest for manifest in manifests if manifest.path not in rewritten]
        return unchanged, [rewritten[manifest.path] for manifest in manifests if manifest.path in rewritten]

    def _packed(self, manifests: list[ManifestFile]) -> Iterator[ManifestFile]:
        """Merges small manifests of one content; the order of files within a partition spec stays."""
        properties = self._table.metadata.properties
        enabled = choice_property(properties, TableProperties.MANIFEST_MERGE_ENABLED, ("true", "false"))
        least = integer_property(
            properties,
            TableProperties.MANIFEST_MIN_MERGE_COUNT,
            TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
            positive=False,
        )
        limit = integer_property(
            properties,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
        )
        by_spec: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            by_spec[manifest.spec_id].append(manifest)
        for spec_id in sorted(by_spec, reverse=True):
            packed = split_by_size(reversed(by_spec[spec_id]), limit, lambda manifest: manifest.length)
            for group in reversed([list(group)[::-1] for group in packed]):
                is_kept = len(group) == 1 or (group[0] is manifests[0] and len(group) < least)
                if is_kept or enabled == "false" or not self._can_merge(group):
                    yield from group
                else:
                    yield from self._merge(spec_id, group)

    def _can_merge(self, manifests: list[ManifestFile]) -> bool:
        return all(can_rewrite(self._table.metadata, manifest) for manifest in manifests)

    def _merge(self, spec_id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merges manifests. One that cannot be read stays as it is: no commit needs to read it but to merge it."""
        try:
            return self._joined(spec_id, manifests)
        except UNREADABLE:
            readable = [m for m in manifests if m.path in self._own or self._is_readable(m)]
        if len(readable) < 2 or len(readable) == len(manifests):
            return manifests
        return [*self._merge(spec_id, readable), *(m for m in manifests if m not in readable)]

    def _is_readable(self, manifest: ManifestFile) -> bool:
        try:
            read_manifest(self._table.io, manifest, self._table.specs())
        except UNREADABLE:
            return False
        return True

    def _joined(self, spec_id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Writes the live entries of several manifests to one, with those that this snapshot removes."""
        committed = [manifest for manifest in manifests if manifest.path not in self._own]
        key = (self._table.metadata.format_version, *((m.path, m.first_row_id) for m in committed))
        if len(committed) == len(manifests):
            known = self._merges.get(key)
            if known is not None and known.path in self._table.created:
                return [replace(known, added_snapshot_id=self._snapshot_id)]
        own = chain.from_iterable(self._own[m.path] for m in manifests if m.path in self._own)
        entries = chain(chain.from_iterable(own), self._existing(committed))
        first = list(islice(entries, 1))
        if not first:  # the counts of the manifests were wrong: no file is live
            return []
        merged = self._write(manifests[0].content, spec_id, chain(first, entries))
        if len(committed) == len(manifests):
            self._merges[key] = merged
        return [merged]

    def _existing(self, manifests: list[ManifestFile]) -> Iterator[ManifestEntry]:
        """Reads the live entries of committed manifests. What they inherited is written out: ids and numbers stay."""
        for _, entries in read_manifests(self._table.io, manifests, self._table.specs()):
            for entry in entries:
                entry.status = EXISTING
                yield entry

    def _write_group(self, content: int, group: _Group) -> Iterator[ManifestFile]:
        for entries, copies in group.chunks():
            written = self._write(content, group.spec_id, entries, copies)
            self._own[written.path] = (entries, *copies)
            yield written

    def _write(
        self,
        content: int,
        spec_id: int,
        entries: Iterable[ManifestEntry],
        copies: Sequence[EntryCopies] = (),
    ) -> ManifestFile:
        path = self._table.location_provider().new_metadata_location(f"{self._name}-m{self._n_written}.avro")
        self._n_written += 1
        return write_manifest(
            self._table.io,
            path,
            metadata=self._table.metadata,
            spec=self._table.specs()[spec_id],
            content=content,
            snapshot_id=self._snapshot_id,
            entries=entries,
            copies=copies,
        )


def can_rewrite(metadata: TableMetadata, manifest: ManifestFile) -> bool:
    """Whether the entries of a manifest can be written to another one."""
    spec = metadata.specs().get(manifest.spec_id)
    return spec is not None and manifest.key_metadata is None and can_write(metadata, spec)


def _has_live_files(manifest: ManifestFile) -> bool:
    """Whether a manifest has a live file by its counts. An unknown count (version 1) counts as non-zero."""
    return manifest.added_files_count != 0 or manifest.existing_files_count != 0


def _lists(content: int, entry: ManifestEntry) -> bool:
    """Whether an entry belongs to manifests of this content."""
    return (entry.content == DATA) == (content == DATA)


@dataclass(frozen=True)
class _Group:
    """Entries of one partition spec for new manifests.

    Attributes:
        spec_id: the spec.
        entries: new entries.
        copies: the entries of rewritten manifests.
    """

    spec_id: int
    entries: list[ManifestEntry]
    copies: list[EntryCopies]

    def chunks(self) -> Iterator[tuple[list[ManifestEntry], list[EntryCopies]]]:
        """Yields the entries of each manifest. Those that are copied from one manifest stay together."""
        entries = self.entries
        while len(entries) >= ENTRIES_PER_MANIFEST:
            yield entries[:ENTRIES_PER_MANIFEST], []
            entries = entries[ENTRIES_PER_MANIFEST:]
        n, copies = len(entries), list[EntryCopies]()
        for one in self.copies:
            if n and n + len(one) > ENTRIES_PER_MANIFEST:
                yield entries, copies
                n, entries, copies = 0, [], []
            copies.append(one)
            n += len(one)
        if n:
            yield entries, copies


def _merged(groups: Iterable[_Group]) -> list[_Group]:
    """Merges the groups of each spec into one."""
    merged: dict[int, _Group] = {}
    for group in groups:
        known = merged.setdefault(group.spec_id, _Group(group.spec_id, [], []))
        known.entries.extend(group.entries)
        known.copies.extend(group.copies)
    return list(merged.values())
