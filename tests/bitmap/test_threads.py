"""Several threads: on one bitmap, and writing to what another one is reading."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from puffin_fast import arrow, dv, errors
from puffin_fast.bitmap import PositionBitmap

ROUNDS = 20
CHUNK = 1 << 16

Positions = npt.NDArray[np.uint64]


def _while_changing(array: Positions, other: Positions, action: Callable[[], None]) -> None:
    """Runs the action again and again while another thread switches the array between two contents."""
    first, done = array.copy(), threading.Event()

    def switch() -> None:
        while not done.is_set():
            array[:] = other
            array[:] = first

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        for _ in range(ROUNDS):
            action()
    finally:
        done.set()
        thread.join()


def _shapes() -> dict[str, tuple[Positions, Positions]]:
    n = 4 * CHUNK
    dense = np.arange(n, dtype=np.uint64)
    spread = np.arange(n, dtype=np.uint64) * 3
    shuffled = np.random.default_rng(1).permutation(spread)
    far = shuffled * np.uint64(1 << 20)
    late = dense.copy()
    late[CHUNK:] += 5
    return {
        "one run, then none": (dense, spread),
        "none, then one run": (spread, dense),
        "a chunk's last positions move on": (dense, late),
        "sorted, then not": (spread, shuffled),
        "buckets of other sizes": (shuffled, np.roll(shuffled, 1) // np.uint64(2)),
        "buckets that were not there": (shuffled, shuffled + np.uint64(1 << 33)),
        "very sparse": (far, shuffled),
        "no longer positions": (shuffled, ~shuffled),
        "repeats, then not in order": (np.repeat(spread[: n // 2], 2), shuffled),
    }


SHAPES = _shapes()


@pytest.mark.parametrize("shape", SHAPES)
def test_positions_that_change_during_encoding_give_an_error_or_a_set(shape: str) -> None:
    """Nothing outside of the result is written to (the sanitizer build checks it)."""
    first, other = SHAPES[shape]
    array = first.copy()

    def encode() -> None:
        try:
            made = PositionBitmap.from_positions(array)
        except errors.InvalidInputError:
            return
        assert len(made) <= len(array)

    _while_changing(array, other, encode)
    assert PositionBitmap.from_positions(first) == PositionBitmap.from_positions(np.unique(first))


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_that_change_during_encoding_give_an_error_or_blobs(shape: str) -> None:
    first, other = SHAPES[shape]
    array = first.copy()
    offsets = pa.array([0, 10_000, CHUNK + 1, len(array)], pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, pa.array(array))  # no copy: Arrow uses NumPy's memory

    def encode() -> None:
        try:
            assert len(arrow.encode(lists)) == 3
        except errors.InvalidInputError:
            return

    _while_changing(array, other, encode)


def test_flags_that_change_during_encoding_give_a_set() -> None:
    words = np.zeros(CHUNK // 4, np.uint64)
    flags = words.view(np.uint8)

    def encode() -> None:
        made = PositionBitmap.from_mask(flags)
        assert PositionBitmap.from_bytes(made.to_bytes()) == made

    _while_changing(words, np.random.default_rng(2).integers(0, 1 << 63, len(words), np.uint64), encode)


def test_queries_that_change_during_the_answer_give_answers() -> None:
    bitmap = PositionBitmap.from_positions(np.arange(0, 1 << 24, 3, dtype=np.uint64))
    queries = np.arange(1 << 16, dtype=np.uint64)
    _while_changing(
        queries, ~queries, lambda: np.testing.assert_array_less(bitmap.contains(queries).view("u1"), 2)
    )


def test_groups_that_change_while_they_are_gathered_give_an_error_or_blobs() -> None:
    n = 4 * CHUNK
    ids = np.random.default_rng(3).integers(0, 4, n).astype(np.int32)
    names = pa.array(list("abcd"))
    paths = pa.DictionaryArray.from_arrays(pa.array(ids), names)  # the indices are not copied
    positions = np.arange(n, dtype=np.int64)

    def group() -> None:
        try:
            assert arrow.encode_grouped(paths, positions).num_rows <= 4
        except errors.InvalidInputError:
            return

    words = ids.view(np.uint64)
    _while_changing(words, np.zeros_like(words), group)


def test_threads_share_a_new_bitmap() -> None:
    """The directory of containers and its table are made by the first query of any thread."""
    positions = np.random.default_rng(4).integers(0, 1 << 40, 200_000).astype(np.uint64)
    queries = np.concatenate((positions[:5_000], positions[:5_000] + np.uint64(1)))
    blob = dv.iceberg.encode(PositionBitmap.from_positions(positions))
    expected = np.isin(queries, positions)
    few, many = int(positions[0]), PositionBitmap.from_positions(positions[::2])
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            shared, start = dv.iceberg.decode(blob), threading.Barrier(8)

            def ask(which: int, shared: PositionBitmap = shared, start: threading.Barrier = start) -> bool:
                start.wait()
                for question in (which, which + 1, which + 2):
                    if question % 3 == 0 and not (shared.contains(queries) == expected).all():
                        return False
                    if question % 3 == 1 and not (few in shared and shared.rank(shared.max()) == len(shared)):
                        return False
                    if question % 3 == 2 and not ((shared | many) == shared and many.issubset(shared)):
                        return False
                return True

            assert all(pool.map(ask, range(8)))
