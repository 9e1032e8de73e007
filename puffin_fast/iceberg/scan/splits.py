"""Shares of data files, and which of them one worker reads in one go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from puffin_fast.iceberg.plan.files import FileTask
    from puffin_fast.iceberg.scan.file_reader import _Opened

__all__ = ["Split", "jobs_of", "parts_of", "row_groups_of", "splits_of"]

LARGE_FILE = 256 << 20
"""Bytes from which on a data file is cut, however many others there are."""

SMALL_ROW_GROUP = 4 << 20
"""Bytes that a row group has at least where a manifest does not tell how many there are: a guess may be high."""

JOBS_PER_THREAD = 8
"""Jobs per thread from which on they are many: threads end at about the same time."""

JOB_BYTES = 2 << 20
"""Bytes of data files and vectors that are read in one go, or one file that is larger."""


class _Shared:
    """What the splits of one data file have in common: made by the first that needs it, let go by the last.

    Args:
        task: the data file.
        count: how many splits ask for it.
    """

    def __init__(self, task: FileTask, count: int) -> None:
        self.task = task
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._known = False
        self._left = count

    def opened(self, make: Callable[[FileTask], _Opened | None]) -> _Opened | None:
        with self._lock:
            if not self._known:
                self._opened = make(self.task)
                self._known = True
            opened = self._opened
            self._left -= 1
            if self._left == 0:
                self._opened = None
            return opened


@dataclass(frozen=True)
class Split:
    """A share of one data file: run `number` of `count` runs of about equally many row groups.

    Attributes:
        alone: there is nothing else to read, so that its columns may be read in parallel.
    """

    shared: _Shared
    number: int
    count: int
    alone: bool

    @classmethod
    def of(cls, task: FileTask, number: int, count: int) -> Split:
        """A share by itself: nobody else reads the data file here."""
        return cls(_Shared(task, count), number, count, False)

    @property
    def task(self) -> FileTask:
        return self.shared.task


def row_groups_of(task: FileTask) -> int:
    """How many row groups a data file has by its manifest, which may guess too high."""
    data = task.data
    return len(data.split_offsets or ()) or data.file_size_in_bytes // SMALL_ROW_GROUP


def parts_of(task: FileTask, n_tasks: int, threads: int) -> int:
    """Into how many runs of row groups a data file is cut, by the split offsets in its manifest.

    Args:
        task: the data file.
        n_tasks: how many there are; where they are many only large ones are cut.
        threads: that share the work.
    """
    data = task.data
    if threads < 2 or (n_tasks >= JOBS_PER_THREAD * threads and data.file_size_in_bytes < LARGE_FILE):
        return 1
    return max(1, min(4 * threads, row_groups_of(task)))


def splits_of(task: FileTask, n_tasks: int, threads: int) -> list[Split]:
    """A data file cut as `parts_of` says."""
    count = parts_of(task, n_tasks, threads)
    shared = _Shared(task, count)
    return [Split(shared, number, count, n_tasks == 1 and count == 1) for number in range(count)]


def jobs_of(tasks: Sequence[FileTask], threads: int, *, together: bool = True) -> Iterator[list[Split]]:
    """All splits of a scan, in order, small ones together where that leaves each thread enough jobs.

    Threads and the reader wait for each other once per job or batch, not once per small data file, and
    vectors of one Puffin file are read together.

    Args:
        tasks: the data files.
        threads: that share the work.
        together: whether there may be several splits in a job.
    """
    most = len(tasks) // (JOBS_PER_THREAD * max(threads, 1)) if together else 1
    job: list[Split] = []
    n_bytes = 0
    for task in tasks:
        for split in splits_of(task, len(tasks), threads):
            size = (task.data.file_size_in_bytes + _vector_bytes(task)) // split.count
            if job and (len(job) >= most or n_bytes + size > JOB_BYTES):
                yield job
                job, n_bytes = [], 0
            job.append(split)
            n_bytes += size
    if job:
        yield job


def _vector_bytes(task: FileTask) -> int:
    return 0 if task.vector is None else task.vector.content_size_in_bytes or 0
