"""The files of a plan as columns, and its tasks.

A deletion vector is matched to its data file by a hash of the path; paths of the same hash are compared. Entries and
tasks are made when they are requested: they take several times as long as all of planning.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from puffin_fast._kernels.rows.texts import Texts
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.columns.objects import Objects, Same
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.manifest import POSITION_DELETES, ManifestEntry
from puffin_fast.iceberg.manifest.columns import FileColumns, Paths
from puffin_fast.iceberg.plan.delete_index import DeleteIndex, FileTask
from puffin_fast.rows.tasks import METRICS, PlannedTasks

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

Item = TypeVar("Item")
Rows = npt.NDArray[np.int64]

_GROUP = 10_240
"""Number of items that an iteration makes at a time; large enough for `paused_gc` to save a collection."""
_NEAR = 64
"""Number of neighbors that are made together for one index."""


class Lazy(Sequence[Item], Generic[Item]):
    """A sequence whose items are made when they are requested, each once."""

    def __init__(self) -> None:
        self._made: dict[int, Item] = {}
        self._lock = threading.RLock()

    @abstractmethod
    def _make(self, rows: Rows) -> list[Item]:
        """Makes items, given their indexes in ascending order."""

    def many(self, rows: Rows) -> list[Item]:
        """Returns the items of some indexes; -1 is not among them."""
        made, wanted = self._made, rows.tolist()
        with self._lock:
            missing = sorted({row for row in wanted if row not in made})
            if missing:
                with paused_gc():
                    made.update(zip(missing, self._make(np.array(missing)), strict=True))
        return [made[row] for row in wanted]

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.many(np.arange(len(self))[at])
        row = range(len(self))[at]
        if row not in self._made:
            start = row - row % _NEAR
            self.many(np.arange(start, min(start + _NEAR, len(self))))
        return self._made[row]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), _GROUP):
            yield from self.many(np.arange(start, min(start + _GROUP, len(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return self is other or all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> Any:
        return list, (list(self),)


class Files(Lazy[ManifestEntry]):
    """The entries of files in several manifests.

    Attributes:
        parts: their columns, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[FileColumns] = []
        self._ends = np.zeros(0, np.int64)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, part: FileColumns, entries: Sequence[ManifestEntry] | None = None) -> None:
        """Adds files; with their entries, if they were made."""
        if not len(part):
            return
        if entries is not None:
            self._made.update(enumerate(entries, self._n))
        self.parts.append(part)
        self._n += len(part)
        self._ends = np.append(self._ends, self._n)

    def paths(self) -> Paths:
        """Returns the paths of all files."""
        found = Paths(())
        for part in self.parts:
            found.add(part)
        return found

    def _make(self, rows: Rows) -> list[ManifestEntry]:
        of_part = np.searchsorted(self._ends, rows, "right")
        found: list[ManifestEntry] = []
        for number in np.unique(of_part).tolist():
            part = self.parts[number]
            some = rows[of_part == number] - (self._ends[number] - len(part))
            found += part.take(some).entries()
        return found

    def columns(self, rows: Rows, left_out: Collection[str]) -> Objects[ManifestEntry]:
        """Returns the entries of some files, by ascending index, without some fields."""
        of_part = np.searchsorted(self._ends, rows, "right")
        found = []
        for number in np.unique(of_part).tolist():
            part = self.parts[number]
            some = rows[of_part == number] - (self._ends[number] - len(part))
            found.append(part.take(some).columns(left_out))
        return Objects.joined(found)


class Tasks(Lazy[FileTask], PlannedTasks[FileTask]):
    """The tasks of a plan.

    Args:
        data: the data files.
        deletes: the delete files.
        vector_of: for each data file the index of its deletion vector in `deletes`, -1 if it has none.
    """

    def __init__(self, data: Files, deletes: Files, vector_of: Rows) -> None:
        super().__init__()
        self.data, self._deletes, self.vector_of = data, deletes, vector_of

    def __len__(self) -> int:
        return len(self.data)

    def _make(self, rows: Rows) -> list[FileTask]:
        at = self.vector_of[rows]
        vectors = iter(self._deletes.many(at[at >= 0]))
        return [
            FileTask(data, next(vectors) if has else None)
            for data, has in zip(self.data.many(rows), (at >= 0).tolist(), strict=True)
        ]

    @property
    def parts(self) -> Sequence[FileColumns]:
        return self.data.parts

    def total(self, name: str) -> int:
        return sum(int(part.integers(name).values.sum()) for part in self.data.parts)

    def columns(self) -> Objects[FileTask]:
        if not len(self):
            return Objects(FileTask, (), 0)
        data = self.data.columns(np.arange(len(self)), METRICS)
        vector: Any = Same(None)
        if (self.vector_of >= 0).any():
            rows, places = np.unique(self.vector_of, return_inverse=True)
            if rows[0] < 0:
                rows, places = rows[1:], places - 1
            vector = self._deletes.columns(rows, (*METRICS, "referenced_data_file"))
            if not np.array_equal(places, np.arange(len(rows))):
                vector = vector.spread(places.tolist())
            vector = vector.replaced(referenced_data_file=data.column("file_path"))
        return Objects(FileTask, [data, vector], len(self))


def tasks_of(metadata: TableMetadata, data: Files, deletes: Files) -> Sequence[FileTask]:
    """Matches delete files to data files.

    Raises:
        CorruptDataError: a deletion vector has no data file or is that of several, a data file has two of them, or an
            equality-delete file has no columns.
    """
    vectors = _Vectors(deletes)
    index = DeleteIndex(metadata)
    for part in deletes.parts:
        others = vectors.add(part)
        if len(others):
            index.add(deletes.many(others))
    vectors.check_shared()
    tasks = Tasks(data, deletes, vectors.of(data))
    for part in (*data.parts, *deletes.parts):
        part.compact()
    if not index.entries:
        return tasks
    every = list(tasks)
    index.attach(every)
    return every


class _Vectors:
    """Deletion vectors by the paths of their data files."""

    def __init__(self, deletes: Files) -> None:
        self._deletes, self._known, self._n = deletes, Texts(), 0
        self._rows: list[Rows] = []
        self._numbers: list[Rows] = []
        self._places: list[tuple[Rows, Rows]] = []
        self._files = Texts()

    def add(self, part: FileColumns) -> Rows:
        """Adds the deletion vectors among the next delete files; returns the rows of the others."""
        is_vector = (part.integers("content").values == POSITION_DELETES) & part.has_format("PUFFIN")
        rows, start = np.flatnonzero(is_vector), self._n
        self._n += len(part)
        if len(rows):
            self._add(part.take(is_vector), start + rows)
        return start + np.flatnonzero(~is_vector)

    def _add(self, some: FileColumns, rows: Rows) -> None:
        data, starts, sizes = some.texts("referenced_data_file")
        if (sizes < 0).any():
            entry = self._deletes[int(rows[(sizes < 0).argmax()])]
            raise CorruptDataError("deletion vector without referenced_data_file", path=entry.file_path)
        before, numbers = len(self._known), np.empty(len(rows), np.int64)
        self._known.add(data, starts, sizes, numbers)
        expected = before + np.arange(len(rows))
        if (numbers != expected).any():
            at = int((numbers != expected).argmax())
            known = np.concatenate([*self._rows, rows])
            first, second = self._deletes.many(known[[numbers[at], before + at]])
            raise CorruptDataError(
                f"two deletion vectors for one data file: {_where(first)} and {_where(second)}",
                path=first.referenced_data_file,
            )
        self._rows.append(rows)
        self._numbers.append(some.integers("sequence_number").values)
        files = np.empty(len(rows), np.int64)
        self._files.add(*some.texts("file_path"), files)
        self._places.append((files, some.integers("content_offset").filled(-1).values))

    def check_shared(self) -> None:
        """Raises if data files share a deletion vector: a blob references one data file (Puffin specification)."""
        if not self._rows:
            return
        files, offsets = (np.concatenate(parts) for parts in zip(*self._places, strict=True))
        order = np.lexsort((offsets, files))
        same = (np.diff(files[order]) == 0) & (np.diff(offsets[order]) == 0)
        if same.any():
            rows = np.concatenate(self._rows)
            at = int(same.argmax())
            other, vector = self._deletes.many(rows[np.sort(order[at : at + 2])])
            raise CorruptDataError(
                "data files of a deletion vector",
                path=vector.file_path,
                offset=vector.content_offset,
                expected="one",
                found=f"{other.referenced_data_file} and {vector.referenced_data_file}",
            )

    def of(self, data: Files) -> Rows:
        """The index of the vector of each data file; -1 if it has none, or that of an older file of the same path."""
        found = np.full(len(data), -1, np.int64)
        if not self._rows:
            return found
        rows, numbers, start = np.concatenate(self._rows), np.concatenate(self._numbers), 0
        for part in data.parts:
            own = found[start : start + len(part)]
            self._known.find(*part.texts("file_path"), own)
            has = own >= 0
            has &= numbers[own] >= part.integers("sequence_number").values
            own[:] = np.where(has, rows[own], -1)
            start += len(part)
        return found


def _where(vector: ManifestEntry) -> str:
    return f"{vector.file_path} offset {vector.content_offset}"
