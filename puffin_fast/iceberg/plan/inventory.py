"""All live delete files of a snapshot, also where they break the rules that planning insists on.

Planning answers "what applies" and refuses a table with two vectors for a data file. Who mends or judges a
table needs to see those too, and the delete files that apply to nothing, or that a vector hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.manifest import (
    DATA,
    EQUALITY_DELETES,
    ManifestEntry,
    manifests_of,
    read_manifests,
)
from puffin_fast.iceberg.plan.delete_index import DeleteIndex, FileTask, unused

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["DeleteInventory", "FileDeletes", "by_puffin_file", "take_inventory"]


PER_GROUP = 1000
"""Vectors that are read, and held, at a time."""


@dataclass(slots=True)
class FileDeletes:
    """A data file and every delete file that is about it.

    Attributes:
        data: the data file.
        vectors: deletion vectors that are not older; the specification allows one.
        position_deletes: those that apply, or would if no vector hid them.
        equality_deletes: those that apply.
    """

    data: ManifestEntry
    vectors: tuple[ManifestEntry, ...] = ()
    position_deletes: tuple[ManifestEntry, ...] = ()
    equality_deletes: tuple[ManifestEntry, ...] = ()

    @property
    def superseded(self) -> tuple[ManifestEntry, ...]:
        """Position-delete files that no reader opens for this data file, because it has a vector."""
        return self.position_deletes if self.vectors else ()

    @property
    def task(self) -> FileTask:
        """What a scan makes of it.

        Raises:
            CorruptDataError: it has two vectors.
        """
        if len(self.vectors) > 1:
            raise CorruptDataError(
                f"{len(self.vectors)} deletion vectors for one data file; puffin_fast.iceberg.repair merges them",
                path=self.data.file_path,
            )
        if self.vectors:
            return FileTask(self.data, self.vectors[0], (), self.equality_deletes)
        return FileTask(self.data, None, self.position_deletes, self.equality_deletes)

    @property
    def groups(self) -> tuple[tuple[ManifestEntry, ...], ...]:
        """The delete files that are about it, by kind; data files that share them share the tuple."""
        return self.vectors, self.position_deletes, self.equality_deletes


@dataclass(slots=True)
class DeleteInventory:
    """The live files of a snapshot.

    Attributes:
        files: the data files, in the order of the manifests.
        dangling: delete files that are about no live data file.
        nameless: vectors that do not say whose they are, and equality deletes without ids.
    """

    files: list[FileDeletes] = field(default_factory=list)
    dangling: list[ManifestEntry] = field(default_factory=list)
    nameless: list[ManifestEntry] = field(default_factory=list)

    def vectors(self) -> Iterator[ManifestEntry]:
        """Every live vector, whatever it is about."""
        for file in self.files:
            yield from file.vectors
        yield from (entry for entry in (*self.dangling, *self.nameless) if entry.is_vector)


def by_puffin_file(files: Iterable[FileDeletes]) -> list[list[FileDeletes]]:
    """Data files with a vector in groups, by the Puffin file of the first; those without one stand alone."""
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
    """Keeps what planning refuses, and finds what it need not look at."""

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
            found.position_deletes = positions.get(id(data), ())
            found.equality_deletes = self._equality_deletes(data)
            result.append(found)
        return result


def take_inventory(table: Table, snapshot: Snapshot | None, *, metrics: bool = False) -> DeleteInventory:
    """Reads all manifests of a snapshot.

    Args:
        table: of format version 1 to 3.
        snapshot: None for an empty branch.
        metrics: keep the metrics of data files.

    Raises:
        CorruptDataError, NotFoundError: damaged or missing metadata.
    """
    result = DeleteInventory()
    if snapshot is None:
        return result
    manifests = [m for m in manifests_of(table.io, snapshot) if m.may_be_live]
    index, specs = _Index(table.metadata), table.specs()
    deletes = [manifest for manifest in manifests if manifest.content != DATA]
    for _, entries in read_manifests(table.io, deletes, specs):
        index.add(entry for entry in entries if not _is_nameless(entry, result.nameless))
    data = [manifest for manifest in manifests if manifest.content == DATA]
    found = read_manifests(table.io, data, specs, metrics=metrics)
    result.files = index.files([entry for _, entries in found for entry in entries])
    result.dangling = unused(index.entries, chain.from_iterable(file.groups for file in result.files))
    return result


def _is_nameless(entry: ManifestEntry, nameless: list[ManifestEntry]) -> bool:
    vector = entry.is_vector and entry.referenced_data_file is None
    found = vector or (entry.content == EQUALITY_DELETES and not entry.equality_ids)
    if found:
        nameless.append(entry)
    return found
