"""A filter's literals as values of their column's type, where PyIceberg rounds them or takes them for others.

It makes ``n = 1.5`` of an integer ``n = 2`` and ``n in (5, 3000000000)`` of 32 bits ``n in (5, 2147483647)``,
holds the bounds of a 32-bit float against a double, and infinity for more than any float is.
"""

from __future__ import annotations

import struct
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
    TimestampLiteral,
)
from pyiceberg.types import DateType, DecimalType, FloatType, IcebergType, IntegerType, LongType

__all__ = ["fitting"]

_WIDE = Context(prec=2 * 38)
"""Python rounds to 28 digits by default; Iceberg's decimals have up to 38."""

MICROS_PER_DAY = 24 * 60 * 60 * 1_000_000


def fitting(predicate: UnboundPredicate, kind: IcebergType) -> BooleanExpression:
    """The same predicate with literals that a column has or, above and below all of them, might compare with.

    Args:
        predicate: unbound.
        kind: its column's type. Of a 32-bit float literals are the nearest such float.

    Raises:
        ValueError, TypeError, ArithmeticError: a literal that is no value of the type.
    """
    if isinstance(predicate, LiteralPredicate):
        return type(predicate)(predicate.term, _fitting(predicate.literal, kind))
    if not isinstance(predicate, SetPredicate):
        return predicate
    literals = [_fitting(literal, kind) for literal in predicate.literals]
    within = [literal for literal in literals if not _is_out_of_range(literal.to(kind))]
    if within:
        return type(predicate)(predicate.term, within)
    return AlwaysFalse() if isinstance(predicate, In) else NotNull(term=predicate.term)


def _fitting(literal: Literal[Any], kind: IcebergType) -> Literal[Any]:
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
        raise ValueError(f"{literal!r} is no value of type {kind}")
    return found


def _is_out_of_range(literal: Literal[Any]) -> bool:
    return isinstance(literal, AboveMax | BelowMin)
