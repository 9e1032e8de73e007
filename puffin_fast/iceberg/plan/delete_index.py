"""Delete files found by what they apply to: a path, a partition, or every older data file.

The rules stand in `plan`; what is known of the delete files is their manifest entries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType

from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, ManifestEntry, partition_type

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["FILE_PATH_ID", "DeleteIndex", "FileTask", "only_path", "unused"]

FILE_PATH_ID = 2147483546
"""Reserved field id of ``file_path`` in position deletes: its bounds say which data files are meant."""

_NAN = object()  # NaN equals NaN as a partition value


@dataclass(slots=True)
class FileTask:
    """A data file and the deletes that apply to it, entries with inherited values filled in."""

    data: ManifestEntry
    vector: ManifestEntry | None = None
    position_deletes: tuple[ManifestEntry, ...] = ()
    equality_deletes: tuple[ManifestEntry, ...] = ()

    @property
    def deletes(self) -> tuple[ManifestEntry, ...]:
        """All delete files that apply."""
        first = () if self.vector is None else (self.vector,)
        return first + self.position_deletes + self.equality_deletes


class _BySequence:
    """Delete files of one partition or path, ordered by data sequence number."""

    __slots__ = ("_entries", "_numbers")

    def __init__(self) -> None:
        self._entries: list[ManifestEntry] = []
        self._numbers: list[int] | None = None

    def add(self, entry: ManifestEntry) -> None:
        self._entries.append(entry)
        self._numbers = None

    def _sorted(self) -> list[int]:
        if self._numbers is None:
            self._entries.sort(key=_sequence_number)
            self._numbers = [_sequence_number(entry) for entry in self._entries]
        return self._numbers

    def not_older(self, sequence_number: int) -> Sequence[ManifestEntry]:
        return self._entries[bisect_left(self._sorted(), sequence_number) :]

    def newer(self, sequence_number: int) -> Sequence[ManifestEntry]:
        return self._entries[bisect_right(self._sorted(), sequence_number) :]


def _sequence_number(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


class DeleteIndex:
    """Delete files by what they apply to.

    Attributes:
        entries: all of them.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._vectors: dict[str, ManifestEntry] = {}
        self._by_path: dict[str, _BySequence] = {}
        self._by_partition: dict[Any, _BySequence] = {}
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
                        "deletion vector without referenced-data-file", path=entry.file_path
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
            elif (path := only_path(entry)) is not None:
                self._by_path.setdefault(path, _BySequence()).add(entry)
            else:
                self._by_partition.setdefault(self._key(entry), _BySequence()).add(entry)

    def _second_vector(self, first: ManifestEntry, second: ManifestEntry) -> None:
        """A table may not have two vectors for a data file: nobody could say which one counts."""
        raise CorruptDataError(
            f"two deletion vectors for one data file: {_where(first)} and {_where(second)}",
            path=first.referenced_data_file,
        )

    def tasks(self, entries: Iterable[ManifestEntry]) -> list[FileTask]:
        """A task for each data file."""
        find = self._vectors.get
        tasks = [FileTask(data, find(data.file_path)) for data in entries]
        only_vectors = len(self.entries) == len(self._vectors)
        for task in tasks:
            vector = task.vector
            if vector is not None and (vector.sequence_number or 0) < (task.data.sequence_number or 0):
                task.vector = None  # of a file that stood at this path before
            if not only_vectors:
                number = task.data.sequence_number or 0
                if task.vector is None:
                    task.position_deletes = tuple(self._position_deletes(task.data, number))
                task.equality_deletes = tuple(self._equality_deletes(task.data, number))
        return tasks

    def _position_deletes(self, data: ManifestEntry, number: int) -> Iterator[ManifestEntry]:
        if (named := self._by_path.get(data.file_path)) is not None:
            yield from named.not_older(number)
        if self._by_partition and (same := self._by_partition.get(self._key(data))) is not None:
            path = data.file_path.encode()
            yield from (entry for entry in same.not_older(number) if _may_name(entry, path))

    def _equality_deletes(self, data: ManifestEntry, number: int) -> Iterator[ManifestEntry]:
        yield from self._equal_everywhere.newer(number)
        if self._equal and (same := self._equal.get(self._key(data))) is not None:
            yield from same.newer(number)


def unused(entries: Iterable[ManifestEntry], used: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The delete files that are not among those that apply."""
    known = set(map(id, used))
    return [entry for entry in entries if id(entry) not in known]


def _where(vector: ManifestEntry) -> str:
    return f"{vector.file_path} offset {vector.content_offset}"


def only_path(entry: ManifestEntry) -> str | None:
    """The one data file that a position-delete file names, if it says so."""
    if entry.referenced_data_file is not None:
        return entry.referenced_data_file
    lower, upper = _path_bounds(entry)
    return lower.decode(errors="surrogateescape") if lower is not None and lower == upper else None


def _may_name(entry: ManifestEntry, path: bytes) -> bool:
    lower, upper = _path_bounds(entry)
    return (lower is None or lower <= path) and (upper is None or path <= upper)


def _path_bounds(entry: ManifestEntry) -> tuple[bytes | None, bytes | None]:
    return (entry.lower_bounds or {}).get(FILE_PATH_ID), (entry.upper_bounds or {}).get(FILE_PATH_ID)
