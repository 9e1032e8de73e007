"""Which of very many files a filter leaves, by their bounds at once; what this keeps is looked at one by one.

Whatever a bound does not plainly say (another type's width, NaN, null counts, prefixes) keeps the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg import types
from pyiceberg.expressions import BooleanExpression, BoundReference
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, rewrite_not, visit

if TYPE_CHECKING:
    import polars
    from pyiceberg.schema import Schema

    from puffin_fast.iceberg.manifest.avro_columns import Nested

__all__ = ["Prune"]

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


class Prune:
    """A filter, to be held against the bounds of many files.

    Args:
        schema: what the filter is about.
        expression: the filter.
        case_sensitive: whether names must agree in case.
    """

    def __init__(self, schema: Schema, expression: BooleanExpression, case_sensitive: bool) -> None:
        self._bound = bind(schema, rewrite_not(expression), case_sensitive)

    def keeps(self, lower: Nested, upper: Nested) -> Mask:
        """One flag per file, false only where no row can match.

        Args:
            lower: the files' lower bounds by field id.
            upper: their upper bounds.
        """
        return visit(self._bound, _Keeps(lower, upper))


class _Keeps(BoundBooleanExpressionVisitor[Mask]):
    def __init__(self, lower: Nested, upper: Nested) -> None:
        self._lower, self._upper = lower, upper

    def _all(self) -> Mask:
        return np.ones(len(self._lower), np.bool_)

    def _holds(
        self, bounds: Nested, term: Any, value: Any, holds: Callable[[Any, Any], polars.Series]
    ) -> Mask:
        """Where a bound compares with a value as it should, or says nothing."""
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
        found[rows] = holds(values, polars.Series([value], dtype=values.dtype)).fill_null(True).to_numpy()
        return found

    def visit_true(self) -> Mask:
        return self._all()

    def visit_false(self) -> Mask:
        return ~self._all()

    def visit_not(self, child_result: Mask) -> Mask:
        raise TypeError("NOT is rewritten before")

    def visit_and(self, left_result: Mask, right_result: Mask) -> Mask:
        return left_result & right_result

    def visit_or(self, left_result: Mask, right_result: Mask) -> Mask:
        return left_result | right_result

    def visit_less_than(self, term: Any, literal: Any) -> Mask:
        return self._holds(self._lower, term, literal.value, lambda low, value: low < value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._holds(self._lower, term, literal.value, lambda low, value: low <= value)

    def visit_greater_than(self, term: Any, literal: Any) -> Mask:
        return self._holds(self._upper, term, literal.value, lambda high, value: high > value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._holds(self._upper, term, literal.value, lambda high, value: high >= value)

    def visit_equal(self, term: Any, literal: Any) -> Mask:
        return self.visit_in(term, {literal.value})

    def visit_in(self, term: Any, literals: set[Any]) -> Mask:
        not_above = self._holds(self._lower, term, max(literals), lambda low, value: low <= value)
        return not_above & self._holds(self._upper, term, min(literals), lambda high, value: high >= value)

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
