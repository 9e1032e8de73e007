"""Runs jobs on threads and yields their results in order, with bounded memory: each job has a bounded queue."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

from puffin_fast._concurrency.progress import progress
from puffin_fast._concurrency.threads import release, thread_pool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

CAPACITY = 4
"""Default maximum number of results in a queue."""


class _Channel(Generic[R]):
    """A bounded queue for the results of one job; the worker and the reader can both end it."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[R] = deque()
        self._changed = threading.Condition()
        self._done = False
        self._stopped = False
        self._error: BaseException | None = None

    def fill(self, results: Callable[[], Iterable[R]]) -> None:
        """Runs the job and puts its results, until it ends or the reader stops. Called in a worker thread."""
        try:
            for item in results():
                with self._changed:
                    while len(self._items) >= self._capacity and not self._stopped:
                        self._changed.wait()
                    if self._stopped:
                        return
                    self._items.append(item)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def stop(self) -> None:
        """Ends the queue, because the reader stops or the interpreter exits."""
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()
        release(self._changed)

    def __iter__(self) -> Iterator[R]:
        while True:
            with self._changed:
                while not (self._items or self._done or self._stopped):
                    self._changed.wait()
                if self._stopped:  # the interpreter exits: the results are incomplete
                    raise RuntimeError("the interpreter is shutting down")
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error


def in_order(
    jobs: Iterable[T],
    work: Callable[[T], Iterable[R]],
    threads: int,
    *,
    capacity: int = CAPACITY,
    label: str | None = None,
) -> Iterator[R]:
    """Runs `work` for each job on several threads; yields the results in the order of the jobs.

    Args:
        jobs: consumed as they are started.
        work: called in a worker thread. It yields at most `capacity` items ahead of the reader.
        threads: the number of worker threads; below 2, all jobs run in the caller's thread.
        capacity: the maximum number of results that a job has ready.
        label: as `progress` takes it.
    """
    if threads < 2:
        for job in progress(jobs, label):
            yield from work(job)
        return
    waiting: deque[_Channel[R]] = deque()
    source = iter(jobs)

    def stop() -> None:
        for channel in tuple(waiting):
            channel.stop()

    def start(pool: ThreadPoolExecutor) -> bool:
        for job in source:
            channel: _Channel[R] = _Channel(capacity)
            waiting.append(channel)
            pool.submit(channel.fill, partial(work, job))
            return True
        return False

    with thread_pool(threads, "puffin_fast-scan", stop) as pool:
        while len(waiting) < 2 * threads and start(pool):
            pass
        for _ in progress(range(len(jobs)) if isinstance(jobs, Sized) else count(), label):
            if not waiting:
                break
            yield from waiting[0]
            waiting.popleft()
            start(pool)
