"""Literals of filters are converted exactly: a literal that is not a value of the column's type is never rounded."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
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
    StartsWith,
)
from pyiceberg.expressions.literals import FloatLiteral
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
    TimestampType,
)

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg import delete
from puffin_fast.iceberg.predicate.filters import RowFilter
from puffin_fast.iceberg.scan.scan import scan
from tests.iceberg.conftest import RacingCatalog, rows_of

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
        "i = 1.5",
        "n < 1.5",
        "n >= '1.5'",
        In("i", (1, Decimal("1.5"))),
        NotEqualTo("price", 1.234),
        "price = 1.234",
        EqualTo("price", Decimal("1e300")),
        EqualTo("price", 10**9),
        EqualTo("price", 1e30),
        EqualTo("price", INF),
        EqualTo("x", 10**400),
        EqualTo("day", datetime.datetime(2020, 1, 1, 12)),
        "at = '2020-01-01T00:00:00.123456789'",
        LessThan("at", 2**70),
        In("at", (1, -(2**70))),
        EqualTo("word", "\ud800"),
        StartsWith("word", "\udc00"),
    ],
    ids=ascii,
)
def test_literals_that_are_not_values_of_the_type_are_refused(filter: Any) -> None:
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
    (GreaterThan("f", 1e300), []),
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
