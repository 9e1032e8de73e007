"""Runs the cases of a module in a process of its own, which may start sessions, or be killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_cases(module: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """Returns the exit code of ``python -m tests.spark.faults.<module>``, and what it printed.

    Args:
        module: the name of the module.
        folder: the folder of the cases, the last argument of the module; it gets the file ``log``.
        arguments: the other arguments.
    """
    log = folder / "log"
    with log.open("wb") as out:  # a file, because executors that outlive the driver would keep a pipe open
        done = subprocess.run(
            [sys.executable, "-m", f"tests.spark.faults.{module}", *arguments, str(folder)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            timeout=2400,
            check=False,
        )
    return done.returncode, log.read_text()
