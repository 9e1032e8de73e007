"""How Spark cuts rows into the batches that it sends to Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from puffin_fast.spark.session.sessions import own_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LIMIT", "NO_LIMIT", "collected", "rows_per_batch", "uncounted"]

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting, 64 MB by default. To keep it, Spark adds up the sizes of all of a batch's buffers after each
single row, which takes half of the time that rows need to reach Python (measured with PySpark 4.1)."""

NO_LIMIT = str((1 << 31) - 1)
"""The value with which Spark does not count, but cuts by ``maxRecordsPerBatch`` alone."""


def rows_per_batch(session: SparkSession) -> int:
    """At most so many rows go into a batch, 10,000 by default; 0 or less is no limit."""
    return int(session.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)


@contextmanager
def uncounted(session: SparkSession) -> Iterator[None]:
    """Lets Spark cut by rows alone what it sends to Python meanwhile, unless the session says otherwise.

    Not where it does not cut by rows: then bytes are the only limit.

    For actions: Spark reads its settings when one begins. Of two at once in a session only the first may have to
    set anything, and takes back nothing that another one needs later.
    """
    if session.conf.get(LIMIT, None) is not None or rows_per_batch(session) <= 0:
        yield
        return
    session.conf.set(LIMIT, NO_LIMIT)
    try:
        yield
    finally:
        if session.conf.get(LIMIT, None) == NO_LIMIT:
            session.conf.unset(LIMIT)


def collected(df: DataFrame) -> pa.Table:
    """A DataFrame's rows, computed with `uncounted` batches, errors as `own_errors` has them."""
    with own_errors(), uncounted(df.sparkSession):
        return df.toArrow()
