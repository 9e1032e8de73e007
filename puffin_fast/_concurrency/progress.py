"""Shows on a terminal or in a notebook how far a job is.

Jobs that run inside of each other, or on several threads, share one display. It appears half a second after a job
began, on standard error, and disappears when the job ends. A line shows how many items of a job are done, and how many
rows this process has read and written since the job began, so that a job of one item moves, too. Elsewhere (a log file,
a pipe, an executor of Spark) nothing is shown. The environment variable ``PUFFIN_FAST_PROGRESS`` set to ``0`` turns it
off.

What cannot be shown is no error of a job: the display then stays away.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar
from weakref import WeakSet

from puffin_fast._process.fork import lock_across_fork

if TYPE_CHECKING:
    from rich.progress import TaskID

Item = TypeVar("Item")
Result = TypeVar("Result")

DELAY_S = 0.5

REFRESH_S = 0.1


class _Bar:
    """A job whose progress may be shown."""

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total, self.done = label, total, 0
        self.number = next(_numbers)
        self.began = time.monotonic()
        self._read, self._written = _rows.read, _rows.written

    @property
    def rows(self) -> str:
        """What has been read and written since the job began."""
        counts = {"read": _rows.read - self._read, "written": _rows.written - self._written}
        return ", ".join(f"{n:,} rows {what}" for what, n in counts.items() if n)

    @property
    def line(self) -> str:
        """The progress as a text."""
        total = "?" if self.total is None else self.total
        elapsed = timedelta(seconds=int(time.monotonic() - self.began))
        return " ".join(filter(None, (self.label, f"{self.done}/{total}", self.rows, str(elapsed))))


class _Rows:
    """Numbers of rows that this process has read and written while progress was watched."""

    read = 0
    written = 0


class _Display(Protocol):
    """Shows bars. Each call is made by one thread at a time."""

    def show(self, bars: list[_Bar]) -> None: ...

    def stop(self) -> None: ...


_rows = _Rows()
_counting = lock_across_fork()
_lock = lock_across_fork(reentrant=True)  # a generator may be finalized, and its bar removed, within
_numbers = count()
_bars: WeakSet[_Bar] = (
    WeakSet()
)  # a bar ends with its job at the latest: an interrupt may come between any two steps
_display: _Display | None = None
_watcher: threading.Event | None = None
"""Ends the thread that shows the bars."""


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
    bar = _Bar(label, len(items) if isinstance(items, Sized) and counted is None else None)
    try:
        _add(bar)
        for item in items:
            yield item
            bar.done += 1 if counted is None else counted(item)
    finally:
        _remove(bar)


def count_rows(*, read: int = 0, written: int = 0) -> None:
    """Adds to the numbers of rows that are shown; called for each batch of rows."""
    if _bars:
        with _counting:
            _rows.read += read
            _rows.written += written


def is_watched() -> bool:
    """Whether progress is shown: on a terminal or in a notebook."""
    if os.environ.get("PUFFIN_FAST_PROGRESS") == "0":
        return False
    return _in_notebook() or (_is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb")


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


def _add(bar: _Bar) -> None:
    global _watcher
    with _lock:
        _bars.add(bar)
        if _watcher is None:
            _watcher = threading.Event()
            try:
                threading.Thread(
                    target=_watch, args=(_watcher,), name="puffin_fast-progress", daemon=True
                ).start()
            except RuntimeError:  # the interpreter exits, or there are too many threads
                _watcher = None


def _remove(bar: _Bar) -> None:
    with _lock:
        if bar not in _bars:  # it belongs to the parent process
            return
        if bar in _shown():  # also where it ended between two looks of the thread
            _show()
        _bars.remove(bar)
        _end()


def _end() -> None:
    """Ends the display if there is nothing to show, and the thread if there is no job."""
    global _display, _watcher
    if _display is not None and not _shown():
        _quietly(_display.stop)
        _display = None
    if _watcher is not None and not [*_bars]:  # an interrupted set may count bars that are gone
        _watcher.set()
        _watcher = None


def _watch(ended: threading.Event) -> None:
    """Shows the bars while there are any; in a thread of its own, because an item may take long."""
    while not ended.wait(REFRESH_S):
        with _lock:
            if not ended.is_set():
                _show()
                _end()


def _show() -> None:
    global _display
    if bars := _shown():
        if _display is None:
            _display = _quietly(_new_display) or _Nothing()
        try:
            _display.show(bars)
        except Exception:
            _quietly(_display.stop)
            _display = _Nothing()


def _shown() -> list[_Bar]:
    until = time.monotonic() - DELAY_S
    return sorted((bar for bar in _bars if bar.began <= until), key=lambda bar: bar.number)


def _quietly(call: Callable[[], Result]) -> Result | None:
    """Calls what shows progress; its errors, and its warnings where these are errors, are none of the job."""
    with suppress(Exception):
        return call()
    return None


def _new_display() -> _Display:
    if _in_notebook():
        try:
            import_module("ipywidgets")
        except ImportError:
            return _Line()
    return _RichDisplay()


class _RichDisplay:
    """Bars on a terminal, or in a notebook that has widgets."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            # what a program prints meanwhile stands above the bars, but in a file or pipe where it belongs
            redirect_stdout=_is_terminal(sys.stdout),
            auto_refresh=False,
            get_time=time.monotonic,
        )
        self._tasks: dict[int, TaskID] = {}
        self._progress.start()

    def show(self, bars: list[_Bar]) -> None:
        for number in self._tasks.keys() - {bar.number for bar in bars}:
            self._progress.remove_task(self._tasks.pop(number))
        for bar in bars:
            if bar.number not in self._tasks:
                task = self._progress.add_task(bar.label, total=bar.total, rows=bar.rows)
                self._tasks[bar.number] = task
                self._progress.tasks[-1].start_time = bar.began
            self._progress.update(self._tasks[bar.number], completed=bar.done, rows=bar.rows)
        self._progress.refresh()

    def stop(self) -> None:
        self._progress.stop()


class _Line:
    """The innermost job as one line of text, which is written over: for notebooks without widgets."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, bars: list[_Bar]) -> None:
        self._write(bars[-1].line)

    def stop(self) -> None:
        self._write("")
        self._write("")

    def _write(self, line: str) -> None:
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)


class _Nothing:
    """What stands for a display that cannot be made."""

    def show(self, bars: list[_Bar]) -> None: ...

    def stop(self) -> None: ...


def _forget() -> None:
    global _display, _watcher
    _display = _watcher = None
    _bars.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
