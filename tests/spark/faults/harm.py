"""Fault injection: the attempt that is the first to write a Puffin file comes to grief.

An audit hook, so that the package runs as it is, on local files: `sitecustomize` installs it in every Python
worker. The file ``harm`` in the folder ``PUFFIN_FAST_HARM`` says what is to happen and where; it happens to one
attempt, which leaves ``harmed`` there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

FOLDER = "PUFFIN_FAST_HARM"

SITE = "from tests.spark.faults import harm\nharm.install()\n"
"""The ``sitecustomize.py`` of the workers."""

STEPS = {"whole": "os.link", "visible": "os.remove"}
"""The file is written but has its temporary name only; it has both names."""

PATIENCE = 1200
"""How often a worker that waits looks, every 50 ms."""


def plan(folder: Path, harm: str, step: str) -> None:
    """From now on the first attempt that comes to the step is harmed, be it a task's first one or its twin."""
    (folder / "harmed").unlink(missing_ok=True)
    (folder / "harm").write_text(f"{harm} {step}")


def harmed(folder: Path) -> bool:
    """Whether it happened; nothing happens from now on."""
    (folder / "harm").unlink(missing_ok=True)
    return (folder / "harmed").exists()


def install() -> None:
    if FOLDER in os.environ:
        sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in STEPS.values() or not str(arguments[0]).endswith(".tmp"):
        return
    folder = Path(os.environ[FOLDER])
    if sys.modules["pyspark"].TaskContext.get() is None or not (folder / "harm").exists():
        return
    harm, step = (folder / "harm").read_text().split()
    if STEPS[step] != event:
        return
    try:
        (folder / "harmed").touch(exist_ok=False)
    except FileExistsError:
        return
    HARMS[harm](Path(arguments[0]))


def _raise(path: Path) -> None:
    raise OSError("the disk came off")


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor(path: Path) -> None:
    """The JVM above the daemon above this worker; the worker itself goes on, as a survivor may."""
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)


def _wait_for_twin(path: Path) -> None:
    """Goes on when another attempt of the same task has written its file."""
    partition = path.name.split("-")[-3]
    wait(lambda: any(f"-{partition}-" in other.name for other in path.parent.glob("*.puffin")))


def _hang(path: Path) -> None:
    """Until the executor is gone."""
    parent = os.getppid()
    wait(lambda: os.getppid() != parent)
    os._exit(1)


def wait(until: Callable[[], bool]) -> None:
    """Until it holds; for a minute."""
    nothing = Event()
    for _ in range(PATIENCE):
        if until() or nothing.wait(0.05):
            return
    raise TimeoutError("nobody came")


HARMS = {
    "raise": _raise,
    "kill": die,
    "kill-executor": _kill_executor,
    "wait-for-twin": _wait_for_twin,
    "hang": _hang,
}
