"""The machine, versions and commit of a run, and results as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Where and with what a run was made."""
    info = Path("/proc/cpuinfo")
    about = dict(
        line.replace("\t", "").split(":", 1)
        for line in (info.read_text() if info.exists() else "").splitlines()
        if ":" in line
    )
    flags = about.get("flags", "").split()
    load = Path("/proc/loadavg")
    return {
        "cpu": about.get("model name", platform.processor()).strip(),
        "simd": os.environ.get("PUFFIN_FAST_SIMD") or " ".join(flag for flag in SIMD if flag in flags),
        "cores": len(os.sched_getaffinity(0)),
        "load": load.read_text().split()[0] if load.exists() else "",
        "python": sys.version.split()[0],
        "versions": {name: metadata.version(name) for name in _installed(VERSIONS)},
        "commit": _commit(),
    }


SIMD = ("avx2", "avx512_vbmi2")
"""Flags of processors that the kernels have paths of their own for."""

VERSIONS = ("puffin-fast", "numpy", "pyarrow", "pyroaring", "zlib-ng", "isal", "deflate", "msgspec")


def _installed(names: Iterable[str]) -> list[str]:
    known = {(dist.metadata["Name"] or "").lower() for dist in metadata.distributions()}
    return [name for name in names if name in known]


def _commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=False
    )
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")


def report(jobs: dict[str, Any], into: Path | None = None) -> None:
    """Prints the jobs with machine, versions and commit as JSON.

    Args:
        jobs: name to contenders and targets.
        into: a JSON file of jobs; jobs of other names in it stay.
    """
    about = machine()
    print(json.dumps({"machine": about, "jobs": jobs}, indent=1))
    if into is not None:
        published = json.loads(into.read_text()) if into.exists() else {}
        published |= {name: {"machine": about, **job} for name, job in jobs.items()}
        into.write_text(json.dumps(dict(sorted(published.items())), indent=1) + "\n")
