"""Benchmark cases of short calls: one job on one workload, by this package and by its peers.

Time is CPU time of the process unless a case asks for wall time: on a busy machine a long call is interrupted more
often than a short one, so wall-clock ratios favour the faster contender. Cases about threads measure wall time,
of which the best of many short rounds counts: other processes take cores away and never add one.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.rounds import OURS, take_turns

ROUNDS, WALL_ROUNDS = 25, 400
"""At most so many, within the budget."""

Contenders = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Target:
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
        targets: what must be reached.
        counts: units per call of contenders that do less than `count` (a peer too slow for all of it).
        clock: CPU seconds of the process; wall seconds where threads are what is measured.
    """

    job: str
    workload: str
    unit: str
    count: int
    prepare: Callable[[], Contenders]
    targets: tuple[Target, ...] = ()
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

    def verdicts(self) -> list[tuple[Target, float, bool]]:
        """Each target with the ratio reached and whether it is met."""
        ratios = [(target, self.ratio(target.peer)) for target in self.case.targets]
        return [(target, ratio, ratio >= target.ratio) for target, ratio in ratios]


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
    calls: dict[str, Callable[[int], float]] = {}
    for name, call in contenders.items():
        repeats = max(1, int(1e-3 / max(once[name], 1e-8)))
        calls[name] = partial(_in_round, call, repeats, case.clock)
    gc.collect()
    gc.disable()
    try:
        samples = take_turns(
            calls,
            rounds=lambda n: n < 3 or (n < most_rounds and time.perf_counter() - began < budget_s),
        )
    finally:
        gc.enable()
    found = {name: typical(values) / case.units(name) * 1e9 for name, values in samples.items()}
    return Result(case, found, len(samples[OURS]))


def _in_round(call: Callable[[], Any], repeats: int, clock: Callable[[], float], number: int) -> float:
    return _sample(call, repeats, clock)
