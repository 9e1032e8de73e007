"""The kernels through their Python doors, each job beside its peers.

`cases` lists them for the runner (``python -m benchmarks.run``); under pytest-benchmark ours and a peer of each
case are tests. The letters of the workloads are explained in `bench_data.positions`.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from bench_data import load, sizes
from bench_data.positions import realdata
from benchmarks import peers
from benchmarks.timing import OURS, Bar, Case, Contenders
from puffin_fast import arrow, dv
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

    bars = (Bar(NUMPY, 40),) if n == LARGE else ()
    return Case("encode sorted", label(name, n), "position", len(data(name, n)), prepare, bars)


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

    bars = (Bar(CROARING, 30), Bar("np.sort + ours", 2)) if n == LARGE else ()
    return Case("encode unsorted", label(name, n), "position", len(data(name, n)), prepare, bars)


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

    bars = (Bar("pyroaring", 5), Bar(FILL, 0.75)) if n == LARGE else ()
    return Case("decode, out=", label(name, n), "position", count, prepare, bars)


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

    bars = (Bar(SCATTER, 10),) if packed and name in "bcd" and n == LARGE else ()
    return Case("packed mask" if packed else "byte mask", label(name, n), "row", n_rows, prepare, bars)


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
        return PositionBitmap.union(read).to_bytes()
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

    bars: tuple[Bar, ...] = ()
    if job == "union" and n == LARGE and k == 2:
        bars = tuple(Bar(CROARING, ratio) for w, ratio in (("a", 3), ("b", 2), ("c", 3)) if w == name)
    if job == "union" and k > 2:
        bars = (Bar("ours of 2", 1),)
    return Case(
        f"{job} of {k}", label(name, n), "input position", n * k, prepare, bars, counts={"ours of 2": 2 * n}
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

    bars = (Bar(CROARING, 3),) if n == LARGE and not ordered else ()
    job = "contains, sorted queries" if ordered else "contains, random queries"
    counts = {"pyroaring in": n_queries // 10}
    return Case(job, label(name, n), "query", n_queries, prepare, bars, counts)


def _searchsorted(positions: Positions, asked: Positions) -> NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(positions, asked), len(positions) - 1)
    return positions[at] == asked


# Batches -------------------------------------------------------------------------------------------------


def _batch(n_vectors: int, size: int) -> pa.ListArray:
    """Vectors that cut one workload into pieces, so that no two are alike."""
    base = data("b", LARGE)[: min(n_vectors * size, LARGE // size * size)].astype(np.int64)
    values = np.resize(base, n_vectors * size).reshape(n_vectors, size)
    values = values - values[:, :1]
    offsets = pa.array(np.arange(0, n_vectors * size + 1, size, dtype=np.int64))
    return pa.LargeListArray.from_arrays(offsets, pa.array(values.ravel()))


def _loop(values: Positions, size: int, n_vectors: int) -> list[bytes]:
    return [
        _framed(peers.pyroaring_encode(values[start : start + size]))
        for start in range(0, n_vectors * size, size)
    ]


def _framed(vector: bytes) -> bytes:
    body = b"\xd1\xd3\x39\x64" + vector
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def batch_encode(n_vectors: int, size: int, looped: int) -> Case:
    def prepare() -> Contenders:
        lists = _batch(n_vectors, size)
        values = lists.values.to_numpy().view(np.uint64)
        assert arrow.encode(lists)[:looped].to_pylist() == _loop(values, size, looped)
        return {OURS: lambda: arrow.encode(lists), "loop": lambda: _loop(values, size, looped)}

    bars = (Bar("loop", 50),) if (n_vectors, size) == (200_000, 100) else ()
    what = f"{n_vectors:,} vectors of {size:,}"
    return Case("batch encode", what, "position", n_vectors * size, prepare, bars, {"loop": looped * size})


def batch_decode(n_vectors: int, size: int, looped: int) -> Case:
    def prepare() -> Contenders:
        lists = _batch(n_vectors, size)
        blobs = arrow.encode(lists)
        some = [blob[8:-4] for blob in blobs[:looped].to_pylist()]
        found = arrow.decode(blobs)
        assert len(found) == n_vectors
        assert found[:looped].to_pylist() == [peers.pyroaring_decode(blob).tolist() for blob in some]
        return {
            OURS: lambda: arrow.decode(blobs),
            "loop": lambda: [peers.pyroaring_decode(blob) for blob in some],
        }

    what = f"{n_vectors:,} vectors of {size:,}"
    return Case("batch decode", what, "position", n_vectors * size, prepare, (), {"loop": looped * size})


def batch_with_a_large_one(n_small: int, size: int, large: int) -> Case:
    def prepare() -> Contenders:
        values = np.concatenate([np.arange(large) * 3, np.tile(np.arange(size) * 7, n_small)])
        offsets = np.concatenate([[0], large + size * np.arange(n_small + 1)])
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
        blobs = arrow.encode(lists)
        assert arrow.cardinality(blobs).to_pylist() == [large] + [size] * n_small
        return {OURS: lambda: arrow.encode(lists), "decode them": lambda: arrow.decode(blobs)}

    what = f"one of {large:,} among {n_small:,} of {size}"
    return Case("batch encode", what, "position", large + n_small * size, prepare)


def grouped(n_files: int, n: int) -> Case:
    """Rows of (file, position) in random order, as position deletes come; the peer sorts and loops."""

    def prepare() -> Contenders:
        rng = np.random.Generator(np.random.PCG64(4))
        codes = rng.integers(0, n_files, n).astype(np.int32)
        positions = rng.integers(0, 1_000_000, n)
        names = pa.array([f"s3://bucket/warehouse/table/data/{i:08d}.parquet" for i in range(n_files)])
        paths = pa.DictionaryArray.from_arrays(pa.array(codes), names)
        column = pa.array(positions)

        def looped() -> dict[int, bytes]:
            order = np.argsort(codes, kind="stable")
            cuts = np.flatnonzero(np.diff(codes[order])) + 1
            groups = np.split(positions[order].view(np.uint64), cuts)
            return {
                int(code): _framed(peers.pyroaring_encode(group))
                for code, group in zip(np.unique(codes), groups, strict=True)
            }

        batch = arrow.encode_grouped(paths, column)
        expected = {names[code].as_py(): blob for code, blob in looped().items()}
        assert dict(zip(batch[0].to_pylist(), batch[1].to_pylist(), strict=True)) == expected
        return {OURS: lambda: arrow.encode_grouped(paths, column), "sort and loop": looped}

    return Case("encode_grouped", f"{n:,} rows in {n_files:,} files", "position", n, prepare)


def from_arrow(name: str, n: int) -> Case:
    def prepare() -> Contenders:
        positions = data(name, n)
        column = pa.array(positions.view(np.int64))
        return agreeing(
            {
                OURS: lambda: PositionBitmap.from_positions(column).to_bytes(),
                "ours from NumPy": lambda: PositionBitmap.from_positions(positions).to_bytes(),
            }
        )

    return Case("encode from Arrow", label(name, n), "position", n, prepare)


def to_arrow(name: str, n: int) -> Case:
    def prepare() -> Contenders:
        blob = encoded(name, n)
        assert same(PositionBitmap.from_bytes(blob).to_arrow().to_numpy(), data(name, n).view(np.int64))
        return {
            OURS: lambda: PositionBitmap.from_bytes(blob).to_arrow(),
            "ours to NumPy": lambda: PositionBitmap.from_bytes(blob).to_numpy(),
        }

    return Case("decode to Arrow", label(name, n), "position", n, prepare)


# Threads -------------------------------------------------------------------------------------------------


def _both(calls: list[Callable[[], None]]) -> None:
    """Each call in a thread on a core of its own: a scheduler that finds no core idle would start both on one."""

    def pinned(core: int, call: Callable[[], None]) -> None:
        os.sched_setaffinity(0, {core})
        call()

    cores = itertools.cycle(sorted(os.sched_getaffinity(0)))
    threads = [threading.Thread(target=pinned, args=pair) for pair in zip(cores, calls, strict=False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def two_threads(job: str, name: str, n: int, times: int = 32) -> Case:
    """Wall-clock time, for the two cores together are what is asked for; it needs both of them free."""

    def prepare() -> Contenders:
        positions, blob = data(name, n), encoded(name, n)

        def worker() -> Callable[[], None]:
            out = np.ones(len(positions), np.uint64)

            def work() -> None:
                for _ in range(times):
                    if job == "encode":
                        PositionBitmap.from_positions(positions)
                    else:
                        PositionBitmap.from_bytes(blob).to_numpy(out=out)

            return work

        workers = [worker(), worker()]
        assert same(PositionBitmap.from_bytes(blob).to_numpy(), positions)
        return {OURS: lambda: _both(workers), "one after the other": lambda: [work() for work in workers]}

    return Case(
        f"{job} in two threads",
        label(name, n),
        "position",
        2 * times * len(data(name, n)),
        prepare,
        (Bar("one after the other", 1.8),),
        clock=time.perf_counter,
    )


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
    if quick:
        found += [batch_encode(2_000, 100, 200), batch_decode(2_000, 100, 200), grouped(100, 10_000)]
        return found
    found += [batch_encode(200_000, 100, 4_000), batch_encode(1_000, 100_000, 20)]
    found += [batch_decode(200_000, 100, 4_000), batch_decode(1_000, 100_000, 20)]
    found += [batch_with_a_large_one(200_000, 100, 50_000_000)]
    found += [grouped(1_000, 2_000_000), grouped(20_000, 2_000_000)]
    found += [from_arrow("b", LARGE), to_arrow("b", LARGE)]
    found += [two_threads(job, name, LARGE // 10) for job in ("encode", "decode") for name in "bc"]
    return found


def _contenders(quick: bool) -> list[Any]:
    return [
        pytest.param(case, contender, id=f"{case.name} - {contender}")
        for case, contender in itertools.product(cases(quick), (OURS, "peer"))
    ]


@pytest.mark.parametrize(("case", "contender"), _contenders(quick=True))
def test_kernel(benchmark: Any, case: Case, contender: str) -> None:
    """Ours and the first peer of each quick case; the runner does the rest."""
    calls = case.prepare()
    names = [OURS] if contender == OURS else [name for name in calls if name != OURS][:1]
    benchmark.group = case.name
    benchmark.extra_info |= {"contender": names[0], "units": case.units(names[0]), "unit": case.unit}
    benchmark(calls[names[0]])
