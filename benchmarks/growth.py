"""Measures how the cost grows with the number of positions (encode, decode) and of containers (set operations)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rounds import medians, take_turns, timed
from puffin_fast.bitmap import PositionBitmap

POSITIONS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
CONTAINERS = (10, 100, 1_000, 10_000, 50_000)
ROUNDS = 7


def _median_s(call: Callable[[], Any]) -> float:
    """The median CPU time of a call, seconds."""
    samples = take_turns({"": lambda _: timed(call)[0]}, rounds=ROUNDS)
    return medians(samples)[""]["cpu"]


def _containers(n: int, density: float, seed: int) -> PositionBitmap:
    """n containers of equal density, drawn once and repeated."""
    rng = np.random.Generator(np.random.PCG64(seed))
    one = np.flatnonzero(rng.random(65_536) < density).astype(np.uint64)
    return PositionBitmap.from_positions(
        (np.arange(n, dtype=np.uint64)[:, None] << np.uint64(16) | one).ravel()
    )


def measure(*, quick: bool) -> dict[str, list[tuple[int, float]]]:
    """Curves of (positions or containers, CPU seconds)."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for n in POSITIONS[: 3 if quick else None]:
        positions = np.flatnonzero(np.random.Generator(np.random.PCG64(n)).random(10 * n) < 0.1).astype(
            np.uint64
        )
        shuffled = np.random.Generator(np.random.PCG64(n)).permutation(positions)
        bitmap = PositionBitmap.from_positions(positions)
        data, out = bitmap.to_bytes(), np.ones(len(positions), np.uint64)
        for name, call in {
            "encode sorted": lambda positions=positions: PositionBitmap.from_positions(positions),
            "encode unsorted": lambda shuffled=shuffled: PositionBitmap.from_positions(shuffled),
            "decode": lambda data=data, out=out: PositionBitmap.from_bytes(data).to_numpy(out=out),
            "mask": lambda bitmap=bitmap, n=n: bitmap.mask_packed(10 * n),
        }.items():
            curves.setdefault(name, []).append((len(positions), _median_s(call)))
    for n in CONTAINERS[: 3 if quick else None]:
        for kind, density in (("arrays", 0.002), ("bitmaps", 0.2)):
            if kind == "bitmaps" and n > 10_000:
                continue
            left, right = _containers(n, density, 1), _containers(n, density, 2)
            for job, call in {
                "union": lambda left=left, right=right: left | right,
                "intersection": lambda left=left, right=right: left & right,
                "difference": lambda left=left, right=right: left - right,
            }.items():
                curves.setdefault(f"{job} of {kind}", []).append((n, _median_s(call)))
    return curves
