"""Converts a filter's literals exactly to the types of their columns, where PyIceberg changes the value.

PyIceberg reads ``n = 1.5`` on an integer column as ``n = 2``, and ``n in (5, 3000000000)`` on a 32-bit column as
``n in (5, 2147483647)``. It compares the bounds of a 32-bit float column with a double, and treats infinity as out of
the range of a float column. It has no literals of nanoseconds.

Numbers and times are compared as they stand. The values of such a column are multiples of a step, and a literal
between two of them is replaced by the lower one, `below`:

    x > literal, x >= literal    x > below               x = literal, x in (literal)     false
    x < literal, x <= literal    x <= below              x <> literal                    x is not null

A literal beyond the type's range makes a comparison true of all values or of none; infinity is in the range of floats.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from itertools import islice
from typing import Any

from pyiceberg.conversions import to_bytes
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
    LiteralPredicate,
    NotEqualTo,
    NotIn,
    NotNull,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import (
    AboveMax,
    BelowMin,
    DecimalLiteral,
    DoubleLiteral,
    FloatLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from puffin_fast._pyiceberg.set_values import TypedSet, typed_set
from puffin_fast.columns.decimals import as_number
from puffin_fast.rows.filters.like import Like

MICROS_PER_DAY = 24 * 60 * 60 * 1_000_000

_TIME = r"(?P<time>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,9}))?"
_TIMESTAMP = re.compile(
    rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[T ]{_TIME})?(?P<zone> ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?"
)

_DOUBLE_MAX = sys.float_info.max

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

_EXAMPLES: dict[type[IcebergType], str] = {
    DateType: "'2024-01-15'",
    TimeType: "'10:30:00'",
    TimestampType: "'2024-01-15 10:30:00'",
    TimestamptzType: "'2024-01-15 10:30:00+00:00'",
    TimestampNanoType: "'2024-01-15 10:30:00.123456789'",
    TimestamptzNanoType: "'2024-01-15 10:30:00.123456789+00:00'",
}
"""Example literals of the types for which PyIceberg also accepts a number of days or microseconds."""


_SUCH = _EXAMPLES | {
    BinaryType: "X'00FF'",
    BooleanType: "TRUE",
    StringType: "'text'",
    UUIDType: "'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
}
"""Example literals."""


class TimeText(StringLiteral):
    """The text of a date or time with its type, such as ``DATE '2024-01-15'``. It is not a value of a string column."""


class NanosecondLiteral(TimestampLiteral):
    """A number of nanoseconds since 1970."""

    def increment(self) -> Literal[int]:
        return NanosecondLiteral(self.value + 1)

    def decrement(self) -> Literal[int]:
        return NanosecondLiteral(self.value - 1)

    def to(self, type_var: IcebergType) -> Literal[int]:
        if isinstance(type_var, TimestampNanoType | TimestamptzNanoType):
            return self
        raise TypeError(f"Cannot convert NanosecondLiteral into {type_var}")


class IntegerLiteral(LongLiteral):
    """An integer. PyIceberg converts the literals of IN each time that it binds the predicate, and slowly."""

    def to(self, type_var: IcebergType) -> Literal[Any]:
        ends = _INTEGERS.get(type(type_var))
        if ends is not None and ends[2] is IntegerLiteral and ends[0] <= self.value <= ends[1]:
            return self
        found: Literal[Any] = super().to(type_var)
        return found

    def __hash__(self) -> int:
        return hash(self.root)


class TextLiteral(StringLiteral):
    """A text; as `IntegerLiteral`."""

    def to(self, type_var: IcebergType) -> Literal[Any]:
        found: Literal[Any] = self if isinstance(type_var, StringType) else super().to(type_var)
        return found

    def __hash__(self) -> int:
        return hash(self.root)


_PLAIN = frozenset((LongLiteral, IntegerLiteral, StringLiteral, TextLiteral))


def convert_literals(predicate: UnboundPredicate, kind: IcebergType) -> BooleanExpression:
    """Converts the literals of a predicate to the type of its column, in the context of `exact_decimals`.

    Args:
        kind: the type of its column. For a 32-bit float, a literal becomes the nearest 32-bit float.

    Raises:
        ValueError, TypeError, ArithmeticError: a literal cannot be compared with the type.
    """
    if isinstance(predicate, Like):
        predicate.pattern.encode()  # half of a surrogate pair is a ValueError here, as in other literals
        return predicate.simplified() if isinstance(kind, StringType) else predicate
    grid = _Grid.of(kind)
    if isinstance(predicate, LiteralPredicate):
        value = None if grid is None else _exact(predicate.literal, kind)
        if grid is not None and value is not None:
            return grid.compared(predicate, value)
        if (infinity := _infinity_before(predicate.literal, kind)) is not None:
            return _beyond_floats(predicate, infinity)
        return type(predicate)(predicate.term, _convert_literal(predicate.literal, kind))
    if not isinstance(predicate, SetPredicate):
        return predicate
    is_plain = isinstance(predicate, TypedSet) or _PLAIN.issuperset(map(type, predicate.literals))
    if is_plain and (typed := typed_set(predicate, kind)) is not None:
        return typed
    within: list[Literal[Any]] = []
    low, high, _ = _INTEGERS[type(kind)] if isinstance(kind, IntegerType | LongType) else (0, -1, None)
    for literal in predicate.literals:
        value = literal.value if type(literal) in (LongLiteral, IntegerLiteral) else None
        if type(value) is int and low <= value <= high:
            within.append(literal if isinstance(literal, IntegerLiteral) else IntegerLiteral(value))
            continue
        value = None if grid is None else _exact(literal, kind)
        if grid is not None and value is not None:
            within += grid.same(value)
        elif _infinity_before(literal, kind) is None:
            found = _convert_literal(literal, kind)
            within += [] if _is_out_of_range(found.to(kind)) else [found]
    if within:
        made: Any = In if isinstance(predicate, In) else NotIn
        among: BooleanExpression = made(predicate.term, within)
        return among
    return AlwaysFalse() if isinstance(predicate, In) else NotNull(term=predicate.term)


def weakened(predicate: Any, nanoseconds: int) -> BooleanExpression:
    """A predicate that is true wherever this one is, and where a nanosecond timestamp is too low by so much at most."""
    if isinstance(predicate, GreaterThan | GreaterThanOrEqual | EqualTo):
        literals = [predicate.literal]
    else:
        has_times = isinstance(predicate, In) and not isinstance(predicate, TypedSet)
        literals = list(predicate.literals) if has_times else []
    if not literals or not isinstance(literals[0], NanosecondLiteral):
        unchanged: BooleanExpression = predicate
        return unchanged
    values = [literal.value for literal in literals]
    least = NanosecondLiteral(max(min(values) - nanoseconds, _INT64[0]))
    if isinstance(predicate, GreaterThan | GreaterThanOrEqual):
        return type(predicate)(term=predicate.term, value=least)
    return And(
        GreaterThanOrEqual(term=predicate.term, value=least),
        LessThanOrEqual(term=predicate.term, value=NanosecondLiteral(max(values))),
    )


@dataclass(frozen=True)
class _Grid:
    """The values of a type of numbers or times: multiples of a step within a range.

    Attributes:
        low, high: the ends of the range.
        step: a power of ten.
        literal: makes a literal from a value.
    """

    low: Decimal
    high: Decimal
    step: Decimal
    literal: Callable[[Decimal], Literal[Any]]

    @classmethod
    def of(cls, kind: IcebergType) -> _Grid | None:
        if isinstance(kind, DecimalType):
            step = Decimal(1).scaleb(-kind.scale)
            high = (10**kind.precision - 1) * step
            return cls(-high, high, step, DecimalLiteral)
        ends = _INTEGERS.get(type(kind))
        if ends is None:
            return None
        low, high, literal = ends
        return cls(Decimal(low), Decimal(high), Decimal(1), lambda value: literal(int(value)))

    def compared(self, predicate: Any, value: Decimal) -> BooleanExpression:
        """A comparison with a value, for the values of the type."""
        less = isinstance(predicate, LessThan | LessThanOrEqual)
        greater = isinstance(predicate, GreaterThan | GreaterThanOrEqual)
        if not (less or greater or isinstance(predicate, EqualTo | NotEqualTo)):
            raise TypeError(f"expected a comparison with a number or time, found {predicate}")
        if not self.low <= value <= self.high:
            is_true = less if value > self.high else greater
        else:
            below = value.quantize(self.step, ROUND_FLOOR)
            literal = self.literal(below)
            if below == value:
                same: BooleanExpression = type(predicate)(predicate.term, literal)
                return same
            if less or greater:
                of: Callable[..., BooleanExpression] = LessThanOrEqual if less else GreaterThan
                return of(predicate.term, literal)
            is_true = False
        is_true |= isinstance(predicate, NotEqualTo)
        return NotNull(term=predicate.term) if is_true else AlwaysFalse()

    def same(self, value: Decimal) -> list[Literal[Any]]:
        """The literal of a value; none where the type does not have it."""
        if not self.low <= value <= self.high:
            return []
        below = value.quantize(self.step, ROUND_FLOOR)
        return [self.literal(below)] if below == value else []


_INT64 = (-(2**63), 2**63 - 1)
_INTEGERS: dict[type[IcebergType], tuple[int, int, Callable[[int], Literal[Any]]]] = {
    IntegerType: (-(2**31), 2**31 - 1, IntegerLiteral),
    LongType: (*_INT64, IntegerLiteral),
    TimeType: (0, MICROS_PER_DAY - 1, TimeLiteral),
    TimestampType: (*_INT64, TimestampLiteral),
    TimestamptzType: (*_INT64, TimestampLiteral),
    TimestampNanoType: (*_INT64, NanosecondLiteral),
    TimestamptzNanoType: (*_INT64, NanosecondLiteral),
}
"""Types whose values are integers: their ends, and how a literal is made."""


def _exact(literal: Literal[Any], kind: IcebergType) -> Decimal | None:
    """The value of a literal in the unit of a column; None if it is of another kind, such as a boolean.

    Raises:
        ValueError: a text that is not a value of the type.
    """
    nanoseconds = isinstance(kind, TimestampNanoType | TimestamptzNanoType)
    if isinstance(literal, StringLiteral):
        if isinstance(kind, IntegerType | LongType | DecimalType):
            return _number(literal.value, kind)
        return Decimal(_nanoseconds(literal.value, kind)).scaleb(0 if nanoseconds else -3)
    if isinstance(literal, TimestampLiteral) and isinstance(
        kind, TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType
    ):
        is_nano = isinstance(literal, NanosecondLiteral)
        return Decimal(literal.value).scaleb(3 * (nanoseconds - is_nano))
    if isinstance(literal, TimeLiteral) and isinstance(kind, TimeType):
        return Decimal(literal.value)
    if isinstance(literal, LongLiteral | FloatLiteral | DoubleLiteral | DecimalLiteral):
        return Decimal(str(literal.value) if isinstance(literal.value, float) else literal.value)
    return None


def _number(text: str, kind: IcebergType) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a value of type {kind}")
    return Decimal(as_number(text))


def check_date_literals(predicate: UnboundPredicate, kind: IcebergType) -> None:
    """Checks that a filter's text does not compare a date or time column with a number, or text with a date or time.

    Raises:
        TypeError: it does.
    """
    literals: Any = ()
    if isinstance(predicate, LiteralPredicate):
        literals = (predicate.literal,)
    elif isinstance(predicate, SetPredicate):
        literals = islice(predicate.literals, 1) if isinstance(predicate, TypedSet) else predicate.literals
    written = _EXAMPLES.get(type(kind))
    for literal in literals:
        if isinstance(kind, StringType) and isinstance(literal, TimeText):
            raise TypeError(f"expected text such as '2024-01-15', found a date or time, {literal.value}")
        if written and isinstance(literal, LongLiteral | DecimalLiteral):
            raise TypeError(f"expected a {kind} such as {written}, found the number {literal.value}")


def _nanoseconds(text: str, kind: IcebergType) -> int:
    """Parses a time, or a timestamp, to nanoseconds since midnight or 1970.

    Raises:
        ValueError: the text is not a time, or has a time zone although the type has none, or the reverse.
    """
    if isinstance(kind, TimeType):
        found = re.fullmatch(_TIME, text)
        if found is None:
            raise ValueError(f"{text!r} is not a {kind}; expected a value such as {_EXAMPLES[TimeType]}")
        return _since_1970(f"1970-01-01 {found['time']}Z", found["fraction"])
    zoned = isinstance(kind, TimestamptzType | TimestamptzNanoType)
    found = _TIMESTAMP.fullmatch(text)
    if found is None or bool(found["zone"]) != zoned:
        with_or_without = "with" if zoned else "without"
        example = _EXAMPLES[type(kind)]
        raise ValueError(
            f"{text!r} is not a {kind}; expected one {with_or_without} a time zone such as {example}"
        )
    zone = (found["zone"] or "Z").strip().replace("UTC", "Z")
    return _since_1970(f"{found['date']} {found['time'] or '00:00'}{zone}", found["fraction"])


def _since_1970(second: str, fraction: str | None) -> int:
    """The nanoseconds from 1970 to a time; `fraction` has the digits after the seconds."""
    since = datetime.fromisoformat(second) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def _convert_literal(literal: Literal[Any], kind: IcebergType) -> Literal[Any]:
    value = literal.value
    if isinstance(literal, TextLiteral) and isinstance(kind, StringType):
        return literal
    try:
        found = literal.to(kind)
    except (TypeError, ValueError):
        such = f" such as {_SUCH[type(kind)]}" if type(kind) in _SUCH else ""
        raise ValueError(f"expected a value of type {kind}{such}, found {value!r:.60}") from None
    if isinstance(kind, FloatType) and (math.isinf(value := float(value)) or not _is_out_of_range(found)):
        return FloatLiteral(*struct.unpack("<f", struct.pack("<f", value)))
    if _is_out_of_range(found):
        return literal
    whole_days = isinstance(kind, DateType) and isinstance(literal, TimestampLiteral)
    same = not whole_days or found.value * MICROS_PER_DAY == value
    try:
        to_bytes(kind, found.value)  # type: ignore[arg-type]
    except struct.error:
        same = False
    if not same:
        raise ValueError(f"{value!r} is not a value of type {kind}")
    return (
        TextLiteral(found.value) if type(found) is StringLiteral and isinstance(kind, StringType) else found
    )


def _infinity_before(literal: Literal[Any], kind: IcebergType) -> Literal[float] | None:
    """The infinity that is the only float beyond a finite literal; None if there are others, or no floats."""
    if not isinstance(kind, FloatType | DoubleType) or not isinstance(
        literal, LongLiteral | FloatLiteral | DoubleLiteral | DecimalLiteral | StringLiteral
    ):
        return None
    value: Any = literal.value
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return None
        value = as_number(value)
    if abs(value) == math.inf or abs(value) <= (
        FloatType.max if isinstance(kind, FloatType) else _DOUBLE_MAX
    ):
        return None
    of = FloatLiteral if isinstance(kind, FloatType) else DoubleLiteral
    return of(math.inf if value > 0 else -math.inf)


def _beyond_floats(predicate: Any, infinity: Literal[float]) -> BooleanExpression:
    """A comparison of a float column with a finite literal that only an infinity is beyond."""
    above = infinity.value > 0
    if isinstance(predicate, LessThan | LessThanOrEqual):
        of: type[Any] = LessThan if above else LessThanOrEqual
    elif isinstance(predicate, GreaterThan | GreaterThanOrEqual):
        of = GreaterThanOrEqual if above else GreaterThan
    else:
        return AlwaysFalse() if isinstance(predicate, EqualTo) else NotNull(term=predicate.term)
    found: BooleanExpression = of(term=predicate.term, value=infinity)
    return found


def _is_out_of_range(literal: Literal[Any]) -> bool:
    return isinstance(literal, AboveMax | BelowMin)
