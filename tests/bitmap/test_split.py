"""The parts of `PositionBitmap.split` are disjoint, ordered, complete, and within the limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import InvalidInputError
from tests.kit.strategies import Positions, position_sets

ONE_CONTAINER_BYTES = 8 + 12 + 8 + 8192


@given(positions=position_sets(), n_bytes=st.integers(0, 20_000), cardinality=st.integers(0, 70_000))
def test_parts_are_disjoint_ordered_and_the_whole(
    positions: Positions, n_bytes: int, cardinality: int
) -> None:
    whole = PositionBitmap.from_positions(positions)
    parts = whole.split(n_bytes=n_bytes, cardinality=cardinality)
    assert PositionBitmap.union_all(parts) == whole
    assert all(parts), "an empty part"
    for before, after in itertools.pairwise(parts):
        assert before.max() >> 16 < after.min() >> 16
    for part in parts:
        one_container = part.min() >> 16 == part.max() >> 16
        assert one_container or (part.n_bytes <= n_bytes and len(part) <= cardinality)
        assert part.n_bytes <= max(n_bytes, ONE_CONTAINER_BYTES)
        assert part == PositionBitmap.from_bytes(part.to_bytes())


def test_as_few_parts_as_the_limits_allow_roughly() -> None:
    whole = PositionBitmap.from_positions(np.arange(0, 1 << 24, 3))
    assert len(whole.split(n_bytes=1 << 30, cardinality=1 << 40)) == 1
    assert len(whole.split(n_bytes=whole.n_bytes // 4, cardinality=1 << 40)) <= 6
    assert len(whole.split(n_bytes=1 << 30, cardinality=len(whole) // 4)) <= 6


def test_an_empty_bitmap_has_no_parts() -> None:
    assert PositionBitmap().split(n_bytes=1, cardinality=1) == []


@pytest.mark.parametrize("limits", [{"n_bytes": -1, "cardinality": 1}, {"n_bytes": 1, "cardinality": -1}])
def test_limits_below_zero_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="split"):
        PositionBitmap.from_range(0, 5).split(**limits)
