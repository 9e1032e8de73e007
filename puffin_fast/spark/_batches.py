"""How Spark cuts rows into the batches that it sends to Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LIMIT", "NO_LIMIT", "uncounted"]

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's setting, 64 MB by default. To keep it, Spark adds up the sizes of all of a batch's buffers after each
single row, which takes half of the time that rows need to reach Python (measured with PySpark 4.1)."""

NO_LIMIT = str((1 << 31) - 1)
"""The value with which Spark does not count, but cuts by ``maxRecordsPerBatch`` alone."""


@contextmanager
def uncounted(session: SparkSession) -> Iterator[None]:
    """Lets Spark cut by rows alone what it sends to Python meanwhile, unless the session says otherwise.

    Not where it does not cut by rows: then bytes are the only limit.

    For actions: Spark reads its settings when one begins. Of two at once in a session only the first may have to
    set anything, and takes back nothing that another one needs later.
    """
    if session.conf.get(LIMIT, None) is not None or int(session.conf.get(ROWS) or 0) <= 0:
        yield
        return
    session.conf.set(LIMIT, NO_LIMIT)
    try:
        yield
    finally:
        if session.conf.get(LIMIT, None) == NO_LIMIT:
            session.conf.unset(LIMIT)
