"""Benchmarks of operations on many small bitmaps in memory, compared with CRoaring's 64-bit bitmaps.

The sets have the shapes of CRoaring's real ones, which are measured too when ``PUFFIN_FAST_REALDATA`` names their
folder: many sets of a few positions beside a few large ones; runs; and pairs of which one set is a thousand times as
large.
CRoaring runs in a loop of C, ours and pyroaring in a loop of Python.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap64

from bench_data.positions import clustered, draws, realdata, sparse
from benchmarks import peers
from benchmarks.rounds import OURS
from benchmarks.timing import Case, Contenders, Target
from benchmarks.workloads import CROARING, Positions, contenders_of, run_contender
from puffin_fast.bitmap import PositionBitmap

ROWS = 1 << 22
SETS_OF_EACH = 200
PYROARING = "pyroaring"

OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "or": (operator.or_, "or"),
    "and": (operator.and_, "and"),
    "difference": (operator.sub, "andnot"),
    "xor": (operator.xor, "xor"),
    "isdisjoint": (lambda a, b: a.isdisjoint(b), "intersect"),
}
"""Python's operation, CRoaring's name."""

Pairs = list[tuple[Positions, Positions]]


def scattered(n: int, seed: int) -> Positions:
    """About n positions anywhere in a file."""
    return np.unique(draws(n, ROWS, seed))


def in_runs(n: int, seed: int) -> Positions:
    """About n positions in runs of 100 to 1,000, from anywhere in a file on."""
    return clustered(n, seed) + draws(1, ROWS // 2, seed)


def of_many_sizes(shape: Callable[[int, int], Positions]) -> list[Positions]:
    """Half of the sets have up to four positions, one in fifty has 100,000."""
    sizes = [1, 2, 3, 4, 60, 250, 1_000, 3_000, 10_000]
    return [
        shape(100_000 if seed % 50 == 0 else sizes[seed % len(sizes)], seed)
        for seed in range(1, SETS_OF_EACH + 1)
    ]


def neighbours(sets: list[Positions]) -> Pairs:
    return list(itertools.pairwise(sets))


def thousandfold(sets: list[Positions]) -> Pairs:
    """The three largest sets with each that is a thousandth at most, in both orders."""
    largest = sorted(sets, key=len)[-3:]
    few = [some for some in sets if 0 < 1_000 * len(some) <= len(largest[0])]
    return [pair for large in largest for some in few for pair in ((large, some), (some, large))]


def _theirs(positions: Positions) -> BitMap64:
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    return bitmap


def _each(operation: Callable[[Any, Any], Any], pairs: list[tuple[Any, Any]]) -> None:
    for left, right in pairs:
        operation(left, right)


def pairwise(job: str, workload: str, pairs: Pairs) -> Case:
    def prepare() -> Contenders:
        operation, croaring = OPERATIONS[job]
        ours, theirs = (
            [(make(left), make(right)) for left, right in pairs]
            for make in (PositionBitmap.from_positions, _theirs)
        )
        in_c = peers.BitmapPairs(
            [
                (peers.Bitmap.read(a.to_bytes(), check=True), peers.Bitmap.read(b.to_bytes(), check=True))
                for a, b in ours
            ]
        )
        calls: Contenders = {
            OURS: functools.partial(_each, operation, ours),
            PYROARING: functools.partial(_each, operation, theirs),
        }
        if job == "isdisjoint":
            calls[PYROARING] = functools.partial(_each, lambda a, b: not a.intersect(b), theirs)
            calls[CROARING] = functools.partial(in_c.ask, croaring)
            assert calls[CROARING]() == sum(not operation(a, b) for a, b in ours)
        else:
            calls[CROARING] = functools.partial(in_c.combine, croaring)
            for (a, b), (c, d) in zip(ours, theirs, strict=True):
                assert len(operation(a, b)) == len(operation(c, d))
        return calls

    return Case(job, workload, "pair", len(pairs), prepare, (Target(CROARING, 1),))


def of_all(job: str, workload: str, sets: list[Positions]) -> Case:
    def prepare() -> Contenders:
        ours = [PositionBitmap.from_positions(some) for some in sets]
        theirs = [_theirs(some) for some in sets]
        calls: Contenders = {
            OURS: lambda: getattr(PositionBitmap, job)(ours),
            PYROARING: lambda: getattr(BitMap64, job)(*theirs),
        }
        assert len(calls[OURS]()) == len(calls[PYROARING]())
        return calls

    return Case(f"{job} of {len(sets)}", workload, "set", len(sets), prepare, (Target(PYROARING, 1),))


def _workloads() -> Iterator[tuple[str, list[Positions]]]:
    yield "scattered", of_many_sizes(scattered)
    yield "runs", of_many_sizes(in_runs)
    for name, sets in realdata():
        yield f"j {name}", [np.sort(some) for some in sets]


def cases(quick: bool = False) -> list[Case]:
    """All cases; quick ones are those of the scattered sets only."""
    found = []
    for name, sets in itertools.islice(_workloads(), 1 if quick else None):
        for job in OPERATIONS:
            found.append(pairwise(job, name, neighbours(sets)))
            if far := thousandfold(sets):
                found.append(pairwise(job, f"{name}, a thousandfold", far))
        found.append(of_all("union", name, sets))
        found.append(of_all("intersection", f"{name}, the largest", sorted(sets, key=len)[-8:]))
    if not quick:
        large = [sparse(1_000_000, seed) for seed in (1, 2)]
        pairs = [(some, draws(1_000, 1 << 30, seed)) for seed, some in enumerate(large, 1)]
        found += [pairwise(job, "1,000,000 and 1,000 in 2^30", pairs) for job in ("and", "isdisjoint")]
    return found


@pytest.mark.parametrize(("case", "contender"), contenders_of(cases(quick=True)))
def test_sets(benchmark: Any, case: Case, contender: str) -> None:
    run_contender(benchmark, case, contender)
