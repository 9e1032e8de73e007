"""Size, memory and threads: large sets, hostile numbers, two cores."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from puffin_fast import dv, errors
from puffin_fast.bitmap import PositionBitmap
from tests.kit import oracle, strategies
from tests.kit.memory import MIB, forks, peak_growth

IMPORTS = """
    import struct
    import numpy as np
    from puffin_fast import dv, errors
    from puffin_fast.bitmap import PositionBitmap
    def refused(data, decode=PositionBitmap.from_bytes):
        try:
            decode(data)
        except errors.CorruptDataError:
            return
        raise AssertionError("accepted")
"""

# Hostile sizes -------------------------------------------------------------------------------------------


def test_declared_counts_never_decide_an_allocation() -> None:
    """Each of these few bytes declares gigabytes; a process with 64 MiB to spare refuses all of them."""
    hostile = [
        strategies.bitmap64(count=count)
        for count in (1, 2, 1 << 16, 1 << 31, 1 << 32, 1 << 61, (1 << 64) - 1)
    ]
    for count in (1, 65_535, 65_536, 65_537, 1 << 30, (1 << 32) - 1):
        hostile.append(strategies.bitmap64((0, struct.pack("<II", oracle.NO_RUNS, count)), count=1 << 60))
    hostile.append(strategies.bitmap64((0, struct.pack("<HH", oracle.RUNS, 65_535))))
    hostile.append(strategies.one(strategies.run(0, (1, 9), count=65_535)))
    hostile.append(strategies.one(strategies.array(0, [1], cardinality=65_536)))
    growth = peak_growth(
        IMPORTS + f"\n    hostile = {hostile!r}",
        """
        for data in hostile:
            refused(data)
            refused(data, lambda b: dv.iceberg.decode(struct.pack(">I", 0xFFFFFFFF) + b))
        """,
        limit_mib=64,
    )
    assert growth < 8 * MIB


def test_empty_bitmaps_cost_no_more_than_their_bytes() -> None:
    """A megabyte of Java's gap fillers, then the largest key: memory follows the bytes, not the keys."""
    growth = peak_growth(
        IMPORTS
        + """
    empty = bytes.fromhex("3a30000000000000")
    n = 90_000
    keys = [*range(n - 1), 0x7FFFFFFE]
    data = struct.pack("<Q", n) + b"".join(struct.pack("<I", key) + empty for key in keys)
    PositionBitmap.from_bytes(bytes(8))
    """,
        """
        bitmap = PositionBitmap.from_bytes(data)
        assert len(bitmap) == 0 and bitmap.to_numpy().size == 0
        assert not (bitmap | bitmap)
        """,
        limit_mib=128,
    )
    assert growth < 16 * MIB


def test_a_vector_of_far_positions_makes_no_large_mask() -> None:
    growth = peak_growth(
        IMPORTS + "\n    far = PositionBitmap.from_positions([3, 2**32 + 3, 0x7FFFFFFE80000000])",
        """
        assert far.mask(100_000).sum() == 1
        assert far.mask_packed(100_000).sum() == 8
        """,
        limit_mib=64,
    )
    assert growth < 8 * MIB


# Memory of valid input -----------------------------------------------------------------------------------

N = 10_000_000


def test_encoding_takes_its_output_and_a_bounded_scratch() -> None:
    for density in (0.1, 0.001):
        growth = peak_growth(
            IMPORTS
            + f"""
    positions = np.flatnonzero(np.random.default_rng(0).random({N}) < {density}).astype(np.uint64)
    PositionBitmap.from_positions(positions[:10]).to_bytes()
    """,
            "bitmap = PositionBitmap.from_positions(positions)",
        )
        size = PositionBitmap.from_positions(
            np.flatnonzero(np.random.default_rng(0).random(N) < density)
        ).n_bytes
        assert growth < 2 * size + 8 * MIB, (density, growth, size)


def test_decoding_and_masks_take_their_result_only() -> None:
    setup = (
        IMPORTS
        + f"""
    blob = dv.iceberg.encode(PositionBitmap.from_mask(np.random.default_rng(0).random({N}) < 0.1))
    bitmap = dv.iceberg.decode(blob)
    n = len(bitmap)
    out = np.empty(n, np.uint64); out[:] = 1
    flags = np.empty({N}, np.bool_); flags[:] = True
    """
    )
    warm = "bitmap.to_numpy(); bitmap.mask(10); bitmap.mask_packed(10)"  # a fork maps the pages of libraries again
    cardinality = int((np.random.default_rng(0).random(N) < 0.1).sum())
    with forks(setup) as run:
        for action, result in (
            ("bitmap.to_numpy(out=out)", 0),
            (f"bitmap.mask({N}, out=flags)", 0),
            ("found = bitmap.to_numpy()", 8 * cardinality),
            (f"found = bitmap.mask({N})", N),
            (f"found = bitmap.mask_packed({N})", N // 8),
        ):
            assert run(warm, action).n_bytes < result + 2 * MIB, action


def test_nothing_leaks() -> None:
    growth = peak_growth(
        IMPORTS
        + """
    positions = np.flatnonzero(np.random.default_rng(0).random(2_000_000) < 0.1)
    shuffled = np.random.default_rng(0).permutation(positions)
    blob = dv.iceberg.encode(PositionBitmap.from_positions(positions))
    broken = blob[:8] + blob[8:-4][:-1] + b"0000"
    def work(times):
        for _ in range(times):
            a, b = PositionBitmap.from_positions(shuffled), dv.iceberg.decode(blob)
            a | b, a & b, a - b, a ^ b, PositionBitmap.union_all([a, b, a])
            a.to_numpy(), a.to_arrow(), a.mask(1000), a.contains(positions[:1000]), list(a)[:1]
            refused(broken, dv.iceberg.decode)
            refused(blob[8:-5])
            try:
                PositionBitmap.from_positions(-positions)
            except errors.InvalidInputError:
                pass
    work(5)
    """,
        "work(200)",
    )
    assert growth < 16 * MIB


# Large sets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [0.001, 0.1, 0.5, 1.0])
def test_ten_million_rows_go_through(density: float) -> None:
    flags = np.random.default_rng(7).random(N) < density
    positions = np.flatnonzero(flags)
    bitmap = PositionBitmap.from_positions(positions)
    read = dv.iceberg.decode(dv.iceberg.encode(bitmap), cardinality=len(positions))
    assert read == bitmap == PositionBitmap.from_mask(flags)
    np.testing.assert_array_equal(read.to_numpy(), positions)
    np.testing.assert_array_equal(read.mask(N), flags)
    np.testing.assert_array_equal(read.mask_packed(N), np.packbits(flags, bitorder="little"))
    np.testing.assert_array_equal(read.contains(np.arange(0, N, 7)), flags[::7])


def test_one_position_in_each_of_many_keys() -> None:
    positions = np.arange(200_000, dtype=np.uint64) << np.uint64(32)
    bitmap = PositionBitmap.from_positions(positions)
    np.testing.assert_array_equal(PositionBitmap.from_bytes(bitmap.to_bytes()).to_numpy(), positions)
    assert bitmap.rank(int(positions[-1])) == len(positions)
    assert bitmap.select(1_234) == 1_234 << 32


def test_all_containers_of_a_key_are_taken() -> None:
    positions = np.arange(65_536, dtype=np.uint64) << np.uint64(16)
    data = PositionBitmap.from_positions(positions).to_bytes()
    assert data == oracle.encode(positions.tolist())
    np.testing.assert_array_equal(PositionBitmap.from_bytes(data).to_numpy(), positions)
    runs = np.concatenate(
        [positions, positions + np.uint64(1), positions + np.uint64(2), positions + np.uint64(3)]
    )
    data = PositionBitmap.from_positions(runs).to_bytes()
    assert data == oracle.encode(runs.tolist())
    assert PositionBitmap.from_bytes(data).containers().run == 65_536


# Threads -------------------------------------------------------------------------------------------------


def test_other_threads_run_while_a_kernel_runs() -> None:
    """With the GIL held, the counting thread could not move between the start and the end of one call."""
    positions = np.random.default_rng(3).integers(0, 1 << 36, 8_000_000, dtype=np.uint64)
    bitmap = PositionBitmap.from_positions(positions)
    data, ordered = bitmap.to_bytes(), bitmap.to_numpy()
    calls = {
        "encode_unsorted": lambda: PositionBitmap.from_positions(positions),
        "encode_sorted": lambda: [PositionBitmap.from_positions(ordered) for _ in range(3)],
        "check": lambda: [PositionBitmap.from_bytes(data) for _ in range(3)],
        "decode": bitmap.to_numpy,
        "contains": lambda: bitmap.contains(positions),
        "union": lambda: bitmap | bitmap,
    }
    interval = sys.getswitchinterval()
    sys.setswitchinterval(
        1000.0
    )  # the interpreter does not switch threads: they run only when the GIL is released
    try:
        for name, call in calls.items():
            assert _progress_beside(call), name
    finally:
        sys.setswitchinterval(interval)


def _progress_beside(call: Callable[[], object]) -> bool:
    """Whether another thread moved during any of some calls."""
    go, moved = threading.Event(), threading.Event()

    def other() -> None:
        go.wait()
        moved.set()

    thread = threading.Thread(target=other)
    thread.start()
    go.set()  # the other thread wants the GIL from here on
    try:
        return any(call() is not None and moved.is_set() for _ in range(20))
    finally:
        thread.join()


def test_a_refusal_in_one_thread_does_not_reach_another() -> None:
    good, bad = oracle.encode_blob(range(1000)), oracle.frame(strategies.MALFORMED["array_unsorted"]())
    wrong: list[object] = []

    def use(blob: bytes, refuse: bool) -> None:
        for _ in range(2_000):
            try:
                dv.iceberg.decode(blob)
                refused = False
            except errors.CorruptDataError:
                refused = True
            if refused != refuse:
                wrong.append(blob)

    threads = [threading.Thread(target=use, args=pair) for pair in ((good, False), (bad, True)) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
