"""IN and NOT IN with many values: the same rows for batches of any size, and files between the values are pruned."""

from __future__ import annotations

import pickle
import uuid
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import In, Not, NotIn
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from puffin_fast._pyiceberg.metrics import metrics_evaluator, proves_all_rows
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.filters.shown import filter_text

DAY = datetime(2020, 1, 1)
VALUES: list[tuple[IcebergType, pa.DataType, Any]] = [
    (IntegerType(), pa.int32(), lambda n: n - 300),
    (IntegerType(), pa.int32(), lambda n: 1000 * n - 300),
    (LongType(), pa.int64(), lambda n: n),
    (LongType(), pa.int64(), lambda n: n << 40),
    (FloatType(), pa.float32(), lambda n: n / 10),
    (DoubleType(), pa.float64(), lambda n: n / 10),
    (StringType(), pa.large_string(), lambda n: f"ä{n}"),
    (StringType(), pa.string(), lambda n: f"{n}"),
    (BinaryType(), pa.large_binary(), lambda n: b"\xff%d" % n),
    (FixedType(4), pa.binary(4), lambda n: n.to_bytes(4, "big")),
    (UUIDType(), pa.binary(16), lambda n: uuid.UUID(int=n << 70)),
    (DecimalType(20, 2), pa.decimal128(20, 2), lambda n: Decimal(n).scaleb(-2)),
    (DateType(), pa.date32(), lambda n: date(2020, 1, 1) + timedelta(n)),
    (TimeType(), pa.time64("us"), lambda n: time(1, n // 60 % 60, n % 60, 7)),
    (TimestampType(), pa.timestamp("us"), lambda n: DAY + timedelta(microseconds=n)),
]


@pytest.mark.parametrize(("kind", "arrow", "value"), VALUES, ids=[f"{one[0]}-{one[1]}" for one in VALUES])
def test_few_rows_and_many_rows_have_the_same_answer(
    kind: IcebergType, arrow: pa.DataType, value: Any
) -> None:
    schema = Schema(NestedField(1, "x", kind))
    literals = [value(n) for n in range(0, 600, 2)]
    literals = [one.isoformat() if isinstance(one, date | time) else one for one in literals]
    stored = [getattr(value(n), "bytes", value(n)) if kind == UUIDType() else value(n) for n in range(600)]
    for every in (601, 3):  # rows from one null to the next
        column = pa.array(
            [None if n % every == every - 1 else one for n, one in enumerate([*stored, None])], arrow
        )
        is_valid = column.is_valid().to_pylist()
        for predicate, even in ((In("x", literals), True), (NotIn("x", literals), False)):
            expected = [is_valid[n] and (n % 2 == 0) is even for n in range(601)]
            bound = RowFilter.bind(predicate, schema)
            for matcher in (bound, pickle.loads(pickle.dumps(bound))):
                for first, n in (
                    (0, 601),
                    (3, 101),
                    (601, 0),
                    *((at, 1 + (at < 600)) for at in range(0, 601, 2)),
                ):
                    assert (
                        matcher.mask({1: column.slice(first, n)}, n).tolist() == expected[first : first + n]
                    )


def test_zeros_and_nan_have_the_same_answer_in_few_rows() -> None:
    schema = Schema(NestedField(1, "x", DoubleType()))
    column = pa.array([0.0, -0.0, float("nan"), 1e300])
    for first in (0.0, -0.0):
        matcher = RowFilter.bind(In("x", [first, *map(float, range(1, 500))]), schema)
        assert matcher.mask({1: column}, 4).tolist() == [True, True, False, False]


@pytest.mark.parametrize("kind", [LongType(), DoubleType(), StringType()], ids=str)
def test_a_file_is_pruned_unless_a_value_is_within_its_bounds(kind: Any) -> None:
    made: Any = {LongType(): int, DoubleType(): float, StringType(): lambda n: f"{n:06d}"}[kind]
    schema = Schema(NestedField(1, "x", kind))
    values = range(10, 3010, 10)  # more than 200, from where on PyIceberg prunes no file
    may_match = metrics_evaluator(schema, In("x", [made(n) for n in values]), True)
    proves = proves_all_rows(schema, lambda: NotIn("x", [made(n) for n in values]), True)
    ends = [(1, 9), (1, 10), (11, 19), (11, 20), (2999, 3001), (3001, 9000), (1, 9000), (55, None), (None, 5)]
    for low, high in ends:
        bounds = [{} if end is None else {1: to_bytes(kind, made(end))} for end in (low, high)]
        file = SimpleNamespace(
            record_count=5,
            value_counts={1: 5},
            null_value_counts={1: 0},
            nan_value_counts={1: 0},
            lower_bounds=bounds[0],
            upper_bounds=bounds[1],
        )
        expected = any((low is None or low <= n) and (high is None or n <= high) for n in values)
        assert may_match(file) is expected, (low, high)
        assert proves(file) is (not expected), (low, high)


@pytest.mark.parametrize(
    ("kind", "values", "other"),
    [(LongType(), [3, 5, -(2**63)], 4), (IntegerType(), [3, 5], 4), (StringType(), ["ä", "b", ""], "c")],
)
@pytest.mark.parametrize("of", [In, NotIn])
def test_integers_and_texts_are_prepared_once_for_all_bindings(
    of: Any, kind: IcebergType, values: list[Any], other: Any
) -> None:
    schema = Schema(NestedField(1, "x", kind))
    row_filter = RowFilter.bind(of("x", values), schema)
    bound = [row_filter.expression.bind(schema) for _ in range(2)]  # type: ignore[attr-defined]
    assert bound[0].value_set is bound[1].value_set
    assert bound[0].value_set == set(values)
    longer = Schema(NestedField(1, "x", LongType() if kind == IntegerType() else kind))
    assert row_filter.expression.bind(longer).value_set == set(values)  # type: ignore[attr-defined]
    column = {1: pa.array([*values, other, None])}
    expected = [of is In] * len(values) + [of is NotIn, False]
    for some in (row_filter, pickle.loads(pickle.dumps(row_filter))):
        assert some.mask(column, len(expected)).tolist() == expected
        opposite = RowFilter.bind(Not(some.expression), schema).mask(column, len(expected)).tolist()
        assert opposite == [not one for one in expected[:-1]] + [False]
        assert filter_text(some.expression).startswith(f"x {'IN' if of is In else 'NOT IN'} (")
        assert (~some.expression).bind(schema).value_set == set(values)


LISTS: list[tuple[IcebergType, pa.Array, list[str]]] = [
    (IntegerType(), pa.array([*range(-20, 60), None], pa.int32()), [f"{n}" for n in range(-10, 30, 2)]),
    (LongType(), pa.array([0, 10**17, 2 * 10**18, None]), [f"{n * 10**17}" for n in range(21)]),
    (DoubleType(), pa.array([0.0, -0.0, 3.0, 3.5, None]), [f"{n}" for n in range(20)]),
    (DecimalType(9, 2), pa.array([Decimal("3.00"), None], pa.decimal128(9, 2)), [f"{n}" for n in range(20)]),
    (StringType(), pa.array(["a 3", "", "a", None]), ["''", *(f"'a {n}'" for n in range(20))]),
    (StringType(), pa.array(["a'3", "a''3", None]), [f"'a''{n}'" for n in range(20)]),
    (DateType(), pa.array([0, 9, None], pa.date32()), [f"'1970-01-{n}'" for n in range(10, 30)]),
    (IntegerType(), pa.array([5, 6, None], pa.int32()), ["5"] * 20),
]


@pytest.mark.parametrize("space", ["", " ", "\n  "], ids=repr)
@pytest.mark.parametrize(("kind", "column", "literals"), LISTS)
def test_a_long_list_of_a_text_has_the_answer_of_short_ones(
    kind: IcebergType, column: pa.Array, literals: list[str], space: str
) -> None:
    schema, n = Schema(NestedField(1, "x", kind)), len(column)

    def among(some: list[str]) -> str:
        return f"x in ({space}{f'{space},{space}'.join(some)}{space})"

    short = " or ".join(among(literals[at : at + 7]) for at in range(0, len(literals), 7))
    for form in ("{}", "not ({})"):
        long = RowFilter.bind(form.format(among(literals)), schema)
        expected = RowFilter.bind(form.format(short), schema).mask({1: column}, n).tolist()
        assert long.mask({1: column}, n).tolist() == expected
        again = pickle.loads(pickle.dumps(long))
        assert again.mask({1: column}, n).tolist() == expected
    negated = RowFilter.bind(among(literals).replace("in", "not in", 1), schema)
    assert negated.mask({1: column}, n).tolist() == expected


def test_a_long_list_of_a_text_is_refused_like_a_short_one() -> None:
    schema = Schema(NestedField(1, "x", DateType()), NestedField(2, "n", IntegerType()))
    numbers, words = ", ".join(map(str, range(20))), ", ".join(f"'w{at}'" for at in range(20))
    for text, message in {
        f"x in ({numbers})": "expected a date such as .*, found the number",
        f"n in ({words})": "'w",
        f"n in ({numbers}, )": "expected a literal",
        f"n in ({numbers}, x)": "expected a literal, found x",
        f"n = ({numbers})": r"expected a literal, found \(0, 1",
        f"({numbers}) = n": "expected a column or a literal",
        f"n in ({numbers}) ({numbers})": r"expected AND, OR or the end, found \(0, 1",
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            RowFilter.bind(text, schema)


def test_values_that_are_not_of_the_type_are_converted_or_refused() -> None:
    small, text = Schema(NestedField(1, "x", IntegerType())), Schema(NestedField(1, "x", StringType()))
    beyond = RowFilter.bind(In("x", [1, 2, 2**40]), small)
    assert beyond.mask({1: pa.array([1, 2, 3], pa.int32())}, 3).tolist() == [True, True, False]
    for schema, values in ((text, ["a", "\ud800"]), (small, [1, "b"]), (text, ["a", 5])):
        with pytest.raises(InvalidInputError):
            RowFilter.bind(In("x", values), schema)


@pytest.mark.parametrize("made", [In, NotIn])
def test_a_bound_filter_is_bound_again_to_a_column_of_another_type(made: type[In] | type[NotIn]) -> None:
    integers, floats = (Schema(NestedField(1, "a", kind)) for kind in (LongType(), DoubleType()))
    bound = RowFilter.bind(made("a", {1, 2, 3}), integers)  # type: ignore[arg-type]
    assert RowFilter.bind(bound.expression, floats).expression == made("a", {1.0, 2.0, 3.0})  # type: ignore[arg-type]
