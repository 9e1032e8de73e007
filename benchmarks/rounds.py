"""The timing loop of all benchmarks: contenders run in turn in each round; computes medians and ratios."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

OURS = "puffin_fast"

Sample = TypeVar("Sample")

Figures = dict[str, float]
"""What was measured of one contender, by name: ``seconds`` (wall time), ``cpu`` (seconds), and others."""


def turn(names: Iterable[str], number: int) -> list[str]:
    """The order of a round. Each round begins with another contender: each leaves the memory in another state."""
    order = list(names)
    number %= len(order)
    return order[number:] + order[:number]


def take_turns(
    contenders: Mapping[str, Callable[[int], Sample]],
    *,
    rounds: int | Callable[[int], bool],
    warm_up: int = 0,
    log: Callable[[str, Sample], None] | None = None,
) -> dict[str, list[Sample]]:
    """Lets each contender work once a round.

    Args:
        contenders: each does its work and returns its figures; the argument is the number of the round.
        rounds: how many; or, called with the number of rounds that are done, whether another one follows.
        warm_up: number of rounds before these, whose samples are dropped.
        log: called with the contender's name and each sample that counts.

    Returns:
        The samples of each contender, in the order of the rounds.
    """
    goes_on = (lambda done: done < rounds) if isinstance(rounds, int) else rounds
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    number = 0
    while number < warm_up or goes_on(number - warm_up):
        for name in turn(contenders, number):
            sample = contenders[name](number)
            if number >= warm_up:
                samples[name].append(sample)
                if log is not None:
                    log(name, sample)
        number += 1
    return samples


def timed(call: Callable[[], Any]) -> tuple[Figures, Any]:
    """Wall and CPU seconds of one call in this process, and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}, found


def medians(samples: Mapping[str, list[Figures]]) -> dict[str, Figures]:
    """The median of each figure of each contender."""
    return {
        name: {key: statistics.median(sample[key] for sample in some) for key in some[0]}
        for name, some in samples.items()
        if some
    }


def checked(call: Callable[[], int], expected: int) -> Callable[[], Any]:
    """A job for `take_turns`, whose result is checked outside of the time."""

    def run() -> Callable[[], None]:
        found = call()

        def check() -> None:
            assert found == expected, (found, expected)

        return check

    return run


def compare(
    job: str, figures: dict[str, Figures], targets: Mapping[str, float], *, by: str = "cpu"
) -> dict[str, Any]:
    """The figures of a job, and the ratios to ours beside their targets; also printed on standard error.

    Args:
        job: its name, for the log.
        figures: of each contender; ours under `OURS`.
        targets: contender to the ratio of its figure to ours that is to be reached.
        by: the figure that is compared, ``cpu`` or ``seconds``.
    """
    other = "seconds" if by == "cpu" else "cpu"
    found = []
    for peer, target in targets.items():
        if peer not in figures or OURS not in figures:
            continue
        ratios = {key: figures[peer][key] / figures[OURS][key] for key in (by, other) if key in figures[OURS]}
        met = ratios[by] >= target
        verdict = {"peer": peer, "target": target, "ratio": ratios[by], "met": met}
        if other in ratios:
            verdict["wall_ratio" if by == "cpu" else "cpu_ratio"] = ratios[other]
        found.append(verdict)
        print(
            f"{job}: {ratios[by]:.2f}x {peer} by {by}"
            + (f" ({ratios[other]:.2f}x by {other})" if other in ratios else "")
            + f", target {target:g}: {'met' if met else 'MISSED'}",
            file=sys.stderr,
            flush=True,
        )
    return {"contenders": figures, "targets": found}
