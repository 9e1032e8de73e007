"""The rows of a DataFrame for jobs that read them more than once, or on the driver if they are few.

If an executor that holds blocks of a DataFrame is lost, Spark computes them again, also if the DataFrame is cached.
With a source that is not deterministic, the steps of a job would read different rows, and an upsert could insert a key
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast._run.groups import bins_of
from puffin_fast.spark.session.batches import no_rows
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.table.job import OPEN_BYTES, TASK_BYTES, spread
from puffin_fast.spark.worker.rows import REPORT
from puffin_fast.spark.worker.saved_rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from puffin_fast.spark.table.job import Job

_BODIES = "puffin_fast.spark.worker.saved_rows"

MOST_ROWS = 1 << 22
"""Largest number of rows that the driver reads."""

MOST_BYTES = 32 << 20
"""Largest size of the rows that the driver reads, in bytes."""


class Saved:
    """The rows of a DataFrame, computed once by one Spark job.

    Executors write them to files of a run; a task sends few rows to the driver instead. A dry run writes nothing: rows
    that are not few are computed again.
    """

    def __init__(self, rows: DataFrame, part: Job) -> None:
        self._rows, self._part, self._target = rows, part, part.target()
        part.run(mapped(rows, over_batches(_BODIES, "save", target=self._target), REPORT), {}, "given rows")
        self._is_kept = all(one.path or one.data for one in part.saved)

    def few(self, most_rows: int = MOST_ROWS) -> pa.Table | None:
        """Returns the rows, or None if they exceed a limit of rows or `MOST_BYTES`."""
        saved = self._part.saved
        n_rows, n_bytes = sum(one.n_rows for one in saved), sum(one.n_bytes for one in saved)
        if n_rows > most_rows or n_bytes > MOST_BYTES or not self._is_kept:
            return None
        if not saved:
            return no_rows(self._rows)
        return pa.Table.from_batches(rows_of(self._part.executor_view(), saved))

    def frame(self) -> DataFrame:
        """The rows as a DataFrame that can be computed any number of times with the same rows."""
        if not self._is_kept:
            return self._rows
        bins = bins_of(self._part.saved, TASK_BYTES, lambda one: one.file_size + OPEN_BYTES)
        session = self._rows.sparkSession
        if not bins:
            return session.createDataFrame([], self._rows.schema)
        body = over_batches(_BODIES, "load", target=self._target)
        return mapped(spread(session, bins), body, self._rows.schema)


@contextmanager
def saved(rows: DataFrame, part: Job) -> Iterator[Saved]:
    """Computes a DataFrame once; at the end the files of the run are removed."""
    try:
        yield Saved(rows, part)
    finally:
        part.remove_files()


@contextmanager
def cached(rows: DataFrame) -> Iterator[DataFrame]:
    """Caches the blocks of a DataFrame during the block."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
