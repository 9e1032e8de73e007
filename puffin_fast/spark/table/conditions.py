"""Conditions that Spark evaluates: a Column, or text, which is Spark's SQL.

A condition with the same meaning as a filter of Iceberg is not evaluated by Spark, so that it prunes data files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    BooleanExpression,
    BoundPredicate,
    IsNull,
    LiteralPredicate,
    NotNull,
    SetPredicate,
)
from pyiceberg.expressions.literals import BooleanLiteral, Literal, LongLiteral, StringLiteral
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, visit
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
)

from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.filters.like import Like
from puffin_fast.rows.filters.literals import TimeText
from puffin_fast.rows.filters.remainder import Remainder
from puffin_fast.spark.session.sessions import first_line, quiet_contexts
from puffin_fast.spark.table.column_filters import filter_of, filter_of_text

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame, SparkSession

_LOG = logging.getLogger(__name__)

PLACES = ("_file", "_pos")
"""The metadata columns of a row's data file and position."""

_STAR = re.compile(r"[(,.]\s*\*|unresolvedstar", re.IGNORECASE)
"""``hash(*)``, not ``a * b``: text, or a classic Column's."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d")

_QUOTED = re.compile(
    r"""(?<!\w)[rR]'[^']*'|'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|("(?:[^"\\]|\\.|"")*"?)""",
    re.DOTALL,
)
"""The quoted tokens and comments of Spark's SQL; the group is a token in double quotes."""

_NAMES_IN_QUOTES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
"""The settings with which, if both are set, a token in double quotes is a name."""


def sql_condition(
    session: SparkSession, row_filter: Any, schema: Schema
) -> tuple[Column | None, Filter | Any]:
    """Returns the condition that Spark evaluates, or None, and the filter in the form in which it is evaluated.

    Args:
        session: the session; its settings determine how Spark reads text.
        row_filter: a filter of any kind. A Column or text with the same meaning as a filter of Iceberg is converted.

    Returns:
        A condition of Spark and the given filter, or None and a filter of Iceberg.

    Raises:
        InvalidInputError: a text has a token in double quotes, which is text in Spark's SQL and a name in Iceberg's
            filters. A condition such as ``"s" is not null`` would be true for all rows.
    """
    from pyspark.sql import Column, functions

    if not isinstance(row_filter, Column | str):
        return None, row_filter
    if (found := _same_filter(row_filter, schema)) is not None:
        return None, found
    if isinstance(row_filter, Column):
        return row_filter, row_filter
    _check_quotes(session, row_filter)
    return functions.expr(row_filter), row_filter


def filter_only(session: SparkSession, row_filter: Any, schema: Schema) -> Filter | Any:
    """Returns the filter of Iceberg with the meaning of a filter of any kind; arguments as `sql_condition`.

    Raises:
        InvalidInputError: Spark would have to evaluate it.
    """
    condition, found = sql_condition(session, row_filter, schema)
    if condition is not None:
        raise InvalidInputError(
            f"filter {row_filter}: Spark would have to evaluate it; expected a filter of Iceberg, or one that means "
            "the same in Spark's SQL"
        )
    return found


def check_meaning(row_filter: Any, schema: Schema) -> None:
    """Checks a filter that Spark does not evaluate.

    Args:
        row_filter: a filter of Iceberg.

    Raises:
        InvalidInputError: the filter is text that may have another meaning in Spark's SQL.
    """
    if isinstance(row_filter, str) and _same_filter(row_filter, schema) is None:
        raise InvalidInputError(
            f"filter {row_filter}: may mean something else in Spark's SQL; expected a PyIceberg expression, or no "
            "filter here and DataFrame.where on the result"
        )


def _same_filter(row_filter: str | Column, schema: Schema) -> BooleanExpression | None:
    """Returns the filter of Iceberg with the same meaning as text or a Column under all settings of Spark, or None."""
    found = filter_of_text(row_filter) if isinstance(row_filter, str) else filter_of(row_filter)
    return found if found is not None and visit(found, _MeansTheSame(schema)) else None


def _check_quotes(session: SparkSession, text: str) -> None:
    quoted = next((found[1] for found in _QUOTED.finditer(text) if found[1]), None)
    if quoted is None or all(session.conf.get(name, "false") == "true" for name in _NAMES_IN_QUOTES):
        return
    inner = quoted.strip('"')
    raise InvalidInputError(
        f"filter {text}: {quoted} is text in Spark's SQL, and a name in Iceberg's filters: write `{inner}` for a "
        f"column, '{inner}' for text"
    )


def check_places(schema: Schema) -> None:
    """Checks that ``_file`` and ``_pos`` are the metadata columns, by which Spark returns the positions of rows.

    Raises:
        UnsupportedError: the table has a column with such a name.
    """
    for field in schema.fields:
        if field.name in PLACES:
            raise UnsupportedError(
                f"column {field.name}: has the name of a metadata column, so Spark cannot find the places of rows; "
                "expected a filter of Iceberg"
            )


def rows_where(
    read: Callable[[Sequence[str]], DataFrame], names: Sequence[str], condition: Column, row_filter: Any
) -> DataFrame:
    """Returns the rows for which a condition is true.

    Args:
        read: reads columns of the table: those whose names are in the text of the condition, or all columns if Spark
            cannot resolve the condition with them.
        names: the names of all columns.
        condition: the condition that Spark evaluates.
        row_filter: the argument from which the condition was made.

    Raises:
        InvalidInputError: Spark cannot parse the condition, or it does not fit the table's columns.
    """
    text = row_filter if isinstance(row_filter, str) else str(condition)
    return _named(read, names, text, lambda rows: rows.where(condition))


def is_nan(rows: DataFrame, schema: Schema, text: str) -> list[Column]:
    """A Column that is true if a float that a condition names is NaN; nothing if the condition itself names NaN."""
    from pyspark.sql import functions

    if "nan" in text.lower():
        return []
    found = [
        functions.isnan(functions.col(f"`{field.name.replace('`', '``')}`"))
        for field in schema.fields
        if isinstance(field.field_type, FloatType | DoubleType)
        and field.name in rows.columns
        and re.search(rf"(?<!\w){re.escape(field.name)}(?!\w)", text, re.IGNORECASE)
    ]
    return [reduce(lambda a, b: a | b, found).alias("is_nan")] if found else []


def nan_warning(job: str, n_rows: int, verb: str) -> str:
    """Logs and returns the warning that rows with NaN were changed, which other engines leave as they are.

    Args:
        job: the name of the job.
        n_rows: the number of changed rows with NaN in a column that `is_nan` names.
        verb: delete or update.
    """
    warning = (
        f"{n_rows} {verb}d rows have NaN in a column of the filter, which Spark's SQL takes for the largest number; "
        f"pf.iceberg.{verb}, a PyIceberg expression here, and Spark's {verb.upper()} of data files whose bounds "
        f"exclude the filter do not {verb} such rows"
    )
    _LOG.warning("%s: %s", job, warning)
    return warning


def selected_from(
    read: Callable[[Sequence[str]], DataFrame],
    names: Sequence[str],
    columns: Sequence[str | Column],
    text: str,
) -> DataFrame:
    """Returns Columns of the rows of a table; arguments as `rows_where`.

    Args:
        read: as `rows_where`.
        names: as `rows_where`.
        text: their text.

    Raises:
        InvalidInputError: a Column does not fit the table's columns.
    """
    return _named(read, names, text, lambda rows: rows.select(*columns))


def _named(
    read: Callable[[Sequence[str]], DataFrame],
    names: Sequence[str],
    text: str,
    use: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Uses the columns whose names are in a text, or all columns if Spark cannot resolve it with them."""
    from pyspark.errors import AnalysisException

    def resolved(some: Sequence[str]) -> DataFrame:
        found = use(read(some))
        found.schema  # noqa: B018  Connect asks Spark here
        return found

    named = [name for name in names if name.replace("`", "``").lower() in text.lower()]
    if named != names and not _STAR.search(text):
        try:
            with quiet_contexts():
                return resolved(named)
        except AnalysisException:  # a name in the text is not a column, or is written in another form
            pass
    with sql_errors(text):
        return resolved(names)


@contextmanager
def sql_errors(row_filter: Any) -> Iterator[None]:
    """Translates Spark's errors about a condition, when it is made or when it runs, to errors that name the condition.

    Raises:
        InvalidInputError: Spark cannot parse the condition, it does not fit the table's columns, or it fails for a row:
            for example, a text is not a number, a number overflows, or an array is shorter than an index.
    """
    from pyspark.errors import (
        AnalysisException,
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        NumberFormatException,
    )

    try:
        with quiet_contexts():
            yield
    except (  # a parse error is an AnalysisException, too
        AnalysisException,
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        NumberFormatException,
    ) as error:
        raise InvalidInputError(
            f"filter {row_filter}: text is Spark's SQL here, a PyIceberg expression is Iceberg's: "
            f"{first_line(error)}"
        ) from error


class _MeansTheSame(BooleanExpressionVisitor[bool]):
    """Whether a filter has the same meaning in Spark SQL, with all settings, as in docs/filters.md."""

    def __init__(self, schema: Schema) -> None:
        lowered = [field.name.lower() for field in schema.fields]
        self._kinds: dict[str, IcebergType] = {
            field.name: field.field_type for field in schema.fields if lowered.count(field.name.lower()) == 1
        }

    def visit_true(self) -> bool:
        return True

    def visit_false(self) -> bool:
        return True

    def visit_not(self, child_result: bool) -> bool:
        return child_result

    def visit_and(self, left_result: bool, right_result: bool) -> bool:
        return left_result and right_result

    def visit_or(self, left_result: bool, right_result: bool) -> bool:
        return left_result and right_result

    def visit_unbound_predicate(self, predicate: Any) -> bool:
        kind = self._kinds.get(predicate.term.name)
        if kind is None:
            return False
        if isinstance(predicate, Remainder):
            return isinstance(kind, IntegerType | LongType) and abs(predicate.divisor) <= LongType.max
        if isinstance(predicate, Like):
            return isinstance(kind, StringType) and not predicate.ignore_case
        if isinstance(predicate, LiteralPredicate):
            return _compares_alike(predicate.literal, kind)
        if isinstance(predicate, SetPredicate):
            return all(_compares_alike(literal, kind) for literal in predicate.literals)
        return isinstance(predicate, IsNull | NotNull)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> bool:
        raise TypeError(f"bound already: {predicate}")


def _compares_alike(literal: Literal[Any], kind: IcebergType) -> bool:
    """Returns whether a comparison has the same meaning in Spark. Comparisons of floats (NaN), decimals (rounding) and
    timestamps (time zones), and literals that Spark would cast, do not."""
    value = literal.value
    if isinstance(kind, IntegerType | LongType):
        return isinstance(literal, LongLiteral) and LongType.min <= value <= LongType.max
    if isinstance(kind, DateType):
        return isinstance(literal, StringLiteral) and _DATE.fullmatch(value) is not None
    if isinstance(kind, StringType):
        return isinstance(literal, StringLiteral) and not isinstance(literal, TimeText)
    return isinstance(kind, BooleanType) and isinstance(literal, BooleanLiteral)
