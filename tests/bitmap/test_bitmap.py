"""Building a bitmap: inputs of any order and dtype, and inputs that are refused."""

from __future__ import annotations

import copy
import itertools
import pickle
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from puffin_fast import errors
from puffin_fast.bitmap import PositionBitmap
from tests.bitmap.croaring import croaring
from tests.conftest import readable
from tests.kit import oracle, strategies
from tests.kit.cases import each

INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")


# Bytes ---------------------------------------------------------------------------------------------------


@given(strategies.messy(strategies.position_sets()))
def test_order_repeats_and_dtype_do_not_matter(
    pair: tuple[np.ndarray[Any, Any], strategies.Positions],
) -> None:
    given_positions, positions = pair
    assert PositionBitmap.from_positions(given_positions).to_bytes() == oracle.encode(positions.tolist())


@each("cardinality", [*strategies.EDGES, 4094, 8192, 32768, 65534])
@each("step", [1, 2, 3, 16])
def test_bytes_are_croarings_at_the_edges(cardinality: int, step: int) -> None:
    for start in (0, 1, 65535, 65536, (1 << 32) - 1, (1 << 32) - 30_000):
        positions = start + step * np.arange(cardinality, dtype=np.uint64)
        assert PositionBitmap.from_positions(positions).to_bytes() == croaring(positions)


@each("cardinality", [4094, 4095, 4096, 4097, 4098, 8190, 8192, 8194])
@each("n_runs", [1, 2, 1023, 1024, 1025, 2046, 2047, 2048])
def test_of_two_containers_of_one_size_croarings_choice_is_written(cardinality: int, n_runs: int) -> None:
    lengths = np.full(n_runs, cardinality // n_runs)
    lengths[: cardinality % n_runs] += 1
    starts = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
    positions = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    assert PositionBitmap.from_positions(positions).to_bytes() == croaring(positions)


@pytest.mark.parametrize("density", [0.0005, 0.001, 0.01, 0.0625, 0.1, 0.5, 0.9, 0.99, 0.9999])
def test_random_densities_agree_with_croaring(density: float) -> None:
    rng = np.random.default_rng(int(density * 1e6))
    positions = np.flatnonzero(rng.random(3_000_000) < density)
    expected = croaring(positions.astype(np.uint64))
    for order in (positions, rng.permutation(positions), np.repeat(positions, 2), positions[::-1]):
        assert PositionBitmap.from_positions(order).to_bytes() == expected


@pytest.mark.parametrize("n", [1, 2, 24, 25, 100, 511, 512, 1_023, 1_024, 65_535, 65_536, 200_000])
def test_unsorted_input_of_the_sizes_at_which_the_sort_changes_agrees_with_croaring(n: int) -> None:
    rng = np.random.default_rng(n)
    for bits, base in itertools.product(
        [0, 1, 8, 9, 11, 12, 16, 20, 22, 24, 31, 32, 33, 44, 62], [0, 1 << 32, 5 << 44]
    ):
        positions = rng.integers(0, 1 << bits, n, dtype=np.uint64) + np.uint64(base)
        assert PositionBitmap.from_positions(positions).to_bytes() == croaring(positions)


@each("n", [2, 24, 25, 600, 5_000, 70_000])
@each("wrong", [oracle.MAX_POSITION + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_position_out_of_range_among_unsorted_ones_is_refused(n: int, wrong: int) -> None:
    for spread in (1_000, 1 << 31, oracle.MAX_POSITION):
        positions = np.random.default_rng(n).integers(0, spread, n, dtype=np.uint64)
        positions[n // 2] = wrong
        with pytest.raises(errors.InvalidInputError, match=f"{wrong}|{wrong - (1 << 64)}"):
            PositionBitmap.from_positions(positions)
    with pytest.raises(errors.InvalidInputError):
        PositionBitmap.from_positions(np.full(n, wrong, np.uint64))


@pytest.mark.parametrize("n", [25, 1_000, 70_000])
def test_unsorted_input_whose_buckets_are_crowded_agrees_with_croaring(n: int) -> None:
    rng = np.random.default_rng(n)
    near = rng.integers(0, 50, n, dtype=np.uint64)
    for positions in (
        np.where(rng.random(n) < 0.01, rng.integers(0, 1 << 62, n, dtype=np.uint64), near),
        near
        + (rng.integers(0, 4, n, dtype=np.uint64) << 40)
        + (rng.integers(0, 4, n, dtype=np.uint64) << 60),
        np.uint64(1) << rng.integers(0, 63, n, dtype=np.uint64) | near,
    ):
        assert PositionBitmap.from_positions(positions).to_bytes() == croaring(positions)


@pytest.mark.parametrize("far", [1 << 19, 1 << 24, 1 << 26, 1 << 33, 1 << 40])
def test_unsorted_input_with_one_position_far_off_agrees_with_croaring(far: int) -> None:
    """The width of buckets follows from a sample, which does not include this position."""
    positions = np.random.default_rng(far).permutation(400_000).astype(np.uint64)
    positions[1] = far
    assert PositionBitmap.from_positions(positions).to_bytes() == croaring(positions)


# Kinds of input ------------------------------------------------------------------------------------------


SOME = [3, 1, 70_000, 1, 2]


@pytest.mark.parametrize(
    "value",
    [
        SOME,
        tuple(SOME),
        np.array(SOME),
        np.array(SOME, np.uint32),
        np.array(SOME, np.uint64)[::1],
        np.repeat(np.array(SOME), 2)[::2],
        np.array(SOME)[::-1],
        np.array(SOME, np.uint64).view(np.recarray),
        np.ma.array(SOME, dtype=np.int64),
        np.array(SOME, ">u8"),
        pa.array(SOME),
        pa.array(SOME, pa.uint64()),
        pa.array(SOME, pa.int32()),
        pa.array([9, *SOME, 9]).slice(1, len(SOME)),
        pa.chunked_array([SOME[:2], [], SOME[2:]]),
        pa.chunked_array([SOME[:2], SOME[2:]], pa.uint32()),
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', getattr(value, 'type', ''))}",
)
def test_every_kind_of_positions_is_taken(value: Any) -> None:
    assert PositionBitmap.from_positions(value).to_numpy().tolist() == [1, 2, 3, 70_000]


def test_chunks_of_any_length_end_at_the_right_place() -> None:
    for length in range(1, 50):
        first = np.arange(length) * 3
        for later in (1, 15, 16, 17, 40):
            positions = np.concatenate([first, 65_536 + np.arange(later) * 2])
            bitmap = PositionBitmap.from_positions(positions)
            assert bitmap.to_numpy().tolist() == positions.tolist()
            assert bitmap.to_bytes() == oracle.encode(positions.tolist())
            moved = positions.copy()  # a position of the first chunk among those of the second
            moved[length - 1], moved[-1] = positions[-1], positions[length - 1]
            assert PositionBitmap.from_positions(moved) == bitmap


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_dtype_is_taken(dtype: str) -> None:
    values = np.arange(0, 128, 3).astype(dtype)
    for order in (values, values[::-1], np.repeat(values, 3)):
        assert PositionBitmap.from_positions(order).to_numpy().tolist() == values.tolist()


@pytest.mark.parametrize(
    "span",
    [range(0), range(5), range(3, 100_000), range(7, 2_000, 3), range(50, 2, -4), range(0, 1 << 33, 1 << 20)],
)
def test_ranges_are_taken(span: range) -> None:
    assert PositionBitmap.from_positions(span).to_bytes() == oracle.encode(span)


def test_empty_inputs_are_the_empty_set() -> None:
    for empty in ([], (), np.empty(0, np.int64), np.empty(0, np.uint8), pa.array([], pa.int64()), range(0)):
        assert PositionBitmap.from_positions(empty).to_bytes() == oracle.encode([])
    assert PositionBitmap.from_positions(pa.chunked_array([], pa.int64())).to_bytes() == oracle.encode([])


def test_read_only_input_is_taken_and_no_input_is_changed() -> None:
    rng = np.random.default_rng(5)
    for positions in (rng.integers(0, 1 << 34, 50_000), rng.permutation(200_000), np.arange(50_000)):
        before = positions.copy()
        positions.flags.writeable = False
        PositionBitmap.from_positions(positions)
        np.testing.assert_array_equal(positions, before)


@each(
    "value",
    [
        [-1],
        [1, -1, 2],
        np.array([1, 2, -5]),
        np.array([-128], np.int8),
        np.array([5, -1], np.int32),
        np.array([oracle.MAX_POSITION + 1], np.uint64),
        np.array([(1 << 64) - 1, 1], np.uint64),
        np.array([1, (1 << 63)], np.uint64),
        np.array([np.iinfo(np.int64).max]),
        [oracle.MAX_POSITION + 1],
        [1 << 64],
        [1 << 200],
        [-(1 << 63)],
        [-(1 << 70)],
        range(-1, 5),
        range(oracle.MAX_POSITION, oracle.MAX_POSITION + 2),
        range(5, -5, -1),
        pa.array([1, -1]),
        pa.array([1, None]),
        pa.array([None], pa.int64()),
        pa.chunked_array([[1], [2, None]]),
        [1, None],
        [1.0],
        [1, 2.5],
        ["1"],
        "123",
        b"123",
        None,
        5,
        {"a": 1},
        object(),
        np.array([1.0, 2.0]),
        np.array([True, False]),
        np.array(["a"]),
        np.array([1, 2], object),
        np.array([[1, 2], [3, 4]]),
        np.array(5),
        np.array([1, 2], "m8[s]"),
        np.array([1, 2], "M8[s]"),
        np.array([1 + 0j]),
        pa.array([1.5]),
        pa.array(["a"]),
        pa.array([True]),
        pa.array([[1]]),
        pa.array([1], pa.timestamp("us")),
        pa.nulls(3),
    ],
    ids=readable,
)
def test_invalid_positions_are_refused(value: Any) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        PositionBitmap.from_positions(value)
    assert str(caught.value)


@each("at", [0, 1, 7, 8, 15, 16, 31, 32, 33, 4_095, 65_535, 65_536, 99_999])
@each("bad", [-1, -(1 << 63), oracle.MAX_POSITION + 1, (1 << 63) - 1])
@each("order", ["sorted", "shuffled"])
def test_one_invalid_position_is_found_at_any_index(at: int, bad: int, order: str) -> None:
    positions = np.arange(100_000, dtype=np.int64)
    if order == "shuffled":
        positions = np.random.default_rng(0).permutation(positions)
    positions[at] = bad
    with pytest.raises(errors.InvalidInputError, match=str(bad)):
        PositionBitmap.from_positions(positions)


def test_a_null_is_named_by_its_row() -> None:
    with pytest.raises(errors.InvalidInputError, match="3"):
        PositionBitmap.from_positions(pa.array([10, 20, 40, None, 50]))


def test_the_largest_position_is_taken() -> None:
    for positions in ([oracle.MAX_POSITION], [oracle.MAX_POSITION, 0], [0, oracle.MAX_POSITION]):
        bitmap = PositionBitmap.from_positions(positions)
        assert bitmap.to_bytes() == oracle.encode(positions)
        assert bitmap.max() == oracle.MAX_POSITION


# Ranges and masks ----------------------------------------------------------------------------------------


@given(st.sampled_from([0, 1, 65_535, 65_536, (1 << 32) - 1, (1 << 32) - 70_000]), st.integers(0, 140_000))
@settings(max_examples=30)
def test_from_range_is_from_positions(start: int, n: int) -> None:
    bitmap = PositionBitmap.from_range(start, start + n)
    assert bitmap.to_bytes() == oracle.encode(range(start, start + n))
    assert len(bitmap) == n


def test_a_range_of_everything_in_four_keys_is_small() -> None:
    bitmap = PositionBitmap.from_range(5, (4 << 32) - 5)
    assert len(bitmap) == (4 << 32) - 10
    assert (bitmap.min(), bitmap.max()) == (5, (4 << 32) - 6)
    assert len(bitmap.to_bytes()) < 5_000_000
    peer = BitMap64()
    peer.add_range(5, (4 << 32) - 5)
    assert BitMap64.deserialize(bitmap.to_bytes()) == peer


@pytest.mark.parametrize(
    ("start", "stop"),
    [(-1, 5), (0, oracle.MAX_POSITION + 2), (1.5, 3), ("a", 3), (None, 3), (0, 1 << 64), (-5, -2)],
)
def test_invalid_ranges_are_refused(start: Any, stop: Any) -> None:
    with pytest.raises((errors.InvalidInputError, TypeError)):
        PositionBitmap.from_range(start, stop)


@strategies.costly
@given(strategies.low_position_sets())
def test_from_mask_inverts_mask(positions: strategies.Positions) -> None:
    for extra in (0, 1, 7, 8, 100):
        n_rows = int(positions[-1]) + 1 + extra if len(positions) else extra
        flags = np.zeros(n_rows, np.bool_)
        flags[positions.astype(np.int64)] = True
        assert PositionBitmap.from_mask(flags).to_bytes() == oracle.encode(positions.tolist())


def test_from_mask_takes_strided_and_read_only_masks() -> None:
    flags = np.random.default_rng(1).random(10_000) < 0.3
    expected = np.flatnonzero(flags).tolist()
    wide = np.repeat(flags, 2)
    flags.flags.writeable = False
    assert PositionBitmap.from_mask(flags).to_numpy().tolist() == expected
    assert PositionBitmap.from_mask(wide[::2]).to_numpy().tolist() == expected


@pytest.mark.parametrize(
    "value", [np.array([0, 1]), np.array([1.0]), np.zeros((2, 2), np.bool_), None, "ab"], ids=readable
)
def test_invalid_masks_are_refused(value: Any) -> None:
    with pytest.raises(errors.InvalidInputError):
        PositionBitmap.from_mask(value)


# Reading -------------------------------------------------------------------------------------------------


@given(strategies.position_sets())
def test_positions_come_back_in_every_form(positions: strategies.Positions) -> None:
    bitmap = PositionBitmap.from_positions(positions)
    np.testing.assert_array_equal(bitmap.to_numpy(), positions)
    for dtype in (np.uint64, np.int64):
        found = bitmap.to_numpy(dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, positions.astype(dtype))
        out = np.full(len(positions), 77, dtype)
        returned = bitmap.to_numpy(dtype=dtype, out=out)
        assert np.shares_memory(returned, out) or not len(out)
        np.testing.assert_array_equal(out, positions.astype(dtype))
    arrow = bitmap.to_arrow()
    assert arrow.type == pa.int64()
    assert arrow.null_count == 0
    np.testing.assert_array_equal(arrow.to_numpy(), positions.astype(np.int64))


def test_words_of_any_number_of_bits_are_decoded() -> None:
    """A bitmap container whose words have 0 to 64 bits, in ascending order; out has no space after the positions."""
    rng = np.random.default_rng(5)
    counts = np.arange(1_024) * 65 // 1_024
    for some in (counts, counts[::-1]):
        words = [rng.choice(64, count, replace=False) + 64 * i for i, count in enumerate(some)]
        positions = np.sort(np.concatenate(words)) + 7 * 65_536
        out = np.zeros(len(positions) + 1, np.uint64)
        PositionBitmap.from_positions(positions).to_numpy(out=out[:-1])
        np.testing.assert_array_equal(out[:-1], positions)
        assert out[-1] == 0


def test_out_is_never_written_past_its_end() -> None:
    rng = np.random.default_rng(3)
    for positions in (
        np.arange(1),
        np.arange(65_536),
        np.arange(0, 65_536, 2),
        np.flatnonzero(rng.random(200_000) < 0.1),
        np.flatnonzero(rng.random(200_000) < 0.5),
        np.flatnonzero(rng.random(200_000) < 0.001),
        np.arange(100_000) // 7 * 10 + np.arange(100_000) % 7,
    ):
        bitmap = PositionBitmap.from_positions(positions)
        padded = np.full(len(bitmap) + 64, -7, np.int64)
        bitmap.to_numpy(dtype=np.int64, out=padded[32:-32])
        np.testing.assert_array_equal(padded[32:-32], np.unique(positions))
        assert (padded[:32] == -7).all()
        assert (padded[-32:] == -7).all()


def test_an_out_that_does_not_fit_is_refused() -> None:
    bitmap = PositionBitmap.from_positions([1, 2, 3])
    read_only = np.zeros(3, np.uint64)
    read_only.flags.writeable = False
    wrong: list[Any] = [
        np.zeros(2, np.uint64),
        np.zeros(3, np.uint32),
        np.zeros(3, np.float64),
        np.zeros((3, 1), np.uint64),
        np.zeros(6, np.uint64)[::2],
        read_only,
        [0, 0, 0],
    ]
    for out in wrong:
        with pytest.raises((errors.InvalidInputError, TypeError)):
            bitmap.to_numpy(out=out)
    for dtype in (np.int32, np.float64, "U1", np.bool_):
        with pytest.raises((errors.InvalidInputError, TypeError)):
            bitmap.to_numpy(dtype=dtype)


def test_container_counts_are_those_of_the_bytes() -> None:
    rng = np.random.default_rng(8)
    positions = np.concatenate(
        [[1, 5, 9], 65_536 + np.arange(1_000), (2 << 16) + np.flatnonzero(rng.random(65_536) < 0.5)]
    )
    counts = PositionBitmap.from_positions(positions).containers()
    assert (counts.array, counts.bitmap, counts.run) == (1, 1, 1)
    nothing = PositionBitmap.from_positions([]).containers()
    assert (nothing.array, nothing.bitmap, nothing.run) == (0, 0, 0)


def test_a_bitmap_cannot_be_changed() -> None:
    bitmap = PositionBitmap.from_positions([1, 2, 3])
    with pytest.raises((AttributeError, TypeError)):
        bitmap.n_bytes = 5  # type: ignore[misc]
    values = bitmap.to_numpy()
    if values.flags.writeable:
        values[:] = 0
    assert bitmap.to_numpy().tolist() == [1, 2, 3]


def test_copies_and_pickles_are_equal() -> None:
    bitmap = PositionBitmap.from_positions([0, 5, 70_000, 1 << 33])
    for other in (copy.copy(bitmap), copy.deepcopy(bitmap), pickle.loads(pickle.dumps(bitmap))):
        assert other == bitmap
        assert other.to_bytes() == bitmap.to_bytes()


@pytest.mark.parametrize(
    ("at", "change"),
    [(at, change) for at in (0, 1, 31, 32, 4095, 65_535, 99_998) for change in ("swap", "repeat")],
)
def test_one_swapped_or_repeated_position_is_found(at: int, change: str) -> None:
    for step in (1, 3, 70_000):
        positions = step * np.arange(100_000, dtype=np.uint64)
        positions[[at, at + 1]] = positions[[at + 1, at]] if change == "swap" else positions[at]
        assert PositionBitmap.from_positions(positions).to_bytes() == croaring(positions)


def test_masked_items_are_nulls() -> None:
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    with pytest.raises(errors.InvalidInputError, match="element 1 is masked"):
        PositionBitmap.from_positions(masked)
    with pytest.raises(errors.InvalidInputError, match="element 0 is masked"):
        PositionBitmap.from_mask(np.ma.array([True, False], mask=[True, False]))
    assert list(PositionBitmap.from_positions(np.ma.array([3, 1]))) == [1, 3]


def test_numpys_integers_of_different_types_are_positions() -> None:
    """NumPy makes floats of a list of them."""
    largest = PositionBitmap.from_positions([np.uint64(5), np.int64(6), 0x7FFFFFFE80000000])
    assert list(largest) == [5, 6, 0x7FFFFFFE80000000]


@pytest.mark.parametrize("far", [range(0, 1 << 70, 1 << 69), range(-(1 << 70), 5, 1 << 69), range(1 << 80)])
def test_ranges_past_64_bits_are_refused(far: range) -> None:
    with pytest.raises(errors.InvalidInputError):
        PositionBitmap.from_positions(far)
    with pytest.raises(errors.InvalidInputError):
        PositionBitmap(far)


def test_a_range_that_memory_cannot_hold_fails_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(MemoryError):
        PositionBitmap.from_range(0, 1 << 62)
    assert time.monotonic() - started < 5
