"""The conditions of an AND are evaluated in turn, for the rows that are left: as if each were for every row."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions.visitors import expression_evaluator, visit
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType

from puffin_fast.rows.filters import filters
from puffin_fast.rows.filters.evaluator import ArrowEvaluator
from puffin_fast.rows.filters.filters import RowFilter

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "t", StringType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "d", DecimalType(9, 2)),
)
VALUES: dict[str, list[Any]] = {
    "n": list(range(20)),
    "t": [f"{n:02d} text" for n in range(20)],
    "x": [n / 4 for n in range(20)],
    "d": [Decimal(25 * n).scaleb(-2) for n in range(20)],
}


def condition(chance: random.Random, depth: int = 0) -> BooleanExpression:
    kind = chance.random()
    if depth < 3 and kind < 0.5:
        both = condition(chance, depth + 1), condition(chance, depth + 1)
        return And(*both) if kind < 0.35 else Or(*both) if kind < 0.45 else Not(And(*both))
    name = chance.choice(list(VALUES))
    value = chance.choice(VALUES[name])
    verbs: list[Any] = [LessThan, GreaterThan, EqualTo, NotEqualTo]
    if kind > 0.9:
        return chance.choice((IsNull, NotNull))(name)
    if kind > 0.8:
        return In(name, chance.sample(VALUES[name], 5))
    if name == "t" and kind > 0.7:
        return StartsWith(name, value[:1])
    verb: BooleanExpression = chance.choice(verbs)(name, value)
    return verb


@pytest.mark.parametrize("few", [1, 8, 1 << 40], ids=["always", "usual", "if none is left"])
@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_conditions_in_turn_select_what_pyiceberg_selects_row_by_row(
    monkeypatch: pytest.MonkeyPatch, few: int, nulls: float
) -> None:
    monkeypatch.setattr(filters, "FEW_ROWS", few)
    chance = random.Random(few)
    n_rows, n_matched = 200, 0
    for _ in range(150):
        rows = [
            [None if chance.random() < nulls else chance.choice(values) for values in VALUES.values()]
            for _ in range(n_rows)
        ]
        columns = {
            field.field_id: pa.array([row[at] for row in rows], schema_to_pyarrow(field.field_type))
            for at, field in enumerate(SCHEMA.fields)
        }
        wanted = And(condition(chance), condition(chance))
        matches = expression_evaluator(SCHEMA, wanted, case_sensitive=True)
        # PyIceberg's `x <> 5` and its negations are true for null, unlike SQL's: null is tested beside
        expected = [matches(Record(*row)) for row in rows] if not nulls else None
        row_filter = RowFilter.bind(wanted, SCHEMA)
        found = row_filter.mask(columns, n_rows).tolist()
        n_matched += sum(found)
        if expected is None:
            whole = filters._flags(visit(row_filter._bound, ArrowEvaluator(columns)), n_rows)
            expected = whole.tolist()
        assert found == expected, wanted
    assert n_matched > 1000
