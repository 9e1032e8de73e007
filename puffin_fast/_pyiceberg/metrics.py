"""Whether rows of a file match an expression, as far as the file's column metrics show it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluationVisitor,
    _InclusiveMetricsEvaluator,
    _StrictMetricsEvaluationVisitor,
    _StrictMetricsEvaluator,
    visit,
)
from pyiceberg.schema import Schema

from puffin_fast._pyiceberg.set_values import SetValues, SetVisitor


def proves_all_rows(
    schema: Schema, expression: Callable[[], BooleanExpression], case_sensitive: bool
) -> Callable[[Any], bool]:
    """Returns a function that says whether the metrics of a `DataFile` prove that all of its rows match.

    Args:
        expression: `RowFilter.strict_expression`; called for the first file that has metrics.
        case_sensitive: whether names of columns must agree in case.
    """
    made = cache(lambda: _StrictMetricsEvaluator(schema, expression(), case_sensitive))

    def evaluate(file: Any) -> bool:
        if file.record_count < 1:
            return made().eval(file)
        if not (file.lower_bounds or file.upper_bounds or file.value_counts or file.null_value_counts):
            return False
        return bool(visit(made().expr, _StrictMetrics(made().struct, file)))

    return _by_metrics(evaluate, unsure=False)


def metrics_evaluator(
    schema: Schema, expression: BooleanExpression, case_sensitive: bool
) -> Callable[[Any], bool]:
    """Returns a function that says whether a `DataFile` may hold rows that match, by its metrics.

    The expression is bound when the function is first called: bounds of many files are mostly compared at once instead.
    """
    made = cache(lambda: _InclusiveMetricsEvaluator(schema, expression, case_sensitive))

    def evaluate(file: Any) -> bool:
        if file.record_count < 1:
            return made().eval(file)
        return bool(visit(made().expr, _InclusiveMetrics(file)))

    return _by_metrics(evaluate, unsure=True)


class _InclusiveMetrics(SetVisitor, _InclusiveMetricsEvaluationVisitor):
    """Prunes by IN. PyIceberg compares each value with the bounds of each file, and does not prune by more than 200."""

    def visit_in(self, term: BoundTerm, literals: Any) -> bool:
        return super().visit_in(term, _nearest(self.lower_bounds, term, literals))


class _StrictMetrics(SetVisitor, _StrictMetricsEvaluationVisitor):
    """Prunes by NOT IN. PyIceberg compares each value with the bounds of each file."""

    def visit_not_in(self, term: BoundTerm, literals: Any) -> bool:
        return super().visit_not_in(term, _nearest(self.lower_bounds, term, literals))


def _nearest(lower_bounds: Any, term: BoundTerm, values: SetValues) -> Any:
    """The only value that must be compared with the bounds of a file; several if they have no order."""
    field = term.ref().field
    raw = lower_bounds.get(field.field_id)
    low = None if raw is None else from_bytes(field.field_type, raw)  # type: ignore[arg-type]
    try:
        return values.nearest(low)
    except TypeError:
        return values


def _by_metrics(evaluate: Callable[[Any], bool], *, unsure: bool) -> Callable[[Any], bool]:
    def evaluated(entry: Any) -> bool:
        try:
            return evaluate(entry)
        except (ValueError, struct.error):  # the bytes are not a value of the column's type
            return unsure

    return evaluated
