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
    from pyiceberg.schema import Schema

    from puffin_fast.iceberg.manifest.columns import FileColumns

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

    def may_match(self, files: FileColumns) -> Mask:
        """Evaluates the filter on data files with their bounds.

        Returns:
            one flag per file, False only if no row can match.
        """
        return visit(self._bound, _BoundsEvaluator(files))


class _BoundsEvaluator(SetVisitor):
    def __init__(self, files: FileColumns) -> None:
        self._files = files

    def _all(self) -> Mask:
        return np.ones(len(self._files), np.bool_)

    def _satisfies(self, name: str, term: Any, value: Any, compare: Callable[[Any, Any], Any]) -> Mask:
        """Marks the files whose bound satisfies the comparison with `value`, or is unknown."""
        found, field = self._all(), term.ref().field
        known = self._files.bounds(name, field.field_id) if isinstance(term, BoundReference) else None
        if known is None:
            return found
        data, starts, sizes = known
        values: Any
        if isinstance(field.field_type, types.StringType):
            rows, value = np.flatnonzero(sizes > 0), value.encode()
            values = np.empty(len(rows), object)
            pairs = zip(starts[rows].tolist(), sizes[rows].tolist(), strict=True)
            values[:] = [bytes(data[start : start + size]) for start, size in pairs]
        elif isinstance(field.field_type, _INT32 + _INT64):
            width = 4 if isinstance(field.field_type, _INT32) else 8
            rows = np.flatnonzero(sizes == width)
            places = starts[rows, None] + np.arange(width)
            values = np.frombuffer(data, np.uint8)[places].view(f"<i{width}").reshape(len(rows))
        else:
            return found
        found[rows] = compare(values, value)
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
        return self._satisfies("lower_bounds", term, literal.value, lambda low, value: low < value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._satisfies("lower_bounds", term, literal.value, lambda low, value: low <= value)

    def visit_greater_than(self, term: Any, literal: Any) -> Mask:
        return self._satisfies("upper_bounds", term, literal.value, lambda high, value: high > value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._satisfies("upper_bounds", term, literal.value, lambda high, value: high >= value)

    def visit_equal(self, term: Any, literal: Any) -> Mask:
        return self._between(term, literal.value, literal.value)

    def visit_in(self, term: Any, literals: Any) -> Mask:
        ordered = literals.ascending
        return self._between(term, ordered[0], ordered[-1]) if ordered else self._all()

    def _between(self, term: Any, least: Any, greatest: Any) -> Mask:
        """Marks the files whose bounds are not below or above a range of values."""
        not_above = self._satisfies("lower_bounds", term, greatest, lambda low, value: low <= value)
        return not_above & self._satisfies("upper_bounds", term, least, lambda high, value: high >= value)

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
