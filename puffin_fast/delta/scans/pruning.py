"""Prunes data files: compares the bounds and partition values of all files with a filter, by columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor

from puffin_fast.delta.scans.statistics import UNKNOWN, Statistics


class Pruner(BoundBooleanExpressionVisitor[npt.NDArray[np.bool_]]):
    """Computes one flag for each file, false only if its bounds and partition values exclude a match.

    Attributes:
        exact: whether `metrics_evaluator` on single files cannot exclude more files.
    """

    def __init__(self, statistics: Statistics, partitions: Mapping[int, pa.Array], n: int) -> None:
        self.exact = True
        self._n_rows, self._nulls = statistics.n_rows, statistics.nulls
        self._lower = {**statistics.lower, **partitions}
        self._upper = {**statistics.upper, **partitions}
        self._partitions, self._n = partitions, n

    def _unknown(self) -> npt.NDArray[np.bool_]:
        """Returns true for all files; the metrics of single files may exclude more."""
        self.exact = False
        return self._all()

    def _all(self) -> npt.NDArray[np.bool_]:
        return np.ones(self._n, np.bool_)

    def _holds(
        self, arrays: Mapping[int, pa.Array], term: Any, compare: Callable[..., Any], value: Any
    ) -> npt.NDArray[np.bool_]:
        """Returns true where the comparison of a bound with a value holds or the bound is missing; a null partition
        matches no value."""
        field_id = term.ref().field.field_id
        array = arrays.get(field_id)
        if array is None:
            return self._all()
        known = field_id in self._partitions
        try:
            scalar = pa.scalar(value, array.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return self._unknown()
        found: npt.NDArray[np.bool_] = pc.fill_null(compare(array, scalar), not known).to_numpy(
            zero_copy_only=False
        )
        if not known:
            nulls = pc.fill_null(self._nulls[field_id], UNKNOWN - 1).to_numpy()
            found = found & (nulls != self._n_rows)
        return found

    def visit_true(self) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_false(self) -> npt.NDArray[np.bool_]:
        return ~self._all()

    def visit_not(self, child_result: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        raise TypeError("expected an expression without NOT")

    def visit_and(
        self, left_result: npt.NDArray[np.bool_], right_result: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        return left_result & right_result

    def visit_or(
        self, left_result: npt.NDArray[np.bool_], right_result: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        return left_result | right_result

    def visit_less_than(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._lower, term, pc.less, literal.value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._lower, term, pc.less_equal, literal.value)

    def visit_greater_than(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._upper, term, pc.greater, literal.value)

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._holds(self._upper, term, pc.greater_equal, literal.value)

    def visit_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self.visit_less_than_or_equal(term, literal) & self.visit_greater_than_or_equal(term, literal)

    def visit_in(self, term: Any, literals: set[Any]) -> npt.NDArray[np.bool_]:
        self.exact = False  # all literals are below or above the bounds of the file
        low = self._holds(self._lower, term, pc.less_equal, max(literals))
        return low & self._holds(self._upper, term, pc.greater_equal, min(literals))

    def visit_not_in(self, term: Any, literals: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_not_equal(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._all()

    def visit_is_null(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._unknown()

    def visit_not_null(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._unknown()

    def visit_is_nan(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._unknown()

    def visit_not_nan(self, term: Any) -> npt.NDArray[np.bool_]:
        return self._unknown()

    def visit_starts_with(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._unknown()

    def visit_not_starts_with(self, term: Any, literal: Any) -> npt.NDArray[np.bool_]:
        return self._unknown()
