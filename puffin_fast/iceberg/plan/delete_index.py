"""An index of delete files by what they apply to: a path, a partition, or every older data file.

`files` documents the rules. The index only reads manifest entries, never the delete files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType

from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.manifest import EQUALITY_DELETES, ManifestEntry, partition_type
from puffin_fast.rows.shared_deletes import (
    NO_DELETES,
    DeleteFiles,
    SharedDeletes,
    distinct,
    path_bounds,
    sequence_number,
    single_data_file,
)
from puffin_fast.rows.tasks import TaskOf

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_NAN = object()  # replaces NaN in partition values, so that NaN equals NaN


@dataclass(slots=True)
class FileTask(TaskOf[ManifestEntry, ManifestEntry, ManifestEntry]):
    """A data file and the delete files that apply to it; their entries include inherited values."""

    @property
    def groups(self) -> tuple[Sequence[ManifestEntry], ...]:
        """The delete files that apply, by kind."""
        return () if self.vector is None else (self.vector,), self.position_deletes, self.equality_deletes

    @property
    def deletes(self) -> tuple[ManifestEntry, ...]:
        """All delete files that apply."""
        return tuple(chain.from_iterable(self.groups))

    def __reduce__(self) -> tuple[Any, ...]:
        """The values without their names: many tasks are copied and pickled."""
        return type(self), _values_of(self)

    def __repr__(self) -> str:
        rows = f"{self.data.record_count:,} rows"
        return f"{type(self).__name__}({self.data.file_path}, {rows}, {len(self.deletes):,} delete files)"


_values_of = attrgetter(*(field.name for field in fields(FileTask)))


class _ByBounds:
    """Position-delete files of one partition, found by the bounds of their ``file_path``.

    A tree over the data files in the order of their paths. A delete file is in the few nodes that together cover the
    data files within its bounds; those that may reference a data file are in the nodes above it.
    """

    def __init__(self) -> None:
        self._entries: list[ManifestEntry] = []

    def add(self, entry: ManifestEntry) -> None:
        self._entries.append(entry)

    def not_older(
        self, files: Iterable[ManifestEntry]
    ) -> Iterator[tuple[ManifestEntry, list[tuple[SharedDeletes, int]]]]:
        """Yields each data file with the delete files that may reference it and are not older."""
        ordered = sorted(((file.file_path.encode(), file) for file in files), key=itemgetter(0))
        paths = [path for path, _ in ordered]
        n_leaves = 1 << (len(paths) - 1).bit_length()
        nodes: dict[int, SharedDeletes] = {}
        for entry in self._entries:
            low, high = path_bounds(entry)
            start = 0 if low is None else bisect_left(paths, low)
            stop = n_leaves if high is None or paths[-1] <= high else bisect_right(paths, high)
            for node in _nodes_of(n_leaves + start, n_leaves + stop):
                nodes.setdefault(node, SharedDeletes()).entries.append(entry)
        lists = [*nodes.values()]
        for one in lists:
            one.others = lists
        for leaf, (_, file) in enumerate(ordered, n_leaves):
            above = (nodes.get(leaf >> level) for level in range(n_leaves.bit_length()))
            number = sequence_number(file)
            yield file, [(node, node.not_older(number)) for node in above if node is not None]


def _nodes_of(start: int, stop: int) -> Iterator[int]:
    """Yields the nodes of a binary tree that together cover the leaves from `start` to before `stop`."""
    while start < stop:
        if start & 1:
            yield start
            start += 1
        if stop & 1:
            stop -= 1
            yield stop
        start >>= 1
        stop >>= 1


class DeleteIndex:
    """Delete files by what they apply to.

    Attributes:
        entries: all delete files that were added.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._vectors: dict[str, ManifestEntry] = {}
        self._by_path: dict[str, SharedDeletes] = {}
        self._by_partition: dict[Any, _ByBounds] = {}
        self._equal: dict[Any, SharedDeletes] = {}
        self._equal_everywhere = SharedDeletes()
        self._results: dict[tuple[tuple[int, int], ...], DeleteFiles] = {}
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
                    self._equal_everywhere.entries.append(entry)
                else:
                    self._equal.setdefault(self._key(entry), SharedDeletes()).entries.append(entry)
            elif (path := single_data_file(entry)) is not None:
                self._by_path.setdefault(path, SharedDeletes(of_one=True)).entries.append(entry)
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
            self.attach(tasks)
        return tasks

    def attach(self, tasks: Sequence[FileTask]) -> None:
        """Gives tasks the other delete files that apply, according to whether they have a vector."""
        positions = self._position_deletes([task.data for task in tasks if task.vector is None])
        for task in tasks:
            task.position_deletes = positions.get(id(task.data), NO_DELETES)
            task.equality_deletes = self._equality_deletes(task.data)

    def _position_deletes(self, files: Sequence[ManifestEntry]) -> dict[int, DeleteFiles]:
        """The position-delete files that apply to each data file, by Python's `id` of the data file's entry."""
        found: dict[int, list[tuple[SharedDeletes, int]]] = defaultdict(list)
        if self._by_path:
            for file in files:
                if (named := self._by_path.get(file.file_path)) is not None:
                    found[id(file)].append((named, named.not_older(sequence_number(file))))
        if self._by_partition:
            same: dict[Any, list[ManifestEntry]] = defaultdict(list)
            for file in files:
                same[self._key(file)].append(file)
            for key in same.keys() & self._by_partition.keys():
                for file, some in self._by_partition[key].not_older(same[key]):
                    found[id(file)] += some
        return {key: self._shared(parts) for key, parts in found.items()}

    def _equality_deletes(self, data: ManifestEntry) -> DeleteFiles:
        lists = [self._equal_everywhere]
        if self._equal and (same := self._equal.get(self._key(data))) is not None:
            lists.append(same)
        return self._shared([(one, one.newer(sequence_number(data))) for one in lists])

    def _shared(self, parts: Sequence[tuple[SharedDeletes, int]]) -> DeleteFiles:
        """The same object for equal parts."""
        key = tuple([(id(shared), start) for shared, start in parts])
        if (found := self._results.get(key)) is None:
            found = self._results[key] = DeleteFiles(parts)
        return found


def same_partition(one: ManifestEntry, other: ManifestEntry) -> bool:
    """Whether two files have the same partition spec and the same partition; NaN equals NaN."""
    return (one.spec_id, len(one.partition)) == (other.spec_id, len(other.partition)) and all(
        a == b or (a != a and b != b) for a, b in zip(one.partition, other.partition, strict=True)
    )


def unused(entries: Iterable[ManifestEntry], used: Iterable[Iterable[ManifestEntry]]) -> list[ManifestEntry]:
    """The delete files of `entries` that are in none of `used`."""
    known = set(map(id, distinct(used)))
    return [entry for entry in entries if id(entry) not in known]


def _where(vector: ManifestEntry) -> str:
    return f"{vector.file_path} offset {vector.content_offset}"
