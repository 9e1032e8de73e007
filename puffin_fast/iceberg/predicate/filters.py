"""Row filters: a PyIceberg expression, its text or a PyArrow expression, evaluated on Arrow columns.

Three-valued logic as in SQL: a comparison with NULL is unknown, and so are NOT IN, <> and NOT LIKE 'x%' of
a NULL; a row matches only where the whole filter is true. NaN is compared as IEEE 754, PyArrow and PyIceberg
do: ``=``, ``<``, ``<=``, ``>``, ``>=`` and IN are false of NaN, so their negations are true of it.
docs/filters.md describes the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
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
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, visit
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType

from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.compat.pyiceberg_catalog import metrics_evaluator
from puffin_fast.iceberg.predicate.evaluator import Matches
from puffin_fast.iceberg.predicate.grammar import parsed
from puffin_fast.iceberg.predicate.like import BoundLike, Like
from puffin_fast.iceberg.predicate.literals import check_written, fitting

__all__ = ["Filter", "Matcher", "RowFilter", "check_names", "parsed"]

Filter: TypeAlias = str | BooleanExpression | pc.Expression

_Pair: TypeAlias = tuple[BooleanExpression, BooleanExpression]


class Matcher(Protocol):
    """What picks rows of a table: a filter, or a set of keys. The members are those of `RowFilter`."""

    @property
    def expression(self) -> BooleanExpression: ...
    @property
    def field_ids(self) -> tuple[int, ...]: ...
    @property
    def everything(self) -> bool: ...
    @property
    def nothing(self) -> bool: ...
    @property
    def batch_rows(self) -> int: ...
    def may_match(self, schema: Schema, *, case_sensitive: bool = True) -> Callable[[Any], bool]: ...
    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray: ...
    def certain(self) -> BooleanExpression: ...


@dataclass(frozen=True)
class RowFilter:
    """A filter bound to a table's schema.

    Attributes:
        expression: what files are pruned by: it may keep too much, never too little.
        field_ids: the columns that `mask` needs, in the order of their ids.
        everything: the filter is true for every row, so no row need be looked at.
    """

    expression: BooleanExpression
    field_ids: tuple[int, ...]
    everything: bool
    _bound: BooleanExpression | None
    _unsure: bool
    _arrow: pc.Expression | None
    _names: Mapping[str, int]

    @classmethod
    def bind(cls, filter: Filter, schema: Schema, *, case_sensitive: bool = True) -> RowFilter:
        """Binds a filter to a schema.

        Args:
            filter: a PyIceberg expression, its text (``"id > 5 and name is not null"``), or a PyArrow
                expression over top-level columns (it can compute, and prunes no file).
            schema: the table's schema.
            case_sensitive: whether names must agree in case; PyArrow expressions always are.

        Raises:
            NotFoundError: a column that the schema does not have.
            InvalidInputError: text that is no expression, or a literal that does not fit its column.
        """
        if isinstance(filter, pc.Expression):
            return cls._of_arrow(filter, schema)
        if not isinstance(filter, str | BooleanExpression):
            raise InvalidInputError(
                "filter: expected text, a PyIceberg expression or a PyArrow expression, found "
                f"{type(filter).__name__}"
            )
        fits, bound = _bound(filter, schema, case_sensitive)
        columns = _Columns()
        visit(bound, columns)
        return cls(
            expression=visit(fits, _Prunable()),
            field_ids=tuple(sorted(columns.field_ids)),
            everything=isinstance(bound, AlwaysTrue),
            _bound=bound,
            _unsure=columns.unsure,
            _arrow=None,
            _names={},
        )

    @classmethod
    def _of_arrow(cls, filter: pc.Expression, schema: Schema) -> RowFilter:
        names = {field.name: field.field_id for field in schema.fields}
        empty = pa.schema([pa.field(f.name, schema_to_pyarrow(f.field_type)) for f in schema.fields])
        try:
            scanner = ds.dataset(empty.empty_table()).scanner(columns={"match": filter})
            found = scanner.projected_schema.field("match").type
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            wrong = NotFoundError if "No match for FieldRef" in str(error) else InvalidInputError
            raise wrong(f"filter {filter}: {error}") from error
        if not pa.types.is_boolean(found):
            raise InvalidInputError(f"filter {filter}: expected a boolean, found {found}")
        used = {name: id for name, id in names.items() if _mentions(filter, name, empty)}
        return cls(AlwaysTrue(), tuple(sorted(used.values())), False, None, True, filter, used)

    @property
    def nothing(self) -> bool:
        """The filter is false for every row."""
        return isinstance(self._bound, AlwaysFalse)

    @property
    def batch_rows(self) -> int:
        """Rows of a batch below which `mask` wastes time."""
        return 1

    def may_match(self, schema: Schema, *, case_sensitive: bool = True) -> Callable[[Any], bool]:
        """Whether a file or row group (anything with a `DataFile`'s metrics) may hold rows that match.

        Args:
            schema: what the filter was bound to.
            case_sensitive: as it was bound.
        """
        return metrics_evaluator(schema, self.expression, case_sensitive)

    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray:
        """Which rows match.

        Args:
            columns: field id to an Arrow array of `n_rows` values, for each of `field_ids`.
            n_rows: rows of the batch.

        Returns:
            NumPy bool array of `n_rows`: True where the filter is true; false and unknown are False.
        """
        if self._bound is None:
            batch = pa.record_batch({name: columns[id] for name, id in self._names.items()})
            found = ds.InMemoryDataset(batch).scanner(columns={"match": self._arrow}, use_threads=False)
            matches: Any = found.to_table().column(0).combine_chunks()
        else:
            matches = visit(self._bound, Matches(columns))
        if isinstance(matches, bool):
            return np.full(n_rows, matches)
        if matches.null_count:
            matches = pc.fill_null(matches, False)
        if isinstance(matches, pa.ChunkedArray):
            matches = matches.combine_chunks()
        result: np.ndarray = matches.to_numpy(zero_copy_only=False)
        return result

    def certain(self) -> BooleanExpression:
        """What proves by a file's metrics alone that every one of its rows matches; false where nothing can.

        Iceberg's strict evaluation lets ``x <> 5`` be true of NULL, so NULL is excluded first. Metrics say
        nothing sure about NaN (PyIceberg counts none) and nested columns, so those prove nothing.
        """
        if self._bound is None or self._unsure:
            return AlwaysFalse()
        return visit(self.expression, _NullsDoNotMatch())


def check_names(schema: Schema, names: Iterable[str], *, case_sensitive: bool) -> None:
    """Refuses names that without their case name several columns; PyIceberg takes the last.

    Raises:
        InvalidInputError: says which columns.
    """
    if case_sensitive:
        return
    for name in names:
        found = [known for known in schema.column_names if known.lower() == name.lower()]
        if len(found) > 1:
            raise InvalidInputError(f"{name!r}: ambiguous without its case, the table has {', '.join(found)}")


def _bound(
    filter: str | BooleanExpression, schema: Schema, case_sensitive: bool
) -> tuple[BooleanExpression, BooleanExpression]:
    """A filter with literals of its columns' types and without NOT, and the same bound."""
    is_text = isinstance(filter, str)
    unbound = parsed(filter) if isinstance(filter, str) else filter
    shown = repr(filter) if is_text else filter
    try:
        fits, _ = visit(unbound, _Fits(schema, case_sensitive, is_text))
        return fits, visit(fits, _Binds(schema, case_sensitive))
    except ValueError as error:
        if "Could not find field" in str(error) or "Could not find column" in str(error):
            known = ", ".join(field.name for field in schema.fields)
            raise NotFoundError(f"filter {shown}: {error}; the table has {known}") from error
        raise InvalidInputError(f"filter {shown}: {error}") from error
    except (TypeError, ArithmeticError) as error:
        raise InvalidInputError(f"filter {shown}: {error}") from error
    except RecursionError as error:
        raise InvalidInputError("filter: nested too deeply") from error


def _mentions(filter: pc.Expression, name: str, schema: pa.Schema) -> bool:
    """Whether a PyArrow expression reads a column: without it the expression does not bind."""
    without = schema.remove(schema.get_field_index(name))
    try:
        ds.dataset(without.empty_table()).scanner(columns={"match": filter})
    except pa.ArrowInvalid:
        return True
    return False


class _Folds(BooleanExpressionVisitor[BooleanExpression]):
    """Rebuilds an expression; subclasses say what becomes of a predicate."""

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise TypeError(f"not rewritten: {child_result}")

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        raise TypeError(f"not bound: {predicate}")

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise TypeError(f"bound already: {predicate}")


class _Fits(BooleanExpressionVisitor[_Pair]):
    """Makes literals values of their columns' types, and carries NOT down to the predicates.

    The result is true where the filter is, and a second one where its negation is. A comparison is false of
    NaN, so its negation is true of NaN: ``not (x <= 0)`` becomes ``x > 0 or x is nan``, for PyIceberg's
    evaluators of metrics too.
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
        kind = predicate.term.bind(self._schema, self._case_sensitive).ref().field.field_type
        if self._is_text:
            check_written(predicate, kind)
        negated = fitting(~predicate, kind)
        ordered = isinstance(predicate, LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual)
        if ordered and isinstance(kind, FloatType | DoubleType):
            negated = Or(negated, IsNaN(term=predicate.term))
        return fitting(predicate, kind), negated

    def visit_bound_predicate(self, predicate: BoundPredicate) -> _Pair:
        raise TypeError(f"bound already: {predicate}")


class _Binds(_Folds):
    """Binds as PyIceberg does, but a comparison that every value passes still is unknown for NULL.

    PyIceberg makes ``x < 3000000000`` on a 32-bit column simply true.
    """

    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        bound: BooleanExpression = predicate.bind(self._schema, self._case_sensitive)
        reference = predicate.term.bind(self._schema, self._case_sensitive).ref()
        if (
            isinstance(bound, AlwaysTrue | AlwaysFalse)
            and reference.field.required
            and reference.accessor.inner is not None
        ):
            raise UnsupportedError(
                f"filter {predicate}: a required field of a struct, which may be NULL with its struct"
            )
        if isinstance(bound, AlwaysTrue) and not isinstance(predicate, NotNull):
            return NotNull(term=predicate.term).bind(self._schema, self._case_sensitive)
        return bound


class _Columns(BooleanExpressionVisitor[None]):
    """Collects the ids of the columns that a bound expression reads."""

    def __init__(self) -> None:
        self.field_ids: set[int] = set()
        self.unsure = False

    def visit_true(self) -> None: ...

    def visit_false(self) -> None: ...

    def visit_not(self, child_result: None) -> None: ...

    def visit_and(self, left_result: None, right_result: None) -> None: ...

    def visit_or(self, left_result: None, right_result: None) -> None: ...

    def visit_unbound_predicate(self, predicate: Any) -> None:
        raise TypeError(f"not bound: {predicate}")

    def visit_bound_predicate(self, predicate: BoundPredicate) -> None:
        reference = predicate.term.ref()
        self.unsure |= isinstance(predicate, BoundLike)
        self.field_ids.add(reference.field.field_id)
        self.unsure |= isinstance(reference.field.field_type, FloatType | DoubleType)
        self.unsure |= reference.accessor.inner is not None


class _Prunable(_Folds):
    """Puts in the place of LIKE what metrics can say of it."""

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        weaker: BooleanExpression = predicate.weakened() if isinstance(predicate, Like) else predicate
        return weaker


class _NullsDoNotMatch(_Folds):
    """Adds IS NOT NULL to each predicate that is unknown for NULL in SQL."""

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        return predicate if isinstance(predicate, IsNull) else And(NotNull(term=predicate.term), predicate)
