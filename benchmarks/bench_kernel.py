"""Benchmarks of the public functions on single bitmaps, compared with other libraries.

`cases` lists them for the runner (``python -m benchmarks.run``); under pytest-benchmark ours and a peer of each
case are tests. The letters of the workloads are explained in `bench_data.positions`.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench_data.positions import realdata
from benchmarks import peers
from benchmarks.rounds import OURS
from benchmarks.timing import Case, Contenders, Target
from benchmarks.workloads import (
    ARRAY,
    CROARING,
    FILL,
    ICEBERG,
    LARGE,
    MIDDLE,
    N_QUERIES,
    NUMPY,
    SCATTER,
    SMALL,
    SORTED,
    Positions,
    agreeing,
    contenders_of,
    data,
    encoded,
    label,
    run_contender,
    same,
)
from puffin_fast import dv
from puffin_fast.bitmap import PositionBitmap

# Encode and decode --------------------------------------------------------------------------------------


def encode_sorted(name: str, n: int) -> Case:
    def prepare() -> Contenders:
        positions = data(name, n)
        as_array = peers.as_array(positions)
        return agreeing(
            {
                OURS: lambda: PositionBitmap.from_positions(positions).to_bytes(),
                NUMPY: lambda: peers.pyroaring_encode(positions),
                ARRAY: lambda: peers.pyroaring_encode(as_array),
                CROARING: lambda: peers.croaring_encode(positions),
            }
        )

    targets = (Target(NUMPY, 40),) if n == LARGE else ()
    return Case("encode sorted", label(name, n), "position", len(data(name, n)), prepare, targets)


def encode_unsorted(name: str, n: int) -> Case:
    def prepare() -> Contenders:
        positions = data(name, n)
        return agreeing(
            {
                OURS: lambda: PositionBitmap.from_positions(positions).to_bytes(),
                "np.sort + ours": lambda: PositionBitmap.from_positions(np.sort(positions)).to_bytes(),
                CROARING: lambda: peers.croaring_encode(positions),
            }
        )

    targets = (Target(CROARING, 30), Target("np.sort + ours", 2)) if n == LARGE else ()
    return Case("encode unsorted", label(name, n), "position", len(data(name, n)), prepare, targets)


def decode_out(name: str, n: int) -> Case:
    """All checks, from bytes into an array that is there; the floor is writing such an array."""
    count = len(data(name, n))

    def prepare() -> Contenders:
        blob = encoded(name, n)
        out, other = np.ones(count, np.uint64), np.ones(count, np.uint64)
        assert same(PositionBitmap.from_bytes(blob).to_numpy(out=out), data(name, n))
        calls: Contenders = {
            OURS: lambda: PositionBitmap.from_bytes(blob).to_numpy(out=out),
            "pyroaring": lambda: peers.pyroaring_decode(blob),
            CROARING: lambda: peers.croaring_decode(blob, other),
            FILL: lambda: other.fill(7),
        }
        return agreeing(calls, but=(FILL,))

    targets = (Target("pyroaring", 5), Target(FILL, 0.75)) if n == LARGE else ()
    return Case("decode, out=", label(name, n), "position", count, prepare, targets)


def decode_new(name: str, n: int) -> Case:
    count = len(data(name, n))

    def prepare() -> Contenders:
        blob = encoded(name, n)
        calls: Contenders = {
            OURS: lambda: PositionBitmap.from_bytes(blob).to_numpy(),
            "pyroaring": lambda: peers.pyroaring_decode(blob),
            FILL: lambda: np.full(count, 7, np.uint64),
        }
        return agreeing(calls, but=(FILL,))

    return Case("decode", label(name, n), "position", count, prepare)


def checksum(name: str, n: int) -> Case:
    """What the checksum of the frame costs beside encoding, with each of the libraries that have the call."""

    def prepare() -> Contenders:
        positions = data(name, n)
        bitmap = PositionBitmap.from_positions(positions)
        blob = dv.iceberg.encode(bitmap)
        assert int.from_bytes(blob[-4:], "big") == zlib.crc32(blob[4:-4])
        calls: Contenders = {
            OURS: lambda: dv.iceberg.encode(PositionBitmap.from_positions(positions)),
            "encoding alone": lambda: PositionBitmap.from_positions(positions).to_bytes(),
            "zlib.crc32 alone": lambda: zlib.crc32(blob),
        }
        for module in ("zlib_ng.zlib_ng", "isal.isal_zlib"):
            try:
                found = __import__(module, fromlist=["crc32"])
            except ImportError:
                continue
            assert found.crc32(blob) == zlib.crc32(blob)
            calls[f"{module.partition('.')[0]} crc32 alone"] = functools.partial(found.crc32, blob)
        return calls

    return Case("encode a blob with its checksum", label(name, n), "position", n, prepare)


# Masks ---------------------------------------------------------------------------------------------------


def mask(name: str, n: int, *, packed: bool) -> Case:
    n_rows = int(data(name, n)[-1]) + 1

    def prepare() -> Contenders:
        blob = encoded(name, n)
        out, other = np.ones(n_rows, np.bool_), np.ones(n_rows if not packed else n_rows // 8 + 1, np.uint8)
        flags = peers.scatter(blob, n_rows)
        calls: Contenders = {
            OURS: (lambda: PositionBitmap.from_bytes(blob).mask_packed(n_rows))
            if packed
            else (lambda: PositionBitmap.from_bytes(blob).mask(n_rows, out=out)),
            SCATTER: lambda: peers.scatter(blob, n_rows),
            FILL: lambda: other.fill(0),
        }
        assert same(calls[OURS](), np.packbits(flags, bitorder="little") if packed else flags)
        return calls

    targets = (Target(SCATTER, 10),) if packed and name in "bcd" and n == LARGE else ()
    return Case("packed mask" if packed else "byte mask", label(name, n), "row", n_rows, prepare, targets)


# Sets ----------------------------------------------------------------------------------------------------

SETS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "union": (lambda a, b: a | b, "or", "union"),
    "intersection": (lambda a, b: a & b, "and", "intersection"),
    "difference": (lambda a, b: a - b, "andnot", "difference"),
}
"""Ours, CRoaring's name, pyroaring's name."""


def _siblings(name: str, n: int, k: int) -> list[bytes]:
    """k different sets of one shape."""
    return [encoded(name, n, seed) for seed in range(1, k + 1)]


def _ours(job: str, blobs: list[bytes]) -> bytes:
    read = [PositionBitmap.from_bytes(blob) for blob in blobs]
    if job == "union" and len(read) > 2:
        return PositionBitmap.union_all(read).to_bytes()
    return functools.reduce(SETS[job][0], read).to_bytes()


def combine(job: str, name: str, n: int, k: int = 2) -> Case:
    """Bytes to bytes, with all of our checks."""

    def prepare() -> Contenders:
        blobs = _siblings(name, n, k)
        _, croaring, pyroaring = SETS[job]
        calls: Contenders = {
            OURS: lambda: _ours(job, blobs),
            CROARING: lambda: peers.croaring_combine(croaring, *blobs),
            "pyroaring": lambda: peers.pyroaring_combine(pyroaring, *blobs),
        }
        if job == "union" and k > 2:
            calls["ours of 2"] = lambda: _ours(job, blobs[:2])
        return agreeing(calls, but=("ours of 2",))

    targets: tuple[Target, ...] = ()
    if job == "union" and n == LARGE and k == 2:
        targets = tuple(Target(CROARING, ratio) for w, ratio in (("a", 3), ("b", 2), ("c", 3)) if w == name)
    if job == "union" and k > 2:
        targets = (Target("ours of 2", 1),)
    return Case(
        f"{job} of {k}",
        label(name, n),
        "input position",
        n * k,
        prepare,
        targets,
        counts={"ours of 2": 2 * n},
    )


def objects(job: str, name: str, n: int) -> Case:
    """The operation alone, between bitmaps that are read already."""

    def prepare() -> Contenders:
        blobs = _siblings(name, n, 2)
        ours = [PositionBitmap.from_bytes(blob) for blob in blobs]
        theirs = [peers.BitMap64.deserialize(blob) for blob in blobs]
        operation, _, method = SETS[job]
        assert len(operation(*ours)) == len(getattr(theirs[0], method)(theirs[1]))
        return {OURS: lambda: operation(*ours), "pyroaring": lambda: getattr(theirs[0], method)(theirs[1])}

    return Case(f"{job} of 2 bitmaps in memory", label(name, n), "input position", 2 * n, prepare)


# Membership ----------------------------------------------------------------------------------------------


def contains(name: str, n: int, n_queries: int, *, ordered: bool) -> Case:
    """Members and their neighbours, half and half; decoding included."""

    def prepare() -> Contenders:
        blob, positions = encoded(name, n), data(name, n)
        rng = np.random.Generator(np.random.PCG64(3))
        asked = positions[rng.integers(0, len(positions), n_queries)] + rng.integers(0, 2, n_queries).astype(
            np.uint64
        )
        if ordered:
            asked.sort()
        some = asked[: n_queries // 10].tolist()
        expected = PositionBitmap.from_bytes(blob).contains(asked)
        assert peers.pyroaring_contains(blob, some) == expected[: len(some)].tolist()
        calls: Contenders = {
            OURS: lambda: PositionBitmap.from_bytes(blob).contains(asked),
            CROARING: lambda: peers.croaring_contains(blob, asked),
            "NumPy searchsorted": lambda: _searchsorted(positions, asked),
            "pyroaring in": lambda: peers.pyroaring_contains(blob, some),
        }
        return agreeing(calls, but=("pyroaring in",))

    targets = (Target(CROARING, 3),) if n == LARGE and not ordered else ()
    job = "contains, sorted queries" if ordered else "contains, random queries"
    counts = {"pyroaring in": n_queries // 10}
    return Case(job, label(name, n), "query", n_queries, prepare, targets, counts)


def _searchsorted(positions: Positions, asked: Positions) -> NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(positions, asked), len(positions) - 1)
    return positions[at] == asked


# The list ------------------------------------------------------------------------------------------------


def _real() -> Iterator[Case]:
    """CRoaring's real sets, when ``PUFFIN_FAST_REALDATA`` names their folder: bitmaps one by one, and united."""
    for name, sets in realdata():
        positions = [np.sort(some) for some in sets]
        total = sum(map(len, positions))
        blobs = [PositionBitmap.from_positions(some).to_bytes() for some in positions]
        assert blobs == [peers.pyroaring_encode(some) for some in positions]
        encode: dict[str, Callable[[Positions], Any]] = {
            OURS: lambda some: PositionBitmap.from_positions(some).to_bytes(),
            NUMPY: peers.pyroaring_encode,
            CROARING: peers.croaring_encode,
        }
        decode: dict[str, Callable[[bytes], Any]] = {
            OURS: lambda blob: PositionBitmap.from_bytes(blob).to_numpy(),
            "pyroaring": peers.pyroaring_decode,
        }
        unite: dict[str, Callable[[list[bytes]], Any]] = {
            OURS: lambda some: _ours("union", some),
            CROARING: lambda some: peers.croaring_combine("or", *some),
            "pyroaring": lambda some: peers.pyroaring_combine("union", *some),
        }
        for job, contenders, inputs in (
            ("encode sorted", encode, positions),
            ("decode", decode, blobs),
            ("union of all", unite, [blobs]),
        ):
            calls = {
                peer: functools.partial(lambda call, inputs: [call(each) for each in inputs], call, inputs)
                for peer, call in contenders.items()
            }
            yield Case(job, f"j {name}", "position", total, functools.partial(dict, calls))


def cases(quick: bool = False) -> list[Case]:
    """All cases; quick ones are the middle size only."""
    sizes = (MIDDLE,) if quick else (LARGE, MIDDLE, SMALL)
    large = MIDDLE if quick else LARGE
    iceberg = {} if quick else ICEBERG
    found = [encode_sorted(name, n) for n in sizes for name in SORTED]
    found += [encode_sorted(name, n) for name, n in iceberg.items()]
    found += _real()
    found += [encode_unsorted(name, n) for n in sizes for name in "gh"]
    found += [encode_unsorted("i-shuffled", n) for name, n in iceberg.items() if name == "i"]
    for decode in (decode_out, decode_new):
        found += [decode(name, n) for n in sizes for name in SORTED]
        found += [decode(name, n) for name, n in iceberg.items()]
    found += [checksum(name, large) for name in "ab"]
    found += [mask(name, large, packed=packed) for packed in (True, False) for name in "bcde"]
    found += [mask(name, n, packed=True) for name, n in iceberg.items()]
    for job in SETS:
        found += [combine(job, name, large) for name in SORTED]
        found += [combine(job, name, MIDDLE if quick else LARGE // 10, 8) for name in "abc"]
        found += [objects(job, name, large) for name in "abc"]
    queries = N_QUERIES // (20 if quick else 1)
    found += [contains(name, large, queries, ordered=ordered) for ordered in (False, True) for name in SORTED]
    return found


@pytest.mark.parametrize(("case", "contender"), contenders_of(cases(quick=True)))
def test_kernel(benchmark: Any, case: Case, contender: str) -> None:
    run_contender(benchmark, case, contender)
