"""The values of IN and NOT IN, prepared once for all files and batches that they are compared with."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import Any

from pyiceberg.expressions import BoundPredicate, BoundSetPredicate
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor


class SetValues(frozenset[Any]):
    """The values of a predicate.

    Attributes:
        prepared: what an evaluator made of them; None before the first evaluation.
        parts: the same of the evaluator of bounds.
    """

    prepared: Any = None
    parts: Any = None

    @cached_property
    def ascending(self) -> list[Any] | None:
        """The values in order; None if they have no order, as NaN."""
        if any(value != value for value in self):
            return None
        try:
            return sorted(self)
        except TypeError:
            return None

    def nearest(self, low: Any) -> frozenset[Any]:
        """The least value from a lower bound on: it is within the bound and an upper bound if any value is.

        Args:
            low: the lower bound; None: there is none.

        Returns:
            The greatest value if all are less; all values if they have no order.
        """
        ordered = self.ascending
        if not ordered:
            return self
        at = 0 if low is None else bisect_left(ordered, low)
        return frozenset(ordered[min(at, len(ordered) - 1) :][:1])


class SetVisitor(BoundBooleanExpressionVisitor[Any]):
    """A visitor that is given `SetValues` for IN and NOT IN: the same object in each visit of a predicate."""

    def visit_bound_predicate(self, predicate: BoundPredicate) -> Any:
        if isinstance(predicate, BoundSetPredicate) and not isinstance(predicate.value_set, SetValues):
            vars(predicate)["value_set"] = SetValues(predicate.value_set)  # a cached property
        return super().visit_bound_predicate(predicate)
