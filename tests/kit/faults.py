"""Faults while a job runs: other commits, lost answers, answers cut short, interrupts, and kills at each step."""

from __future__ import annotations

import os
import pkgutil
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from pyiceberg.catalog.sql import SqlCatalog

from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import PuffinFastError

if TYPE_CHECKING:
    from pyiceberg.table import CommitTableResponse, Table

__all__ = [
    "LosingStorage",
    "RacingCatalog",
    "RacingStorage",
    "ShortAnswers",
    "failing",
    "kill_at_each_step",
    "with_each_answer_cut",
]


# Other commits, and lost answers ----------------------------------------------------------------------------


class RacingCatalog(SqlCatalog):
    """A SQLite catalog in which something may happen right before or right after a commit.

    Attributes:
        before: what happens before the next commit, each once.
        after: what happens after it.
    """

    before: list[Callable[[], object]]
    after: list[Callable[[], object]]

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.before, self.after = [], []

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Runs the planned concurrent commits, each once."""
        planned, self.before = self.before, []
        for happening in planned:
            happening()
        response = super().commit_table(table, requirements, updates)
        planned, self.after = self.after, []
        for happening in planned:
            happening()
        return response


class RacingStorage(TableStorage):
    """The storage of a Delta table in which another writer commits right before the first commit."""

    def __init__(self, table: Path, happening: Callable[[], object]) -> None:
        super().__init__(str(table))
        self._happening: list[Callable[[], object]] = [happening]

    def put(self, path: str, data: bytes) -> bool:
        if self._happening:
            self._happening.pop()()
        return super().put(path, data)


class LosingStorage(TableStorage):
    """The storage of a Delta table that loses the first commit, the answer to it, or both.

    Args:
        table: its folder.
        written: whether the commit happens.
        mute: whether nothing can be read after it.
        error: what is raised instead of an answer.
    """

    def __init__(
        self, table: Path, *, written: bool, mute: bool = False, error: BaseException | None = None
    ) -> None:
        super().__init__(str(table))
        self._written, self._mute, self._lost = written, mute, False
        self._error = error or OSError("connection reset")

    def put(self, path: str, data: bytes) -> bool:
        if self._lost:
            return super().put(path, data)
        self._lost = True
        if self._written:
            super().put(path, data)
        raise self._error

    def read(self, path: str) -> bytes:
        if self._lost and self._mute:
            raise OSError("connection reset")
        return super().read(path)


@contextmanager
def failing(
    place: str,
    error: BaseException | type[BaseException] = KeyboardInterrupt,
    *,
    after: bool = False,
    call: int = 1,
) -> Iterator[None]:
    """Within, one call of a function raises instead of returning.

    Args:
        place: module, class and name of the function: ``"puffin_fast.delta.log.commit.put_version"``.
        error: what is raised; by default what Ctrl-C raises.
        after: the function does its work before.
        call: the number of the call that fails, from 1; the other ones succeed.
    """
    function: Any = pkgutil.resolve_name(place)
    n_calls = 0

    def fail(*arguments: Any, **options: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls != call or after:
            found = function(*arguments, **options)
        if n_calls == call:
            raise error
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, fail)
        yield


# Answers that are cut short ----------------------------------------------------------------------------------


class ShortAnswers(MemoryFileSystem):  # type: ignore[misc]
    """A filesystem in memory that may cut the answer to one read.

    Attributes:
        n_answers: number of reads so far.
        cut: the number of the read whose answer is cut; -1: none.
    """

    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    n_answers, cut = 0, -1

    def answer(self, data: bytes) -> bytes:
        self.n_answers += 1
        return data[: len(data) // 2] if self.n_answers - 1 == self.cut else data

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return self.answer(self.store[self._strip_protocol(path)].getvalue()[start:end])

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super()._open(path, mode, **options)
        return _ShortFile(self, path, file.getvalue()) if mode == "rb" else file


class _ShortFile(MemoryFile):  # type: ignore[misc]
    def read(self, size: int | None = -1) -> bytes:
        before, data = self.tell(), super().read(size)
        found: bytes = self.fs.answer(data)
        self.seek(before + len(found))
        return found


def with_each_answer_cut(short: ShortAnswers, run: Callable[[], Any]) -> None:
    """Runs a call with each of its answers cut in turn: what is read again is right, everything else an error that
    names the file, which has to be under ``/t``."""
    short.cut, short.n_answers = -1, 0
    expected, n = run(), short.n_answers
    assert n
    for short.cut in range(n):
        short.n_answers = 0
        found, message = None, ""
        try:
            found = run()
        except PuffinFastError as error:
            message = str(error)
        assert "/t" in message or found == expected, (short.cut, message)


# Kills -------------------------------------------------------------------------------------------------------

_EVENTS = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_WRITES = os.O_WRONLY | os.O_RDWR


class _Killer:
    """An audit hook that kills its process at one step."""

    def __init__(self, folder: Path, last: int) -> None:
        self._folder, self._last, self._step = str(folder), last, 0
        self._opened: str | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        opens = event == "open" and bool(arguments[2] & _WRITES)
        if not opens and event not in _EVENTS:
            return
        if isinstance(arguments[0], int):
            return
        path = os.fsdecode(arguments[0])
        if not path.startswith(self._folder):
            return
        self._step += 1
        if self._step >= self._last:  # several threads may have counted
            self._last = sys.maxsize  # to truncate a file is an event, too
            with suppress(FileNotFoundError):  # another thread has not opened it yet
                if self._opened is not None:
                    os.truncate(self._opened, os.stat(self._opened).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        self._opened = path if opens else None


def kill_at_each_step(folder: Path, copies: Path, work: Callable[[Path], object]) -> None:
    """Runs a job in forked processes, each of which is killed by SIGKILL one step later than the one before.

    Steps are what Python's audit events show: files opened to be written, renamed, linked and removed, folders made and
    removed. If the step before was the opening of a file, then half of this file is there.

    Args:
        folder: which the job changes.
        copies: gets a copy of it for each run, ``<copies>/<step>/<name of the folder>``; the run of the highest number
            finishes.
        work: the job, which is given its copy.
    """
    for step in range(1, 1000):
        copy = Path(shutil.copytree(folder, copies / str(step) / folder.name))
        child = os.fork()
        if not child:
            try:
                sys.addaudithook(_Killer(copy, step))
                work(copy)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        if status != -signal.SIGKILL:
            raise RuntimeError(f"step {step}: exit code {status}")
    raise RuntimeError("the job never finished")
