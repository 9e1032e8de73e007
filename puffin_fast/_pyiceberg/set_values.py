"""The values of IN and NOT IN, prepared once for all files and batches that they are compared with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from pyiceberg.expressions import (
    BooleanExpression,
    BoundIn,
    BoundNotIn,
    BoundPredicate,
    BoundSetPredicate,
    In,
    NotIn,
    SetPredicate,
)
from pyiceberg.expressions.literals import Literal, literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, LongType, StringType

from puffin_fast._process.cached import cached_property


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
        if not {*map(type, self)} <= {int, str} and any(value != value for value in self):
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


class _Literals(AbstractSet[Literal[Any]]):
    """The literals of values, made when they are asked for: it takes longer than the search for the values."""

    def __init__(self, values: SetValues) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Literal[Any]]:
        return map(literal, self._values)

    def __contains__(self, item: object) -> bool:
        return isinstance(item, Literal) and item.value in self._values


class TypedSet(SetPredicate):
    """IN or NOT IN of integers, or of strings. If these have the type of the column, they are bound at once:
    PyIceberg converts all of them for each binding."""

    def __new__(cls, *_args: Any, **_fields: Any) -> Any:
        return object.__new__(cls)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> Any:
        term = self.term.bind(schema, case_sensitive)
        known = vars(self)
        if term.ref().field.field_type != known["kind"]:
            return super().bind(schema, case_sensitive)
        bound = _BOUND[type(self)].model_construct(term=term, literals=self.literals)
        vars(bound)["value_set"] = known["values"]
        return bound

    def __invert__(self) -> Any:
        other = TypedNotIn if isinstance(self, In) else TypedIn
        return _with_values(other, self.term, vars(self)["kind"], vars(self)["values"])


class TypedIn(TypedSet, In):
    """IN; see `TypedSet`."""


class TypedNotIn(TypedSet, NotIn):
    """NOT IN; see `TypedSet`."""


class _BoundTypedIn(BoundIn):
    def __new__(cls, *_args: Any, **_fields: Any) -> Any:
        return object.__new__(cls)


class _BoundTypedNotIn(BoundNotIn):
    def __new__(cls, *_args: Any, **_fields: Any) -> Any:
        return object.__new__(cls)


_BOUND: dict[type, type[BoundSetPredicate]] = {TypedIn: _BoundTypedIn, TypedNotIn: _BoundTypedNotIn}


def typed_set(predicate: SetPredicate, kind: IcebergType) -> TypedSet | None:
    """Returns an equal predicate that is bound at once, if its column is of integers or strings, and so are all values.

    Args:
        predicate: IN or NOT IN of `LongLiteral` or `StringLiteral`, at least two.
        kind: the type of its column.
    """
    is_typed = isinstance(predicate, TypedSet)
    values = vars(predicate)["values"] if is_typed else SetValues(one.value for one in predicate.literals)
    of = {*map(type, values)}
    if isinstance(kind, IntegerType | LongType):
        high = LongType.max if isinstance(kind, LongType) else IntegerType.max
        if of != {int} or not -high - 1 <= min(values) <= max(values) <= high:
            return None
    elif isinstance(kind, StringType) and of == {str}:
        "".join(values).encode()  # half of a surrogate pair is a ValueError, as in other literals
    else:
        return None
    made = TypedIn if isinstance(predicate, In) else TypedNotIn
    return _with_values(made, predicate.term, kind, values)


def among(term: Any, values: Iterable[int] | Iterable[str]) -> BooleanExpression:
    """Returns IN of integers or of strings, whose column may be of any type.

    Args:
        term: the column.
        values: all integers or all strings.
    """
    distinct = SetValues(values)
    return (
        _with_values(TypedIn, term, None, distinct)
        if len(distinct) > 1
        else In(term=term, values=set(distinct))
    )


def _with_values(made: type[TypedSet], term: Any, kind: IcebergType | None, values: SetValues) -> TypedSet:
    found = made.model_construct(term=term, literals=_Literals(values))
    vars(found).update(kind=kind, values=values)
    return found


class SetVisitor(BoundBooleanExpressionVisitor[Any]):
    """A visitor that is given `SetValues` for IN and NOT IN: the same object in each visit of a predicate."""

    def visit_bound_predicate(self, predicate: BoundPredicate) -> Any:
        if isinstance(predicate, BoundSetPredicate):
            set_values(predicate)
        return super().visit_bound_predicate(predicate)


def set_values(predicate: BoundSetPredicate) -> SetValues:
    """Returns the values of a predicate: the same object each time, also as its ``value_set``."""
    found = predicate.value_set
    if isinstance(found, SetValues):
        return found
    made = vars(predicate)["value_set"] = SetValues(found)  # a cached property
    return made
