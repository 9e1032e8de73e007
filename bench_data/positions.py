"""The workloads of positions: the same bytes on every machine, whatever its NumPy.

All randomness is SplitMix64 of a counter, so that a workload is defined by arithmetic and not by a generator of
some library. ``manifest.json`` holds the SHA-256 of each; a cached file that disagrees is made again, a fresh
one that disagrees is an error.

    python -m bench_data            makes all of the manifest and checks it
    python -m bench_data --write    writes the manifest
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["MANIFEST", "SIZES", "WORKLOADS", "load", "main", "realdata", "sizes"]

Positions = NDArray[np.uint64]

MANIFEST = Path(__file__).parent / "manifest.json"
CACHE = Path(__file__).parent.parent / "build" / "bench_data"

SIZES = (1_000, 100_000, 10_000_000)
SEEDS = (1, 2)
"""Two sets of each workload, for operations between sets."""

ICEBERG_ROWS = 2_000_000
ICEBERG_POSITIONS = 5_000_000
"""Sizes of Iceberg's own benchmarks."""


def splitmix(n: int, seed: int) -> Positions:
    """The first n outputs of SplitMix64 from a seed."""
    z = np.arange(1, n + 1, dtype=np.uint64)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(seed * 0xD1342543DE82EF95 & (1 << 64) - 1)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def bernoulli(n_rows: int, density: float, seed: int) -> Positions:
    """Each row with the same probability, in steps of 1/65536."""
    lanes = splitmix(-(-n_rows // 4), seed).view(np.uint16)[:n_rows]
    return np.flatnonzero(lanes < np.uint16(density * 65_536)).astype(np.uint64)


def draws(n: int, limit: int, seed: int) -> Positions:
    """Uniform below a limit, unsorted, with the repeats that chance gives."""
    return splitmix(n, seed) % np.uint64(limit)


def sparse(n: int, seed: int) -> Positions:
    """Distinct sorted draws at 0.1%: a few less than n, for repeats are dropped."""
    values = np.sort(draws(n, n * 1_000, seed))
    return values[np.concatenate([[True], values[1:] != values[:-1]])]


def shuffled(positions: Positions, seed: int) -> Positions:
    return positions[np.argsort(splitmix(len(positions), seed), kind="stable")]


def clustered(n: int, seed: int) -> Positions:
    """Runs of 100 to 1000 rows with gaps of the same lengths."""
    n_runs = n // 500 + 2
    lengths = (100 + draws(n_runs, 901, seed)).astype(np.int64)
    gaps = (100 + draws(n_runs, 901, seed + 100)).astype(np.int64)
    starts = np.cumsum(gaps + np.concatenate([[0], lengths[:-1]]))
    before = np.cumsum(lengths) - lengths
    return (np.arange(lengths.sum()) + np.repeat(starts - before, lengths))[:n].astype(np.uint64)


def many_keys(n: int, seed: int, keys: int = 64) -> Positions:
    parts = [bernoulli(n * 10 // keys, 0.1, seed + 1_000 * key) for key in range(keys)]
    return np.concatenate([part + np.uint64(key << 32) for key, part in enumerate(parts)])


def _share(percent: int) -> Callable[[int, int], Positions]:
    return lambda n_rows, seed: bernoulli(n_rows, percent / 100, seed)


def _fifth(n: int, seed: int) -> Positions:
    return np.arange(n, dtype=np.uint64) * np.uint64(5) + np.uint64(seed - 1)


WORKLOADS: dict[str, tuple[str, Callable[[int, int], Positions]]] = {
    "a": ("random, 0.1%: arrays", sparse),
    "b": ("random, 10%: bitmaps", lambda n, seed: bernoulli(n * 10, 0.1, seed)),
    "c": ("random, 50%", lambda n, seed: bernoulli(n * 2, 0.5, seed)),
    "d": ("runs of 100 to 1000", clustered),
    "e": ("contiguous", lambda n, seed: np.arange(n, dtype=np.uint64) + np.uint64((seed - 1) * n // 2)),
    "f": ("64 keys of 32 bits, 10% each", many_keys),
    "g": ("random, 10%, shuffled", lambda n, seed: shuffled(bernoulli(n * 10, 0.1, seed), seed + 1)),
    "h": ("shuffled, sparse in 4G", lambda n, seed: draws(n, 1 << 32, seed)),
    "i": ("every fifth row", _fifth),
    "i-shuffled": ("every fifth row, shuffled", lambda n, seed: shuffled(_fifth(n, seed), seed)),
    "i-1%": ("1% of the rows of a file", _share(1)),
    "i-3%": ("3% of the rows of a file", _share(3)),
    "i-5%": ("5% of the rows of a file", _share(5)),
    "i-10%": ("10% of the rows of a file", _share(10)),
    "i-20%": ("20% of the rows of a file", _share(20)),
}
"""What a workload is, and its positions for a size and a seed.

The size is about how many positions there are; for a share of a file, how many rows the file has.
"""


def sizes(name: str) -> tuple[int, ...]:
    """The sizes at which a workload is measured; those of (i) are Iceberg's own."""
    if name.endswith("%"):
        return (ICEBERG_ROWS,)
    return (ICEBERG_POSITIONS,) if name.startswith("i") else SIZES


def _fingerprint(positions: Positions) -> str:
    return hashlib.sha256(positions.astype("<u8", copy=False).tobytes()).hexdigest()


def _key(name: str, n: int, seed: int) -> str:
    return f"{name}-{n}-{seed}"


def load(name: str, n: int, seed: int = 1) -> Positions:
    """A workload's positions, from the cache when they are there and are what the manifest says.

    Raises:
        RuntimeError: when they cannot be made as the manifest says.
    """
    path = CACHE / f"{_key(name, n, seed)}.npy"
    wanted = json.loads(MANIFEST.read_text()).get(_key(name, n, seed))
    if path.exists():
        cached: Positions = np.load(path)
        if wanted in (None, _fingerprint(cached)):
            return cached
    positions = WORKLOADS[name][1](n, seed)
    if wanted is not None and (found := _fingerprint(positions)) != wanted:
        raise RuntimeError(f"workload {path.stem}: expected SHA-256 {wanted}, made {found}")
    CACHE.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.npy")
    np.save(aside, positions)
    aside.replace(path)
    return positions


def realdata() -> Iterator[tuple[str, list[Positions]]]:
    """CRoaring's real sets, when ``PUFFIN_FAST_REALDATA`` names their folder (one folder of .txt per set)."""
    root = os.environ.get("PUFFIN_FAST_REALDATA")
    for folder in sorted(Path(root).iterdir()) if root else ():
        files = sorted(folder.glob("*.txt")) if folder.is_dir() else []
        if files:
            texts = [file.read_text().replace("\n", "") for file in files]
            yield folder.name, [np.array(text.split(","), np.uint64) for text in texts]


def main() -> None:
    """Checks the manifest, or writes it."""
    write = sys.argv[1:] == ["--write"]
    wanted = [(name, n, seed) for name in WORKLOADS for n in sizes(name) for seed in SEEDS]
    made = {_key(*key): _fingerprint(WORKLOADS[key[0]][1](*key[1:])) for key in wanted}
    if write:
        MANIFEST.write_text(json.dumps(made, indent=1) + "\n")
    elif made != json.loads(MANIFEST.read_text()):
        raise SystemExit("the workloads are not what the manifest says: python -m bench_data --write")
    print(f"{len(made)} workloads")


if __name__ == "__main__":
    main()
