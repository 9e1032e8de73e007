"""The rows of a DataFrame for jobs that read them more than once, or on the driver if they are few.

If an executor that holds blocks of a DataFrame is lost, Spark computes them again, also if the DataFrame is cached.
With a source that is not deterministic, the steps of a job would read different rows, and an upsert could insert a key
twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._concurrency.groups import bins_of
from puffin_fast._concurrency.workers import OPEN_BYTES
from puffin_fast.spark.session.batches import collected, no_rows
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import restoring, tagged
from puffin_fast.spark.session.workers import TASK_BYTES, spread
from puffin_fast.spark.worker import keys
from puffin_fast.spark.worker.reports import SavedRows
from puffin_fast.spark.worker.saved_rows import encoded, load, rows_of, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from puffin_fast.spark.table.job import Job

MOST_ROWS = 1 << 22
"""Largest number of rows that the driver reads."""

MOST_BYTES = 32 << 20
"""Largest size of the rows that the driver reads, in bytes."""


TEXT_BYTES = 512
"""Largest size of the texts and bytes of a row that Spark sends to the driver without a Python worker."""

_PLAIN = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|date|timestamp|timestamp_ntz|decimal\(.*\)|string|binary"
)
_SIZED = ("string", "binary")


class Saved:
    """The rows of a DataFrame, computed once by one Spark job.

    Few rows of plain types are sent to the driver by the JVM, if Spark's estimate says that they are few. Otherwise
    executors write them to files of a run; a task sends few rows to the driver instead. A dry run writes nothing: rows
    that are not few are computed again.

    Args:
        rows: the DataFrame.
        part: the run.
        distinct: whether duplicates of rows may be left out.
    """

    def __init__(self, rows: DataFrame, part: Job, *, distinct: bool = False) -> None:
        self._rows, self._part = rows, part
        with tagged(rows.sparkSession, part.name, "given rows"):
            self._few = _sent_by_jvm(rows)
            if self._few is not None:
                return
        if distinct:
            rows = mapped(rows, over_batches(keys.distinct), rows.schema)
        part.run(part.reports(rows, save), (), "given rows")

    def few(self, most_rows: int = MOST_ROWS) -> pa.Table | None:
        """Returns the rows, or None if they exceed a limit of rows or `MOST_BYTES`."""
        if self._few is not None:
            return self._few if self._few.num_rows <= most_rows else None
        saved = self._part.report.saved
        n_rows, n_bytes = sum(one.n_rows for one in saved), sum(one.n_bytes for one in saved)
        if n_rows > most_rows or n_bytes > MOST_BYTES or not self._is_kept:
            return None
        if not saved:
            return no_rows(self._rows)
        return pa.Table.from_batches(rows_of(self._part.executor_view(), saved))

    def frame(self) -> DataFrame:
        """The rows as a DataFrame that can be computed any number of times with the same rows."""
        saved = self._part.report.saved
        if self._few is not None:
            batches = self._few.to_batches()
            data = encoded(batches).to_pybytes() if batches else b""
            saved = (
                [SavedRows(None, len(data), self._few.num_rows, self._few.nbytes, data)] if batches else []
            )
        elif not self._is_kept:
            return self._rows
        bins = bins_of(saved, TASK_BYTES, lambda one: one.file_size + OPEN_BYTES)
        session = self._rows.sparkSession
        if not bins:
            return session.createDataFrame([], self._rows.schema)
        body = over_batches(load, target=self._part.executor_view())
        return mapped(spread(session, bins), body, self._rows.schema)

    @property
    def _is_kept(self) -> bool:
        return all(one.path or one.data for one in self._part.report.saved)


def _sent_by_jvm(rows: DataFrame) -> pa.Table | None:
    """Returns few rows of plain types, or None. The driver never receives more than `MOST_BYTES`.

    Only a classic session has an estimate of their size, which may be wrong: at most as many rows are computed as fit,
    and long texts are not sent.
    """
    from pyspark.sql import functions

    plan: Any = getattr(rows, "_jdf", None)
    types = [field.dataType for field in rows.schema.fields]
    if plan is None or not all(_PLAIN.fullmatch(kind.simpleString()) for kind in types):
        return None
    plan = plan.queryExecution().optimizedPlan()
    if plan.stats().sizeInBytes() > MOST_BYTES:
        return None
    sized = [at for at, kind in enumerate(types) if kind.simpleString() in _SIZED]
    most = max(0, MOST_BYTES) // (16 * len(types) + (TEXT_BYTES if sized else 0))
    names = [f"c{at}" for at in range(len(types))]
    sent = rows.toDF(*names)
    if sized:
        lengths = (functions.coalesce(functions.octet_length(names[at]), functions.lit(0)) for at in sized)
        fits = reduce(lambda a, b: a + b, lengths) <= TEXT_BYTES
        cut = {at: functions.when(fits, functions.col(names[at])).alias(names[at]) for at in sized}
        sent = sent.select(
            *(cut.get(at, functions.col(name)) for at, name in enumerate(names)), fits.alias("fits")
        )
    known = plan.maxRows()
    if not (known.isDefined() and known.get() <= most):
        sent = sent.limit(most + 1)
    found = collected(sent)
    if found.num_rows > most or (sized and not pc.all(found["fits"], min_count=0).as_py()):
        return None
    return found.select(names).rename_columns(rows.columns)


@contextmanager
def saved(rows: DataFrame, part: Job, *, distinct: bool = False) -> Iterator[Saved]:
    """Computes a DataFrame once; at the end the files of the run are removed. Arguments as `Saved`."""
    try:
        yield Saved(rows, part, distinct=distinct)
    finally:
        part.remove_files()


@contextmanager
def cached(rows: DataFrame) -> Iterator[DataFrame]:
    """Caches the blocks of a DataFrame during the block."""
    kept = rows.persist()
    with restoring(kept.unpersist):
        yield kept
