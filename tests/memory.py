"""How much memory a piece of code needs: measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

__all__ = ["MIB", "peak_growth"]

MIB = 1 << 20


def peak_growth(setup: str, action: str, limit_mib: int | None = None, timeout_s: float | None = None) -> int:
    """Bytes by which the peak of a fresh process grows in `action`, after `setup`.

    Args:
        setup: statements that import and build what the action needs.
        action: the statements that are measured.
        limit_mib: bound of the address space from then on, beyond what is in use.
        timeout_s: a process that takes longer fails.
    """
    program = f"""
import resource
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
{textwrap.dedent(setup)}
limit = {limit_mib!r}
if limit is not None:
    room = status("VmSize") + limit * {MIB}
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
{textwrap.dedent(action)}
print(max(0, status("VmHWM") - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=timeout_s
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-4000:]}"
    return int(done.stdout.split()[-1])
