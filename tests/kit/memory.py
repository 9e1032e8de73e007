"""Measures the memory that a piece of code needs, in a separate process or in a fork of a prepared one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["MIB", "Cost", "cost", "forks", "peak_growth"]

MIB = 1 << 20

SYSTEM_POOL = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""The environment of fresh processes. Arrow's own allocator keeps freed memory for a time that depends on the
machine's load: in twenty runs, the peaks of one action differed by 12%, and by 2% with the system's allocator."""


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
    program = _measured(setup, action, limit_mib)
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=SYSTEM_POOL, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    return _cost(done.returncode, done.stdout, done.stderr)


def _measured(setup: str, action: str, limit_mib: int | None) -> str:
    return f"""
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


def _cost(status: int, output: str, errors: str) -> Cost:
    assert status == 0, f"exit status {status}: {errors[-4000:]}"
    n_bytes, seconds = output.split()[-2:]
    return Cost(int(n_bytes), float(seconds))


_FORKS = """
import gc, json, os, signal, sys, traceback
names = {}
exec(sys.argv[1], names)
gc.freeze()
for line in sys.stdin:
    program, output, timeout_s = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(timeout_s)
        opened = os.open(output, os.O_WRONLY)
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        try:
            exec(program, names)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        names.clear()
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def forks(prepare: str) -> Iterator[Callable[..., Cost]]:
    """`cost` in forks of one process that has run `prepare`, which must leave no threads that an action needs.

    A fork that takes longer than its seconds is killed by SIGALRM.
    """
    command = [sys.executable, "-c", _FORKS, textwrap.dedent(prepare)]
    with (
        tempfile.NamedTemporaryFile("r") as output,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None

        def run(setup: str, action: str, limit_mib: int | None = None, timeout_s: int = 0) -> Cost:
            program = _measured(setup, action, limit_mib)
            print(json.dumps([program, output.name, timeout_s]), file=server.stdin, flush=True)
            status = server.stdout.readline()
            assert status, "the process that forks has ended"
            output.seek(0)
            found = output.read()
            os.truncate(output.name, 0)
            return _cost(int(status), found, found)

        yield run
