"""Converts a filter's literals exactly to the types of their columns, where PyIceberg changes the value.

PyIceberg reads ``n = 1.5`` on an integer column as ``n = 2``, and ``n in (5, 3000000000)`` on a 32-bit column as
``n in (5, 2147483647)``. It compares the bounds of a 32-bit float column with a double, and treats infinity as out of
the range of a float column.
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime
from decimal import Context, Decimal
from math import isinf
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    BooleanExpression,
    In,
    LiteralPredicate,
    NotNull,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import (
    AboveMax,
    BelowMin,
    DecimalLiteral,
    FloatLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from puffin_fast.iceberg.predicate.like import Like

__all__ = ["check_date_literals", "convert_literals"]

_WIDE = Context(prec=2 * 38)
"""Python's default context rounds to 28 digits; Iceberg's decimals have up to 38."""

MICROS_PER_DAY = 24 * 60 * 60 * 1_000_000

_TIME = r"(?P<time>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,9}))?"
_TIMESTAMP = re.compile(
    rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ]{_TIME})?(?P<zone> ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?"
)

_EXAMPLES: dict[type[IcebergType], str] = {
    DateType: "'2024-01-15'",
    TimeType: "'10:30:00'",
    TimestampType: "'2024-01-15 10:30:00'",
    TimestamptzType: "'2024-01-15 10:30:00+00:00'",
}
"""Example literals of the types for which PyIceberg also accepts a number of days or microseconds."""


def convert_literals(predicate: UnboundPredicate, kind: IcebergType) -> BooleanExpression:
    """Converts the literals of a predicate to the type of its column.

    A literal outside of the type's range stays as it is in a comparison and is removed from IN and NOT IN.

    Args:
        predicate: an unbound predicate.
        kind: the type of its column. For a 32-bit float, a literal becomes the nearest 32-bit float.

    Raises:
        ValueError, TypeError, ArithmeticError: a literal is not a value of the type.
    """
    if isinstance(predicate, Like):
        return predicate.simplified() if isinstance(kind, StringType) else predicate
    if isinstance(predicate, LiteralPredicate):
        return type(predicate)(predicate.term, _convert_literal(predicate.literal, kind))
    if not isinstance(predicate, SetPredicate):
        return predicate
    literals = [_convert_literal(literal, kind) for literal in predicate.literals]
    within = [literal for literal in literals if not _is_out_of_range(literal.to(kind))]
    if within:
        return type(predicate)(predicate.term, within)
    return AlwaysFalse() if isinstance(predicate, In) else NotNull(term=predicate.term)


def check_date_literals(predicate: UnboundPredicate, kind: IcebergType) -> None:
    """Checks that a filter's text does not compare a date or time column with a number.

    Raises:
        TypeError: a literal for such a column is a number.
    """
    literals: Any = ()
    if isinstance(predicate, LiteralPredicate):
        literals = (predicate.literal,)
    elif isinstance(predicate, SetPredicate):
        literals = predicate.literals
    written = _EXAMPLES.get(type(kind))
    for literal in literals:
        if written and isinstance(literal, LongLiteral | DecimalLiteral):
            raise TypeError(f"expected a {kind} such as {written}, found the number {literal.value}")


def _parse_literal(text: str, kind: IcebergType) -> Literal[Any] | None:
    """Parses text for the types of which PyIceberg does not read all forms; None for other types."""
    if isinstance(kind, DecimalType):
        return DecimalLiteral(Decimal(text))
    if isinstance(kind, TimeType):
        found = re.fullmatch(_TIME, text)
        if found is None:
            raise ValueError(f"{text!r} is not a {kind}; expected a value such as {_EXAMPLES[TimeType]}")
        return TimeLiteral(_micros(f"1970-01-01 {found['time']}", found["fraction"], text))
    if not isinstance(kind, TimestampType | TimestamptzType):
        return None
    zoned, found = isinstance(kind, TimestamptzType), _TIMESTAMP.fullmatch(text)
    if found is None or bool(found["zone"]) != zoned:
        with_or_without = "with" if zoned else "without"
        example = _EXAMPLES[type(kind)]
        raise ValueError(
            f"{text!r} is not a {kind}; expected one {with_or_without} a time zone such as {example}"
        )
    zone = (found["zone"] or "Z").strip().replace("UTC", "Z")
    return TimestampLiteral(
        _micros(f"{found['date']} {found['time'] or '00:00'}", found["fraction"], text, zone)
    )


def _micros(second: str, fraction: str | None, text: str, zone: str = "Z") -> int:
    """The microseconds from 1970 to a date with a time; `fraction` has the digits after the seconds."""
    digits = (fraction or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise ValueError(f"{text!r} has nanoseconds, but the column has microseconds")
    since = datetime.fromisoformat(f"{second}{zone}") - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + int(digits[:6])


def _convert_literal(literal: Literal[Any], kind: IcebergType) -> Literal[Any]:
    if isinstance(literal, StringLiteral):
        literal = _parse_literal(literal.value, kind) or literal
    if isinstance(kind, DecimalType) and isinstance(literal, DecimalLiteral):
        scaled = literal.value.quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
        literal = DecimalLiteral(scaled) if scaled == literal.value else literal
    found, value = literal.to(kind), literal.value
    if isinstance(kind, FloatType) and (isinf(value := float(value)) or not _is_out_of_range(found)):
        return FloatLiteral(*struct.unpack("<f", struct.pack("<f", value)))
    if _is_out_of_range(found):
        return literal
    if isinstance(kind, IntegerType | LongType | DecimalType):
        same = Decimal(str(value)) == found.value
    else:
        whole_days = isinstance(kind, DateType) and isinstance(literal, TimestampLiteral)
        same = not whole_days or found.value * MICROS_PER_DAY == value
    try:
        to_bytes(kind, found.value)  # type: ignore[arg-type]
    except struct.error:
        same = False
    if not same:
        raise ValueError(f"{literal!r} is not a value of type {kind}")
    return found


def _is_out_of_range(literal: Literal[Any]) -> bool:
    return isinstance(literal, AboveMax | BelowMin)
