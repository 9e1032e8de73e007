"""The rows of a DataFrame for jobs that read them more than once.

If an executor that holds blocks of a DataFrame is lost, Spark computes them again, also if the DataFrame is cached.
With a source that is not deterministic, the steps of a job would read different rows, and an upsert could insert a key
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.table.job import OPEN_BYTES, bins_of, spread
from puffin_fast.spark.worker.rows import REPORT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from puffin_fast.spark.table.job import Job

_BODIES = "puffin_fast.spark.worker.saved_rows"


@contextmanager
def saved(rows: DataFrame, part: Job) -> Iterator[DataFrame]:
    """Computes a DataFrame once, so that its rows can be read any number of times.

    Executors write them to files of a run, which are removed at the end; cached blocks only avoid reading these files.
    In a dry run, which writes nothing, the DataFrame itself is cached.
    """
    try:
        kept = (rows if part.place.dry_run else _written(rows, part)).persist()
        try:
            yield kept
        finally:
            kept.unpersist()
    finally:
        part.remove_files()


def _written(rows: DataFrame, part: Job) -> DataFrame:
    target, session = part.target(), rows.sparkSession
    part.run(mapped(rows, over_batches(_BODIES, "save", target=target), REPORT), {})
    bins = bins_of(part.saved, lambda file: file.n_bytes + OPEN_BYTES)
    if not bins:
        return session.createDataFrame([], rows.schema)
    return mapped(spread(session, bins), over_batches(_BODIES, "load", target=target), rows.schema)
