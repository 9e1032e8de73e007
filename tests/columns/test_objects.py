"""Objects as columns are equal to the objects that they were made of, whatever is taken of them, and after pickling."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis import given

from puffin_fast.columns.objects import Objects, Same, column

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.integers(),
    st.sampled_from(["", "a", "\x00", "é", "\ud800", "x" * 200]),
    st.binary(max_size=2),
    st.sampled_from([0.0, -0.0, 1.0, float("inf")]),
    st.sampled_from([Decimal("1.0"), Decimal("1.00")]),
    st.tuples(st.sampled_from([None, 1, True, 1.0, -0.0, 0.0])),
    st.lists(st.integers(0, 3), max_size=2),
)


@dataclass(slots=True)
class Inner:
    value: Any
    other: Any = 5


@dataclass(slots=True)
class Outer:
    inner: Inner | None
    value: Any = None
    rest: Any = ()


class Pair(NamedTuple):
    number: int
    outer: Outer


OBJECTS = st.lists(
    st.builds(Outer, st.none() | st.builds(Inner, VALUES, VALUES), VALUES), min_size=1, max_size=12
)


def shown(objects: Any) -> list[str]:
    """With `repr`, True is not 1 and -0.0 is not 0.0."""
    return [*map(repr, objects)]


def columns_of(objects: list[Outer]) -> Objects[Outer]:
    found: Objects[Outer] = Objects.of(objects)
    return found.replaced(inner=Objects.of([one.inner for one in objects]))


@given(objects=OBJECTS, data=st.data())
def test_columns_are_their_objects(objects: list[Outer], data: st.DataObject) -> None:
    found = columns_of(objects)
    rows = data.draw(st.lists(st.integers(0, len(objects) - 1)))
    some = data.draw(st.slices(len(objects)))
    for one in (found, pickle.loads(pickle.dumps(found))):
        assert len(one) == len(objects)
        assert shown(one) == shown(objects)
        assert shown(one[at] for at in range(len(objects))) == shown(objects)
        assert shown(one.take(rows)) == shown(objects[row] for row in rows)
        assert shown(one[some]) == shown(objects[some])
        assert shown(one.values("value")) == shown(outer.value for outer in objects)
        pairs = Objects(Pair, [[*range(len(one))], one], len(one))
        assert shown(pairs) == shown(map(Pair, range(len(objects)), objects))
        numbered = one.take(rows)
        varying = [*zip(*numbered.lists(), strict=True)]
        again = [one[:0].with_lists(iter([[value] for value in row]), 1)[0] for row in varying]
        assert shown(again) == shown(numbered if varying else ())


@given(
    parts=st.lists(st.lists(st.builds(Inner, VALUES, VALUES), min_size=1, max_size=3), min_size=1, max_size=4)
)
def test_joined_columns_are_all_objects(parts: list[list[Inner]]) -> None:
    joined = Objects.joined([Objects.of(part) for part in parts])
    assert shown(joined) == shown(one for part in parts for one in part)


@given(values=st.lists(VALUES, max_size=8))
def test_a_column_keeps_its_values(values: list[Any]) -> None:
    found = column(values)
    assert shown([found.value] * len(values) if isinstance(found, Same) else found) == shown(values)


def test_attributes_without_a_column_have_their_defaults() -> None:
    found = Objects(Outer, [Same(None)], 2)
    assert (found.column("value").value, found.column("rest").value) == (None, ())
    assert not found.has_any("rest")
    assert Objects(Outer, [Same(None), [1, 2]], 2).has_any("value")


def test_an_object_that_does_not_exist_is_none() -> None:
    found = Objects(Inner, [["a", "b"], Same(3)], 2).spread([1, -1, 0, 1])
    assert shown(found) == shown([Inner("b", 3), None, Inner("a", 3), Inner("b", 3)])
    assert shown(found[1:3]) == shown([None, Inner("a", 3)])


def test_equal_texts_are_one_object() -> None:
    first, second = "".join(["ab", "c"]), "".join(["a", "bc"])
    found = column([first, "x", second])
    assert not isinstance(found, Same)
    assert found[0] is found[2]


def test_bytes_are_those_of_the_values() -> None:
    """A bin of 100 data files takes a few hundred bytes in addition to its values."""
    paths = [f"s3://bucket/table/data/{at:032x}.parquet" for at in range(100)]
    objects = Objects.of([Inner(path) for path in paths])
    assert len(pickle.dumps(objects)) - len(pickle.dumps(paths)) < 200
