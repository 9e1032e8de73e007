"""Decimals of Python, independent of the rounding and the traps of the caller's context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)

from puffin_fast.errors import InvalidInputError

MAX_DIGITS = 640
"""Maximum digits of an integer in text: Python converts this number with any `sys.set_int_max_str_digits`."""

_EXACT = Context(  # all values are given, because a program may change `decimal.DefaultContext`
    prec=2 * MAX_DIGITS,  # enough for decimals, doubles and integers in text, also with another scale
    rounding=ROUND_HALF_EVEN,
    Emin=MIN_EMIN,
    Emax=MAX_EMAX,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[DivisionByZero, InvalidOperation, Overflow],
)


@contextmanager
def exact_decimals() -> Iterator[None]:
    """Uses a decimal context of this package in a block, or in a function that it decorates."""
    with localcontext(_EXACT):
        yield


def as_number(text: str) -> int | Decimal:
    """Converts the text of a finite number: to an integer if it has only digits and a sign, else to a decimal.

    Raises:
        InvalidInputError: an integer has more than `MAX_DIGITS` digits, or an exponent exceeds Python's decimals.
    """
    if text.lstrip("+-").isdecimal():
        if len(text) > MAX_DIGITS:
            raise InvalidInputError(f"expected a number of at most {MAX_DIGITS} digits, found {len(text)}")
        return int(text)
    try:
        with exact_decimals():
            return Decimal(text)
    except InvalidOperation as error:
        raise InvalidInputError(f"expected a number, found {text[:MAX_DIGITS]}") from error
