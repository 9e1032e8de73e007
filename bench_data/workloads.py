"""Positions in the shapes that deletes have, made from a seed and checked against ``manifest.json``.

| name | what |
|---|---|
| a | uniform, 0.1% of the rows: arrays |
| b | uniform, 10%: bitmaps |
| c | uniform, 50% |
| d | runs of 100 to 1000, as far apart |
| e | contiguous |
| f | 64 keys of 32 bits, 10% of the rows in each |
| g | b, shuffled |
| h | uniform in 2^32, shuffled |
| i5, i5-shuffled | every fifth row (Iceberg's own benchmark uses 5,000,000 of them) |
| i01 i03 i05 i10 i20 | that many per cent of a file's rows, uniform (its other benchmark: 2,000,000 rows) |

Only raw 64-bit output of PCG64 is used, whose stream NumPy keeps from version to version.
``python -m bench_data`` checks the manifest; ``--write`` renews it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MANIFEST", "NAMES", "SIZES", "fingerprint", "main", "make", "workload"]

Positions = NDArray[np.uint64]

SEED = 20_251_121

SIZES = (1_000, 100_000, 10_000_000)

KEYS = 64

MANIFEST = Path(__file__).with_name("manifest.json")
CACHE = Path(__file__).parents[1] / "build" / "bench_data"


class _Bits:
    """Whole numbers from raw 64-bit words."""

    def __init__(self, name: str, n: int) -> None:
        seed = hashlib.sha256(f"{SEED} {name} {n}".encode()).digest()
        self._source = np.random.PCG64(np.frombuffer(seed, np.uint64).tolist())

    def below(self, limit: int, size: int) -> Positions:
        """Uniform in 0 … limit-1 (the modulo's bias is below 2^-30 for the limits used here)."""
        return self._source.random_raw(size).astype(np.uint64, copy=False) % np.uint64(limit)

    def distinct(self, universe: int, n: int) -> Positions:
        """n distinct values below universe, ascending."""
        if 2 * n > universe:  # few are left out: choose those
            left_out = self.distinct(universe, universe - n)
            return np.flatnonzero(~_mask(left_out, universe)).astype(np.uint64)
        chosen = np.empty(0, np.uint64)
        while len(chosen) < n:
            more = np.sort(np.concatenate([chosen, self.below(universe, n + n // 8 + 16)]))
            chosen = more[np.concatenate([[True], more[1:] != more[:-1]])]
        kept = np.argpartition(self._source.random_raw(len(chosen)), n - 1)[:n]
        return chosen[_mask(kept, len(chosen))]

    def shuffled(self, values: Positions) -> Positions:
        """In random order: sorted by random words."""
        return values[np.argsort(self._source.random_raw(len(values)), kind="stable")]


def _mask(positions: NDArray[np.integer[Any]], size: int) -> NDArray[np.bool_]:
    mask = np.zeros(size, np.bool_)
    mask[positions] = True
    return mask


def _share(percent: float) -> Callable[[_Bits, int], Positions]:
    return lambda bits, n: bits.distinct(round(n * 100 / percent), n)


def _runs(bits: _Bits, n: int) -> Positions:
    lengths = 100 + bits.below(901, n // 100 + 1)
    gaps = 100 + bits.below(901, len(lengths))
    starts = np.cumsum(lengths + gaps) - lengths
    first = np.cumsum(lengths) - lengths
    return (np.repeat(starts - first, lengths.astype(np.int64)) + np.arange(lengths.sum(), dtype=np.uint64))[
        :n
    ]


def _keys(bits: _Bits, n: int) -> Positions:
    sizes = [n // KEYS + (key < n % KEYS) for key in range(KEYS)]
    return np.concatenate(
        [bits.distinct(10 * size, size) + np.uint64(key << 32) for key, size in enumerate(sizes)]
    )


def _fifth(bits: _Bits, n: int) -> Positions:
    return np.arange(n, dtype=np.uint64) * np.uint64(5)


_MAKERS: dict[str, Callable[[_Bits, int], Positions]] = {
    "a": _share(0.1),
    "b": _share(10),
    "c": _share(50),
    "d": _runs,
    "e": lambda bits, n: np.arange(n, dtype=np.uint64),
    "f": _keys,
    "g": lambda bits, n: bits.shuffled(make("b", n)),
    "h": lambda bits, n: bits.shuffled(bits.distinct(1 << 32, n)),
    "i5": _fifth,
    "i5-shuffled": lambda bits, n: bits.shuffled(_fifth(bits, n)),
    "i01": _share(1),
    "i03": _share(3),
    "i05": _share(5),
    "i10": _share(10),
    "i20": _share(20),
}

NAMES = tuple(_MAKERS)


def make(name: str, n: int) -> Positions:
    """Positions of one workload, computed."""
    return _MAKERS[name](_Bits(name, n), n)


def fingerprint(positions: Positions) -> str:
    """sha256 of the positions as little-endian uint64."""
    return hashlib.sha256(positions.astype("<u8", copy=False).tobytes()).hexdigest()


def workload(name: str, n: int) -> Positions:
    """Positions of one workload, from the cache below ``build`` or made anew.

    Args:
        name: one of `NAMES`.
        n: how many; the sizes in the manifest are checked against it.

    Returns:
        uint64 of shape (n,), distinct.

    Raises:
        ValueError: what was made is not what the manifest says.
    """
    cached = CACHE / f"{name}-{n}.npy"
    if cached.exists():
        loaded: Positions = np.load(cached)
        return loaded
    positions = make(name, n)
    expected = json.loads(MANIFEST.read_text()).get(f"{name}-{n}")
    if expected not in (None, fingerprint(positions)):
        raise ValueError(f"{name}-{n}: expected sha256 {expected}, found {fingerprint(positions)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    aside = cached.with_suffix(".part.npy")
    np.save(aside, positions)
    aside.rename(cached)
    return positions


def main(arguments: list[str]) -> None:
    """Checks the manifest, or writes it."""
    found = {f"{name}-{n}": fingerprint(make(name, n)) for name in NAMES for n in SIZES}
    if arguments == ["--write"]:
        MANIFEST.write_text(json.dumps(found, indent=1) + "\n")
        return
    wrong = [key for key, value in json.loads(MANIFEST.read_text()).items() if found.get(key) != value]
    sys.exit(f"not what the manifest says: {', '.join(wrong)}" if wrong else 0)
