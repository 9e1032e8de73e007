"""How Spark splits rows into the batches that it sends to Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

from puffin_fast.spark.session.sessions import own_errors, restoring

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting, 64 MB by default. To apply it, Spark sums the sizes of a batch's buffers after each row, which takes
half of the time in which rows are sent to Python (measured with PySpark 4.1)."""

NO_LIMIT = str((1 << 31) - 1)
"""The value with which Spark does not count bytes and splits by ``maxRecordsPerBatch`` only."""


def rows_per_batch(session: SparkSession) -> int:
    """The largest number of rows in a batch, 10,000 by default; 0 or less means no limit."""
    return int(session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)


@contextmanager
def split_by_rows_only(session: SparkSession) -> Iterator[None]:
    """Makes Spark split batches by rows only, during the block.

    Does nothing if the session sets the byte limit itself, or if it has no limit of rows: then bytes are the only
    limit. Spark reads the setting when an action starts, so two blocks at the same time in one session do not
    disturb each other.
    """
    if session.conf.get(LIMIT, None) is not None or rows_per_batch(session) <= 0:
        yield
        return
    with restoring(lambda: _unset(session)):
        session.conf.set(LIMIT, NO_LIMIT)
        yield


def _unset(session: SparkSession) -> None:
    if session.conf.get(LIMIT, None) == NO_LIMIT:
        session.conf.unset(LIMIT)


def collected(df: DataFrame) -> pa.Table:
    """Collects the rows of a DataFrame, within `split_by_rows_only` and `own_errors`."""
    with own_errors(), split_by_rows_only(df.sparkSession):
        return df.toArrow()


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types in which Spark sends and takes columns; timestamps have the time zone UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    needs_zone = "timezone" in signature(to_arrow_schema).parameters  # PySpark 4.2 and later
    zone: Any = {"timezone": "UTC"} if needs_zone else {}
    found: pa.Schema = to_arrow_schema(schema, **zone)
    return found


def no_rows(df: DataFrame) -> pa.Table:
    """Returns a table with the columns of a DataFrame and without rows; Spark computes nothing."""
    return arrow_schema(df.schema).empty_table()
