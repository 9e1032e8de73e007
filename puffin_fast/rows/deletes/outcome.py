"""The new deletes of one data file, before they are written and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from puffin_fast._concurrency.threads import on_threads
from puffin_fast.bitmap import PositionBitmap

if TYPE_CHECKING:
    from puffin_fast.puffin.vectors import DeletionVectorLocation
    from puffin_fast.rows.tasks import Task


class _Loader(Protocol):
    def of(self, task: Task) -> PositionBitmap: ...


@dataclass(frozen=True)
class NewDeletes:
    """The deletes of one data file after a job, not written yet.

    Attributes:
        task: the data file and the deletes that apply to it.
        positions: all deleted positions, earlier ones included; None when all rows are deleted.
        n_new: number of rows that no position delete or deletion vector deleted before.
        before: the positions that were deleted before; None when there were none.
    """

    task: Task
    positions: PositionBitmap | None
    n_new: int
    before: PositionBitmap | None = None

    @classmethod
    def merge(cls, task: Task, positions: PositionBitmap, current: _Loader) -> NewDeletes:
        """Returns the union of new positions and of those that are deleted already.

        Args:
            positions: the new positions.
            current: loads the positions that are deleted already.
        """
        if task.vector is None and not task.position_deletes:
            return cls(task, positions, len(positions))
        return cls.added(task, positions, current.of(task))

    @classmethod
    def added(cls, task: Task, positions: PositionBitmap, before: PositionBitmap) -> NewDeletes:
        """Returns the union of new positions and of those that were deleted before."""
        after = before | positions
        return cls(task, after, len(after) - len(before), before)

    @property
    def drops(self) -> bool:
        """Whether all rows of the data file are deleted."""
        return self.positions is None or len(self.positions) == self.task.data.record_count

    def __or__(self, other: NewDeletes) -> NewDeletes:
        """Returns the union of the deletes that two parts of a job found for one task."""
        if self.positions is None or other.positions is None:
            return self if self.positions is None else other
        positions = self.positions | other.positions
        return replace(self, positions=positions, n_new=len(positions) - len(self.before or ()))


def united(parts: Iterable[Iterable[NewDeletes]]) -> Iterator[NewDeletes]:
    """Yields the deletes of each data file once, after all parts of a job were searched."""
    found: dict[str, NewDeletes] = {}
    for part in parts:
        for new in part:
            path = new.task.data.file_path
            found[path] = found[path] | new if path in found else new
    yield from found.values()


def merge_rows(
    tasks: Sequence[Task],
    file: npt.NDArray[np.signedinteger],
    position: npt.NDArray[np.int64],
    current: _Loader,
    threads: int | None,
) -> Iterator[NewDeletes]:
    """Yields the deletes of the data files of some rows, by `NewDeletes.merge`.

    Args:
        file: index of each row's data file in `tasks`.
        position: position of each row in its file.
        current: loads the positions that are deleted already.
        threads: number of files merged at a time.
    """
    if (file[1:] < file[:-1]).any():
        order = np.argsort(file, kind="stable")
        file, position = file[order], position[order]
    starts = np.flatnonzero(np.append(True, file[1:] != file[:-1])) if len(file) else np.empty(0, np.intp)
    numbers, counts = file[starts], np.diff(starts, append=len(file))

    def merge(part: tuple[int, int, int]) -> NewDeletes:
        number, start, count = part
        mine = PositionBitmap.from_positions(position[start : start + count])
        return NewDeletes.merge(tasks[number], mine, current)

    parts = zip(numbers.tolist(), starts.tolist(), counts.tolist(), strict=True)
    return on_threads(merge, list(parts), threads)


def paths_of_rows(tasks: Sequence[Task], file: npt.NDArray[np.signedinteger]) -> frozenset[str]:
    """Returns the paths of the data files of some rows; arguments as `merge_rows`."""
    return frozenset(tasks[number].data.file_path for number in np.flatnonzero(np.bincount(file)).tolist())


@dataclass(frozen=True)
class Outcome:
    """The deletes of one data file after they were written.

    Attributes:
        task: the data file and the deletes that applied to it before.
        n_new: number of newly deleted rows.
        vector: the location of its new deletion vector.
        by_files: True when position-delete files hold its deletes, in a table of format version 2.
    """

    task: Task
    n_new: int
    vector: DeletionVectorLocation | None = None
    by_files: bool = False

    @property
    def drops(self) -> bool:
        """Whether all rows of the data file are deleted."""
        return self.vector is None and not self.by_files


@dataclass(frozen=True)
class FileDeleted:
    """The deletes of one data file that a worker wrote, earlier deletes included.

    Attributes:
        data_file: the path of the data file.
        n_new: number of rows that were live before.
        vector: its new deletion vector; without one, and not by files, all its rows are deleted.
        by_files: whether position-delete files hold the new deletes.
    """

    data_file: str
    n_new: int
    vector: DeletionVectorLocation | None = None
    by_files: bool = False

    @classmethod
    def of(cls, outcome: Outcome) -> FileDeleted:
        """Returns an outcome without its task."""
        return cls(outcome.task.data.file_path, outcome.n_new, outcome.vector, outcome.by_files)
