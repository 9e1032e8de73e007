"""Literals of filters are compared exactly: one that is not a value of the column's type is never rounded."""

from __future__ import annotations

import datetime
import itertools
import operator
import pickle
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import FloatLiteral
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg import append, create_table, delete, delete_keys, plan_files, upsert
from puffin_fast.iceberg.dml.data_files import _NanosecondBounds
from puffin_fast.rows.filters import evaluator
from puffin_fast.rows.filters.evaluator import ArrowEvaluator
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.tables.scan import scan
from tests.iceberg.conftest import rows_of
from tests.kit.faults import RacingCatalog
from tests.kit.nanoseconds import nanosecond_types
from tests.kit.tables import iceberg_table

INF = float("inf")
LARGEST = 2**31 - 1
SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "n", LongType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "day", DateType()),
    NestedField(7, "at", TimestampType()),
    NestedField(8, "word", StringType()),
)


@pytest.mark.parametrize(
    "filter",
    [
        "i = '1.5x'",
        "n < 'nan'",
        "i in (1, 'one')",
        "price > '1_'",
        EqualTo("price", True),
        StartsWith("n", "1"),
        EqualTo("day", datetime.datetime(2020, 1, 1, 12)),
        "at = '2020-01-01T00:00:00.1234567890'",
        "at = '2020-01-01T25:00:00'",
        EqualTo("word", "\ud800"),
        StartsWith("word", "\udc00"),
    ],
    ids=ascii,
)
def test_literals_that_cannot_be_compared_with_the_type_are_refused(filter: Any) -> None:
    with pytest.raises(InvalidInputError, match="filter"):
        RowFilter.bind(filter, SCHEMA)


@pytest.mark.parametrize(
    ("filter", "fits"),
    [
        ("i < 2.0", LessThan("i", 2)),
        ("n = '7'", EqualTo("n", 7)),
        (EqualTo("price", 1.23), EqualTo("price", Decimal("1.23"))),
        ("price < 1.5", LessThan("price", Decimal("1.50"))),
        (EqualTo("price", Decimal("1.2300")), EqualTo("price", Decimal("1.23"))),
        (EqualTo("day", datetime.datetime(2020, 1, 1)), EqualTo("day", datetime.date(2020, 1, 1))),
        ("x = 0.1", EqualTo("x", 0.1)),
        (In("i", (5, 3_000_000_000)), EqualTo("i", 5)),
        (In("i", (-3_000_000_000, 3_000_000_000)), AlwaysFalse()),
        (NotIn("i", (-3_000_000_000, 3_000_000_000)), NotNull("i")),
        (Not(In("n", (1, 2**63))), NotEqualTo("n", 1)),
        (NotIn("f", (0.1, 1e300)), NotEqualTo("f", FloatLiteral(0.1))),
    ],
    ids=str,
)
def test_literals_are_converted_to_the_type_of_the_column(filter: Any, fits: BooleanExpression) -> None:
    found = RowFilter.bind(filter, SCHEMA).expression
    assert found == fits
    assert pickle.loads(pickle.dumps(found)) == fits


OPERATORS: dict[str, tuple[Any, Callable[[Any, Any], bool]]] = {
    "=": (EqualTo, operator.eq),
    "<>": (NotEqualTo, operator.ne),
    "<": (LessThan, operator.lt),
    "<=": (LessThanOrEqual, operator.le),
    ">": (GreaterThan, operator.gt),
    ">=": (GreaterThanOrEqual, operator.ge),
}

NANO = 1_705_314_600_123_456_789
EXACT: dict[str, tuple[pa.DataType, list[Any], list[str], list[str]]] = {
    "int": (
        pa.int32(),
        [-(2**31), -2, -1, 0, 1, 2, 2**31 - 1, None],
        [
            "1.5",
            "-1.5",
            "1",
            "0.0",
            "2147483646.5",
            "2147483647.5",
            "-2147483648.5",
            "1e30",
            "-1e30",
            "0.1e-300",
        ],
        ["identity(c)", "bucket(4, c)", "truncate(2, c)"],
    ),
    "long": (
        pa.int64(),
        [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1, None],
        [
            "0.5",
            "-0.5",
            "9007199254740992.5",
            "9223372036854775807.5",
            "99999999999999999999",
            "-1e400",
            "1e400",
        ],
        ["identity(c)", "bucket(4, c)", "truncate(2, c)"],
    ),
    "decimal": (
        pa.decimal128(9, 2),
        [Decimal(v) for v in ("-9999999.98", "-29.96", "-29.95", "0.00", "29.95", "29.96", "9999999.99")]
        + [None],
        [
            "29.955",
            "-29.955",
            "29.95",
            "29.950",
            "9999999.994",
            "9999999.996",
            "-9999999.985",
            "1e300",
            "-1e300",
            "10000000",
        ],
        ["identity(c)", "bucket(4, c)", "truncate(2, c)"],
    ),
    "timestamp": (
        pa.timestamp("us"),
        [NANO // 1000 - 1, NANO // 1000, NANO // 1000 + 1, -1, 0, 1, None],
        ["'2024-01-15 10:30:00.123456789'", "'2024-01-15 10:30:00.123456'", "'1969-12-31 23:59:59.9999995'"],
        ["identity(c)", "bucket(4, c)", "hour(c)", "year(c)"],
    ),
    "timestamp_ns": (
        pa.timestamp("ns"),
        [NANO - 1, NANO, NANO + 1, -1, 0, 1, None],
        [
            "'2024-01-15 10:30:00.123456789'",
            "'2024-01-15'",
            "'9999-01-01'",
            "'1969-12-31T23:59:59.999999999'",
        ],
        ["identity(c)", "bucket(4, c)", "hour(c)", "year(c)"],
    ),
    "timestamptz_ns": (
        pa.timestamp("ns", "UTC"),
        [NANO - 1, NANO, NANO + 1, None],
        ["'2024-01-15 10:30:00.123456789Z'", "'2024-01-15 11:30:00.123456789+01:00'"],
        ["day(c)"],
    ),
}
"""Arrow's type, values, literals and partitions. Times are integers in the type's unit."""


def exact(literal: str, unit: str | None) -> Decimal:
    """A literal's value; of times in the type's unit, computed by Arrow."""
    if unit is None:
        return Decimal(literal)
    text, zoned = literal.strip("'").replace(" ", "T"), literal.count("+") + literal.count("Z")
    if text.startswith("9999"):
        return Decimal("inf")
    seconds, _, fraction = text.partition(".")
    digits = fraction.split("+")[0].rstrip("Z").ljust(9, "0")
    zone = f"+{fraction.split('+')[1]}" if "+" in fraction else "+00:00" if zoned else ""
    moment = datetime.datetime.fromisoformat(seconds + zone)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    since = Decimal(int(moment.timestamp())) * 10**9 + int(digits)
    return since if unit == "ns" else since / 1000


@pytest.mark.parametrize(
    ("kind", "partition"), [(kind, one) for kind, (*_, ways) in EXACT.items() for one in ["", *ways]]
)
def test_literals_between_two_values_and_beyond_all_are_compared_as_they_stand(
    racing: RacingCatalog, kind: str, partition: str
) -> None:
    """With and without bounds and partitions that exclude files, and under NOT, as Python compares them exactly."""
    arrow, values, literals, _ = EXACT[kind]
    column = (
        pa.array(values, arrow)
        if kind in ("int", "long", "decimal")
        else pa.array(values, pa.int64()).cast(arrow)
    )
    rows = pa.table({"n": range(len(values)), "c": column})
    types, spec = nanosecond_types(rows.schema), [partition] if partition else []
    table = create_table(racing, "n.t", rows.schema, types=types, partition_spec=spec)
    for at in range(0, len(values), 2):
        append(table, rows.slice(at, 2))
    unit = getattr(arrow, "unit", None)

    def check(text: str, expected: list[int]) -> None:
        found = sorted(scan(table, text, ["n"]).to_arrow()["n"].to_pylist())
        assert found == expected, text
        assert delete(table, text, dry_run=True).rows_deleted == len(expected), text

    for literal in literals:
        value = exact(literal, unit)
        for sign, (_, compare) in OPERATORS.items():
            holds = [n for n, v in enumerate(values) if v is not None and compare(v, value)]
            fails = [n for n, v in enumerate(values) if v is not None and not compare(v, value)]
            check(f"c {sign} {literal}", holds)
            check(f"not (c {sign} {literal})", fails)
    wanted = {exact(literal, unit) for literal in literals}
    listed = [n for n, v in enumerate(values) if v in wanted and v is not None]
    check(f"c in ({', '.join(literals)})", listed)
    check(
        f"c not in ({', '.join(literals)})",
        [n for n, v in enumerate(values) if v not in wanted and v is not None],
    )


@pytest.mark.parametrize("writer", ["ours", "PyIceberg"])
def test_bounds_of_nanoseconds_that_pyiceberg_truncates_exclude_no_rows(
    racing: RacingCatalog, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they prove that all rows of a file match."""
    if writer == "PyIceberg":
        monkeypatch.setattr(_NanosecondBounds, "metrics", lambda _, written: written.to_serialized_dict())
    rows = pa.table({"n": [1, 2], "c": pa.array([NANO - 789, NANO], pa.timestamp("ns"))})
    table = create_table(racing, "n.t", rows.schema, types=nanosecond_types(rows.schema))
    append(table, rows)
    (task,) = plan_files(table, metrics=True).tasks
    assert task.data.upper_bounds is not None
    assert int.from_bytes(task.data.upper_bounds[2], "little") == NANO - 789 * (writer == "PyIceberg")
    assert scan(table, "c > '2024-01-15 10:30:00.123456'").to_arrow()["n"].to_pylist() == [2]
    assert delete(table, "c <= '2024-01-15 10:30:00.123456'", dry_run=True).rows_deleted == 1
    keys = rows.slice(1)
    assert delete_keys(table, keys, ["n", "c"], dry_run=True).rows_deleted == 1
    assert upsert(table, rows, ["n", "c"], dry_run=True).rows_unchanged == 2


def test_filters_on_numbers_alone_read_many_rows_at_once(racing: RacingCatalog) -> None:
    rows = pa.table({"n": pa.array(range(1_200_000), pa.int32()), "s": ["a", "b"] * 600_000})
    table = iceberg_table(racing, rows, name="n.big")
    schema = table.schema()
    assert RowFilter.bind("n > 5", schema).batch_rows > RowFilter.bind("n > 5 and s = 'a'", schema).batch_rows
    assert delete(table, "n >= 524287 and n < 1100000").rows_deleted == 1_100_000 - 524_287
    assert delete(table, "n >= 1100000 and s = 'a'").rows_deleted == 50_000
    assert scan(table, "n >= 524280", ("n",)).to_arrow()["n"].to_pylist()[:9] == [
        *range(524_280, 524_287),
        1_100_001,
        1_100_003,
    ]


def test_numbers_of_python_are_compared_as_they_are_printed(racing: RacingCatalog) -> None:
    rows = pa.table(
        {"price": pa.array([Decimal("29.95"), Decimal("29.96")], pa.decimal128(9, 2)), "i": [1, 2]}
    )
    table = iceberg_table(racing, rows)
    for of, value, expected in (
        (GreaterThan, 29.955, [2]), (LessThan, 29.955, [1]), (EqualTo, 29.955, []), (NotEqualTo, 29.955, [1, 2]),
        (EqualTo, 29.95, [1]), (LessThan, INF, [1, 2]), (GreaterThan, INF, []), (GreaterThan, -INF, [1, 2]),
    ):  # fmt: skip
        assert scan(table, of("price", value)).to_arrow()["i"].to_pylist() == expected
    assert scan(table, In("i", (1.5, 2.0))).to_arrow()["i"].to_pylist() == [2]
    assert scan(table, Not(In("price", (29.95, 29.955)))).to_arrow()["i"].to_pylist() == [2]


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """A table of two files. In one file all values of a column are equal, so that its bounds are exact."""
    alike = {"f": [0.1] * 3, "x": [-0.0] * 3, "i": [LARGEST] * 3}
    mixed = {"f": [0.1, INF, 0.7], "x": [0.0, 5.0, -0.0], "i": [5, LARGEST, None]}
    kinds = pa.schema([("f", pa.float32()), ("x", pa.float64()), ("i", pa.int32()), ("id", pa.int64())])
    table = racing.create_table("n.t", kinds, properties={"format-version": "2"})
    for first, columns in ((0, alike), (3, mixed)):
        table.append(pa.table({**columns, "id": range(first, first + 3)}, schema=kinds))
    return table


ROWS: list[tuple[BooleanExpression, list[int]]] = [
    (EqualTo("f", 0.1), [0, 1, 2, 3]),
    (LessThanOrEqual("f", 0.1), [0, 1, 2, 3]),
    (GreaterThanOrEqual("f", 0.7), [4, 5]),
    (NotEqualTo("f", 0.1), [4, 5]),
    (In("f", (0.1, 9.0)), [0, 1, 2, 3]),
    (EqualTo("f", INF), [4]),
    (LessThan("f", INF), [0, 1, 2, 3, 5]),
    (GreaterThan("f", 1e300), [4]),
    (LessThanOrEqual("f", 1e300), [0, 1, 2, 3, 5]),
    (LessThan("f", -INF), []),
    (NotIn("f", (0.1, INF)), [5]),
    (In("x", (0.0, 9.0)), [0, 1, 2, 3, 5]),
    (NotIn("x", (-0.0, 9.0)), [4]),
    (EqualTo("x", 0.0), [0, 1, 2, 3, 5]),
    (In("i", (5, 3_000_000_000)), [3]),
    (NotIn("i", (5, 3_000_000_000)), [0, 1, 2, 4]),
]


def test_scans_select_the_same_rows_regardless_of_bounds(table: Table) -> None:
    for filter, ids in ROWS:
        assert sorted(scan(table, filter).to_arrow()["id"].to_pylist()) == ids, filter


def test_deletes_remove_the_rows_that_scans_select(table: Table) -> None:
    gone: set[int] = set()
    for filter, ids in (ROWS[13], ROWS[5], ROWS[0]):
        assert delete(table, filter).rows_deleted == len(set(ids) - gone)
        gone.update(ids)
        assert rows_of(table)["id"].to_pylist() == [n for n in range(6) if n not in gone]


@pytest.mark.parametrize("column", ["i", "n", "f", "x"])
def test_a_null_elsewhere_in_a_column_changes_no_comparison(column: str) -> None:
    """Columns of numbers without nulls are compared by NumPy, others by Arrow."""
    field = SCHEMA.find_field(column)
    numbers: list[Any] = [-LARGEST - 1, -1, 0, 1, 5, LARGEST]
    if column in "fx":
        numbers = [*map(float, numbers[:-1]), -0.0, 0.1, INF, -INF, float("nan")]
    values = pa.array(numbers, pa.float32() if column == "f" else schema_to_pyarrow(field.field_type))
    with_null = pa.concat_arrays([values, pa.nulls(1, values.type)])
    verbs = EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual
    for verb, number in itertools.product(verbs, numbers):
        if number != number:
            continue
        one = verb(column, number)
        for filter in (one, Not(one), And(one, NotNull(column)), Or(one, LessThan(column, 1)), And(one, one)):
            bound = RowFilter.bind(filter, SCHEMA)
            found = bound.mask({field.field_id: values}, len(values))
            expected = bound.mask({field.field_id: with_null}, len(with_null))
            assert found.tolist() == expected.tolist()[:-1], filter
            assert not expected[-1]


@pytest.mark.parametrize(
    ("type", "numbers"),
    [
        (DateType(), [-(2**31), -1, 0, 1, 2**31 - 1]),
        (TimeType(), [0, 1, 86_399_999_999]),
        (TimestampType(), [-LARGEST - 1, -LARGEST, -1, 0, 1, LARGEST]),
        (TimestamptzType(), [-LARGEST - 1, -LARGEST, -1, 0, 1, LARGEST]),
        (TimestampNanoType(), [-LARGEST - 1, -LARGEST, -1, 0, 1, LARGEST]),
        (DecimalType(9, 2), [-999_999_999, -1, 0, 1, 100, 999_999_999]),
        (
            DecimalType(38, 10),
            [sign * n for n in (0, 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1) for sign in (-1, 1)],
        ),
        (DecimalType(38, 0), [10**38 - 1, 10**38 - 2, 1 - 10**38, 2**127 - 1 - 2**126, 5 << 64, 4 << 64]),
    ],
    ids=str,
)
def test_times_and_decimals_are_compared_without_nulls_as_with_one(type: Any, numbers: list[int]) -> None:
    """Columns without nulls are compared as integers; the smallest of 64 bits is NumPy's time that is none."""
    kind, field = schema_to_pyarrow(type), NestedField(1, "a", type)
    data = b"".join(n.to_bytes(kind.bit_width // 8, "little", signed=True) for n in numbers)
    values = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(data)])
    with_null = pa.concat_arrays([values, pa.nulls(1, kind)])
    before = Schema(field)
    for literal in values:
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
            for first in (0, 1):
                compared = ArrowEvaluator({1: values[first:]})
                expected = getattr(pc, name)(with_null, literal).to_pylist()[first:-1]
                term = Reference("a").bind(before)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(evaluator, "_scalar_array", lambda value, type: pa.array([value], kind))
                    found = compared.compare(name, term, SimpleNamespace(value=literal))
                assert isinstance(found, np.ndarray)
                assert found.tolist() == expected, (name, literal)


def remainder(value: int, divisor: int) -> int:
    """As in C and SQL."""
    found = abs(value) % abs(divisor)
    return -found if value < 0 else found


def test_remainders_have_the_sign_of_the_value_and_are_unknown_for_null() -> None:
    values = [-(2**63), -7, -3, -1, 0, 1, 2, 3, 7, 2**63 - 1, None]
    comparisons = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
    for kind, arrow in ((LongType(), pa.int64()), (IntegerType(), pa.int32())):
        schema = Schema(NestedField(1, "n", kind))
        stored = [v for v in values if v is None or kind.min <= v <= kind.max]
        column = pa.array(stored, arrow)
        for divisor, (sign, compare), value in itertools.product(
            (1, -1, 2, 3, -7, 2**31, 2**63 - 1), comparisons.items(), (-(2**70), -2, 0, 1, 2**63)
        ):
            text = f"n % {divisor} {sign} {value}"
            wanted = [v is not None and compare(remainder(v, divisor), value) for v in stored]
            negated = [v is not None and not match for v, match in zip(stored, wanted, strict=True)]
            for written, expected in ((text, wanted), (f"not ({text})", negated)):
                bound = RowFilter.bind(written, schema)
                assert bound.mask({1: column}, len(column)).tolist() == expected, written
                some = column.drop_null()
                dense = bound.mask({1: some}, len(some)).tolist()
                assert dense == [match for v, match in zip(stored, expected, strict=True) if v is not None]
                assert not bound.always_true
                assert bound.strict_expression() == AlwaysFalse()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n % 0 = 1", "character 5: expected a divisor that is not 0"),
        ("n % 2.5 = 1", "character 5: expected an integer"),
        ("n % 2 = 'a'", "character 9: expected an integer"),
        ("n % 9223372036854775808 = 1", "expected a divisor of 64 bits that is not 0"),
        ("s % 2 = 1", "%: expected a column of type int or long, found string"),
        ("n % 2", "expected an operator"),
        ("n % 2 in (0, 1)", r"expected an operator \(<, .*<>\), found in"),
        ("n % m = 1", "expected an integer, found m"),
        ("s = DATE '2024-01-15'", "expected text such as '2024-01-15', found a date or time"),
    ],
)
def test_remainders_and_dates_of_other_types_are_refused(text: str, message: str) -> None:
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "s", StringType()))
    with pytest.raises(InvalidInputError, match=message):
        RowFilter.bind(text, schema)
