"""Sets of integers in a narrow range, compared with Python's sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.rows.members import Members, SparseMembers, members_of
from tests.kit.cases import each

LOW, HIGH = -(2**63), 2**63 - 1
AROUND = (-2000, -65, -64, -1, 0, 1, 63, 64, 65, 2000)


@given(
    lowest=st.sampled_from([LOW, -1000, -1, 0, 1, 1 << 40, HIGH - 999]),
    offsets=st.lists(st.integers(0, 999), max_size=200),
    span=st.sampled_from([1000, 1]),
)
def test_members_are_those_of_a_set(lowest: int, offsets: list[int], span: int) -> None:
    numbers = [lowest + offset % span for offset in offsets]
    made = Members(np.array(numbers, np.int64), lowest, span)
    members = sorted(set(numbers))
    assert len(made) == len(members)

    asked = [LOW, HIGH, *numbers, *(at + lowest for at in AROUND), *(at + lowest + span for at in AROUND)]
    asked = [number for number in asked if LOW <= number <= HIGH]
    rows = np.array(asked, np.int64)
    found, ranks = np.full(len(rows), 7, np.bool_), np.full(len(rows), 7, np.int32)
    made.contain(rows, found)
    made.ranks(rows, ranks)
    rank_of = {number: rank for rank, number in enumerate(members)}
    assert found.tolist() == [number in rank_of for number in asked]
    assert found.view(np.uint8).max(initial=0) <= 1
    assert ranks.tolist() == [rank_of.get(number, -1) for number in asked]

    ascending, first = np.empty(len(made), np.int64), np.empty(len(made), np.int64)
    made.sorted(ascending)
    made.first(np.array(numbers, np.int64), first)
    assert ascending.tolist() == members
    assert first.tolist() == [numbers.index(number) for number in members]


@given(
    numbers=st.lists(
        st.integers(LOW, HIGH) | st.integers(-300, 300) | st.sampled_from([LOW, HIGH]), max_size=300
    ),
    asked=st.lists(st.integers(LOW, HIGH) | st.integers(-300, 300)),
    width=st.sampled_from([4, 8]),
)
def test_members_of_any_range_are_those_of_a_set(numbers: list[int], asked: list[int], width: int) -> None:
    asked = [*asked, *numbers, *(number + 1 for number in numbers), LOW, HIGH]
    low, high = (LOW, HIGH) if width == 8 else (-(2**31), 2**31 - 1)
    rows = np.array([number for number in asked if low <= number <= high], f"i{width}")
    for made in (SparseMembers(np.array(numbers, np.int64)), members_of(np.array(numbers, np.int64))):
        found = np.full(len(rows), 7, np.bool_)
        made.contain(rows, found)
        assert found.view(np.uint8).tolist() == [int(number in {*numbers}) for number in rows.tolist()]


@each("step", [1, 31, 33, 1 << 20, 1 << 32, (1 << 46) + 1])
@each("n", [1, 2, 3, 64, 5000, 100_000])
def test_many_members_are_found_among_their_neighbours(n: int, step: int) -> None:
    numbers = np.arange(n) * step - 7
    made, rows = members_of(numbers), np.concatenate([numbers - 1, numbers, numbers + 1])
    assert isinstance(made, Members) is (step * (n - 1) < 32 * n)
    found = np.empty(len(rows), np.bool_)
    made.contain(rows, found)
    assert found.tolist() == np.isin(rows, numbers).tolist()


def test_a_number_outside_of_the_range_is_refused() -> None:
    for number in (LOW, 9, 110, HIGH):
        with pytest.raises(ValueError, match="100 from 10 on"):
            Members(np.array([10, number, 109], np.int64), 10, 100)


@pytest.mark.parametrize("span", [0, (1 << 36) + 1, (1 << 64) - 1])
def test_a_range_without_numbers_or_too_wide_is_refused(span: int) -> None:
    with pytest.raises(ValueError, match=f"range of {span}"):
        Members(np.empty(0, np.int64), 0, span)


def test_an_output_of_another_size_is_refused() -> None:
    numbers = np.arange(5)
    made = Members(numbers, 0, 5)
    for some in (made, SparseMembers(numbers)):
        for size in (0, 4, 6, 9, 11, 20):
            with pytest.raises(ValueError, match="expected 5 or 10"):
                some.contain(numbers, np.empty(size, np.uint8))
    for write, kind in ((made.ranks, np.int32), (made.first, np.int64)):
        for size in (4, 6):
            with pytest.raises(ValueError, match="expected"):
                write(numbers, np.empty(size, kind))
    with pytest.raises(ValueError, match="expected 40"):
        made.sorted(np.empty(4, np.int64))


def test_numbers_may_be_at_any_address() -> None:
    numbers = np.frombuffer(b"x" + np.arange(3, 900, 3).tobytes(), np.int64, offset=1)
    assert not numbers.flags.aligned
    made = Members(numbers, 3, 900)
    ranks = np.empty(len(numbers), np.int32)
    made.ranks(numbers, ranks)
    assert ranks.tolist() == list(range(len(numbers)))
