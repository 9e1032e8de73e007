"""Measures the memory that a piece of code needs, in a separate process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import NamedTuple

__all__ = ["MIB", "Cost", "cost", "peak_growth"]

MIB = 1 << 20


class Cost(NamedTuple):
    """What an action took.

    Attributes:
        n_bytes: by which the peak of resident memory grew.
        seconds: of wall-clock time.
    """

    n_bytes: int
    seconds: float


def peak_growth(setup: str, action: str, limit_mib: int | None = None, timeout_s: float | None = None) -> int:
    """Bytes by which the peak of a fresh process grows in `action`; arguments as for `cost`."""
    return cost(setup, action, limit_mib, timeout_s).n_bytes


def cost(setup: str, action: str, limit_mib: int | None = None, timeout_s: float | None = None) -> Cost:
    """What `action` costs in a fresh process, after `setup`.

    Args:
        setup: statements that import and build what the action needs.
        action: the statements that are measured.
        limit_mib: bound of the address space from then on, beyond what is in use.
        timeout_s: a process that takes longer fails.
    """
    program = f"""
import resource, time
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
{textwrap.dedent(setup)}
limit = {limit_mib!r}
if limit is not None:
    limit_bytes = status("VmSize") + limit * {MIB}
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
open("/proc/self/clear_refs", "w").write("5")
before, start = status("VmRSS"), time.monotonic()
{textwrap.dedent(action)}
print(max(0, status("VmHWM") - before), time.monotonic() - start)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=timeout_s
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-4000:]}"
    n_bytes, seconds = done.stdout.split()[-2:]
    return Cost(int(n_bytes), float(seconds))
