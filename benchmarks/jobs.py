"""Measures jobs that take seconds: the contenders run in turn in one process; wall and CPU time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from benchmarks.rounds import Figures, compare, medians, take_turns, timed

Contenders = dict[str, Callable[[], Any]]
"""Each does the whole job. What it returns is called, outside of the time, to assert the result."""


def measure_job(
    job: str,
    contenders: Contenders,
    rounds: int,
    targets: dict[str, float],
    *,
    elsewhere: Mapping[str, Callable[[], Figures]] = MappingProxyType({}),
    bounds: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """Measures a job with all contenders; the garbage collector works as it does for users.

    Args:
        job: its name, for the log on standard error.
        contenders: ours under `OURS`.
        rounds: after one that warms up, which is left out when there is a single round.
        targets: contender to the ratio of its CPU time to ours that is to be reached.
        elsewhere: contenders that do the job in another process and return its figures.
        bounds: CPU seconds, shown as a contender.
    """

    def once(call: Callable[[], Any], number: int) -> Figures:
        gc.collect()
        figures, check = timed(call)
        if check is not None:
            check()
        return figures

    samples = take_turns(
        {name: partial(once, call) for name, call in contenders.items()}
        | {name: lambda _, call=call: call() for name, call in elsewhere.items()},
        rounds=rounds,
        warm_up=int(rounds > 1),
        log=lambda name, found: print(
            f"{job}: {name}: {found['seconds']:.3f} s, cpu {found['cpu']:.3f} s", file=sys.stderr, flush=True
        ),
    )
    limits = {name: {"seconds": seconds, "cpu": seconds} for name, seconds in bounds.items()}
    return compare(job, medians(samples) | limits, targets)
