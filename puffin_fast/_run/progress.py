"""Shows on a terminal or in a notebook how far a job is.

Jobs that run inside of each other, or on several threads, share one display. It appears half a second after a job
began, on standard error, and disappears when the job ends. Elsewhere (a log file, a pipe, an executor of Spark) nothing
is shown. The environment variable ``PUFFIN_FAST_PROGRESS`` set to ``0`` turns it off.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from puffin_fast._run.fork import lock_across_fork

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Item = TypeVar("Item")

DELAY_S = 0.5

_lock = lock_across_fork()
_display: Progress | None = None


class _Bar(NamedTuple):
    """A job's line in a display. It is this process's while `_display` is that display: not after a fork."""

    display: Progress
    task: TaskID


def progress(
    items: Iterable[Item], label: str | None, *, counted: Callable[[Item], int] | None = None
) -> Iterator[Item]:
    """Yields the items, and shows how many have been yielded and are done.

    Args:
        items: if they have a length, it is shown.
        label: what is done with them, as in ``"reading data files"``; None to show nothing.
        counted: the number that is shown for an item, such as the rows of a batch; 1 by default.
    """
    if label is None or not is_watched():
        yield from items
        return
    total = len(items) if isinstance(items, Sized) and counted is None else None
    began, done, bar = time.monotonic(), 0, None
    try:
        for item in items:
            yield item
            done += 1 if counted is None else counted(item)
            if bar is None and time.monotonic() - began > DELAY_S:
                bar = _add(label, total)
            if bar is not None and bar.display is _display:
                bar.display.update(bar.task, completed=done)
    finally:
        if bar is not None:
            _remove(bar)


def is_watched() -> bool:
    """Whether progress is shown: on a terminal or in a notebook."""
    if os.environ.get("PUFFIN_FAST_PROGRESS") == "0":
        return False
    in_notebook = "ipykernel" in sys.modules
    return in_notebook or (
        sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    )


def _add(label: str, total: int | None) -> _Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    global _display
    with _lock:
        if _display is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            _display = Progress(*columns, console=Console(stderr=True), transient=True)
            _display.start()
        return _Bar(_display, _display.add_task(label, total=total))


def _remove(bar: _Bar) -> None:
    global _display
    with _lock:
        if bar.display is not _display:
            return
        _display.remove_task(bar.task)
        if not _display.tasks:
            _display.stop()
            _display = None


def _forget() -> None:
    global _display
    _display = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
