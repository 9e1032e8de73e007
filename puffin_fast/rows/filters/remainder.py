"""Remainders of integers, ``column % divisor``, compared with an integer. PyIceberg has no arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import (
    BoundPredicate,
    BoundTerm,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    UnboundPredicate,
    UnboundTerm,
)
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType

COMPARISONS: dict[type, str] = {
    LessThan: "less",
    LessThanOrEqual: "less_equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    EqualTo: "equal",
    NotEqualTo: "not_equal",
}
"""NumPy's comparison for each predicate of PyIceberg."""

_SYMBOLS = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "=",
    "not_equal": "<>",
}

_NEGATED = {
    "less": "greater_equal",
    "greater_equal": "less",
    "greater": "less_equal",
    "less_equal": "greater",
    "equal": "not_equal",
    "not_equal": "equal",
}


class Remainder(UnboundPredicate):
    """Compares the remainder of a column of integers with an integer; the remainder has the sign of the column's value.

    Attributes:
        divisor: not 0.
        comparison: the name of NumPy's comparison.
        value: what the remainder is compared with.
    """

    divisor: int
    comparison: str
    value: int

    def __init__(self, term: str | UnboundTerm, divisor: int, comparison: str, value: int) -> None:
        super().__init__(term, divisor=divisor, comparison=comparison, value=value)

    def __eq__(self, other: Any) -> bool:
        same = isinstance(other, Remainder) and self.term == other.term
        return same and self._values() == other._values()

    def _values(self) -> tuple[int, str, int]:
        return self.divisor, self.comparison, self.value

    def __repr__(self) -> str:
        return f"{getattr(self.term, 'name', self.term)} % {self.divisor} {_SYMBOLS[self.comparison]} {self.value}"

    __str__ = __repr__

    def __invert__(self) -> Remainder:
        return Remainder(self.term, self.divisor, _NEGATED[self.comparison], self.value)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundRemainder:
        """Binds the predicate to a column of a schema.

        Raises:
            TypeError: the column is not an integer.
            ValueError: the divisor is 0, or no integer of 64 bits.
        """
        term = self.term.bind(schema, case_sensitive)
        kind = term.ref().field.field_type
        if not isinstance(kind, IntegerType | LongType):
            raise TypeError(f"%: expected a column of type int or long, found {kind}")
        if not 0 < abs(self.divisor) <= LongType.max:
            raise ValueError(f"%: expected a divisor of 64 bits that is not 0, found {self.divisor}")
        return BoundRemainder(term, *self._values())

    @property
    def as_bound(self) -> type[BoundPredicate]:
        return BoundRemainder

    def weakened(self) -> UnboundPredicate:
        """A weaker predicate that PyIceberg can evaluate on bounds: it is true wherever this one is true."""
        return NotNull(term=self.term)


class BoundRemainder(BoundPredicate):
    """`Remainder`, bound to a column of a schema."""

    divisor: int
    comparison: str
    value: int

    def __init__(self, term: BoundTerm, divisor: int, comparison: str, value: int) -> None:
        super().__init__(term, divisor=divisor, comparison=comparison, value=value)

    def __invert__(self) -> BoundRemainder:
        return BoundRemainder(self.term, self.divisor, _NEGATED[self.comparison], self.value)

    @property
    def as_unbound(self) -> type[UnboundPredicate]:
        return Remainder

    def matches(self, column: pa.Array) -> Any:
        """Which values of an Arrow array of integers match: a NumPy bool array, or an Arrow one with nulls."""
        divisor = abs(self.divisor)  # the sign of the divisor does not matter
        value = min(max(self.value, -divisor), divisor)  # each remainder is nearer to 0
        present = column.fill_null(0) if column.null_count else column
        integers = present.to_numpy()
        kind = np.int64 if divisor > np.iinfo(integers.dtype).max else integers.dtype.type
        found = getattr(np, self.comparison)(np.fmod(integers, kind(divisor)), kind(value))
        return pa.array(found, mask=~np.asarray(column.is_valid())) if column.null_count else found
