"""Thread pools whose pending work is cancelled when their reader ends or the interpreter exits.

Before it exits, Python waits until the threads of a pool have done all pending work. If a reader is still referenced
then (a partly read stream, the frames of an uncaught exception), this would take long or never end. So all pending
work is cancelled first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import TypeVar

from puffin_fast._run.arguments import check_integer
from puffin_fast._run.interrupt import interruptible
from puffin_fast._run.progress import progress

REMOTE_THREADS = 16
"""Maximum number of files that are read at a time from an object store, where a request takes 10 to 100 ms."""

MOST_TOGETHER = 32
"""Maximum number of items that a thread takes at a time."""

PARTS_PER_THREAD = 64
"""Number of times that each thread takes items, at least; threads then finish at about the same time."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_stops: set[Callable[[], object]] = set()


@contextmanager
def thread_pool(
    threads: int, name: str, stop: Callable[[], object] | None = None
) -> Iterator[ThreadPoolExecutor]:
    """Makes a thread pool; its pending work is cancelled at the end of the block or of the interpreter.

    Args:
        name: the prefix of the threads' names.
        stop: called to end the workers that wait for the reader.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

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
