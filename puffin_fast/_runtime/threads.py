"""Threads that work for one reader: they end with it, and with the interpreter.

Python joins the threads of a pool before it exits, after they have worked off all that is pending. A reader that
is still referenced then (a partly read stream, the frames of an uncaught exception) would keep it waiting, so at
exit all pending work is cancelled first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from puffin_fast.errors import InvalidInputError

__all__ = ["check_threads", "on_threads", "thread_pool"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_stops: set[Callable[[], object]] = set()


@contextmanager
def thread_pool(
    threads: int, name: str, stop: Callable[[], object] | None = None
) -> Iterator[ThreadPoolExecutor]:
    """A pool whose pending work is cancelled when the block or the interpreter ends.

    Args:
        threads: how many.
        name: begins the threads' names.
        stop: makes those end that wait for the reader.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def cancel() -> None:
        if stop is not None:
            stop()
        pool.shutdown(wait=False, cancel_futures=True)

    _stops.add(cancel)
    try:
        yield pool
    finally:
        _stops.discard(cancel)
        cancel()
        pool.shutdown(wait=True)


def _stop_all() -> None:
    for cancel in tuple(_stops):
        cancel()


# Not `atexit`: its functions run after the threads were joined. These run in reverse order, so before
# concurrent.futures' own, which was registered when it was imported above.
threading._register_atexit(_stop_all)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=_stops.clear)  # a child has none of these threads


def check_threads(threads: int | None) -> None:
    """Refuses a number of threads below 1.

    Raises:
        InvalidInputError: it is below 1, or no integer.
    """
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise InvalidInputError(f"threads: expected at least 1, or None, found {threads!r}")


def on_threads(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int | None
) -> Iterator[Result]:
    """Results in the order of the items.

    Args:
        work: called on threads.
        items: all of them.
        threads: at most so many; the number of processors by default.
    """
    workers = min(threads or os.cpu_count() or 1, len(items))
    if workers <= 1:
        yield from map(work, items)
        return
    with thread_pool(workers, "puffin_fast") as pool:
        yield from pool.map(work, items)
