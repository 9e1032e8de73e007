"""Random sequences of operations on a bitmap, compared with Python's `set`."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from puffin_fast import dv
from puffin_fast.bitmap import PositionBitmap
from tests.kit import oracle, strategies

Pair = tuple[PositionBitmap, frozenset[int]]

near = st.dictionaries(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1, 2])), strategies.chunks, max_size=2
)


class BitmapMachine(RuleBasedStateMachine):
    """Each value is a bitmap and the set of its members; every rule keeps them equal."""

    pairs: Bundle[Pair] = Bundle("pairs")

    def pair(self, bitmap: PositionBitmap, members: frozenset[int] | set[int]) -> Pair:
        assert len(bitmap) == len(members)
        assert bitmap.to_numpy().tolist() == sorted(members)
        assert dv.iceberg.decode(dv.iceberg.encode(bitmap), cardinality=len(members)) == bitmap
        return bitmap, frozenset(members)

    @rule(target=pairs, chunks=near)
    def positions(self, chunks: dict[tuple[int, int], np.ndarray]) -> Pair:  # type: ignore[type-arg]
        positions = strategies.assemble(chunks)
        return self.pair(PositionBitmap.from_positions(positions), set(positions.tolist()))

    @rule(target=pairs, start=st.integers(0, 200_000), n=st.integers(0, 70_000))
    def span(self, start: int, n: int) -> Pair:
        return self.pair(PositionBitmap.from_range(start, start + n), set(range(start, start + n)))

    @rule(target=pairs, name=st.sampled_from(sorted(strategies.ACCEPTED)))
    def non_canonical(self, name: str) -> Pair:
        data, members = strategies.ACCEPTED[name]
        return self.pair(PositionBitmap.from_bytes(data), set(members))

    @rule(target=pairs, left=pairs, right=pairs)
    def union(self, left: Pair, right: Pair) -> Pair:
        return self.pair(left[0] | right[0], left[1] | right[1])

    @rule(target=pairs, left=pairs, right=pairs)
    def intersection(self, left: Pair, right: Pair) -> Pair:
        return self.pair(left[0] & right[0], left[1] & right[1])

    @rule(target=pairs, left=pairs, right=pairs)
    def difference(self, left: Pair, right: Pair) -> Pair:
        return self.pair(left[0] - right[0], left[1] - right[1])

    @rule(target=pairs, left=pairs, right=pairs)
    def symmetric_difference(self, left: Pair, right: Pair) -> Pair:
        return self.pair(left[0] ^ right[0], left[1] ^ right[1])

    @rule(target=pairs, some=st.lists(pairs, max_size=5))
    def union_of_many(self, some: list[Pair]) -> Pair:
        united = PositionBitmap.union_all([bitmap for bitmap, _ in some])
        return self.pair(united, frozenset().union(*(members for _, members in some)))

    @rule(target=pairs, value=consumes(pairs))
    def through_bytes(self, value: Pair) -> Pair:
        return self.pair(PositionBitmap.from_bytes(value[0].to_bytes()), value[1])

    @rule(value=pairs, position=st.one_of(st.integers(0, 1 << 18), st.integers(0, oracle.MAX_POSITION)))
    def membership(self, value: Pair, position: int) -> None:
        bitmap, members = value
        assert (position in bitmap) == (position in members)
        assert bitmap.rank(position) == sum(member <= position for member in members)

    @rule(value=pairs, n_rows=st.integers(0, 200_000))
    def mask(self, value: Pair, n_rows: int) -> None:
        bitmap, members = value
        expected = np.zeros(n_rows, np.bool_)
        expected[[member for member in members if member < n_rows]] = True
        np.testing.assert_array_equal(bitmap.mask(n_rows), expected)

    @rule(left=pairs, right=pairs)
    def comparison(self, left: Pair, right: Pair) -> None:
        assert (left[0] == right[0]) == (left[1] == right[1])
        assert left[0].issubset(right[0]) == left[1].issubset(right[1])
        assert left[0].isdisjoint(right[0]) == left[1].isdisjoint(right[1])
        if left[1] == right[1]:
            assert hash(left[0]) == hash(right[0])


BitmapMachine.TestCase.settings = settings(stateful_step_count=25)
test_any_sequence_of_operations_keeps_to_python_sets = BitmapMachine.TestCase
