"""Finds the data files that changed between snapshots, and their deletes in both states.

The manifests of two snapshots are compared. Those that both have are not read for changes:

    manifests of one snapshot only    -> data files and delete files of one snapshot only
    delete files of one snapshot only -> the data files that they reference
    manifests of both snapshots       -> the entries of these data files, and other deletes that apply to them

Entries' statuses and snapshot ids are not used: writers merge manifests, and set both in different ways. All ranges are
planned together, and each manifest is read at most twice, however many snapshots have it.
Memory: the entries of changed data files, and the delete files of the manifests that are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pyiceberg.transforms import VoidTransform

from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.errors import CorruptDataError, NotFoundError
from puffin_fast.iceberg.manifest import (
    DATA,
    EQUALITY_DELETES,
    ManifestEntry,
    ManifestFile,
    content_of,
    key_of,
    manifests_of,
    read_manifests,
)
from puffin_fast.iceberg.manifest.columns import Paths, Select
from puffin_fast.iceberg.plan.delete_index import DeleteIndex, FileTask
from puffin_fast.rows.changes.states import FileChange
from puffin_fast.rows.deletes.position_files import read_position_deletes
from puffin_fast.rows.shared_deletes import single_data_file

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_Place: TypeAlias = "tuple[int, tuple[Any, ...]]"
"""A partition spec and its values."""


@dataclass(frozen=True)
class _Wanted:
    """The data files whose states are compared.

    Attributes:
        paths: by name.
        places: all of these partitions, for equality deletes of them.
        everywhere: all data files, for equality deletes of unpartitioned specs.
    """

    paths: set[str] = field(default_factory=set)
    places: set[_Place] = field(default_factory=set)
    everywhere: bool = False

    def __contains__(self, entry: ManifestEntry) -> bool:
        return (
            self.everywhere
            or entry.file_path in self.paths
            or (entry.spec_id, entry.partition) in self.places
        )

    @property
    def by_path(self) -> bool:
        return not (self.everywhere or self.places)


@dataclass(frozen=True)
class _State:
    """The manifests of a snapshot, and the live entries of those that the other snapshot does not have.

    Attributes:
        manifests: the manifests of the snapshot.
        own: the paths of the manifests that the other snapshot does not have.
        entries: the entries of these manifests.
    """

    manifests: Mapping[str, ManifestFile]
    own: frozenset[str]
    entries: Sequence[ManifestEntry]


@dataclass(frozen=True)
class _Step:
    """Two states, and the data files whose states are compared."""

    states: tuple[_State, _State]
    wanted: _Wanted


def plan_changes(
    table: Table, metadata: TableMetadata, pairs: Sequence[tuple[Snapshot | None, Snapshot | None]]
) -> list[list[FileChange]]:
    """Returns the data files that changed between pairs of snapshots.

    Args:
        metadata: its complete metadata.
        pairs: the snapshots before and after; None is the empty table.

    Raises:
        CorruptDataError: a manifest is damaged, or a data file has two deletion vectors.
        NotFoundError: a manifest or position-delete file does not exist.
    """
    return _Planner(table.io, metadata).plan(pairs)


class _Planner:
    """Plans pairs of snapshots.

    Args:
        io: the FileIO of the table.
        metadata: the metadata of the table.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io, self._metadata, self._specs = io, metadata, metadata.specs()
        self._lists: dict[int, dict[str, ManifestFile]] = {}
        self._global = {
            spec_id
            for spec_id, spec in self._specs.items()
            if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
        }

    def plan(self, pairs: Sequence[tuple[Snapshot | None, Snapshot | None]]) -> list[list[FileChange]]:
        with paused_gc():
            steps = [self._step(before, after) for before, after in pairs]
            data = self._shared(
                steps, self._data_manifests, lambda all: Paths(all.paths).select if all.by_path else None
            )
            found = [self._data_of(step, data) for step in steps]
            deletes = self._shared_deletes(steps, found)
            return [self._changes(step, states, deletes) for step, states in zip(steps, found, strict=True)]

    def _manifests(self, snapshot: Snapshot | None) -> dict[str, ManifestFile]:
        if snapshot is None:
            return {}
        if snapshot.snapshot_id not in self._lists:
            try:
                found = manifests_of(self._io, snapshot)
            except NotFoundError as error:
                raise NotFoundError(
                    f"{error}; it is the manifest list of snapshot {snapshot.snapshot_id}"
                ) from error
            self._lists[snapshot.snapshot_id] = {manifest.path: manifest for manifest in found}
        return self._lists[snapshot.snapshot_id]

    def _step(self, before: Snapshot | None, after: Snapshot | None) -> _Step:
        lists = self._manifests(before), self._manifests(after)
        states = tuple(self._state(mine, other) for mine, other in (lists, lists[::-1]))
        assert len(states) == 2
        return _Step(states, self._wanted(*states))

    def _state(self, mine: Mapping[str, ManifestFile], other: Mapping[str, ManifestFile]) -> _State:
        own = [manifest for path, manifest in mine.items() if path not in other]
        read = read_manifests(self._io, own, self._specs, metrics=False)
        return _State(
            mine, frozenset(m.path for m in own), [entry for _, entries in read for entry in entries]
        )

    def _wanted(self, before: _State, after: _State) -> _Wanted:
        """The data files that only one state has, and those whose deletes may differ."""
        wanted, everywhere = _Wanted(), False
        counts = [Counter(map(_identity, state.entries)) for state in (before, after)]
        one_only = (counts[0] - counts[1]) + (counts[1] - counts[0])
        for state in (before, after):
            for entry in state.entries:
                if _identity(entry) not in one_only:
                    continue
                if entry.content == DATA:
                    wanted.paths.add(entry.file_path)
                elif entry.content == EQUALITY_DELETES:
                    everywhere |= entry.spec_id in self._global
                    wanted.places.add((entry.spec_id, entry.partition))
                elif entry.is_vector and entry.referenced_data_file is not None:
                    wanted.paths.add(entry.referenced_data_file)
                elif (path := single_data_file(entry)) is not None:
                    wanted.paths.add(path)
                else:
                    wanted.paths.update(self._paths_in(entry))
        return _Wanted(wanted.paths, wanted.places, everywhere)

    def _paths_in(self, entry: ManifestEntry) -> Iterator[str]:
        """Yields the data files that a position-delete file references."""
        for found in read_position_deletes(self._io, entry):
            yield from found

    # Entries of the manifests that both states have ----------------------------------------------------------

    def _shared(
        self,
        steps: Sequence[_Step],
        needed: Callable[[_Step], Iterable[ManifestFile]],
        select: Callable[[_Wanted], Select | None],
    ) -> dict[str, list[ManifestEntry]]:
        """Reads the manifests that steps need, each once; returns their entries by its path."""
        manifests: dict[str, ManifestFile] = {}
        wanted, everywhere = _Wanted(), False
        for step in steps:
            for manifest in needed(step):
                if manifest.first_row_id is not None or manifest.path not in manifests:
                    manifests[manifest.path] = manifest
            wanted.paths.update(step.wanted.paths)
            wanted.places.update(step.wanted.places)
            everywhere |= step.wanted.everywhere
        chosen = select(_Wanted(wanted.paths, wanted.places, everywhere))
        read = read_manifests(self._io, [*manifests.values()], self._specs, metrics=False, select=chosen)
        return {manifest.path: entries for manifest, entries in read}

    def _data_manifests(self, step: _Step) -> Iterator[ManifestFile]:
        """Yields the shared manifests that may have wanted data files which the others lack.

        An upgrade to version 3 gives old manifests row ids, so only the newer state may have them.
        """
        wanted = step.wanted
        known = {entry.file_path for state in step.states for entry in state.entries if entry.content == DATA}
        if wanted.by_path and known.issuperset(wanted.paths):
            return
        before, after = (state.manifests for state in step.states)
        for path, manifest in after.items():
            if manifest.content == DATA and path in before:
                yield before[path] if manifest.first_row_id is None else manifest

    def _data_of(
        self, step: _Step, shared: Mapping[str, list[ManifestEntry]]
    ) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
        """The wanted data files of both states."""
        found = []
        for state in step.states:
            own = [entry for entry in state.entries if entry.content == DATA]
            both = [shared.get(path, ()) for path in state.manifests if path not in state.own]
            found.append([entry for entries in (own, *both) for entry in entries if entry in step.wanted])
        return found[0], found[1]

    def _shared_deletes(
        self, steps: Sequence[_Step], found: Sequence[tuple[list[ManifestEntry], list[ManifestEntry]]]
    ) -> dict[str, list[ManifestEntry]]:
        oldest = {
            id(step): min(
                (entry.sequence_number or 0 for entries in states for entry in entries), default=None
            )
            for step, states in zip(steps, found, strict=True)
        }

        def needed(step: _Step) -> Iterator[ManifestFile]:
            least = oldest[id(step)]
            for path, manifest in step.states[1].manifests.items():
                if manifest.content == DATA or path in step.states[1].own or least is None:
                    continue
                if manifest.sequence_number >= least:
                    yield manifest

        paths = {entry.file_path for states in found for entries in states for entry in entries}
        return self._shared(steps, needed, lambda _: Paths(paths).select_deletes)

    # Tasks of both states --------------------------------------------------------------------------------------

    def _changes(
        self,
        step: _Step,
        data: tuple[list[ManifestEntry], list[ManifestEntry]],
        shared: Mapping[str, list[ManifestEntry]],
    ) -> list[FileChange]:
        before, after = (
            self._tasks(state, entries, shared) for state, entries in zip(step.states, data, strict=True)
        )
        found = []
        for key in before.keys() | after.keys():
            old, new = before.get(key), after.get(key)
            if old is None or new is None or not _are_equal(old, new):
                found.append((key, FileChange(old, new)))
        return [change for _, change in sorted(found, key=lambda one: one[0])]

    def _tasks(
        self, state: _State, data: Sequence[ManifestEntry], shared: Mapping[str, list[ManifestEntry]]
    ) -> dict[tuple[str, int], FileTask]:
        """The tasks of a state by path; a path that occurs more than once is numbered."""
        index = DeleteIndex(self._metadata)
        paths = {entry.file_path for entry in data}
        own = [entry for entry in state.entries if entry.content != DATA]
        both = [shared.get(path, ()) for path in state.manifests if path not in state.own]
        for entries in (own, *both):
            index.add(entry for entry in entries if _may_apply(entry, paths))
        found: dict[tuple[str, int], FileTask] = {}
        seen: Counter[str] = Counter()
        for task in sorted(index.tasks(data), key=lambda task: task.data.sequence_number or 0):
            path = task.data.file_path
            found[path, seen[path]] = task
            seen[path] += 1
        return found


def _identity(entry: ManifestEntry) -> tuple[object, ...]:
    """The key by which a live file of two states is the same; the sequence number decides which deletes apply.

    A vector that a commit only moved is the same.
    """
    if entry.is_vector:
        return entry.content, content_of(entry)
    return entry.content, key_of(entry), entry.sequence_number, entry.referenced_data_file


def _are_equal(before: FileTask, after: FileTask) -> bool:
    """Whether the same deletes apply, so that no row changed."""
    if before.data.record_count != after.data.record_count:
        raise CorruptDataError(
            "record count of a data file in two snapshots",
            path=before.data.file_path,
            expected=before.data.record_count,
            found=after.data.record_count,
        )
    kinds = zip(before.groups, after.groups, strict=False)
    return len(before.groups) == len(after.groups) and all(
        [*map(_identity, old)] == [*map(_identity, new)] for old, new in kinds
    )


def _may_apply(entry: ManifestEntry, paths: set[str]) -> bool:
    named = entry.referenced_data_file
    if named is None and entry.content != EQUALITY_DELETES and not entry.is_vector:
        named = single_data_file(entry)
    return named is None or named in paths
