"""Evaluates a bound filter on Arrow columns, in SQL's three-valued logic.

PyIceberg's `expression_to_pyarrow` is not used, for two reasons. Its expressions accept NULL for NOT IN below OR,
do not find -0.0 with IN, cannot compare uuids, and have neither LIKE nor remainders. PyArrow evaluates an expression
only as a plan over a dataset: 160 to 200 microseconds for a batch of 100 rows, where the calls below take 10 to 50.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundPredicate,
    BoundReference,
    BoundTerm,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import visit
from pyiceberg.types import DoubleType, FloatType, IcebergType

from puffin_fast._kernels.rows.members import Members, SparseMembers, members_of
from puffin_fast._process.cached import cached_property
from puffin_fast._pyiceberg.set_values import SetValues, SetVisitor, set_values
from puffin_fast._pyiceberg.v3_types import schema_to_arrow
from puffin_fast.columns.row_selection import flags_of
from puffin_fast.rows.filters.bounds import as_integers
from puffin_fast.rows.filters.like import BoundLike, match_like
from puffin_fast.rows.filters.remainder import BoundRemainder

_INTEGERS = {
    **{kind.id: pa.int32() for kind in (pa.date32(), pa.time32("s"))},
    **{kind.id: pa.int64() for kind in (pa.time64("us"), pa.timestamp("us"))},
}
"""The integers that dates and times are compared as, by the id of the type; NumPy takes one of its times for none."""

MEMBERS_PER_ROW = 4
"""Values of IN per row of a batch from which on searching with Python costs less than the hash table of Arrow."""


class ArrowEvaluator(SetVisitor):
    """Evaluates a bound expression.

    A result is an Arrow boolean array (NULL means unknown), a NumPy bool array (nothing is unknown) or a Python bool.
    """

    def __init__(self, columns: Mapping[int, pa.Array]) -> None:
        self._columns = columns

    def column(self, term: BoundTerm) -> pa.Array:
        return _storage(self._columns[term.ref().field.field_id])

    def visit_bound_predicate(self, predicate: BoundPredicate) -> Any:
        if isinstance(predicate, BoundRemainder):
            return predicate.matches(self.column(predicate.term))
        if not isinstance(predicate, BoundLike):
            return super().visit_bound_predicate(predicate)
        found = match_like(self.column(predicate.term), predicate.pattern, ignore_case=predicate.ignore_case)
        return pc.invert(found) if predicate.negated else found

    def compare(self, name: str, term: BoundTerm, literal: Literal[Any]) -> Any:
        """Compares a column with a literal; `name` is the same for Arrow's and NumPy's function."""
        column, value = self.column(term), _scalar_array(literal.value, term.ref().field.field_type)
        if isinstance(column, pa.Array) and len(column) and not column.null_count:
            integers = _INTEGERS.get(column.type.id)
            if integers is not None and column.type == value.type:
                column, value = column.view(integers), value.view(integers)
            elif pa.types.is_decimal128(column.type) and column.type == value.type:
                return _compare_wide(name, *_words(column), *(int(word[0]) for word in _words(value)))
            if _is_number(column.type):
                return getattr(np, name)(_numbers(column), _numbers(value)[0])  # a quarter of Arrow's time
        return getattr(pc, name)(column, value[0])

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self.compare("equal", term, literal)

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self.compare("not_equal", term, literal)

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self.compare("greater", term, literal)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self.compare("greater_equal", term, literal)

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self.compare("less", term, literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return self.compare("less_equal", term, literal)

    def visit_in(self, term: BoundTerm, literals: Any) -> Any:
        return _members(literals, term.ref().field.field_type).contains(self.column(term))

    def visit_not_in(self, term: BoundTerm, literals: Any) -> Any:
        others = self.visit_not(self.visit_in(term, literals))
        return self.visit_and(
            others, pc.is_valid(column) if (column := self.column(term)).null_count else True
        )

    def visit_is_nan(self, term: BoundTerm) -> Any:
        return pc.is_nan(self.column(term))

    def visit_not_nan(self, term: BoundTerm) -> Any:
        return pc.invert(pc.is_nan(self.column(term)))

    def visit_is_null(self, term: BoundTerm) -> Any:
        return pc.is_null(self.column(term))

    def visit_not_null(self, term: BoundTerm) -> Any:
        return pc.is_valid(self.column(term))

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.starts_with(self.column(term), pattern=literal.value)

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.invert(self.visit_starts_with(term, literal))

    def visit_true(self) -> Any:
        return True

    def visit_false(self) -> Any:
        return False

    def visit_not(self, child_result: Any) -> Any:
        if isinstance(child_result, bool):
            return not child_result
        return ~child_result if isinstance(child_result, np.ndarray) else pc.invert(child_result)

    def visit_and(self, left_result: Any, right_result: Any) -> Any:
        if isinstance(left_result, bool):
            return right_result if left_result else False
        if isinstance(right_result, bool):
            return left_result if right_result else False
        if isinstance(left_result, np.ndarray) and isinstance(right_result, np.ndarray):
            return left_result & right_result
        return pc.and_kleene(pa.array(left_result), pa.array(right_result))

    def visit_or(self, left_result: Any, right_result: Any) -> Any:
        if isinstance(left_result, bool):
            return True if left_result else right_result
        if isinstance(right_result, bool):
            return True if right_result else left_result
        if isinstance(left_result, np.ndarray) and isinstance(right_result, np.ndarray):
            return left_result | right_result
        return pc.or_kleene(pa.array(left_result), pa.array(right_result))


_COMPARISONS: dict[type, str] = {
    BoundEqualTo: "equal",
    BoundNotEqualTo: "not_equal",
    BoundGreaterThan: "greater",
    BoundGreaterThanOrEqual: "greater_equal",
    BoundLessThan: "less",
    BoundLessThanOrEqual: "less_equal",
}


def evaluate(condition: BooleanExpression, columns: Mapping[int, pa.Array]) -> Any:
    """Evaluates a bound expression with `ArrowEvaluator`.

    A comparison does not go through `visit`, which takes longer than comparing some thousand numbers.
    """
    evaluator, name = ArrowEvaluator(columns), _COMPARISONS.get(type(condition))
    if name is None:
        return visit(condition, evaluator)
    assert isinstance(condition, BoundLiteralPredicate)
    return evaluator.compare(name, condition.term, condition.literal)


def equal_values(condition: BooleanExpression) -> tuple[int, pa.Array] | None:
    """Returns the column that a condition compares by ``=`` or IN, as its field id, and the values.

    None for other conditions, and for floats: NaN equals nothing in a filter.
    """
    if not isinstance(condition, BoundEqualTo | BoundIn) or not isinstance(condition.term, BoundReference):
        return None
    field = condition.term.ref().field
    if isinstance(field.field_type, FloatType | DoubleType):
        return None
    if isinstance(condition, BoundIn):
        return field.field_id, _members(set_values(condition), field.field_type).values
    return field.field_id, _array([condition.literal.value], field.field_type)


def _members(literals: SetValues, field_type: IcebergType) -> _Members:
    if literals.prepared is None:
        literals.prepared = _Members(_array(literals, field_type))
    found: _Members = literals.prepared
    return found


def _storage(column: pa.Array) -> pa.Array:
    """The storage array of an extension type (uuid); other columns unchanged."""
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _array(values: Collection[Any], field_type: IcebergType) -> pa.Array:
    if isinstance(field_type, FloatType | DoubleType) and 0.0 in values:
        values = [*values, 0.0, -0.0]  # equal values with different hashes in Arrow
    plain = _plain_type(field_type)
    if pa.types.is_fixed_size_binary(plain):
        values = [_plain_value(value, plain) for value in values]
    return pa.array([*values], plain)


class _Members:
    """The values of IN as an Arrow array, as a set of integers, and in Python's hash table for batches of few rows."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        return _Members, (self.values,)

    def contains(self, column: pa.Array) -> Any:
        """Which values of a column are among these."""
        is_plain = isinstance(column, pa.Array) and len(column) and column.type == self.values.type
        if is_plain and self._integers is not None:
            found = np.empty(len(column), np.bool_)
            self._integers.contain(_numbers(as_integers(column)), found)
            return found & flags_of(pc.is_valid(column)) if column.null_count else found
        if len(column) * MEMBERS_PER_ROW < len(self.values) and self._hashed is not None:
            hashed = self._hashed
            return pa.array([value in hashed for value in as_integers(column).to_pylist()], pa.bool_())
        return pc.is_in(column, value_set=self.values)

    @cached_property
    def _integers(self) -> Members | SparseMembers | None:
        """None if they are not integers: Arrow makes its hash table again for each batch."""
        integers = as_integers(self.values)
        if integers.type not in (pa.int32(), pa.int64()):
            return None
        return members_of(_numbers(integers).astype(np.int64, copy=False))

    @cached_property
    def _hashed(self) -> frozenset[Any] | None:
        """None if the values are compared in another way: Arrow finds NaN."""
        found = as_integers(self.values).to_pylist()
        return None if any(value != value for value in found) else frozenset(found)


def _is_number(kind: pa.DataType) -> bool:
    """Whether NumPy compares values as Arrow does."""
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The values of a column of numbers without nulls; `to_numpy` hands the GIL over four times."""
    kind = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)


def _words(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The high and the low words of decimals of 128 bits."""
    words = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset)
    return words[1::2], words[::2].view(np.uint64)


def _compare_wide(
    name: str, high: npt.NDArray[np.int64], low: npt.NDArray[np.uint64], other_high: int, other_low: int
) -> Any:
    """Compares integers of two words with one integer, by the name of NumPy's function."""
    lows = getattr(np, name)(low, other_low)
    if name == "not_equal":
        return (high != other_high) | lows
    found = (high == other_high) & lows
    if name == "equal":
        return found
    return found | (high < other_high if name.startswith("less") else high > other_high)


@lru_cache(maxsize=256)
def _scalar_array(value: Any, field_type: IcebergType) -> pa.Array:
    """A literal as an array; made once for all batches of all files."""
    plain = _plain_type(field_type)
    return pa.array([_plain_value(value, plain)], plain)


def _plain_value(value: Any, plain: pa.DataType) -> Any:
    """A literal's value as Arrow takes it: the bytes of a uuid."""
    return value.bytes if pa.types.is_fixed_size_binary(plain) and hasattr(value, "bytes") else value


@lru_cache(maxsize=256)
def _plain_type(field_type: IcebergType) -> pa.DataType:
    arrow = schema_to_arrow(field_type)
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
