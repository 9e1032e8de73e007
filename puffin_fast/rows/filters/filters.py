"""Row filters: a PyIceberg expression, its text or a PyArrow expression, evaluated on Arrow columns.

Filters use the three-valued logic of SQL. A comparison with NULL is unknown, and so are NOT IN, <> and NOT LIKE of
NULL. A row matches only if the whole filter is true. NaN is compared as in IEEE 754, PyArrow and PyIceberg: ``=``,
``<``, ``<=``, ``>``, ``>=`` and IN are false for NaN, so their negations are true. docs/filters.md describes the
text form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression
from pyiceberg.expressions.visitors import visit
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from puffin_fast._pyiceberg.metrics import metrics_evaluator
from puffin_fast._pyiceberg.v3_types import VariantType, schema_to_arrow
from puffin_fast._text import no_column
from puffin_fast.columns.decimals import MAX_DIGITS, exact_decimals
from puffin_fast.columns.plain_types import decoded, plain_type
from puffin_fast.columns.row_selection import flags_of
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.filters.arrow_equalities import equal_columns
from puffin_fast.rows.filters.evaluator import equal_values, evaluate
from puffin_fast.rows.filters.grammar import parse_filter, shown_text
from puffin_fast.rows.filters.pruning import BoundsPruner, Pruner
from puffin_fast.rows.filters.rewriters import (
    Binder,
    ColumnCollector,
    LiteralConverter,
    NameCollector,
    NotNullRewriter,
    PruningRewriter,
    RequiredFields,
    UnknownColumn,
)
from puffin_fast.rows.filters.shown import filter_text

Filter: TypeAlias = str | BooleanExpression | pc.Expression

NUMBERS = (BooleanType, IntegerType, LongType, FloatType, DoubleType, DateType, TimeType,
           TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)  # fmt: skip
NUMBER_ROWS = 1 << 19
"""Rows of a batch of numbers: a delete by one took 15% less time than with batches of `BATCH_ROWS`; a column, 4 MiB."""

SHORT_TEXT = 4096
"""Characters of a text whose parsing costs little beside the columns of a table."""

FEW_ROWS = 8
"""If conditions leave an eighth of a batch's rows or less, the next one is evaluated for these rows only."""

_TAKEN = 1 << 13
"""Number of flags of rows that are taken at once."""

Condition: TypeAlias = "tuple[BooleanExpression, tuple[int, ...]]"
"""A bound expression, and the ids of its columns."""


def both_filters(first: Filter, second: Filter) -> Filter:
    """Returns the filter that is true where two filters are true.

    Raises:
        InvalidInputError: one is a PyArrow expression and the other one is not, or a text does not parse.
    """
    for row_filter, other in ((first, second), (second, first)):
        if isinstance(row_filter, AlwaysTrue):
            return other
    if isinstance(first, str) and isinstance(second, str):
        for text in (first, second):
            parse_filter(text)  # so that neither changes the meaning of the other
        return " and ".join(f"({text.rstrip().removesuffix(';')})" for text in (first, second))
    if isinstance(first, pc.Expression) and isinstance(second, pc.Expression):
        return first & second
    if any(isinstance(row_filter, pc.Expression) for row_filter in (first, second)):
        raise InvalidInputError(
            "filter: expected two PyArrow expressions, or two filters of text or PyIceberg, found one of each"
        )
    return And(*(parse_filter(part) if isinstance(part, str) else part for part in (first, second)))


def column_names(row_filter: object) -> set[str] | None:
    """Returns the names of the columns in a filter, as they are written; None if they are not known without a schema.

    A text is parsed twice then, so the names of a long one are not known. Those of a wrong filter are not known either.
    """
    if isinstance(row_filter, str) and len(row_filter) <= SHORT_TEXT:
        try:
            row_filter = parse_filter(row_filter)
        except InvalidInputError:
            return None
    if not isinstance(row_filter, BooleanExpression):
        return None
    names = NameCollector()
    try:
        visit(row_filter, names)
    except (TypeError, RecursionError):
        return None
    return names.names


class Matcher(Protocol):
    """Selects rows of a table: a filter or a set of keys. `RowFilter` documents the members."""

    @property
    def expression(self) -> BooleanExpression: ...
    @property
    def field_ids(self) -> tuple[int, ...]: ...
    @property
    def always_true(self) -> bool: ...
    @property
    def always_false(self) -> bool: ...
    @property
    def batch_rows(self) -> int: ...
    @property
    def may_fail(self) -> bool: ...
    @property
    def case_sensitive(self) -> bool: ...
    @property
    def coded(self) -> Collection[int]: ...
    def may_match(self, schema: Schema) -> Callable[[Any], bool]: ...
    def pruner(self, schema: Schema) -> Pruner: ...
    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray: ...
    def equalities(self) -> Iterator[Mapping[int, pa.Array]]: ...
    def strict_expression(self) -> BooleanExpression: ...


@dataclass(frozen=True)
class RowFilter:
    """A filter bound to a table's schema.

    Attributes:
        expression: the unbound expression that prunes files. It is true for each row that matches, and may be
            true for others.
        field_ids: the columns that `mask` reads, in ascending order.
        always_true: whether the filter is true for every row, so that no column is read.
        batch_rows: the smallest number of rows in a batch for which `mask` is efficient.
        case_sensitive: how the names in `expression` are compared with those of the schema.
        coded: those of `field_ids` whose columns `mask` takes as dictionary arrays, too: texts and bytes in conditions
            of no other column. These are decided once for each value of a dictionary.
    """

    expression: BooleanExpression
    field_ids: tuple[int, ...]
    always_true: bool
    batch_rows: int
    _bound: BooleanExpression | None
    _unprovable: bool
    _arrow: pc.Expression | None
    _names: Mapping[str, int]
    _conditions: tuple[Condition, ...] = ()
    case_sensitive: bool = True
    coded: frozenset[int] = frozenset()
    _types: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def bind(cls, row_filter: Filter, schema: Schema, *, case_sensitive: bool = True) -> RowFilter:
        """Binds a filter to a schema.

        Args:
            row_filter: a PyIceberg expression, its text (``"id > 5 and name is not null"``), or a PyArrow
                expression over top-level columns. A PyArrow expression may compute values; it prunes no file by
                its bounds.
            case_sensitive: whether column names are case-sensitive; in PyArrow expressions they always are.

        Raises:
            NotFoundError: the schema does not have a column of the filter.
            InvalidInputError: the text does not parse, or a literal is not a value of its column's type.
            UnsupportedError: a column of the filter is a variant.
        """
        if isinstance(row_filter, pc.Expression):
            return cls._of_arrow(row_filter, schema)
        if not isinstance(row_filter, str | BooleanExpression):
            raise InvalidInputError(
                "row_filter: expected text, a PyIceberg expression or a PyArrow expression, found "
                f"{type(row_filter).__name__}; {_instead(row_filter)}"
            )
        fits, bound = _bound(row_filter, schema, case_sensitive)
        columns = ColumnCollector()
        visit(bound, columns)
        conditions = _conditions_of(bound, schema)
        compared = {field_id for _, used in conditions if len(used) > 1 for field_id in used}
        texts = {id for id in columns.field_ids if isinstance(schema.find_type(id), StringType | BinaryType)}
        return cls(
            expression=visit(fits, PruningRewriter()),
            field_ids=tuple(sorted(columns.field_ids)),
            always_true=isinstance(bound, AlwaysTrue),
            batch_rows=NUMBER_ROWS if _are_numbers(columns.field_ids, schema) else 1,
            _bound=bound,
            _unprovable=columns.unprovable,
            _arrow=None,
            _names={},
            _conditions=conditions,
            case_sensitive=case_sensitive,
            coded=frozenset(texts - compared),
        )

    @classmethod
    def _of_arrow(cls, row_filter: pc.Expression, schema: Schema) -> RowFilter:
        names = {field.name: field.field_id for field in schema.fields}
        empty = pa.schema([pa.field(f.name, schema_to_arrow(f.field_type)) for f in schema.fields])
        try:
            scanner = ds.dataset(pa.Table.from_batches([], empty)).scanner(columns={"match": row_filter})
            found = scanner.projected_schema.field("match").type
        except (pa.ArrowException, KeyError) as error:
            missing = _NO_FIELD.search(str(error))
            if missing is not None:
                raise NotFoundError(f"filter {row_filter}: {no_column(missing[1], names)}") from None
            raise InvalidInputError(f"filter {row_filter}: {error}") from error
        if not pa.types.is_boolean(found):
            raise InvalidInputError(f"filter {row_filter}: expected a boolean, found {found}")
        mentioned = _mentioned(row_filter, empty)
        used = {name: names[name] for name in mentioned}
        for one in schema.fields:
            if one.name in used and isinstance(one.field_type, VariantType):
                raise UnsupportedError(f"filter {row_filter}: not supported on {one.name}, a variant")
        types = {f.name: plain_type(schema_to_arrow(f.field_type)) for f in schema.fields if f.name in used}
        return cls(
            AlwaysTrue(), tuple(sorted(used.values())), False, 1, None, True, row_filter, used, _types=types
        )

    @property
    def always_false(self) -> bool:
        """Whether the filter is false for every row."""
        return isinstance(self._bound, AlwaysFalse)

    @property
    def may_fail(self) -> bool:
        """Whether `mask` fails for some values, and so must be given live rows only."""
        return self._arrow is not None

    def equalities(self) -> Iterator[Mapping[int, pa.Array]]:
        """Yields rows of some columns, by field id: each row that matches has the values of one of them.

        They are the values of ``=`` and IN among conditions that must all be true, in the storage types of the columns.
        """
        if self._arrow is not None:
            for name, values in equal_columns(self._arrow, self._types).items():
                yield {self._names[name]: values}
        for condition, _ in self._conditions:
            if (found := equal_values(condition)) is not None:
                yield dict([found])

    def may_match(self, schema: Schema) -> Callable[[Any], bool]:
        """Makes a test of whether a file or row group may have rows that match.

        Args:
            schema: the schema that the filter was bound to.

        Returns:
            a function that takes an object with the metrics of a PyIceberg `DataFile`.
        """
        return metrics_evaluator(schema, self.expression, self.case_sensitive)

    def pruner(self, schema: Schema) -> BoundsPruner:
        """Returns what leaves out many files or pages at once, by their bounds; arguments as `may_match`."""
        return BoundsPruner(schema, self.expression, self.case_sensitive)

    def mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray:
        """Which rows match.

        Args:
            columns: for each of `field_ids`, an Arrow array of `n_rows` values; of `coded` ones perhaps a dictionary
                array, whose dictionary has no nulls.
            n_rows: the number of rows in the batch.

        Returns:
            NumPy bool array of length `n_rows`: True where the filter is true, False where it is false or unknown.

        Raises:
            InvalidInputError: a PyArrow expression fails for a value, by an overflow or a division by zero, say.
        """
        if self._bound is None:
            return self._arrow_mask(columns, n_rows)
        rows: np.ndarray | None = None  # those that all conditions so far leave, if they are few
        mask: np.ndarray | None = None
        for condition, field_ids in self._conditions:
            if mask is not None and rows is None and np.count_nonzero(mask) <= n_rows // FEW_ROWS:
                rows = np.flatnonzero(mask)
            if rows is None:
                flags = _matches(condition, field_ids, columns, n_rows)
                mask = flags if mask is None else mask & flags
            else:
                taken = pa.array(rows)
                some = {field_id: columns[field_id].take(taken) for field_id in field_ids}
                rows = rows[_matches(condition, field_ids, some, len(rows))]
        assert mask is not None
        if rows is not None:
            mask = np.zeros(n_rows, np.bool_)
            mask[rows] = True
        return mask

    def _arrow_mask(self, columns: Mapping[int, pa.Array], n_rows: int) -> np.ndarray:
        used = {name: columns[field_id] for name, field_id in self._names.items()}
        batch = pa.record_batch(used or {"": pa.nulls(n_rows)})  # a batch without columns has no rows
        found = ds.InMemoryDataset(batch).scanner(columns={"match": self._arrow}, use_threads=False)
        try:
            return _flags(found.to_table().column(0), n_rows)
        except pa.ArrowMemoryError:
            raise
        except pa.ArrowException as error:
            raise InvalidInputError(f"filter {self._arrow}: {error}") from error

    def strict_expression(self) -> BooleanExpression:
        """The expression for strict evaluation: if a file's metrics satisfy it, all rows of the file match.

        Iceberg's strict evaluation accepts ``x <> 5`` for NULL, so IS NOT NULL is added to each predicate.
        The result is AlwaysFalse for filters on float, double and nested columns, because metrics do not
        count NaN reliably (PyIceberg never does) and do not describe nested columns, and on nanosecond
        timestamps, whose upper bounds may be too low (`TRUNCATED`).
        """
        if self._bound is None or self._unprovable:
            return AlwaysFalse()
        return visit(self.expression, NotNullRewriter())


_NO_FIELD = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ")
"""The message of Arrow for an expression with a column that the schema does not have."""


def _instead(row_filter: object) -> str:
    """What to write in place of an object that is no filter."""
    if row_filter is None or row_filter is True:
        return "'true' is for all rows"
    if isinstance(row_filter, list | tuple | Mapping) and not all(isinstance(key, int) for key in row_filter):
        return "write one text: \"id < 5 AND name = 'a'\""
    if isinstance(row_filter, list | tuple | set | range) or hasattr(row_filter, "columns"):
        return "delete_keys takes keys: delete_keys(table, [1, 2], 'id')"
    return "write the condition as text, such as 'id < 5'"


def _matches(
    condition: BooleanExpression, field_ids: Sequence[int], columns: Mapping[int, pa.Array], n_rows: int
) -> np.ndarray:
    """The rows for which a condition is true; that of a column with a dictionary is decided for each of its values."""
    column = columns[field_ids[0]] if len(field_ids) == 1 else None
    if not isinstance(column, pa.DictionaryArray):
        return _flags(evaluate(condition, columns), n_rows)
    values, indexes = column.dictionary, column.indices
    if 2 * len(values) > n_rows:
        return _flags(evaluate(condition, {field_ids[0]: decoded(column)}), n_rows)
    with_null = pa.concat_arrays([values, pa.nulls(1, values.type)])
    flags = _flags(evaluate(condition, {field_ids[0]: with_null}), len(with_null))
    codes = np.frombuffer(indexes.buffers()[1], np.int32, n_rows, 4 * indexes.offset)
    found = np.empty(n_rows, np.bool_)
    for first in range(0, n_rows, _TAKEN):  # NumPy makes indexes of 8 bytes
        flags.take(codes[first : first + _TAKEN], out=found[first : first + _TAKEN], mode="clip")
    if indexes.null_count:
        found = np.where(flags_of(pc.is_valid(indexes)), found, flags[-1])
    return found


def _flags(matches: Any, n_rows: int) -> np.ndarray:
    """The rows for which a condition is true, from what `ArrowEvaluator` or Arrow returns."""
    if isinstance(matches, bool):
        return np.full(n_rows, matches)
    if isinstance(matches, np.ndarray):
        return matches
    if matches.null_count:
        matches = pc.fill_null(matches, False)
    if isinstance(matches, pa.ChunkedArray):
        matches = matches.combine_chunks()
    return flags_of(matches)


def _conditions_of(bound: BooleanExpression, schema: Schema) -> tuple[Condition, ...]:
    """The operands of the outermost ANDs and their columns; those of numbers first, because they cost least."""
    found: list[Condition] = []
    left = [bound]
    while left:
        operand = left.pop()
        if isinstance(operand, And):
            left += (operand.right, operand.left)
            continue
        columns = ColumnCollector()
        visit(operand, columns)
        found.append((operand, tuple(columns.field_ids)))
    return tuple(sorted(found, key=lambda condition: not _are_numbers(condition[1], schema)))


def _are_numbers(field_ids: Iterable[int], schema: Schema) -> bool:
    return all(isinstance(schema.find_type(field_id), NUMBERS) for field_id in field_ids)


@exact_decimals()
def _bound(
    row_filter: str | BooleanExpression, schema: Schema, case_sensitive: bool
) -> tuple[BooleanExpression, BooleanExpression]:
    """Converts a filter's literals to the types of their columns and removes NOT; also returns it bound."""
    is_text = isinstance(row_filter, str)
    unbound = parse_filter(row_filter) if isinstance(row_filter, str) else row_filter
    try:
        converted, _ = visit(unbound, LiteralConverter(schema, case_sensitive, is_text))
        fits = visit(converted, RequiredFields(schema, case_sensitive))
        return fits, visit(fits, Binder(schema, case_sensitive))
    except UnknownColumn as error:
        raise NotFoundError(
            f"filter {_shown(row_filter)}: {no_column(error.name, schema.column_names)}"
        ) from None
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidInputError(f"filter {_shown(row_filter)}: {error}") from None
    except RecursionError:
        raise InvalidInputError("filter: nested too deeply") from None


def _shown(row_filter: str | BooleanExpression) -> str:
    """A filter for error messages."""
    try:
        return shown_text(filter_text(row_filter))
    except ValueError:  # Python does not convert integers of thousands of digits to text
        return f"with a number of more than {MAX_DIGITS} digits"


def _mentioned(row_filter: pc.Expression, schema: pa.Schema) -> list[str]:
    """Returns the columns that a PyArrow expression reads: it does not bind to a schema without them."""
    found: list[str] = []
    parts = [range(len(schema))]
    while parts:
        part = parts.pop()
        without = pa.schema([*list(schema)[: part.start], *list(schema)[part.stop :]])
        try:
            ds.dataset(pa.Table.from_batches([], without)).scanner(columns={"match": row_filter})
        except pa.ArrowInvalid:
            if len(part) == 1:
                found.append(schema.field(part.start).name)
            else:
                middle = len(part) // 2
                parts += (part[middle:], part[:middle])
    return found
