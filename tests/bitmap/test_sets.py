"""The laws of sets, and each operation compared with Python's `set`."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from puffin_fast import dv
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError
from puffin_fast.theta import ThetaSketch
from tests.bitmap.croaring import croaring
from tests.conftest import readable
from tests.kit import oracle, strategies
from tests.kit.cases import each

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "union": operator.or_,
    "intersection": operator.and_,
    "difference": operator.sub,
    "symmetric_difference": operator.xor,
}

overlapping = st.integers(0, 1 << 16).flatmap(
    lambda base: st.tuples(
        *[
            st.dictionaries(
                st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, base % 7])), chunk, max_size=3
            )
            for chunk in [strategies.chunks] * 3
        ]
    ).map(lambda parts: tuple(strategies.assemble(part) for part in parts))
)
"""Three sets that share keys and containers, so that every pair of container kinds meets."""

Three = tuple[strategies.Positions, strategies.Positions, strategies.Positions]


def bitmaps(sets: Three) -> tuple[PositionBitmap, ...]:
    return tuple(PositionBitmap.from_positions(positions) for positions in sets)


@pytest.mark.parametrize("name", OPERATIONS)
@strategies.costly
@given(overlapping)
def test_operations_are_those_of_python_sets(name: str, sets: Three) -> None:
    bitmaps = tuple(PositionBitmap.from_positions(positions) for positions in sets[:2])
    before = [bitmap.to_bytes() for bitmap in bitmaps]
    expected = OPERATIONS[name](*(set(positions.tolist()) for positions in sets[:2]))
    result = OPERATIONS[name](*bitmaps)
    assert result.to_numpy().tolist() == sorted(expected)
    assert len(result) == len(expected)
    assert result.to_bytes() == oracle.encode(expected)
    assert [bitmap.to_bytes() for bitmap in bitmaps] == before


@strategies.costly
@given(overlapping, overlapping, st.permutations(range(6)))
def test_unions_and_intersections_of_many_are_those_of_python_sets(
    first: Three, second: Three, order: list[int]
) -> None:
    sets = [*first, *second]
    with_core = [distinct(np.append(positions, first[0])) for positions in sets]
    for parts in (sets, with_core):
        members = [set(parts[i].tolist()) for i in order]
        every = [PositionBitmap.from_positions(parts[i]) for i in order]
        common = PositionBitmap.intersection_all(iter(every))
        assert common.to_bytes() == oracle.encode(set.intersection(*members))
        assert PositionBitmap.union_all(iter(every)).to_bytes() == oracle.encode(set().union(*members))
        assert every[0].issuperset(common)
    assert PositionBitmap.intersection_all(every[:1]) == every[0]


@given(strategies.position_sets())
def test_a_set_with_itself_and_with_nothing(positions: strategies.Positions) -> None:
    a, nothing = PositionBitmap.from_positions(positions), PositionBitmap.from_positions([])
    assert a | a == a & a == a | nothing == a - nothing == a ^ nothing == a
    assert a - a == a ^ a == a & nothing == nothing - a == nothing
    assert nothing.issubset(a)
    assert a.issubset(a)
    assert a.isdisjoint(nothing)
    assert PositionBitmap.union_all([]) == PositionBitmap.union_all([nothing] * 3) == nothing


@given(overlapping)
def test_subset_and_disjoint_are_those_of_python_sets(sets: Three) -> None:
    a, b, _ = bitmaps(sets)
    left, right = set(sets[0].tolist()), set(sets[1].tolist())
    assert a.isdisjoint(b) == left.isdisjoint(right)
    assert a.issubset(b) == left.issubset(right)
    assert a.issuperset(b) == (a >= b) == (left >= right)
    assert (a & b).issubset(a)
    assert a.issubset(a | b)


@given(overlapping)
def test_equality_and_hash_are_those_of_the_members(sets: Three) -> None:
    a, b, _ = bitmaps(sets)
    assert (a == b) == (sets[0].tolist() == sets[1].tolist())
    again = (a | b) - (b - a)
    assert again == a
    assert hash(again) == hash(a)
    assert a != sets[0].tolist()
    assert a != "text"


METHODS = (
    "union",
    "intersection",
    "difference",
    "symmetric_difference",
    "issubset",
    "issuperset",
    "isdisjoint",
)


@given(overlapping)
def test_methods_are_those_of_frozenset(sets: Three) -> None:
    made, known = bitmaps(sets), [frozenset(part.tolist()) for part in sets]
    for method in METHODS:
        for others in [()] * (method in METHODS[:3]) + [(1,)] + [(1, 2), (2, 1, 1)] * (method in METHODS[:3]):
            expected = getattr(known[0], method)(*(known[at] for at in others))
            found = [
                getattr(made[0], method)(*(kind[at] for at in others)) for kind in (made, sets, known)
            ]  # bitmaps, arrays and sets of positions
            found.append(getattr(PositionBitmap, method)(made[0], *(made[at] for at in others)))
            for one in found:
                if isinstance(expected, bool):
                    assert one is expected, method
                else:
                    assert one.to_bytes() == oracle.encode(expected), method
    assert [one.to_bytes() for one in made] == [oracle.encode(one) for one in known]


@pytest.mark.parametrize("method", METHODS)
def test_methods_refuse_what_has_no_positions(method: str) -> None:
    a, b = PositionBitmap([1]), PositionBitmap([2])
    for wrong in (5, "text", b"", None, [None], ["a"], [1.5], [-1]):
        with pytest.raises(InvalidInputError):
            getattr(a, method)(wrong)
    for others in ([b], (b, a), [b, 1]):
        with pytest.raises(InvalidInputError, match=r"of bitmaps; write bitmap\.union\(\*others\)"):
            getattr(a, method)(others)
        if method in METHODS[:3]:
            with pytest.raises(InvalidInputError, match=r"PositionBitmap\.union_all\(bitmaps\)"):
                getattr(PositionBitmap, method)(others)
    for given_one in (a, 5):
        with pytest.raises(InvalidInputError, match="expected an iterable of bitmaps, found"):
            PositionBitmap.union_all(given_one)  # type: ignore[arg-type]


def test_bytes_of_a_bitmap_are_its_roaring_bytes() -> None:
    for positions in ([], [1, 2, 3], [255], [1 << 40], range(100_000)):
        bitmap = PositionBitmap(positions)
        assert bytes(bitmap) == bitmap.to_bytes() == oracle.encode(positions)
        assert bitmap.n_bytes == len(bytes(bitmap))
        assert PositionBitmap.from_bytes(bytes(bitmap)) == bitmap


def test_bitmaps_and_sketches_have_weak_references() -> None:
    one = PositionBitmap([1])
    for make in (lambda: PositionBitmap([1]), lambda: one | PositionBitmap([2]), ThetaSketch):
        made: Any = make()
        reference = weakref.ref(made)
        kept = weakref.WeakValueDictionary({1: made})
        assert reference() is kept[1] is made
        del made
        assert reference() is None
        assert not kept


def test_intersection_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        PositionBitmap.intersection_all([])
    with pytest.raises(InvalidInputError, match="expected a PositionBitmap"):
        PositionBitmap.intersection_all([{1, 2}])  # type: ignore[list-item]


@pytest.mark.parametrize("n_sets", [3, 4, 5, 6, 7])
def test_union_of_arrays_of_very_different_lengths(n_sets: int) -> None:
    """The steps of a union may repeat values; the last step drops them, whatever the lengths are."""
    shapes = [
        {128},
        set(range(40_960, 41_522, 2)),
        {128, 40_962},
        set(range(3)),
        set(range(0, 900, 3)),
        set(),
    ]
    for chosen in itertools.product(range(len(shapes)), repeat=min(n_sets, 4)):
        sets = [shapes[number] for number in (*chosen, *range(n_sets - len(chosen)))]
        united = PositionBitmap.union_all([PositionBitmap.from_positions(sorted(one)) for one in sets])
        assert united.to_bytes() == PositionBitmap.from_positions(sorted(set().union(*sets))).to_bytes()


@pytest.mark.parametrize("k", [2, 3, 8, 64, 1000])
def test_union_of_k_large_sets(k: int) -> None:
    rng = np.random.default_rng(k)
    sets = [rng.integers(0, 400_000, 200_000 // k) for _ in range(k)]
    united = PositionBitmap.union_all([PositionBitmap.from_positions(positions) for positions in sets])
    np.testing.assert_array_equal(united.to_numpy(), np.unique(np.concatenate(sets)))


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("last", [40_000, 65_535])
def test_arrays_of_every_small_length_unite(k: int, last: int) -> None:
    """Vectors of 8, 16 and 32 values end somewhere; 65,535 is what a merge puts past an array's end."""
    rng = np.random.default_rng(last)
    for n in [*range(1, 36), 63, 64, 65, 200, 4_096 // k + 1]:
        sets = [rng.choice(last, n + i, replace=False) for i in range(k)]
        sets[n % k][0] = last
        expected = np.unique(np.concatenate(sets))
        united = PositionBitmap.union_all([PositionBitmap.from_positions(positions) for positions in sets])
        assert united.to_bytes() == PositionBitmap.from_positions(expected).to_bytes()
        np.testing.assert_array_equal(united.to_numpy(), expected)


KINDS = {
    "nothing": np.empty(0, np.int64),
    "point": np.array([4_096]),
    "sparse": np.arange(0, 65_536, 97),
    "array_4096": np.arange(0, 8_192, 2),
    "bitmap_4097": np.arange(0, 8_194, 2),
    "bitmap": np.flatnonzero(np.random.default_rng(0).random(65_536) < 0.5),
    "bitmap_dense": np.flatnonzero(np.random.default_rng(1).random(65_536) < 0.95),
    "odd": np.arange(1, 65_536, 2),
    "even": np.arange(0, 65_536, 2),
    "run": np.arange(1_000, 50_000),
    "runs": np.flatnonzero(np.arange(65_536) % 1_000 < 500),
    "runs_many": np.flatnonzero(np.arange(65_536) % 40 < 30),
    "full": np.arange(65_536),
    "full_less_one": np.delete(np.arange(65_536), 30_000),
    "ends": np.array([0, 65_535]),
}
"""One container of each kind, and of kinds whose results change kind."""


def distinct(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """`np.unique`, which puts them into a hash table and takes longer."""
    found = np.sort(positions)
    return found[np.diff(found, prepend=-1) != 0]


def agree(a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
    """Asserts that every operation on two sets, which are read from bytes with and without run containers, gives what
    NumPy gives.
    """
    left, right = distinct(a), distinct(b)
    common = np.intersect1d(left, right, assume_unique=True)
    expected = [
        encoded(members)
        for members in (
            common,
            distinct(np.concatenate([left, right])),
            np.setxor1d(left, right, assume_unique=True),
            np.setdiff1d(left, right, assume_unique=True),
            np.setdiff1d(right, left, assume_unique=True),
        )
    ]
    one, other = (
        [
            PositionBitmap.from_positions(members),
            PositionBitmap.from_bytes(croaring(members, runs=False)),
        ]
        for members in (a, b)
    )
    for x, y in itertools.product(one, other):
        assert [made.to_bytes() for made in (x & y, x | y, x ^ y, x - y, y - x)] == expected
        assert [made.to_bytes() for made in (y & x, y | x, y ^ x)] == expected[:3]
        assert x.isdisjoint(y) == y.isdisjoint(x) == (common.size == 0)
        assert x.issubset(y) == (common.size == len(x))
        assert y.issubset(x) == (common.size == len(y))
        assert (x == y) == (common.size == len(x) == len(y))


@each(("left", "right"), list(itertools.combinations_with_replacement(KINDS, 2)), ids=readable)
def test_every_pair_of_container_kinds_agrees(left: str, right: str) -> None:
    for high in (0, 3 << 32):
        agree(KINDS[left] + high, KINDS[right] + high)


def encoded(positions: NDArray[np.int64]) -> bytes:
    return PositionBitmap.from_positions(positions).to_bytes()


@pytest.mark.parametrize("limit", [60, 300, 40_000, 65_536])
def test_arrays_of_every_small_length_agree(limit: int) -> None:
    """Vectors of 8 and 32 values end somewhere; the last values of both arrays meet at `limit`."""
    rng = np.random.default_rng(limit)
    for n, m in itertools.combinations_with_replacement([*range(1, 18), 31, 32, 33], 2):
        a, b = rng.choice(limit, n, replace=False), rng.choice(limit, m, replace=False)
        agree(a, b)
        a[0] = b[0] = limit - 1
        agree(a, b)


@each("few", [0, 1, 2, 4, 31, 100])
@each("shape", ["array", "runs", "bitmap", "keys", "high_keys"])
def test_sets_of_very_different_sizes_agree(few: int, shape: str) -> None:
    rng = np.random.default_rng(few)
    many = {
        "array": rng.choice(65_536, 4_096, replace=False),
        "runs": np.flatnonzero(np.arange(65_536) % 33 < 17),
        "bitmap": np.flatnonzero(rng.random(65_536) < 0.3),
        "keys": rng.choice(1 << 31, 4_000, replace=False),
        "high_keys": rng.integers(0, 1 << 47, 4_000),
    }[shape].astype(np.int64)
    top = int(many.max()) + 2
    apart = rng.integers(0, top, few)
    stretches = (rng.integers(0, top, few)[:, None] + np.arange(40)).ravel()
    for members in (rng.choice(many, few), apart, stretches, np.concatenate([many[-1:], apart, many[:1]])):
        agree(members, many)


@each("kinds", list(itertools.combinations(KINDS, 2)), ids="-".join)
def test_intersection_of_three_container_kinds(kinds: tuple[str, str]) -> None:
    """The third is each kind after the two."""
    two = [KINDS[kind] for kind in kinds]
    in_both = np.intersect1d(*two, assume_unique=True)
    for kind in list(KINDS)[list(KINDS).index(kinds[1]) + 1 :]:
        common = np.intersect1d(in_both, KINDS[kind], assume_unique=True)
        for other in (0, 7 << 16, 3 << 32):  # and a container that only two have
            every = [PositionBitmap.from_positions(np.append(part, 1 << 33) + other) for part in two]
            every.append(PositionBitmap.from_positions(KINDS[kind] + other))
            assert PositionBitmap.intersection_all(every).to_bytes() == encoded(common + other), kind


def test_intersection_of_bitmaps_where_one_ends_early() -> None:
    long = PositionBitmap.from_positions(np.arange(0, 1 << 24, 1_000))
    for end in (1, 65_536, 70_000, 1 << 20):
        short = PositionBitmap.from_positions(np.append(np.arange(0, end, 500), 1 << 40))
        common = np.arange(0, end, 1_000)
        assert PositionBitmap.intersection_all([long, short, long, short]).to_bytes() == encoded(common)
    assert not PositionBitmap.intersection_all([long, long, PositionBitmap.from_positions([1 << 50])])


@each("name", OPERATIONS)
@each("other", [[1, 2], {1, 2}, 5, None, "a", np.array([1, 2])], ids=readable)
def test_operations_with_other_things_are_type_errors(name: str, other: Any) -> None:
    with pytest.raises(TypeError):
        OPERATIONS[name](PositionBitmap.from_positions([1, 2]), other)


def test_keys_interleave_in_every_way() -> None:
    keys = [0, 1, 2, 5]
    for left, right in itertools.product(itertools.combinations(keys, 2), itertools.combinations(keys, 3)):
        a = [(key << 32) + low for key in left for low in (1, 65_536 * 3)]
        b = [(key << 32) + low for key in right for low in (1, 65_536 * 2)]
        for operation in OPERATIONS.values():
            result = operation(PositionBitmap.from_positions(a), PositionBitmap.from_positions(b))
            assert result.to_bytes() == oracle.encode(operation(set(a), set(b)))


@pytest.mark.parametrize("other", [1, None, [1], {1}, b""])
def test_what_is_no_bitmap_is_the_callers_fault(other: Any) -> None:
    bitmap = PositionBitmap.from_positions([1])
    for call in (
        lambda: PositionBitmap.union_all([bitmap, other]),
        lambda: PositionBitmap.intersection_all([other]),
        lambda: dv.iceberg.encode(other),
    ):
        with pytest.raises(InvalidInputError, match="PositionBitmap"):
            call()
    for compare in (lambda: bitmap <= other, lambda: bitmap < other, lambda: bitmap > other):
        with pytest.raises(TypeError):
            compare()
    assert bitmap != other
