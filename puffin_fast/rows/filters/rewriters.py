"""Rewrites filter expressions: literals of their columns' types, NOT moved into predicates, binding, pruning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, TimestampNanoType, TimestamptzNanoType

from puffin_fast._pyiceberg.set_values import TypedSet
from puffin_fast._pyiceberg.v3_types import VariantType
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.rows.filters.bounds import TRUNCATED
from puffin_fast.rows.filters.like import BoundLike, Like
from puffin_fast.rows.filters.literals import check_date_literals, convert_literals, weakened
from puffin_fast.rows.filters.remainder import BoundRemainder, Remainder
from puffin_fast.rows.filters.struct_path import structs_around

_Pair: TypeAlias = tuple[BooleanExpression, BooleanExpression]


def check_names(schema: Schema, names: Iterable[str], *, case_sensitive: bool) -> None:
    """Checks that each name means one column if case is ignored; PyIceberg would take the last one.

    Raises:
        InvalidInputError: several columns differ only by case; the message lists them.
    """
    if case_sensitive:
        return
    by_lower: dict[str, list[str]] = {}
    for known in schema.column_names:
        by_lower.setdefault(known.lower(), []).append(known)
    for name in names:
        found = by_lower.get(name.lower(), ())
        if len(found) > 1:
            raise InvalidInputError(
                f"{name!r}: ambiguous if case is ignored; the table has {', '.join(found)}"
            )


class UnknownColumn(Exception):
    """A filter has a column that the schema does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ExpressionRewriter(BooleanExpressionVisitor[BooleanExpression]):
    """Rebuilds an expression; subclasses replace predicates."""

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise TypeError(f"expected an expression without NOT, found NOT {child_result}")

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        raise TypeError(f"not bound: {predicate}")

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise TypeError(f"bound already: {predicate}")


class LiteralConverter(BooleanExpressionVisitor[_Pair]):
    """Converts literals to the types of their columns, and moves NOT into the predicates.

    The result is a pair: an expression that is true where the filter is true, and one that is true where its
    negation is true. A comparison is false for NaN, so its negation is true: ``not (x <= 0)`` becomes
    ``x > 0 or x is nan``. PyIceberg's metrics evaluators need this form too.
    """

    def __init__(self, schema: Schema, case_sensitive: bool, is_text: bool) -> None:
        self._schema, self._case_sensitive, self._is_text = schema, case_sensitive, is_text

    def visit_true(self) -> _Pair:
        return AlwaysTrue(), AlwaysFalse()

    def visit_false(self) -> _Pair:
        return AlwaysFalse(), AlwaysTrue()

    def visit_not(self, child_result: _Pair) -> _Pair:
        return child_result[1], child_result[0]

    def visit_and(self, left_result: _Pair, right_result: _Pair) -> _Pair:
        return And(left_result[0], right_result[0]), Or(left_result[1], right_result[1])

    def visit_or(self, left_result: _Pair, right_result: _Pair) -> _Pair:
        return Or(left_result[0], right_result[0]), And(left_result[1], right_result[1])

    def visit_unbound_predicate(self, predicate: Any) -> _Pair:
        check_names(self._schema, [predicate.term.name], case_sensitive=self._case_sensitive)
        try:
            kind = predicate.term.bind(self._schema, self._case_sensitive).ref().field.field_type
        except ValueError:
            raise UnknownColumn(predicate.term.name) from None
        if isinstance(kind, VariantType):
            raise UnsupportedError(f"filter {predicate}: not supported on {predicate.term.name}, a variant")
        if self._is_text:
            check_date_literals(predicate, kind)
        converted = convert_literals(predicate, kind)
        negated = ~converted if isinstance(converted, TypedSet) else convert_literals(~predicate, kind)
        ordered = isinstance(predicate, LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual)
        if ordered and isinstance(kind, FloatType | DoubleType):
            negated = Or(negated, IsNaN(term=predicate.term))
        return converted, negated

    def visit_bound_predicate(self, predicate: BoundPredicate) -> _Pair:
        raise TypeError(f"bound already: {predicate}")


class RequiredFields(ExpressionRewriter):
    """Moves tests for NULL of a required field to the innermost struct around it that may be NULL.

    PyIceberg takes ``s.x is null`` as false where x is required, and ``s.x < 3000000000`` as true for a 32-bit x.
    """

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema, self._case_sensitive = schema, case_sensitive

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        reference = predicate.term.bind(self._schema, self._case_sensitive).ref()
        unchanged: BooleanExpression = predicate
        if not reference.field.required or reference.accessor.inner is None:
            return unchanged
        structs = structs_around(self._schema, reference.field.field_id) or ()
        around = [struct for struct in structs if not struct.required]
        if not around:
            return unchanged
        name = str(self._schema.find_column_name(around[-1].field_id))
        if isinstance(predicate, IsNull):
            return IsNull(term=Reference(name))
        is_true = isinstance(predicate.bind(self._schema, self._case_sensitive), AlwaysTrue)
        return NotNull(term=Reference(name)) if is_true else unchanged


class Binder(ExpressionRewriter):
    """Binds predicates as PyIceberg does, except for comparisons that are true for each value of a type.

    PyIceberg replaces ``x < 3000000000`` on a 32-bit column by AlwaysTrue, but it is unknown for NULL. Here it
    becomes IS NOT NULL.
    """

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        bound: BooleanExpression = predicate.bind(self._schema, self._case_sensitive)
        if isinstance(bound, AlwaysTrue) and not isinstance(predicate, NotNull):
            return NotNull(term=predicate.term).bind(self._schema, self._case_sensitive)
        return bound


class NameCollector(BooleanExpressionVisitor[None]):
    """Collects the names of columns in an unbound expression."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_true(self) -> None: ...

    def visit_false(self) -> None: ...

    def visit_not(self, child_result: None) -> None: ...

    def visit_and(self, left_result: None, right_result: None) -> None: ...

    def visit_or(self, left_result: None, right_result: None) -> None: ...

    def visit_unbound_predicate(self, predicate: Any) -> None:
        self.names.add(predicate.term.name)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> None:
        raise TypeError(f"bound already: {predicate}")


class ColumnCollector(BooleanExpressionVisitor[None]):
    """Collects the columns that a bound expression reads, and whether metrics can prove it for all rows."""

    def __init__(self) -> None:
        self.field_ids: set[int] = set()
        self.unprovable = False

    def visit_true(self) -> None: ...

    def visit_false(self) -> None: ...

    def visit_not(self, child_result: None) -> None: ...

    def visit_and(self, left_result: None, right_result: None) -> None: ...

    def visit_or(self, left_result: None, right_result: None) -> None: ...

    def visit_unbound_predicate(self, predicate: Any) -> None:
        raise TypeError(f"not bound: {predicate}")

    def visit_bound_predicate(self, predicate: BoundPredicate) -> None:
        reference = predicate.term.ref()
        self.unprovable |= isinstance(predicate, BoundLike | BoundRemainder)
        self.field_ids.add(reference.field.field_id)
        kind = reference.field.field_type
        self.unprovable |= isinstance(kind, FloatType | DoubleType | TimestampNanoType | TimestamptzNanoType)
        self.unprovable |= reference.accessor.inner is not None


class PruningRewriter(ExpressionRewriter):
    """Replaces LIKE, remainders and comparisons of nanoseconds by weaker predicates, which metrics can decide."""

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        if isinstance(predicate, Like | Remainder):
            return predicate.weakened()
        return weakened(predicate, TRUNCATED)


class NotNullRewriter(ExpressionRewriter):
    """Adds IS NOT NULL to each predicate that is unknown for NULL in SQL."""

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        return predicate if isinstance(predicate, IsNull) else And(NotNull(term=predicate.term), predicate)
