"""Filters as text, for errors and the texts of objects: as the caller wrote them, or as row filters are written."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pyiceberg.expressions import (
    BooleanExpression,
    BoundPredicate,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    StartsWith,
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, visit

from puffin_fast._pyiceberg.set_values import TypedIn, TypedNotIn
from puffin_fast._text import MOST_SHOWN

SHOWN_VALUES = 5
"""At most so many values of IN are shown."""

_SYMBOLS: dict[type, str] = {
    EqualTo: "=",
    NotEqualTo: "<>",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "IN",
    NotIn: "NOT IN",
    TypedIn: "IN",
    TypedNotIn: "NOT IN",
    IsNull: "IS NULL",
    NotNull: "IS NOT NULL",
    IsNaN: "IS NAN",
    NotNaN: "IS NOT NAN",
    StartsWith: "LIKE",
    NotStartsWith: "NOT LIKE",
}


def filter_text(row_filter: object) -> str:
    """A filter as text: a text as it is, an expression of PyIceberg in the grammar of row filters, others as they say.

    Raises:
        ValueError: a number has more digits than Python shows.
        RecursionError: an expression is nested too deeply.
    """
    return visit(row_filter, _Text()) if isinstance(row_filter, BooleanExpression) else str(row_filter)


class _Text(BooleanExpressionVisitor[str]):
    def visit_true(self) -> str:
        return "TRUE"

    def visit_false(self) -> str:
        return "FALSE"

    def visit_not(self, child_result: str) -> str:
        return f"NOT ({child_result})"

    def visit_and(self, left_result: str, right_result: str) -> str:
        left, right = (f"({side})" if " OR " in side else side for side in (left_result, right_result))
        return f"{left} AND {right}"

    def visit_or(self, left_result: str, right_result: str) -> str:
        return f"{left_result} OR {right_result}"

    def visit_unbound_predicate(self, predicate: Any) -> str:
        symbol = _SYMBOLS.get(type(predicate))
        if symbol is None:
            return str(predicate)
        operand = f"{predicate.term.name} {symbol}"
        if isinstance(predicate, In | NotIn):
            values = [_literal(literal.value) for literal in islice(predicate.literals, SHOWN_VALUES)]
            more = ", ..." if len(predicate.literals) > SHOWN_VALUES else ""
            return f"{operand} ({', '.join(values)}{more})"
        if isinstance(predicate, StartsWith | NotStartsWith):
            return f"{operand} {_literal(f'{predicate.literal.value}%')}"
        return operand if " " in symbol else f"{operand} {_literal(predicate.literal.value)}"

    def visit_bound_predicate(self, predicate: BoundPredicate) -> str:
        return str(predicate)


def _literal(value: object) -> str:
    if isinstance(value, str):
        text = value if len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]}..."
        return "'" + text.replace("'", "''") + "'"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else str(value)
