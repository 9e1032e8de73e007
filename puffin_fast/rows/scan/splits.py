"""Splits data files by row groups, and groups splits to jobs for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from puffin_fast._concurrency.threads import REMOTE_THREADS
from puffin_fast._io import is_remote

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from puffin_fast.bitmap import PositionBitmap
    from puffin_fast.rows.tasks import DataFile, Task

_Opened = TypeVar("_Opened")

LARGE_FILE = 256 << 20
"""Size in bytes from which on a data file is split, however many other files there are."""

SMALL_ROW_GROUP = 4 << 20
"""Assumed minimum size in bytes of a row group, where the manifest entry has no split offsets."""

JOBS_PER_THREAD = 8
"""Number of jobs per thread that suffices for threads to finish at about the same time."""

JOB_BYTES = 2 << 20
"""Maximum bytes of data files and deletion vectors of a job; a larger file is a job of its own."""

PAGE_BYTES = 1 << 18
"""Bytes that are read for a row that a key index names: pages of the key columns."""

REMOTE_BYTES = 256 << 20
"""Fewer are read at a time if that many row groups of the largest file would have more bytes."""


def threads_of(io: FileIO, tasks: Sequence[Task], threads: int | None = None) -> int:
    """Returns how many data files are read at a time.

    Args:
        io: opens the files.
        threads: number of threads. None: the number of processors; more if the files are in an object store.
    """
    if threads is not None:
        return threads
    processors = int(pa.cpu_count())
    if not tasks or not is_remote(tasks[0].data.file_path, io):
        return processors
    most = max(task.data.file_size_in_bytes // max(row_groups_of(task), 1) for task in tasks)
    return max(processors, min(REMOTE_THREADS, REMOTE_BYTES // max(most, 1)))


class HasData(Protocol):
    """What names a data file, such as a task."""

    @property
    def data(self) -> DataFile: ...


class _Shared:
    """The opened data file that its splits share: opened by the first split, released by the last.

    Args:
        task: the data file.
        count: number of splits.
    """

    def __init__(self, task: Task, count: int) -> None:
        self.task = task
        self._lock = threading.Lock()
        self._opened: Any = None
        self._is_opened = False
        self._left = count

    def opened(self, make: Callable[[Task], _Opened]) -> _Opened:
        with self._lock:
            if not self._is_opened:
                self._opened = make(self.task)
                self._is_opened = True
            opened: _Opened = self._opened
            self._left -= 1
            if self._left == 0:
                self._opened = None
            return opened


@dataclass(frozen=True)
class Split:
    """A split of a data file: part `number` of `count` parts with about equally many row groups.

    Attributes:
        alone: True if the scan has no other split; its columns may then be read in parallel.
    """

    shared: _Shared
    number: int
    count: int
    alone: bool

    @classmethod
    def of(cls, task: Task, number: int, count: int) -> Split:
        """Returns a split that shares no opened data file with others of this process."""
        return cls(_Shared(task, count), number, count, False)

    @property
    def task(self) -> Task:
        return self.shared.task


def row_groups_of(task: Task) -> int:
    """The number of row groups by split offsets, else estimated from the file size (the estimate may be too high)."""
    data = task.data
    return len(data.split_offsets or ()) or data.file_size_in_bytes // SMALL_ROW_GROUP


def parts_of(task: Task, n_tasks: int, threads: int) -> int:
    """Returns into how many splits a data file is divided, by the split offsets of its manifest entry.

    Args:
        n_tasks: number of data files of the scan; if there are many, only large files are split.
    """
    data = task.data
    if threads < 2 or (n_tasks >= JOBS_PER_THREAD * threads and data.file_size_in_bytes < LARGE_FILE):
        return 1
    return max(1, min(4 * threads, row_groups_of(task)))


def _splits_of(task: Task, n_tasks: int, threads: int) -> list[Split]:
    """Returns the splits of a data file; their number is that of `parts_of`."""
    count = parts_of(task, n_tasks, threads)
    shared = _Shared(task, count)
    return [Split(shared, number, count, n_tasks == 1 and count == 1) for number in range(count)]


def jobs_of(tasks: Sequence[Task], threads: int, *, together: bool = True) -> Iterator[list[Split]]:
    """Yields the splits of a scan in order, grouped to jobs; small splits share a job if enough jobs remain.

    Threads and the consumer then synchronize once per job or batch, not once per small data file, and the
    vectors of one Puffin file are read together.

    Args:
        together: whether a job may have several splits.
    """
    most = len(tasks) // (JOBS_PER_THREAD * max(threads, 1)) if together else 1
    job: list[Split] = []
    n_bytes = 0
    for task in tasks:
        for split in _splits_of(task, len(tasks), threads):
            size = (task.data.file_size_in_bytes + _vector_bytes(task)) // split.count
            if job and (len(job) >= most or n_bytes + size > JOB_BYTES):
                yield job
                job, n_bytes = [], 0
            job.append(split)
            n_bytes += size
    if job:
        yield job


def data_bytes(task: HasData, candidates: PositionBitmap | None = None) -> int:
    """The bytes of a data file that are read: all, or the pages of rows that an index names.

    Args:
        candidates: these rows; by default those of the task.
    """
    size = task.data.file_size_in_bytes
    rows = getattr(task, "candidates", None) if candidates is None else candidates
    return size if rows is None else min(size, len(rows) * PAGE_BYTES)


def _vector_bytes(task: Task) -> int:
    return 0 if task.vector is None else task.vector.content_size_in_bytes or 0
