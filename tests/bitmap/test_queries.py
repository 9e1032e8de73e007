"""Queries of a bitmap, compared with the oracle and Python's `set`."""

from __future__ import annotations

import bisect
import contextlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast import errors
from puffin_fast.bitmap import PositionBitmap
from tests.kit import oracle, strategies
from tests.kit.cases import each

N_ROWS = (0, 1, 7, 8, 9, 63, 64, 65, 65_535, 65_536, 65_537, 131_072, 200_003)


def probes(positions: strategies.Positions) -> list[int]:
    """Members, their neighbours and the ends of the range."""
    near = {int(p) + by for p in positions[:: max(1, len(positions) // 40)] for by in (-1, 0, 1)}
    edges = {0, 1, 65_535, 65_536, (1 << 32) - 1, 1 << 32, oracle.MAX_POSITION}
    return sorted(p for p in near | edges if 0 <= p <= oracle.MAX_POSITION)


# Masks ---------------------------------------------------------------------------------------------------


@given(
    strategies.low_position_sets(),
    st.sampled_from(N_ROWS),
    st.sampled_from([0, 1, 63, 4_095, 65_535, 65_536, 100_001]),
)
def test_masks_are_the_oracles(positions: strategies.Positions, n_rows: int, start: int) -> None:
    bitmap = PositionBitmap.from_positions(positions)
    expected = oracle.mask(positions.tolist(), n_rows)
    found = bitmap.mask(n_rows)
    assert (found.dtype, found.shape) == (np.bool_, (n_rows,))
    assert found.tolist() == expected
    assert set(np.unique(found.view(np.uint8))) <= {0, 1}
    out = np.ones(n_rows, np.bool_)
    returned = bitmap.mask(n_rows, out=out)
    assert np.shares_memory(returned, out) or not n_rows
    assert out.tolist() == expected
    packed = bitmap.mask_packed(n_rows)
    assert packed.dtype == np.uint8
    assert packed.tobytes() == oracle.pack(expected)
    later = bitmap.mask(start + n_rows)[start:]
    np.testing.assert_array_equal(bitmap.mask(n_rows, start=start), later)
    np.testing.assert_array_equal(bitmap.mask(n_rows, start=start, invert=True), ~later)


@pytest.mark.parametrize("cut", [1, 7, 8, 63, 64, 65, 4_095, 4_096, 65_535, 65_536, 65_537, 69_999])
def test_masks_cut_every_kind_of_container_where_the_rows_end(cut: int) -> None:
    rng = np.random.default_rng(cut)
    for positions in (
        np.arange(70_000),
        np.flatnonzero(rng.random(70_000) < 0.5),
        np.flatnonzero(rng.random(70_000) < 0.01),
        np.flatnonzero(np.arange(70_000) % 1_000 < 990),
    ):
        bitmap = PositionBitmap.from_positions(positions)
        expected = np.zeros(cut, np.bool_)
        expected[positions[positions < cut]] = True
        padded = np.full(cut + 64, 2, np.uint8)
        bitmap.mask(cut, out=padded[32:-32].view(np.bool_))
        np.testing.assert_array_equal(padded[32:-32].view(np.bool_), expected)
        assert (padded[:32] == 2).all()
        assert (padded[-32:] == 2).all()
        np.testing.assert_array_equal(bitmap.mask_packed(cut), np.packbits(expected, bitorder="little"))


def test_a_mask_is_as_long_as_the_file_whatever_the_vector_holds() -> None:
    bitmap = PositionBitmap.from_positions([3, (1 << 32) + 3, oracle.MAX_POSITION])
    assert bitmap.mask(10).tolist() == oracle.mask([3], 10)
    assert bitmap.mask_packed(10).tolist() == [8, 0]


@pytest.mark.parametrize("n_rows", [-1, 1.5, "3", None, 1 << 63, -(1 << 70)])
def test_row_counts_that_cannot_be_are_the_callers_fault(n_rows: Any) -> None:
    bitmap = PositionBitmap.from_positions([1])
    for ask in (bitmap.mask, bitmap.mask_packed):
        with pytest.raises((errors.InvalidInputError, errors.LimitExceededError, TypeError, MemoryError)):
            ask(n_rows)


def test_a_mask_out_that_does_not_fit_is_the_callers_fault() -> None:
    bitmap = PositionBitmap.from_positions([1])
    read_only = np.zeros(5, np.bool_)
    read_only.flags.writeable = False
    wrong: list[Any] = [
        np.zeros(4, np.bool_),
        np.zeros(5),
        np.zeros(10, np.bool_)[::2],
        read_only,
        [False] * 5,
    ]
    for out in wrong:
        with pytest.raises((errors.InvalidInputError, TypeError)):
            bitmap.mask(5, out=out)


def test_a_larger_mask_out_is_filled_in_front() -> None:
    out = np.ones(8, np.bool_)
    assert PositionBitmap.from_positions([1]).mask(5, out=out).tolist() == [False, True, False, False, False]
    assert out.tolist() == [False, True, False, False, False, True, True, True]


# Membership ----------------------------------------------------------------------------------------------


@given(strategies.position_sets())
def test_contains_is_that_of_python_sets(positions: strategies.Positions) -> None:
    bitmap, members = PositionBitmap.from_positions(positions), set(positions.tolist())
    asked = probes(positions)
    expected = [p in members for p in asked]
    for dtype in (np.uint64, np.int64):
        found = bitmap.contains(np.array(asked, dtype))
        assert found.dtype == np.bool_
        assert found.tolist() == expected
        assert bitmap.contains(np.array(asked, dtype)[::-1]).tolist() == expected[::-1]
    assert [p in bitmap for p in asked] == expected


@each("density", [0.001, 0.1, 0.5, 0.999])
@each("order", ["sorted", "random"])
@each("n_queries", [0, 1, 31, 1_000, 100_000])
def test_contains_many_agrees_with_numpy(density: float, order: str, n_queries: int) -> None:
    rng = np.random.default_rng(n_queries)
    flags = rng.random(400_000) < density
    bitmap = PositionBitmap.from_mask(flags)
    asked = rng.integers(0, 500_000, n_queries)
    if order == "sorted":
        asked.sort()
    expected = np.append(flags, np.zeros(100_000, np.bool_))[asked]
    for dtype in (np.int64, np.uint64, np.int32, np.uint32):
        np.testing.assert_array_equal(bitmap.contains(asked.astype(dtype)), expected)


@each("n_runs", [*range(1, 20), 31, 32, 33, 64, 100, 1_000, 2_000])
def test_a_container_of_any_number_of_runs_contains_its_members(n_runs: int) -> None:
    step = 65_536 // n_runs
    for first, length in ((0, step - 1), (step // 3, step // 2), (1, step - 1)):
        starts = np.arange(n_runs) * step + first
        positions = (starts[:, None] + np.arange(length)).ravel()
        positions = positions[positions < 65_536]
        members = np.zeros(65_537, np.bool_)
        members[positions] = True
        bitmap = PositionBitmap.from_positions(positions)
        np.testing.assert_array_equal(bitmap.contains(np.arange(65_537)), members)
        assert [int(p) in bitmap for p in starts] == members[starts].tolist()


def test_contains_takes_what_from_positions_takes() -> None:
    bitmap = PositionBitmap.from_positions([1, 70_000])
    for asked in ([1, 2], (1, 2), range(1, 3), np.array([1, 2], np.int8), pa.array([1, 2])):
        assert bitmap.contains(asked).tolist() == [True, False]
    assert bitmap.contains([]).tolist() == []


def test_positions_that_cannot_be_are_not_contained() -> None:
    bitmap = PositionBitmap.from_positions([0, 5, (1 << 32) - 1])
    for value in (-1, -5, oracle.MAX_POSITION + 1, 1 << 64, (1 << 64) + 5, -(1 << 64)):
        assert value not in bitmap
    for other in ("5", None, 5.5):
        with contextlib.suppress(TypeError, errors.InvalidInputError):
            assert other not in bitmap
    for asked in (np.array([-1, 5]), np.array([(1 << 64) - 1, 5], np.uint64), np.array([-1, 5], np.int32)):
        with contextlib.suppress(errors.InvalidInputError):
            assert bitmap.contains(asked).tolist() == [False, True]


def test_contains_refuses_what_is_no_position() -> None:
    bitmap = PositionBitmap.from_positions([1])
    wrong: list[Any] = [
        np.array([1.0]),
        np.array(["a"]),
        pa.array([1, None]),
        [None],
        np.array([[1]]),
        "a",
        None,
    ]
    for value in wrong:
        with pytest.raises(errors.InvalidInputError):
            bitmap.contains(value)


# Order ---------------------------------------------------------------------------------------------------


@given(strategies.position_sets())
def test_rank_select_ends_and_iteration_are_those_of_a_sorted_list(positions: strategies.Positions) -> None:
    bitmap, members = PositionBitmap.from_positions(positions), positions.tolist()
    n = len(members)
    for position in probes(positions):
        assert bitmap.rank(position) == bisect.bisect_right(members, position)
    for i in sorted({0, 1, n // 3, n // 2, n - 2, n - 1} & set(range(n))):
        assert bitmap.select(i) == members[i]
    assert len(bitmap) == n
    assert bool(bitmap) == bool(n)
    if n:
        assert (bitmap.min(), bitmap.max()) == (members[0], members[-1])
        assert type(bitmap.min()) is int
    assert list(itertools.islice(bitmap, 50)) == members[:50]


def test_select_past_the_ends_is_an_index_error() -> None:
    bitmap = PositionBitmap.from_positions([1, 5])
    for i in (2, 100, 1 << 63, -3):
        with pytest.raises((IndexError, errors.InvalidInputError)):
            bitmap.select(i)
    with pytest.raises((IndexError, errors.InvalidInputError)):
        PositionBitmap.from_positions([]).select(0)


def test_iteration_gives_all_members_as_python_integers() -> None:
    for positions in ([], [7], range(0, 200_000, 3), [0, 1 << 33, oracle.MAX_POSITION]):
        found = list(PositionBitmap.from_positions(positions))
        assert found == list(positions)
        assert all(type(p) is int for p in found)


def test_the_ends_of_nothing_are_the_callers_fault() -> None:
    nothing = PositionBitmap.from_positions([])
    for ask in (nothing.min, nothing.max):
        with pytest.raises((errors.InvalidInputError, ValueError)):
            ask()


def _colliding(n: int) -> np.ndarray[Any, Any]:
    """Keys of containers whose searches all begin in the same few slots of a table of up to 2^20."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    found: list[int] = []
    low, limit = 0, 0x7FFFFFFE << 16
    while len(found) < n:  # hashes below 2^44 whose key happens to be one
        block = np.arange(low, low + (1 << 20), dtype=np.uint64) * np.uint64(inverse)
        found += block[block < limit].tolist()
        low += 1 << 20
    return np.unique(np.array(found[:n], np.uint64))


def test_keys_that_were_chosen_to_collide_cost_no_more_than_others() -> None:
    keys = _colliding(600)
    bitmap = PositionBitmap.from_positions(keys << np.uint64(16))
    queries = np.concatenate((keys << np.uint64(16), np.arange(1_000, dtype=np.uint64) << np.uint64(16)))
    assert (bitmap.contains(queries) == np.isin(queries >> np.uint64(16), keys)).all()
    assert int(keys[0]) << 16 in bitmap
    assert (int(keys[0]) << 16) + 1 not in bitmap
