"""Attempts of verbs that the driver makes with few given rows: executors search the data files, unless these are few.

The verbs are those of `puffin_fast.verbs`. The driver writes the new rows and the vectors, which are about as large as
the given rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from puffin_fast._io.run_folder import RunFolder
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.rows.match.matching import Matches, Source
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.located_rows import LocatedRows
from puffin_fast.spark.session.executor_calls import received, sent_by
from puffin_fast.spark.session.sessions import tagged
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.delta import target_of
from puffin_fast.spark.table.job import bins_of_numbered, is_small, of_files
from puffin_fast.spark.table.scan import is_delta
from puffin_fast.spark.table.search import bins_to_search
from puffin_fast.spark.worker import located as worker
from puffin_fast.spark.worker.pack import Place
from puffin_fast.spark.worker.tasks import Target
from puffin_fast.verbs.attempt import Attempt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.tasks import Task
    from puffin_fast.verbs.options import Options


class ManyRowsError(Exception):
    """The driver cannot hold the rows of the table that the verb changes."""


class _OnExecutors(Attempt):
    """The search of an attempt."""

    session: SparkSession
    run_name: str

    def view(self) -> Target:
        """The parts of the table that executors need."""
        raise NotImplementedError

    def located(self, matcher: Matcher, tasks: Sequence[Task]) -> LocatedRows:
        if is_small(tasks):
            return super().located(matcher, tasks)
        view = self.view()
        with tagged(self.session, self.run_name, of_files(tasks)):
            bins = spread(self.session, bins_to_search(tasks))
            found = received(sent_by(bins, worker.located, target=view, matcher=matcher))
        if None in found:
            raise ManyRowsError
        of, rows = worker.unpacked(view, (one for one in found if not isinstance(one, Reads)))
        for one in found:
            if isinstance(one, Reads):
                self.reads += one
        number_of = {task.data.file_path: number for number, task in enumerate(tasks)}
        numbers = np.array([number_of[task.data.file_path] for task in of], np.int64)
        return replace(rows, file=numbers[rows.file]).sorted()

    def matches(self, source: Source, tasks: Sequence[Task], *, compared: bool) -> Matches:
        if is_small(tasks):
            return super().matches(source, tasks, compared=compared)
        bins = bins_of_numbered(range(len(tasks)), tasks)
        with tagged(self.session, self.run_name, of_files(tasks)):
            sent = spread(self.session, bins)
            found = received(
                sent_by(sent, worker.matches, target=self.view(), source=source, compared=compared)
            )
        if any(one is None for one in found):
            raise ManyRowsError
        for _, reads in found:
            self.reads += reads
        file, *others = map(np.concatenate, zip(*(arrays for arrays, _ in found), strict=True))
        order = np.argsort(file, kind="stable")
        return Matches(tasks, *(column[order] for column in (file, *others)))


class _IcebergOnExecutors(_OnExecutors, IcebergAttempt):
    def view(self) -> Target:
        return Target(self.io, without_history(self.metadata), Place(RunFolder("", self.run_name), 0))


class _DeltaOnExecutors(_OnExecutors, DeltaAttempt):
    def view(self) -> Target:
        return target_of(self.table, Place(RunFolder("", self.run_name), 0))


def attempt_on(session: SparkSession, table: Any, options: Options, run: str, started: float) -> Attempt:
    """Begins an attempt.

    Args:
        session: the session of the executors.
        table: a table of Iceberg or Delta.
        run: the name of the run, which its Spark jobs have as a tag.
        started: when the job began, by `time.perf_counter`.
    """
    attempt: _OnExecutors
    if is_delta(table):
        attempt = _DeltaOnExecutors(storage_of(table, filesystem_of(table, None, None)), options)
    else:
        attempt = _IcebergOnExecutors(table, options)
    attempt.session, attempt.run_name, attempt.started = session, run, started
    return attempt
