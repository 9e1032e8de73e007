"""Contenders of jobs that take seconds, in turn in one process: wall and CPU time, ratios, bars, as JSON."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.timing import OURS, machine

__all__ = ["Contenders", "alternate", "report", "turn"]

Contenders = dict[str, Callable[[], Any]]


def turn(names: Iterable[str], number: int) -> list[str]:
    """The order of a round: it begins with another contender each time, for none leaves the memory as it found it."""
    order = list(names)
    number %= len(order)
    return order[number:] + order[:number]


def alternate(job: str, contenders: Contenders, rounds: int, bars: dict[str, float]) -> dict[str, Any]:
    """Lets each contender do the job in turn; the garbage collector works as it does for users.

    Args:
        job: its name, for the log on standard error.
        contenders: ours under `OURS`; what comes back is called, outside the time, to assert the result.
        rounds: after one that warms up, which only a single round leaves out.
        bars: contender to the ratio of its CPU time to ours that is to be reached.
    """
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for number in range(rounds if rounds == 1 else rounds + 1):
        for name in turn(contenders, number):
            call = contenders[name]
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            check = call()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if check is not None:
                check()
            del check
            if number or rounds == 1:
                samples[name].append((wall, cpu))
                print(f"{job}: {name}: {wall:.3f} s, cpu {cpu:.3f} s", file=sys.stderr, flush=True)
    rows = {
        name: {
            "seconds": statistics.median(wall for wall, _ in some),
            "cpu": statistics.median(cpu for _, cpu in some),
        }
        for name, some in samples.items()
    }
    verdicts = [
        {"peer": peer, "bar": bar, "ratio": ratio, "met": ratio >= bar}
        for peer, bar in bars.items()
        if peer in rows
        for ratio in [rows[peer]["cpu"] / rows[OURS]["cpu"]]
    ]
    for verdict in verdicts:
        said = "met" if verdict["met"] else "MISSED"
        print(
            f"{job}: {verdict['ratio']:.2f}x {verdict['peer']}, bar {verdict['bar']}: {said}", file=sys.stderr
        )
    return {"contenders": rows, "bars": verdicts}


def report(jobs: dict[str, Any], into: Path | None = None) -> None:
    """Prints the jobs with machine, versions and commit as JSON.

    Args:
        jobs: name to contenders and bars.
        into: a JSON file of jobs to keep them in, beside those of other names.
    """
    about = machine()
    print(json.dumps({"machine": about, "jobs": jobs}, indent=1))
    if into is not None:
        kept = json.loads(into.read_text()) if into.exists() else {}
        kept |= {name: {"machine": about, **job} for name, job in jobs.items()}
        into.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
