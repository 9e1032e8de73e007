"""Prunes many data files at once by their column bounds; the remaining files are evaluated one by one.

A file is only pruned if its bounds exclude a match. Bounds of another width, tests for NaN or null, and prefix tests
never prune here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg import types
from pyiceberg.expressions import BooleanExpression, BoundReference
from pyiceberg.expressions.visitors import bind, rewrite_not, visit

from puffin_fast._pyiceberg.set_values import SetVisitor

if TYPE_CHECKING:
    import polars
    from pyiceberg.schema import Schema

    from puffin_fast.avro.columns import Nested

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


class BoundsPruner:
    """A filter that is evaluated on the bounds of many files.

    Args:
        schema: the schema of the filter's columns.
        expression: the filter, unbound.
        case_sensitive: whether column names are case-sensitive.
    """

    def __init__(self, schema: Schema, expression: BooleanExpression, case_sensitive: bool) -> None:
        self._bound = bind(schema, rewrite_not(expression), case_sensitive)

    def may_match(self, lower: Nested, upper: Nested) -> Mask:
        """Evaluates the filter.

        Args:
            lower: the lower bounds of each file, by field id.
            upper: the upper bounds of each file, by field id.

        Returns:
            one flag per file, False only if no row can match.
        """
        return visit(self._bound, _BoundsEvaluator(lower, upper))


class _BoundsEvaluator(SetVisitor):
    def __init__(self, lower: Nested, upper: Nested) -> None:
        self._lower, self._upper = lower, upper

    def _all(self) -> Mask:
        return np.ones(len(self._lower), np.bool_)

    def _satisfies(
        self, bounds: Nested, term: Any, value: Any, compare: Callable[[Any, Any], polars.Series]
    ) -> Mask:
        """Marks the files whose bound satisfies the comparison with `value`, or is unknown."""
        import polars

        found, field = self._all(), term.ref().field
        known = bounds.bounds(field.field_id) if isinstance(term, BoundReference) else None
        if known is None:
            return found
        rows, raw = known
        if isinstance(field.field_type, types.StringType):
            values, value = raw.set(raw.bin.size() == 0, None), value.encode()
        elif isinstance(field.field_type, _INT32):
            values = raw.bin.reinterpret(dtype=polars.Int32)
        elif isinstance(field.field_type, _INT64):
            values = raw.bin.reinterpret(dtype=polars.Int64)
        else:
            return found
        found[rows] = compare(values, polars.Series([value], dtype=values.dtype)).fill_null(True).to_numpy()
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
        return self._satisfies(self._lower, term, literal.value, lambda low, value: low < value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._satisfies(self._lower, term, literal.value, lambda low, value: low <= value)

    def visit_greater_than(self, term: Any, literal: Any) -> Mask:
        return self._satisfies(self._upper, term, literal.value, lambda high, value: high > value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._satisfies(self._upper, term, literal.value, lambda high, value: high >= value)

    def visit_equal(self, term: Any, literal: Any) -> Mask:
        return self._between(term, literal.value, literal.value)

    def visit_in(self, term: Any, literals: Any) -> Mask:
        ordered = literals.ascending
        return self._between(term, ordered[0], ordered[-1]) if ordered else self._all()

    def _between(self, term: Any, least: Any, greatest: Any) -> Mask:
        """Marks the files whose bounds are not below or above a range of values."""
        not_above = self._satisfies(self._lower, term, greatest, lambda low, value: low <= value)
        return not_above & self._satisfies(self._upper, term, least, lambda high, value: high >= value)

    def visit_not_in(self, term: Any, literals: Any) -> Mask:
        return self._all()

    def visit_not_equal(self, term: Any, literal: Any) -> Mask:
        return self._all()

    def visit_is_null(self, term: Any) -> Mask:
        return self._all()

    def visit_not_null(self, term: Any) -> Mask:
        return self._all()

    def visit_is_nan(self, term: Any) -> Mask:
        return self._all()

    def visit_not_nan(self, term: Any) -> Mask:
        return self._all()

    def visit_starts_with(self, term: Any, literal: Any) -> Mask:
        return self._all()

    def visit_not_starts_with(self, term: Any, literal: Any) -> Mask:
        return self._all()
