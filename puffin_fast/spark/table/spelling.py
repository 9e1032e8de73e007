"""Given columns and values in the table's terms, as far as Spark converts them, too.

Names have the case of the table, where Spark's setting ``spark.sql.caseSensitive`` is off. Timestamps with and without
a time zone are converted in the time zone of the session, as by Spark's INSERT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyiceberg.types import IcebergType, TimestampType, TimestamptzType

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType


def as_in_table(df: DataFrame, schema: Schema) -> DataFrame:
    """Renames columns of a DataFrame whose names differ from a column of the table only in case, and casts timestamps.

    A name that the table has, or that several columns may mean, stays as it is.
    """
    df = _in_case_of(df, schema)
    kinds = {field.name: field.field_type for field in schema.fields}
    given = Counter(df.columns)
    casts = {
        field.name: wanted
        for field in df.schema.fields
        if given[field.name] == 1 and (wanted := timestamp_cast(field.dataType, kinds.get(field.name)))
    }
    if not casts:  # Connect refuses no columns
        return df
    return df.withColumns({name: df[f"`{name.replace('`', '``')}`"].cast(to) for name, to in casts.items()})


def timestamp_cast(given: DataType, wanted: IcebergType | None) -> str | None:
    """The type of Spark to cast a timestamp to, if it has a time zone and the column has none, or the reverse."""
    name = given.simpleString()
    if isinstance(wanted, TimestampType) and name == "timestamp":
        return "timestamp_ntz"
    return "timestamp" if isinstance(wanted, TimestamptzType) and name == "timestamp_ntz" else None


def values_as_in_table(session: SparkSession, values: Any, schema: Schema) -> Any:
    """The values of an update, by the table's names. Datetimes without a time zone are those of the session's zone."""
    if not isinstance(values, Mapping):
        return values
    known = _by_lower_case(session, schema)
    kinds = {field.name: field.field_type for field in schema.fields}
    found: dict[Any, Any] = {}
    for given, value in values.items():
        name = known.get(given.lower(), given) if isinstance(given, str) else given
        if name in found or name in values:
            name = given
        if (
            isinstance(value, datetime)
            and value.tzinfo is None
            and isinstance(kinds.get(name), TimestamptzType)
        ):
            with suppress(ValueError):
                value = value.replace(tzinfo=_zone(session.conf.get("spark.sql.session.timeZone") or "UTC"))
        found[name] = value
    return found


def _zone(name: str) -> tzinfo | None:
    """The time zone of a session: a region, or an offset such as +03:30 or GMT+03:30.

    Raises:
        ValueError: it is neither.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError):
        return datetime.strptime(name.removeprefix("UTC").removeprefix("GMT"), "%z").tzinfo


def _in_case_of(df: DataFrame, schema: Schema) -> DataFrame:
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
