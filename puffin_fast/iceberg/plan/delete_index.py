"""An index of delete files by what they apply to: a path, a partition, or every older data file.

`files` documents the rules. The index only reads manifest entries, never the delete files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType

from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, ManifestEntry, partition_type
from puffin_fast.rows.tasks import FILE_PATH_ID, TaskOf, single_data_file

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["DeleteIndex", "FileTask", "unused"]

_NAN = object()  # replaces NaN in partition values, so that NaN equals NaN


@dataclass(slots=True)
class FileTask(TaskOf[ManifestEntry, ManifestEntry, ManifestEntry]):
    """A data file and the delete files that apply to it; their entries include inherited values."""

    @property
    def groups(self) -> tuple[tuple[ManifestEntry, ...], ...]:
        """The delete files that apply, by kind. Data files with equal delete files share one tuple."""
        return () if self.vector is None else (self.vector,), self.position_deletes, self.equality_deletes

    @property
    def deletes(self) -> tuple[ManifestEntry, ...]:
        """All delete files that apply."""
        return tuple(chain.from_iterable(self.groups))


class _BySequence:
    """Delete files of one partition or path, ordered by data sequence number. Equal results share one tuple."""

    __slots__ = ("_entries", "_numbers", "_results")

    def __init__(self) -> None:
        self._entries: list[ManifestEntry] = []
        self._numbers: list[int] | None = None
        self._results: dict[int, tuple[ManifestEntry, ...]] = {}

    def add(self, entry: ManifestEntry) -> None:
        self._entries.append(entry)
        self._numbers = None

    def not_older(self, sequence_number: int) -> tuple[ManifestEntry, ...]:
        return self._from(bisect_left(self._sorted(), sequence_number))

    def newer(self, sequence_number: int) -> tuple[ManifestEntry, ...]:
        return self._from(bisect_right(self._sorted(), sequence_number))

    def _sorted(self) -> list[int]:
        if self._numbers is None:
            self._entries.sort(key=_sequence_number)
            self._numbers = [_sequence_number(entry) for entry in self._entries]
            self._results = {}
        return self._numbers

    def _from(self, start: int) -> tuple[ManifestEntry, ...]:
        if (found := self._results.get(start)) is None:
            found = self._results[start] = tuple(self._entries[start:])
        return found


class _ByBounds:
    """Position-delete files of one partition, found by the bounds of their ``file_path``.

    Data files are visited in the order of their paths. A delete file is added once, at its lower bound, and removed
    once, after its upper bound. Data files between two such events have equal results, which share one tuple.
    """

    def __init__(self) -> None:
        self._entries: list[ManifestEntry] = []

    def add(self, entry: ManifestEntry) -> None:
        self._entries.append(entry)

    def not_older(
        self, files: Iterable[ManifestEntry]
    ) -> Iterator[tuple[ManifestEntry, tuple[ManifestEntry, ...]]]:
        """Yields each data file, by path, with the delete files that may reference it and are not older."""
        entries = sorted(self._entries, key=_sequence_number)
        numbers = [_sequence_number(entry) for entry in entries]
        bounds = [(*_path_bounds(entry), at) for at, entry in enumerate(entries)]
        bounds = [(low, high, at) for low, high, at in bounds if high is None or (low or b"") <= high]
        starting = sorted(((low or b"", at) for low, _, at in bounds), reverse=True)
        ending = sorted(((high, at) for _, high, at in bounds if high is not None), reverse=True)
        inside: list[int] = []
        results: dict[int, tuple[ManifestEntry, ...]] = {}
        for path, file in sorted(((file.file_path.encode(), file) for file in files), key=itemgetter(0)):
            while starting and starting[-1][0] <= path:
                insort(inside, starting.pop()[1])
                results = {}
            while ending and ending[-1][0] < path:
                del inside[bisect_left(inside, ending.pop()[1])]
                results = {}
            start = bisect_left(inside, bisect_left(numbers, _sequence_number(file)))
            if start not in results:
                results[start] = tuple([entries[at] for at in inside[start:]])
            yield file, results[start]


def _sequence_number(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


class DeleteIndex:
    """Delete files by what they apply to.

    Attributes:
        entries: all delete files that were added.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._vectors: dict[str, ManifestEntry] = {}
        self._by_path: dict[str, _BySequence] = {}
        self._by_partition: dict[Any, _ByBounds] = {}
        self._equal: dict[Any, _BySequence] = {}
        self._equal_everywhere = _BySequence()
        self.entries: list[ManifestEntry] = []
        specs = metadata.specs()
        self._global = {
            id
            for id, spec in specs.items()
            if all(isinstance(f.transform, VoidTransform) for f in spec.fields)
        }
        self._floats = {
            id: any(
                isinstance(f.field_type, FloatType | DoubleType)
                for f in partition_type(metadata, spec).fields
            )
            for id, spec in specs.items()
        }

    def _key(self, entry: ManifestEntry) -> Any:
        partition = entry.partition
        if self._floats.get(entry.spec_id):
            partition = tuple([_NAN if value != value else value for value in partition])
        return entry.spec_id, partition

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        vectors = self._vectors
        entries = list(entries)
        self.entries += entries
        for entry in entries:
            if entry.is_vector:
                path = entry.referenced_data_file
                if path is None:
                    raise CorruptDataError(
                        "deletion vector without referenced_data_file", path=entry.file_path
                    )
                if path in vectors:
                    self._second_vector(vectors[path], entry)
                else:
                    vectors[path] = entry
            elif entry.content == EQUALITY_DELETES:
                if not entry.equality_ids:
                    raise CorruptDataError("equality deletes without equality_ids", path=entry.file_path)
                if entry.spec_id in self._global:
                    self._equal_everywhere.add(entry)
                else:
                    self._equal.setdefault(self._key(entry), _BySequence()).add(entry)
            elif (path := single_data_file(entry)) is not None:
                self._by_path.setdefault(path, _BySequence()).add(entry)
            else:
                self._by_partition.setdefault(self._key(entry), _ByBounds()).add(entry)

    def _second_vector(self, first: ManifestEntry, second: ManifestEntry) -> None:
        """Raises: a data file has at most one deletion vector (table specification, "Deletion Vectors")."""
        raise CorruptDataError(
            f"two deletion vectors for one data file: {_where(first)} and {_where(second)}",
            path=first.referenced_data_file,
        )

    def _check_shared(self) -> None:
        """Raises if data files share a deletion vector: a blob references one data file (Puffin specification)."""
        vectors = self._vectors.values()
        if len({(vector.file_path, vector.content_offset) for vector in vectors}) == len(vectors):
            return
        owners: dict[str, str | None] = {}
        for vector in vectors:
            owner = vector.referenced_data_file
            other = owners.setdefault(_where(vector), owner)
            if other != owner:
                raise CorruptDataError(
                    "data files of a deletion vector",
                    path=vector.file_path,
                    offset=vector.content_offset,
                    expected="one",
                    found=f"{other} and {owner}",
                )

    def tasks(self, entries: Iterable[ManifestEntry]) -> list[FileTask]:
        """A task for each data file."""
        self._check_shared()
        find = self._vectors.get
        tasks = [FileTask(data, find(data.file_path)) for data in entries]
        for task in tasks:
            vector = task.vector
            if vector is not None and (vector.sequence_number or 0) < (task.data.sequence_number or 0):
                task.vector = None  # it belongs to an older data file of the same path
        if len(self.entries) != len(self._vectors):
            positions = self._position_deletes([task.data for task in tasks if task.vector is None])
            for task in tasks:
                task.position_deletes = positions.get(id(task.data), ())
                task.equality_deletes = self._equality_deletes(task.data)
        return tasks

    def _position_deletes(self, files: Sequence[ManifestEntry]) -> dict[int, tuple[ManifestEntry, ...]]:
        """The position-delete files that apply to each data file, by Python's `id` of the data file's entry."""
        found: dict[int, tuple[ManifestEntry, ...]] = {}
        if self._by_path:
            for file in files:
                if (named := self._by_path.get(file.file_path)) is not None:
                    found[id(file)] = named.not_older(_sequence_number(file))
        if self._by_partition:
            same: dict[Any, list[ManifestEntry]] = defaultdict(list)
            for file in files:
                same[self._key(file)].append(file)
            for key in same.keys() & self._by_partition.keys():
                for file, some in self._by_partition[key].not_older(same[key]):
                    found[id(file)] = _joined(found.get(id(file), ()), some)
        return found

    def _equality_deletes(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        number = _sequence_number(data)
        found = self._equal_everywhere.newer(number)
        if self._equal and (same := self._equal.get(self._key(data))) is not None:
            return _joined(found, same.newer(number))
        return found


def _joined(first: tuple[ManifestEntry, ...], second: tuple[ManifestEntry, ...]) -> tuple[ManifestEntry, ...]:
    """Joins two tuples. If one is empty there is no copy: a copy for each data file would take quadratic time."""
    return first + second if first and second else first or second


def unused(
    entries: Iterable[ManifestEntry], used: Iterable[tuple[ManifestEntry, ...]]
) -> list[ManifestEntry]:
    """The delete files of `entries` that are in no tuple of `used`. Many of these tuples are the same object."""
    groups = {id(group): group for group in used}
    known = {id(entry) for group in groups.values() for entry in group}
    return [entry for entry in entries if id(entry) not in known]


def _where(vector: ManifestEntry) -> str:
    return f"{vector.file_path} offset {vector.content_offset}"


def _path_bounds(entry: ManifestEntry) -> tuple[bytes | None, bytes | None]:
    return (entry.lower_bounds or {}).get(FILE_PATH_ID), (entry.upper_bounds or {}).get(FILE_PATH_ID)
