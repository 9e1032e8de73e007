"""Cases, and the timing of pairs: alternating in one process, medians, ratios.

Time is the process's CPU time unless a case says otherwise: on a machine with other work a long call is
interrupted more often than a short one, and wall-clock ratios would flatter whoever is faster. Where threads are
what is measured it is wall-clock time, of which the best of many short rounds counts: other work takes cores away
and never adds one.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

OURS = "puffin_fast"

ROUNDS, WALL_ROUNDS = 25, 400
"""At most so many, within the budget."""

Contenders = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Bar:
    """What a case has to reach.

    Args:
        peer: the contender to compare with.
        ratio: how many times the peer's speed at least.
    """

    peer: str
    ratio: float


@dataclass(frozen=True)
class Case:
    """One job on one workload, with everyone who does it.

    Args:
        job: what is done; cases of one job stand together in the report.
        workload: on what.
        unit: what `count` counts.
        count: units per call, for times per unit.
        prepare: builds the inputs, asserts every contender's result and returns the calls, ours among them.
        bars: what must be reached.
        counts: units per call of contenders that do less than `count` (a peer too slow for all of it).
        clock: CPU seconds of the process; wall seconds where threads are what is measured.
    """

    job: str
    workload: str
    unit: str
    count: int
    prepare: Callable[[], Contenders]
    bars: tuple[Bar, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    clock: Callable[[], float] = time.process_time

    @property
    def name(self) -> str:
        return f"{self.job}: {self.workload}"

    def units(self, contender: str) -> int:
        return self.counts.get(contender, self.count)


@dataclass(frozen=True)
class Result:
    """Medians of one case (of wall-clock time the best), in nanoseconds per unit."""

    case: Case
    ns_per_unit: dict[str, float]
    rounds: int

    def ratio(self, peer: str) -> float:
        return self.ns_per_unit[peer] / self.ns_per_unit[OURS]

    def verdicts(self) -> list[tuple[Bar, float, bool]]:
        """Each bar with the ratio reached and whether it is met."""
        ratios = [(bar, self.ratio(bar.peer)) for bar in self.case.bars]
        return [(bar, ratio, ratio >= bar.ratio) for bar, ratio in ratios]


def _sample(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(repeats):
        call()
    return (clock() - began) / repeats


def measure(case: Case, budget_s: float) -> Result:
    """Alternates the contenders until the budget is spent; at least three rounds.

    A call shorter than a millisecond is repeated within a sample.
    """
    wall = case.clock is time.perf_counter
    most_rounds, typical = (WALL_ROUNDS, min) if wall else (ROUNDS, statistics.median)
    contenders = case.prepare()
    began = time.perf_counter()
    once = {name: _sample(call, 1, case.clock) for name, call in contenders.items()}  # also warms every path
    repeats = {name: max(1, int(1e-3 / max(seconds, 1e-8))) for name, seconds in once.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    try:
        rounds = 0
        while rounds < 3 or (rounds < most_rounds and time.perf_counter() - began < budget_s):
            for name, call in contenders.items():
                samples[name].append(_sample(call, repeats[name], case.clock))
            rounds += 1
    finally:
        gc.enable()
    found = {name: typical(values) / case.units(name) * 1e9 for name, values in samples.items()}
    return Result(case, found, rounds)


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

VERSIONS = ("puffin-fast", "numpy", "pyarrow", "pyroaring", "zlib-ng", "isal", "msgspec")


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
