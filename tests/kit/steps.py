"""Counts the steps of a job, for tests of how its cost grows: they do not depend on the machine, as times do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

SEARCHES = ("count", "index", "remove", "insert")


def steps_of(work: Callable[[], object]) -> int:
    """Counts the calls of functions, in all threads.

    A search in a list or an Arrow schema counts as many steps as it has items.
    """
    n_steps = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal n_steps
        if event in ("call", "c_call"):
            n_steps += 1
        if (
            event == "c_call"
            and arg.__name__ in SEARCHES
            and isinstance(arg.__self__, list | tuple | pa.Schema)
        ):
            n_steps += len(arg.__self__)

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return n_steps
