"""Work on several threads whose results come in the order of the items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["on_threads"]

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    with ThreadPoolExecutor(workers, thread_name_prefix="puffin-fast") as pool:
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
