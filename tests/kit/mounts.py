"""Small disks and read-only folders, in a namespace of a child process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["may_mount", "run_read_only"]


@cache
def may_mount() -> bool:
    """Whether this user may mount a small disk in a namespace of its own."""
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
        ).returncode
    )


def run_read_only(folder: Path, script: str, *arguments: object) -> list[str]:
    """Runs Python code while a folder is read-only; returns the lines that it printed."""
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    command = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", script]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
