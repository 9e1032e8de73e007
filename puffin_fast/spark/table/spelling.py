"""Names of columns in the case of the table, where Spark's setting ``spark.sql.caseSensitive`` is off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession


def in_case_of(df: DataFrame, schema: Schema) -> DataFrame:
    """Renames columns of a DataFrame whose names differ from a column of the table only in case.

    A name that the table has, or that several columns may mean, stays as it is.
    """
    known = _by_lower_case(df.sparkSession, schema)
    given = Counter(name.lower() for name in df.columns)
    renamed = {
        name: known[name.lower()]
        for name in df.columns
        if given[name.lower()] == 1 and known.get(name.lower(), name) != name
    }
    return df.withColumnsRenamed(renamed) if renamed else df


def key_names(
    session: SparkSession, schema: Schema, join_cols: str | Sequence[str] | None
) -> str | Sequence[str] | None:
    """Returns the key columns in the case of the table's names."""
    known = _by_lower_case(session, schema)
    if isinstance(join_cols, str):
        return known.get(join_cols.lower(), join_cols)
    if not isinstance(join_cols, list | tuple):
        return join_cols
    return [known.get(name.lower(), name) if isinstance(name, str) else name for name in join_cols]


def _by_lower_case(session: SparkSession, schema: Schema) -> dict[str, str]:
    """The names of the table's columns by their lower case, where these differ."""
    if session.conf.get("spark.sql.caseSensitive", "false") == "true":
        return {}
    names: list[str] = [field.name for field in schema.fields]
    lowered = Counter(name.lower() for name in names)
    return {name.lower(): name for name in names if lowered[name.lower()] == 1}
