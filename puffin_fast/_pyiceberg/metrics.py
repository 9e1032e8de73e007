"""Whether rows of a file match an expression, as far as the file's column metrics show it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from pyiceberg.schema import Schema


def proves_all_rows(
    schema: Schema, expression: BooleanExpression, case_sensitive: bool
) -> Callable[[Any], bool]:
    """Returns a function that says whether the metrics of a `DataFile` prove that all of its rows match.

    Args:
        schema: the table's schema.
        expression: unbound, as `RowFilter.strict_expression`.
        case_sensitive: whether names of columns must agree in case.
    """
    return _by_metrics(_StrictMetricsEvaluator(schema, expression, case_sensitive).eval, unsure=False)


def metrics_evaluator(
    schema: Schema, expression: BooleanExpression, case_sensitive: bool
) -> Callable[[Any], bool]:
    """Returns a function that says whether a `DataFile` may hold rows that match, by its metrics."""
    return _by_metrics(_InclusiveMetricsEvaluator(schema, expression, case_sensitive).eval, unsure=True)


def _by_metrics(evaluate: Callable[[Any], Any], *, unsure: bool) -> Callable[[Any], bool]:
    def evaluated(entry: Any) -> bool:
        try:
            return bool(evaluate(entry))
        except (ValueError, struct.error):  # bounds that are no values of the column's type
            return unsure

    return evaluated
