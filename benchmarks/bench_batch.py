"""Benchmarks of the functions on whole Arrow arrays, and of calls from two threads, compared with other libraries."""

from __future__ import annotations

import itertools
import os
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import peers
from benchmarks.rounds import OURS
from benchmarks.timing import Case, Contenders, Target
from benchmarks.workloads import (
    LARGE,
    Positions,
    agreeing,
    contenders_of,
    data,
    encoded,
    label,
    run_contender,
    same,
)
from puffin_fast import arrow
from puffin_fast.bitmap import PositionBitmap

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

    targets = (Target("loop", 50),) if (n_vectors, size) == (200_000, 100) else ()
    what = f"{n_vectors:,} vectors of {size:,}"
    return Case("batch encode", what, "position", n_vectors * size, prepare, targets, {"loop": looped * size})


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
    """Runs each call in a thread on its own core: otherwise, a busy scheduler might start both on one core."""

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
    """Measures wall time, because the use of two cores is measured; both must be idle."""

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
        (Target("one after the other", 1.8),),
        clock=time.perf_counter,
    )


# The list ------------------------------------------------------------------------------------------------


def cases(quick: bool = False) -> list[Case]:
    """All cases; quick ones are smaller."""
    if quick:
        return [batch_encode(2_000, 100, 200), batch_decode(2_000, 100, 200), grouped(100, 10_000)]
    found = [batch_encode(200_000, 100, 4_000), batch_encode(1_000, 100_000, 20)]
    found += [batch_decode(200_000, 100, 4_000), batch_decode(1_000, 100_000, 20)]
    found += [batch_with_a_large_one(200_000, 100, 50_000_000)]
    found += [grouped(1_000, 2_000_000), grouped(20_000, 2_000_000)]
    found += [from_arrow("b", LARGE), to_arrow("b", LARGE)]
    found += [two_threads(job, name, LARGE // 10) for job in ("encode", "decode") for name in "bc"]
    return found


@pytest.mark.parametrize(("case", "contender"), contenders_of(cases(quick=True)))
def test_batches(benchmark: Any, case: Case, contender: str) -> None:
    run_contender(benchmark, case, contender)
