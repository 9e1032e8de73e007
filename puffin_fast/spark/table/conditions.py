"""Conditions that Spark itself judges: SQL and columns, beyond what PyIceberg's filters say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.predicate.filters import parsed
from puffin_fast.spark.table.scan import scan

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["rows_where", "sql_condition"]

_STAR = re.compile(r"[(,.]\s*\*|unresolvedstar", re.IGNORECASE)
"""``hash(*)``, not ``a * b``: text, or a classic Column's."""


def sql_condition(filter: Any) -> Column | None:
    """A column, or text that is no filter of PyIceberg's grammar, as Spark's condition; None for other filters."""
    from pyspark.sql import Column, functions

    if isinstance(filter, Column):
        return filter
    if isinstance(filter, str):
        try:
            parsed(filter)
        except InvalidInputError:
            return functions.expr(filter)
    return None


def rows_where(
    session: SparkSession, table: Table, condition: Column, filter: Any, *, branch: str
) -> DataFrame:
    """Where the rows are for which a condition is true: ``_file``, ``_pos``.

    Reads the columns whose names stand in the condition's text; all where those alone do not explain it.

    Raises:
        InvalidInputError: Spark cannot parse it, or it does not fit the table's columns.
    """
    from pyspark.errors import AnalysisException

    text = filter if isinstance(filter, str) else str(condition)
    names = [field.name for field in table.schema().fields]
    named = [name for name in names if name.replace("`", "``").lower() in text.lower()]
    choices = [names] if named == names or _STAR.search(text) else [named, names]
    for wanted in choices:
        try:
            rows = scan(session, table, selected_fields=(*wanted, "_file", "_pos"), branch=branch)
            found = rows.where(condition).select("_file", "_pos")
            found.schema  # noqa: B018  Connect asks Spark here
        except AnalysisException as error:  # what does not parse is one, too
            trouble = error
        else:
            return found
    raise InvalidInputError(f"filter {text}: {trouble}") from trouble
