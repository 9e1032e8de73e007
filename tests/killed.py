"""Kills a job by SIGKILL before each of its changes of a folder; each run is a forked process.

Each run has a copy of the folder and is killed one step later than the one before; the last run finishes. Steps are
what Python's audit events show: files opened to be written, renamed, linked and removed, folders made and removed. If
the step before was the opening of a file, then half of this file is there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["kill_at_each_step"]

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
        if self._step == self._last:
            if self._opened is not None:
                os.truncate(self._opened, os.stat(self._opened).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        self._opened = path if opens else None


def kill_at_each_step(folder: Path, copies: Path, work: Callable[[Path], object]) -> None:
    """Runs a job on copies ``<copies>/<step>/<name of the folder>``; the one with the highest number finishes."""
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
