"""Converts Columns of Spark to filters of Iceberg, for conditions on columns and literals; classic and Connect.

A Column is a tree that Spark has not resolved yet: in classic sessions a JVM object, in Connect a Python object.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotNull,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import literal

from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.filters.grammar import parse_filter
from puffin_fast.rows.filters.like import Like
from puffin_fast.rows.filters.literals import TimeText
from puffin_fast.rows.filters.remainder import COMPARISONS, Remainder


@dataclass(frozen=True)
class Name:
    """A column of the table, not of a DataFrame."""

    name: str


@dataclass(frozen=True)
class Value:
    """A literal: a bool, an int, a str or a date."""

    value: Any


@dataclass(frozen=True)
class Text:
    """Text of Spark's SQL, as in ``expr``."""

    sql: str


@dataclass(frozen=True)
class Call:
    """A function or an operator."""

    name: str
    arguments: tuple[Any, ...]


Tree: TypeAlias = "Name | Value | Text | Call"


_READ_OTHERWISE = ('"', "\\", "''")
"""Tokens whose meaning in text depends on Spark's settings."""


class _Other(Exception):
    """A part of a Column that has no counterpart in filters."""


def filter_of(column: Any) -> BooleanExpression | None:
    """Returns a Column as an unbound filter, or None if it has parts without a counterpart in filters.

    Whether both have the same meaning depends on the types of the table's columns, and for text on Spark's settings.
    """
    try:
        tree = _of_java(column._jc.node()) if hasattr(column, "_jc") else _of_connect(column._expr)
        return _condition(tree)
    except (_Other, AttributeError):  # another version of PySpark has other attributes
        return None


def filter_of_text(text: str) -> BooleanExpression | None:
    """Returns Spark's SQL as an unbound filter, or None, as `filter_of`."""
    if any(part in text for part in _READ_OTHERWISE):
        return None
    try:
        return parse_filter(text)
    except InvalidInputError:
        return None


def _of_java(node: Any) -> Tree:
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedFunction" and not (node.isDistinct() or node.isUserDefinedFunction()):
        given = node.arguments()
        return Call(node.functionName(), tuple(_of_java(given.apply(at)) for at in range(given.size())))
    if kind == "UnresolvedAttribute" and node.planId().isEmpty() and node.nameParts().size() == 1:
        return Name(node.nameParts().apply(0))
    if kind == "SqlExpression":
        return Text(node.expression())
    if kind == "Literal" and node.dataType().isEmpty():
        value = node.value()
        if hasattr(value, "getClass") and value.getClass().getName() == "java.sql.Date":
            value = datetime.date.fromisoformat(value.toString())
        return _value(value)
    raise _Other


def _of_connect(expression: Any) -> Tree:
    kind = type(expression).__name__
    if kind == "UnresolvedFunction" and not expression._is_distinct:
        return Call(expression._name, tuple(map(_of_connect, expression._args)))
    if kind == "ColumnReference" and expression._plan_id is None:
        name = expression._unparsed_identifier
        inner = name[1:-1] if name[:1] == name[-1:] == "`" else name
        if "`" not in inner and (inner != name or "." not in name):
            return Name(inner)
    if kind == "SQLExpression":
        return Text(expression._expr)
    if kind == "LiteralExpression":
        value, type_name = expression._value, expression._dataType.typeName()
        if type_name == "date":
            value = datetime.date(1970, 1, 1) + datetime.timedelta(value)
        elif type_name not in ("boolean", "integer", "long", "string"):
            raise _Other
        return _value(value)
    raise _Other


def _value(value: Any) -> Value:
    if type(value) not in (bool, int, str, datetime.date):
        raise _Other
    return Value(value)


def _condition(tree: Tree) -> BooleanExpression:
    if isinstance(tree, Value) and isinstance(tree.value, bool):
        return AlwaysTrue() if tree.value else AlwaysFalse()
    if isinstance(tree, Name):
        return EqualTo(term=Reference(tree.name), value=literal(True))
    if isinstance(tree, Text) and (found := filter_of_text(tree.sql)) is not None:
        return found
    if isinstance(tree, Call):
        made = _CALLS.get(tree.name)
        if made is not None:
            return made(*tree.arguments)
    raise _Other


def _compared(of: Any, mirrored: Any) -> Callable[[Tree, Tree], BooleanExpression]:
    def made(left: Tree, right: Tree) -> BooleanExpression:
        if isinstance(left, Value):
            return _comparison(mirrored, right, left)
        return _comparison(of, left, right)

    return made


def _comparison(of: Any, left: Tree, right: Tree) -> BooleanExpression:
    value = _literal(right)
    if isinstance(left, Call) and left.name == "%" and len(left.arguments) == 2:
        column, divisor = left.arguments
        divides = _literal(divisor).value
        if (
            isinstance(column, Name)
            and all(type(number) is int for number in (divides, value.value))
            and divides
        ):
            return Remainder(Reference(column.name), divides, COMPARISONS[of], value.value)
    found: BooleanExpression = of(term=_reference(left), value=value)
    return found


def _reference(tree: Tree) -> Reference:
    if not isinstance(tree, Name):
        raise _Other
    return Reference(tree.name)


def _literal(tree: Tree) -> Any:
    if not isinstance(tree, Value):
        raise _Other
    value = tree.value
    return TimeText(value.isoformat()) if isinstance(value, datetime.date) else literal(value)


def _text(tree: Tree) -> str:
    if not isinstance(tree, Value) or not isinstance(tree.value, str):
        raise _Other
    return tree.value


def _like(column: Tree, pattern: Tree) -> BooleanExpression:
    text = _text(pattern)
    if "\\" in text:  # the meaning of an escape depends on Spark's settings
        raise _Other
    return Like(_reference(column), text)


def _among(column: Tree, *values: Tree) -> BooleanExpression:
    if not values:
        raise _Other
    return In(term=_reference(column), values=set(map(_literal, values)))


def _starts(column: Tree, prefix: Tree) -> BooleanExpression:
    return StartsWith(term=_reference(column), value=literal(_text(prefix)))


_CALLS: dict[str, Callable[..., BooleanExpression]] = {
    "=": _compared(EqualTo, EqualTo),
    "==": _compared(EqualTo, EqualTo),
    "<": _compared(LessThan, GreaterThan),
    "<=": _compared(LessThanOrEqual, GreaterThanOrEqual),
    ">": _compared(GreaterThan, LessThan),
    ">=": _compared(GreaterThanOrEqual, LessThanOrEqual),
    "and": lambda left, right: And(_condition(left), _condition(right)),
    "or": lambda left, right: Or(_condition(left), _condition(right)),
    "!": lambda child: Not(_condition(child)),
    "not": lambda child: Not(_condition(child)),
    "isNull": lambda column: IsNull(term=_reference(column)),
    "isNotNull": lambda column: NotNull(term=_reference(column)),
    "in": _among,
    "like": _like,
    "startswith": _starts,
}
"""The functions that make filters from the arguments of Spark's functions, by the names in Spark's trees."""
