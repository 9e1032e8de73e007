"""The workloads of the kernel benchmarks, and the check that all contenders have the same result."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench_data import load, sizes
from benchmarks.rounds import OURS
from benchmarks.timing import Case, Contenders
from puffin_fast.bitmap import PositionBitmap

Positions = NDArray[np.uint64]

LARGE, MIDDLE, SMALL = 10_000_000, 100_000, 1_000
SORTED = "abcdef"
ICEBERG = {name: sizes(name)[0] for name in ("i", "i-1%", "i-3%", "i-5%", "i-10%", "i-20%")}
"""Iceberg's own cases: every fifth row, and shares of a file of 2,000,000 rows."""
N_QUERIES = 2_000_000

NUMPY, ARRAY, CROARING = "pyroaring from NumPy", "pyroaring from array.array", "CRoaring"
SCATTER, FILL = "pyroaring decode + NumPy scatter", "filling the output"


@functools.lru_cache(maxsize=24)
def data(name: str, n: int, seed: int = 1) -> Positions:
    positions = load(name, n, seed)
    positions.flags.writeable = False
    return positions


@functools.lru_cache(maxsize=24)
def encoded(name: str, n: int, seed: int = 1) -> bytes:
    return PositionBitmap.from_positions(data(name, n, seed)).to_bytes()


def same(left: Any, right: Any) -> bool:
    """Whether two buffers or arrays hold the same."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.dtype == right.dtype:
        return np.array_equal(left, right)
    return memoryview(left).cast("B") == memoryview(right).cast("B")


def agreeing(calls: Contenders, but: tuple[str, ...] = ()) -> Contenders:
    """The calls, after each gave what ours gives."""
    expected = calls[OURS]()
    for name, call in calls.items():
        if name not in (OURS, *but):
            assert same(call(), expected), f"{name} gives something else"
    return calls


def label(name: str, n: int) -> str:
    return f"{name} {n:,}"


def contenders_of(cases: list[Case]) -> list[Any]:
    """Parameters for pytest-benchmark: ours and the first peer of each case."""
    return [
        pytest.param(case, contender, id=f"{case.name} - {contender}")
        for case, contender in itertools.product(cases, (OURS, "peer"))
    ]


def run_contender(benchmark: Any, case: Case, contender: str) -> None:
    """Times one of `contenders_of` with pytest-benchmark; the runner compares them."""
    calls = case.prepare()
    names = [OURS] if contender == OURS else [name for name in calls if name != OURS][:1]
    benchmark.group = case.name
    benchmark.extra_info |= {"contender": names[0], "units": case.units(names[0]), "unit": case.unit}
    benchmark(calls[names[0]])
