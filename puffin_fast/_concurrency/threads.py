"""Thread pools whose pending work is cancelled when their reader ends or the interpreter exits.

Before it exits, Python waits until the threads of a pool have done all pending work. If a reader is still referenced
then (a partly read stream, the frames of an uncaught exception), this would take long or never end. So all pending
work is cancelled first.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from puffin_fast._api.arguments import check_integer
from puffin_fast._concurrency.progress import progress
from puffin_fast._process.interrupt import interruptible

REMOTE_THREADS = 16
"""Maximum number of files that are read at a time from an object store, where a request takes 10 to 100 ms."""

MOST_TOGETHER = 32
"""Maximum number of items that a thread takes at a time."""

PARTS_PER_THREAD = 64
"""Number of times that each thread takes items, at least; threads then finish at about the same time."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_SIGNALS = signal.valid_signals()
_stops: set[Callable[[], object]] = set()


class _Pool(ThreadPoolExecutor):
    """A thread pool that ends although a signal's handler raised an exception while this thread held one of its locks.

    An exception that comes while Python's `Condition` is left, leaves its lock to this thread for good, and a worker
    would wait for it. So signals are blocked while a thread is started, and locks of futures are released at the end.
    """

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._given: list[weakref.ref[Future[Any]]] = []

    def submit(self, call: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future = super().submit(call, *args, **kwargs)
        self._given.append(weakref.ref(future))
        return future

    def _adjust_thread_count(self) -> None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            super()._adjust_thread_count()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def release_locks(self) -> None:
        """Releases the locks that this thread still holds."""
        for given in self._given:
            if (future := given()) is not None:
                release(future._condition)


def release(condition: threading.Condition) -> None:
    """Releases the lock of a condition that this thread still holds, because an exception came while it was left."""
    while condition._is_owned():  # type: ignore[attr-defined]
        condition.release()


@contextmanager
def thread_pool(
    threads: int, name: str, stop: Callable[[], object] | None = None
) -> Iterator[ThreadPoolExecutor]:
    """Makes a thread pool; its pending work is cancelled at the end of the block or of the interpreter.

    Args:
        name: the prefix of the threads' names.
        stop: called to end the workers that wait for the reader.
    """
    pool = _Pool(threads, name)

    def cancel() -> None:
        if stop is not None:
            stop()
        pool.shutdown(wait=False, cancel_futures=True)

    try:
        _stops.add(cancel)
        with interruptible():  # Python's threads raise a KeyError if they are interrupted while one starts
            yield pool
    finally:
        _stops.discard(cancel)
        cancel()
        pool.release_locks()
        pool.shutdown(wait=True)


def _stop_all() -> None:
    for cancel in tuple(_stops):
        cancel()


# `atexit` functions run too late, after the threads were joined. These functions run in reverse order of registration:
# `_stop_all` before the one of concurrent.futures, which was registered by the import above.
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=_stops.clear)  # these threads do not exist in the child process


def check_threads(threads: int | None) -> None:
    """Checks a number of threads; None is valid.

    Raises:
        InvalidInputError: the number is below 1 or not an integer.
    """
    check_integer("threads", threads, least=1)


def on_threads(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int | None, *, label: str | None = None
) -> Iterator[Result]:
    """Calls `work` for each item on threads; yields the results in the order of the items.

    A thread takes several items at a time if there are many: to hand over one takes as long as to read a small file.

    Args:
        work: called in a worker thread.
        threads: the maximum number of threads; the number of processors by default.
        label: as `progress` takes it.
    """
    workers = min(threads or os.cpu_count() or 1, len(items))
    if workers <= 1:
        yield from map(work, progress(items, label))
        return
    together = max(1, min(MOST_TOGETHER, len(items) // (workers * PARTS_PER_THREAD)))
    parts = [items[at : at + together] for at in range(0, len(items), together)]

    def work_on(part: Sequence[Item]) -> list[Result]:
        return [work(item) for item in part]

    with thread_pool(workers, "puffin_fast") as pool:
        results = chain.from_iterable(pool.map(work_on, parts))
        for _, result in zip(progress(items, label), results, strict=True):
            yield result
