"""Evaluates a filter on the column bounds of many data files or pages at once.

A part is only left out if its bounds exclude a match. Tests for NaN and prefix tests never leave one out here.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from pyiceberg import types
from pyiceberg.expressions import BooleanExpression, BoundReference
from pyiceberg.expressions.visitors import bind, rewrite_not, visit

from puffin_fast._process.cached import cached_property
from puffin_fast._pyiceberg.set_values import SetVisitor
from puffin_fast.rows.filters.bounds import Sorted, operand

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

Mask = npt.NDArray[np.bool_]

_INT32 = (types.IntegerType, types.DateType)
_INT64 = (
    types.LongType,
    types.TimeType,
    types.TimestampType,
    types.TimestamptzType,
    types.TimestampNanoType,
    types.TimestamptzNanoType,
)
_BYTES = (types.StringType, types.BinaryType, types.FixedType, types.UUIDType)


class BoundColumns(Protocol):
    """The column bounds of many parts: data files or pages."""

    def __len__(self) -> int: ...

    def bounds(
        self, name: str, field_id: int
    ) -> tuple[Any, npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Finds the bounds of a column in Iceberg's single-value serialization.

        Args:
            name: ``"lower_bounds"`` or ``"upper_bounds"``.
            field_id: the column.

        Returns:
            A buffer, and the offset in it and the bytes of each part's bound, -1 for an unknown one. None: all are
            unknown.
        """
        ...

    def nulls_only(self, field_id: int) -> Mask | None:
        """Marks the parts in which each value of a column is null; None if that is not known."""
        ...


class Values(Protocol):
    """Values that are compared with the bounds of many parts."""

    def between_each(self, lows: Any, highs: Any) -> Any:
        """Whether a value is between two bounds, both included, for each of many: a mask."""
        ...


class Pruner(Protocol):
    """What leaves out parts that have no row of a filter or keys."""

    def may_match(self, parts: BoundColumns) -> Mask:
        """Marks the parts that may have a matching row."""
        ...


def decoded_bounds(parts: BoundColumns, name: str, field: types.NestedField) -> tuple[Any, Any] | None:
    """Decodes bounds: the indexes of the parts whose bound is known, and the bounds; None for types without order.

    Temporal values are integers, booleans 0 and 1, and strings their bytes in UTF-8, which have the same order.
    """
    known = parts.bounds(name, field.field_id)
    if known is None:
        return None
    data, starts, sizes = known
    kind = field.field_type
    if isinstance(kind, (*_BYTES, types.DecimalType)):
        of_bytes = _decimal(kind.scale) if isinstance(kind, types.DecimalType) else bytes
        rows = np.flatnonzero(sizes > 0 if of_bytes is bytes else (sizes > 0) & (sizes <= _DECIMAL_BYTES))
        values: Any = np.empty(len(rows), object)
        pairs = zip(starts[rows].tolist(), sizes[rows].tolist(), strict=True)
        values[:] = [of_bytes(data[start : start + size]) for start, size in pairs]
        return rows, values
    form = (
        "<i4" if isinstance(kind, _INT32) else "<i8" if isinstance(kind, _INT64) else _OTHERS.get(type(kind))
    )
    if form is None:
        return None
    width = int(form[-1])
    rows = np.flatnonzero(sizes == width)
    values = _at_offsets(data, starts if len(rows) == len(starts) else starts[rows], form)
    if form[1] == "f":
        is_number = ~np.isnan(values)
        return rows[is_number], values[is_number]
    return rows, values


def _at_offsets(data: Any, offsets: npt.NDArray[np.int64], form: str) -> Any:
    """Numbers that stand at some offsets of a buffer."""
    if not len(offsets):
        return np.empty(0, form)
    n = memoryview(data).nbytes - np.dtype(form).itemsize + 1
    return np.ndarray(n, form, data, strides=(1,))[offsets]


def some_between(parts: BoundColumns, field: types.NestedField, values: Values) -> tuple[Mask, Mask]:
    """Compares values with the bounds of parts.

    Args:
        field: the column.
        values: in the representation of `decoded_bounds`.

    Returns:
        the parts that may have one of the values; and those whose bounds are both known.
    """
    found, known = np.ones(len(parts), np.bool_), np.zeros(len(parts), np.bool_)
    lower, upper = (decoded_bounds(parts, name, field) for name in ("lower_bounds", "upper_bounds"))
    if lower is not None and upper is not None:
        rows, lows, highs = np.intersect1d(lower[0], upper[0], assume_unique=True, return_indices=True)
        low, high = lower[1][lows], upper[1][highs]
        known[rows] = low <= high
        found[rows] = values.between_each(low, high) | (low > high)
    nulls = parts.nulls_only(field.field_id)
    if nulls is not None:
        found &= ~nulls
    return found, known


def sorted_values(ordered: Any) -> Sorted:
    """Returns ascending values of literals in the representation of `decoded_bounds`."""
    kind = type(ordered[0])  # values that have an order have one type
    values = ordered if kind is int else [*map(str.encode if kind is str else _comparable, ordered)]
    is_object = isinstance(values[0], bytes | Decimal)
    return Sorted(values if is_object else np.array(values))


def _comparable(value: Any) -> Any:
    """The value of a literal in the representation of `decoded_bounds`."""
    if isinstance(value, bool):
        return int(value)
    return value.encode() if isinstance(value, str) else getattr(value, "bytes", value)


def _decimal(scale: int) -> Callable[[bytes], Decimal]:
    """Returns how a decimal of a scale is read, exactly: a big-endian integer."""
    return lambda raw: _EXACT.scaleb(Decimal(int.from_bytes(raw, "big", signed=True)), -scale)


_EXACT = Context(prec=100)

_DECIMAL_BYTES = 16
"""Maximum number of bytes of a decimal."""

_OTHERS: dict[Any, str] = {types.BooleanType: "|u1", types.FloatType: "<f4", types.DoubleType: "<f8"}


class BoundsPruner:
    """A filter that is evaluated on the bounds of many parts.

    Args:
        schema: the schema of the filter's columns.
        expression: the filter, unbound.
        case_sensitive: whether column names are case-sensitive.
    """

    def __init__(self, schema: Schema, expression: BooleanExpression, case_sensitive: bool) -> None:
        self._made_of = schema, expression, case_sensitive

    @cached_property
    def _bound(self) -> BooleanExpression:
        schema, expression, case_sensitive = self._made_of
        return bind(schema, rewrite_not(expression), case_sensitive)

    def may_match(self, parts: BoundColumns) -> Mask:
        """Marks the parts that may have a matching row."""
        return self.decide(parts)[0]

    def decide(self, parts: BoundColumns) -> tuple[Mask, Mask]:
        """Evaluates the filter.

        Returns:
            the parts that may have a matching row; and those for which PyIceberg's evaluator would say the same,
            because all bounds that the filter needs are known here.
        """
        evaluator = _BoundsEvaluator(parts)
        found = visit(self._bound, evaluator)
        return found, ~evaluator.unsure


class BoundsProver:
    """A filter that is evaluated on the bounds of many parts, to find those whose rows may all match.

    Args:
        schema, expression, case_sensitive: as for `BoundsPruner`.
    """

    def __init__(self, schema: Schema, expression: BooleanExpression, case_sensitive: bool) -> None:
        self._bound = bind(schema, rewrite_not(expression), case_sensitive)

    def may_prove(self, parts: BoundColumns) -> Mask:
        """Marks the parts whose bounds do not exclude that all rows match."""
        found: Mask = visit(self._bound, _StrictBounds(parts))
        return found


class _BoundsEvaluator(SetVisitor):
    def __init__(self, parts: BoundColumns) -> None:
        self._parts = parts
        self.unsure = np.zeros(len(parts), np.bool_)

    def _all(self) -> Mask:
        return np.ones(len(self._parts), np.bool_)

    def _undecided(self) -> Mask:
        self.unsure[:] = True
        return self._all()

    def _satisfies(self, name: str, term: Any, compare: Callable[[Any], Any]) -> Mask:
        """Marks the parts whose bound satisfies a comparison, or is unknown."""
        found, field = self._all(), term.ref().field
        known = decoded_bounds(self._parts, name, field) if isinstance(term, BoundReference) else None
        if known is None:
            return self._undecided()
        rows, values = known
        if len(rows) == len(found):
            found = compare(values)
        else:
            unknown = self._all()
            unknown[rows] = False
            self.unsure |= unknown
            found[rows] = compare(values)
        nulls = self._parts.nulls_only(field.field_id)
        if nulls is not None:
            found &= ~nulls
        return found

    def visit_true(self) -> Mask:
        return self._all()

    def visit_false(self) -> Mask:
        return ~self._all()

    def visit_not(self, child_result: Mask) -> Mask:
        raise TypeError("expected an expression without NOT")

    def visit_and(self, left_result: Mask, right_result: Mask) -> Mask:
        return left_result & right_result

    def visit_or(self, left_result: Mask, right_result: Mask) -> Mask:
        return left_result | right_result

    def visit_less_than(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("lower_bounds", term, lambda low: low < value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("lower_bounds", term, lambda low: low <= value)

    def visit_greater_than(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("upper_bounds", term, lambda high: high > value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("upper_bounds", term, lambda high: high >= value)

    def visit_equal(self, term: Any, literal: Any) -> Mask:
        return self._among(term, sorted_values([literal.value]))

    def visit_in(self, term: Any, literals: Any) -> Mask:
        ordered = literals.ascending
        if not ordered:
            return self._undecided()
        if literals.parts is None:
            literals.parts = sorted_values(ordered)
        return self._among(term, literals.parts)

    def _among(self, term: Any, values: Sorted) -> Mask:
        """Marks the parts whose bounds have one of the values between them, or are unknown."""
        if not isinstance(term, BoundReference):
            return self._undecided()
        found, known = some_between(self._parts, term.ref().field, values)
        self.unsure |= ~known
        return found

    def visit_not_in(self, term: Any, literals: Any) -> Mask:
        return self._undecided()

    def visit_not_equal(self, term: Any, literal: Any) -> Mask:
        return self._undecided()

    def visit_is_null(self, term: Any) -> Mask:
        return self._undecided()

    def visit_not_null(self, term: Any) -> Mask:
        nulls = self._parts.nulls_only(term.ref().field.field_id)
        return self._undecided() if nulls is None else ~nulls

    def visit_is_nan(self, term: Any) -> Mask:
        return self._undecided()

    def visit_not_nan(self, term: Any) -> Mask:
        return self._undecided()

    def visit_starts_with(self, term: Any, literal: Any) -> Mask:
        return self._undecided()

    def visit_not_starts_with(self, term: Any, literal: Any) -> Mask:
        return self._undecided()


class _StrictBounds(_BoundsEvaluator):
    """Marks the parts for which the bounds do not exclude that each row satisfies the predicates."""

    def visit_less_than(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("upper_bounds", term, lambda high: high < value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("upper_bounds", term, lambda high: high <= value)

    def visit_greater_than(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("lower_bounds", term, lambda low: low > value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> Mask:
        value = operand(_comparable(literal.value))
        return self._satisfies("lower_bounds", term, lambda low: low >= value)

    def visit_equal(self, term: Any, literal: Any) -> Mask:
        return self._between(term, literal.value, literal.value)

    def visit_in(self, term: Any, literals: Any) -> Mask:
        ordered = literals.ascending
        return self._between(term, ordered[0], ordered[-1]) if ordered else self._undecided()

    def visit_not_null(self, term: Any) -> Mask:
        return self._undecided()

    def _between(self, term: Any, low: Any, high: Any) -> Mask:
        first, last = operand(_comparable(low)), operand(_comparable(high))
        found = self._satisfies("lower_bounds", term, lambda bound: bound >= first)
        return found & self._satisfies("upper_bounds", term, lambda bound: bound <= last)
