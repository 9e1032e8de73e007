"""The inventory of all live delete files of a snapshot, for verify, repair and the reports.

Planning raises if a data file has two deletion vectors, and omits delete files that do not apply. The inventory
includes both: second vectors, dangling deletes, and position-delete files that a vector supersedes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from puffin_fast.errors import CorruptDataError, NotFoundError
from puffin_fast.iceberg.manifest import (
    DATA,
    EQUALITY_DELETES,
    ManifestEntry,
    ManifestFile,
    manifests_of,
    read_manifests,
)
from puffin_fast.iceberg.manifest.columns import Paths, Select
from puffin_fast.iceberg.plan.delete_index import DeleteIndex, FileTask, unused
from puffin_fast.rows.shared_deletes import NO_DELETES, DeleteFiles, single_data_file

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

PER_GROUP = 1000
"""The maximum number of data files in a group: their vectors are read and held in memory together."""


@dataclass(slots=True)
class FileDeletes:
    """A data file and all delete files that reference it or apply to it.

    Attributes:
        data: the data file.
        vectors: the deletion vectors that are not older than the data file; the specification allows one.
        position_deletes: the position-delete files that apply, or are superseded by a vector.
        equality_deletes: the equality-delete files that apply.
    """

    data: ManifestEntry
    vectors: tuple[ManifestEntry, ...] = ()
    position_deletes: DeleteFiles = NO_DELETES
    equality_deletes: DeleteFiles = NO_DELETES

    @property
    def superseded(self) -> DeleteFiles:
        """The position-delete files that do not apply, because the data file has a deletion vector."""
        return self.position_deletes if self.vectors else NO_DELETES

    @property
    def task(self) -> FileTask:
        """The scan task of the data file.

        Raises:
            CorruptDataError: the data file has two deletion vectors.
        """
        if len(self.vectors) > 1:
            raise CorruptDataError(
                f"{len(self.vectors)} deletion vectors for one data file; puffin_fast.iceberg.repair merges them",
                path=self.data.file_path,
            )
        if self.vectors:
            return FileTask(self.data, self.vectors[0], NO_DELETES, self.equality_deletes)
        return FileTask(self.data, None, self.position_deletes, self.equality_deletes)

    @property
    def groups(self) -> tuple[Sequence[ManifestEntry], ...]:
        """All delete files, by kind."""
        return self.vectors, self.position_deletes, self.equality_deletes


@dataclass(slots=True)
class DeleteInventory:
    """The live files of a snapshot.

    Attributes:
        files: the data files, in the order of the manifests.
        dangling: the delete files that apply to no live data file.
        incomplete: deletion vectors without ``referenced_data_file``, equality deletes without ``equality_ids``.
    """

    files: list[FileDeletes] = field(default_factory=list)
    dangling: list[ManifestEntry] = field(default_factory=list)
    incomplete: list[ManifestEntry] = field(default_factory=list)

    def vectors(self) -> Iterator[ManifestEntry]:
        """Yields all live deletion vectors, including dangling and incomplete ones."""
        for file in self.files:
            yield from file.vectors
        yield from (entry for entry in (*self.dangling, *self.incomplete) if entry.is_vector)


def by_puffin_file(files: Iterable[FileDeletes]) -> list[list[FileDeletes]]:
    """Groups data files by the Puffin file of their first vector; a data file without vector is its own group."""
    groups: list[list[FileDeletes]] = []
    of_path: dict[str, list[FileDeletes]] = {}
    for file in files:
        group = of_path.get(file.vectors[0].file_path) if file.vectors else None
        if group is None or len(group) == PER_GROUP:
            group = []
            groups.append(group)
            if file.vectors:
                of_path[file.vectors[0].file_path] = group
        group.append(file)
    return groups


class _Index(DeleteIndex):
    """A delete index that accepts second vectors of a data file, and also finds superseded delete files."""

    def __init__(self, metadata: TableMetadata) -> None:
        super().__init__(metadata)
        self._more: dict[str | None, list[ManifestEntry]] = {}

    def _second_vector(self, first: ManifestEntry, second: ManifestEntry) -> None:
        self._more.setdefault(first.referenced_data_file, []).append(second)

    def files(self, entries: Sequence[ManifestEntry]) -> list[FileDeletes]:
        positions = self._position_deletes(entries)
        result = []
        for data in entries:
            found = FileDeletes(data)
            first = self._vectors.get(data.file_path)
            if first is not None:
                both = (first, *self._more.get(data.file_path, ()))
                number = data.sequence_number or 0
                found.vectors = tuple(vector for vector in both if (vector.sequence_number or 0) >= number)
            found.position_deletes = positions.get(id(data), NO_DELETES)
            found.equality_deletes = self._equality_deletes(data)
            result.append(found)
        return result


def take_inventory(
    table: Table, snapshot: Snapshot | None, *, metrics: bool = False, only: Collection[str] | None = None
) -> DeleteInventory:
    """Reads all manifests of a snapshot.

    Args:
        table: a table of format version 1 to 3.
        snapshot: None for an empty branch.
        metrics: whether the entries of data files have their metrics.
        only: the paths of the only data files whose entries and deletes are wanted; others are not made.

    Raises:
        CorruptDataError, NotFoundError: a metadata file is damaged or missing.
    """
    result = DeleteInventory()
    if snapshot is None:
        return result
    manifests = manifests_of(table.io, snapshot)
    index, specs = _Index(table.metadata), table.specs()
    paths = None if only is None else Paths(only)
    referenced, among = (None, None) if paths is None else (paths.select_deletes, paths.select)
    deletes = [manifest for manifest in manifests if manifest.content != DATA]
    for _, entries in read_manifests(table.io, deletes, specs, select=referenced):
        index.add(entry for entry in entries if not _is_incomplete(entry, result.incomplete))
    data = [manifest for manifest in manifests if manifest.content == DATA]
    found = read_manifests(table.io, data, specs, metrics=metrics, select=among)
    result.files = index.files([entry for _, entries in found for entry in entries])
    result.dangling = unused(index.entries, chain.from_iterable(file.groups for file in result.files))
    if only is not None:  # of the others it is not known, because their data files were not read
        result.dangling = [entry for entry in result.dangling if single_data_file(entry) in only]
        result.incomplete = []
    return result


def inventory_beside(
    table: Table, snapshot: Snapshot | None, paths: Collection[str], *, strict: bool
) -> DeleteInventory:
    """Reads the deletes of all data files that have their vector in one Puffin file with that of a given data file.

    Raises:
        NotFoundError: there is no data file of one of the paths, if `strict`.
        CorruptDataError, NotFoundError: as for `take_inventory`.
    """
    puffins: set[str] = set()
    beside = {*paths}
    if snapshot is not None:
        deletes = [m for m in manifests_of(table.io, snapshot) if m.content != DATA]
        for entry in _vectors(table, deletes, Paths(paths).select_deletes):
            if entry.referenced_data_file in paths:
                puffins.add(entry.file_path)
        for entry in _vectors(table, deletes, Paths(puffins).select):
            if entry.referenced_data_file is not None:
                beside.add(entry.referenced_data_file)
    found = take_inventory(table, snapshot, only=beside)
    if strict:
        check_found(found, paths)
    # a data file of the same path may have an older vector there, and its own one elsewhere
    found.files = [file for file in found.files if puffins.issuperset(v.file_path for v in file.vectors)]
    return found


def _vectors(table: Table, deletes: Sequence[ManifestFile], select: Select) -> Iterator[ManifestEntry]:
    for _, entries in read_manifests(table.io, deletes, table.specs(), select=select):
        yield from (entry for entry in entries if entry.is_vector)


def check_found(found: DeleteInventory, paths: Collection[str]) -> None:
    """Checks that the inventory of some data files has each of them, or a dangling delete file of it.

    Raises:
        NotFoundError: there is no data file of one of the paths.
    """
    known = {file.data.file_path for file in found.files} | {*map(single_data_file, found.dangling)}
    if missing := sorted({*paths} - known):
        raise NotFoundError(f"{missing[0]}: expected a data file of the snapshot, found none")


def _is_incomplete(entry: ManifestEntry, incomplete: list[ManifestEntry]) -> bool:
    vector = entry.is_vector and entry.referenced_data_file is None
    found = vector or (entry.content == EQUALITY_DELETES and not entry.equality_ids)
    if found:
        incomplete.append(entry)
    return found
