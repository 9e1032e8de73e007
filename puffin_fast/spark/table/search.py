"""On the driver: plans a search for rows, by a filter or by keys, that executors run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from puffin_fast.columns.objects import Objects
from puffin_fast.rows.deletes.outcome import Outcome
from puffin_fast.rows.tasks import Task, columns_of, distinct_files, with_metrics
from puffin_fast.spark.session.workers import HERE_FILES, spread
from puffin_fast.spark.table.job import bins_of_files, is_small
from puffin_fast.spark.worker.tasks import deleted, search

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from puffin_fast.rows.scan.finder import Finder
    from puffin_fast.spark.table.job import Job


FEW_FILES, FEW_ROWS = 256, 1 << 16
"""Up to these numbers of data files and rows that a key index names, the driver reads the rows."""


def searched(session: SparkSession, job: Job, tasks: Sequence[Task], finder: Finder) -> list[Outcome]:
    """Searches data files on executors, which write the deletes. Files that metadata decides are not read.

    Args:
        job: the run that writes.
        finder: the finder of rows; its matcher is sent to the executors, and it counts what they read.
    """
    known, left = _settled(tasks, finder)
    if not left:
        return known
    if len(left) <= HERE_FILES:
        some = [*{tasks[at].data.file_path: tasks[at] for at in left}.values()]
        if is_named(some) or is_small(some, finder.matcher.field_ids):
            return known + job.run_here(lambda target: deleted(finder.search(some), target), some)
    every = columns_of(tasks)
    others = every if len(left) == len(every) else every.take(left)
    if others.has_any("position_deletes"):  # those that metrics prove are not read
        found = ((at, tasks[row]) for at, row in enumerate(left))
        kept = {at: task for at, task in found if task.position_deletes and finder.proves(task)}
        others = with_metrics(others, kept)
    others = distinct_files(others)
    bins = spread(session, bins_to_search(others))
    known += job.run(job.reports(bins, search, matcher=finder.matcher), others)
    if finder.reads is not None:
        finder.reads += job.report.reads
    return known


def is_named(tasks: Collection[Task]) -> bool:
    """Whether a key index names so few rows that the driver reads them in less time than tasks take to start."""
    rows = [-1 if task.candidates is None else len(task.candidates) for task in tasks]
    return len(rows) <= FEW_FILES and -1 not in rows and sum(rows) <= FEW_ROWS


def bins_to_search(tasks: Sequence[Task]) -> list[Objects[Task]]:
    """Groups data files into tasks; each file is read once, by one task."""
    every = columns_of(tasks)
    specs = [*every.column("data").values("spec_id")] if every else []
    if len({*specs}) > 1:
        every = every.take(sorted(range(len(specs)), key=specs.__getitem__))
    return bins_of_files(every)


def _settled(tasks: Sequence[Task], finder: Finder) -> tuple[list[Outcome], list[int]]:
    """Returns the outcomes that metadata alone decides, and the indexes of the remaining tasks."""
    known, decided = [], set()
    for at in finder.provable(tasks):
        task = tasks[at]
        if finder.proves(task) and not task.position_deletes:
            decided.add(at)
            found = finder.deletes(task)
            if found.n_new:
                known.append(Outcome(task, found.n_new))
    return known, [at for at in range(len(tasks)) if at not in decided]
