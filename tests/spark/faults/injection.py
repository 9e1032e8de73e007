"""Fault injection: one fault happens to the first attempt that reaches a step of writing a file.

`sitecustomize` installs an audit hook in every Python worker, so that the package runs unchanged on local files. Data
files have no such events; tables with `FaultyFileIO` have steps of their own. The file ``fault`` in the folder
``PUFFIN_FAST_FAULTS`` contains the fault and its step. The attempt to which it happens creates the file ``faulted``
there, with the path of the file that it was writing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

FOLDER = "PUFFIN_FAST_FAULTS"

SITE = "from tests.spark.faults import injection\ninjection.install()\n"
"""The ``sitecustomize.py`` of the workers."""

STEPS = {"whole": "os.link", "visible": "os.remove"}
"""The audit events before a Puffin file gets its final name, and before its temporary name is removed."""

BEGUN = {".parquet": "data-begun", ".puffin": "vectors-begun"}
"""The steps at which a file of `FaultyFileIO` exists and is empty, by its suffix."""

CHECKS = 1200
"""How often `wait` checks its condition, every 50 ms."""


def plan(folder: Path, fault: str, step: str) -> None:
    """Lets a fault happen to the first attempt that reaches the step, speculative attempts included."""
    (folder / "faulted").unlink(missing_ok=True)
    (folder / "fault").write_text(f"{fault} {step}")


def happened(folder: Path) -> bool:
    """Returns whether the fault happened. It no longer can from now on."""
    (folder / "fault").unlink(missing_ok=True)
    return (folder / "faulted").exists()


def install() -> None:
    if FOLDER in os.environ:
        sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STEPS.values() and str(arguments[0]).endswith(".tmp"):
        reached(next(step for step in STEPS if STEPS[step] == event), Path(arguments[0]))


def reached(step: str, path: Path) -> None:
    """Lets the fault happen if it is planned for this step, and happened to no attempt yet."""
    folder = Path(os.environ[FOLDER])
    if sys.modules["pyspark"].TaskContext.get() is None or not (folder / "fault").exists():
        return
    fault, planned = (folder / "fault").read_text().split()
    if planned != step:
        return
    try:
        with (folder / "faulted").open("x") as file:
            file.write(str(path))
    except FileExistsError:
        return
    FAULTS[fault](path)


def _raise(path: Path) -> None:
    raise OSError("injected error")


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor(path: Path) -> None:
    """Kills the JVM that started the daemon of this worker. The worker itself goes on."""
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)


def _wait_for_copy(path: Path) -> None:
    """Waits until another attempt of the same task has written its file."""
    partition = path.name.split("-")[-3]
    wait(lambda: any(f"-{partition}-" in other.name for other in path.parent.glob("*.puffin")))


def _hang(path: Path) -> None:
    """Waits until the executor has ended."""
    parent = os.getppid()
    wait(lambda: os.getppid() != parent)
    os._exit(1)


def wait(until: Callable[[], bool]) -> None:
    """Waits until a condition is true, for a minute at most."""
    nothing = Event()
    for _ in range(CHECKS):
        if until() or nothing.wait(0.05):
            return
    raise TimeoutError("the condition stayed false")


FAULTS = {
    "raise": _raise,
    "kill": die,
    "kill-executor": _kill_executor,
    "wait-for-copy": _wait_for_copy,
    "hang": _hang,
}
