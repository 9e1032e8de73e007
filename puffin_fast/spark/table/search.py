"""On the driver: plans a search for rows, by a filter or by keys, that executors run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from puffin_fast.rows.deletes.outcome import Outcome
from puffin_fast.rows.tasks import Task
from puffin_fast.spark.table.job import bins_of_tasks, is_small, spread, without_metrics
from puffin_fast.spark.worker.tasks import deleted, search

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from puffin_fast.rows.scan.finder import Finder
    from puffin_fast.spark.table.job import Job


FEW_FILES, FEW_ROWS = 256, 1 << 16
"""Up to these numbers of data files and rows that a key index names, the driver reads the rows."""


def searched(session: SparkSession, job: Job, tasks: Iterable[Task], finder: Finder) -> list[Outcome]:
    """Searches data files on executors, which write the deletes. Files that metadata decides are not read.

    Args:
        job: the run that writes.
        finder: the finder of rows; its matcher is sent to the executors, and it counts what they read.
    """
    known, whole = _settled(tasks, finder)
    if not whole:
        return known
    others = {task.data.file_path: task for task in without_metrics(whole.values())}
    # those that metrics prove are not read
    others |= {path: task for path, task in whole.items() if task.position_deletes and finder.proves(task)}
    if is_named(others.values()) or is_small(whole.values(), finder.matcher.field_ids):
        return known + job.run_here(lambda target: deleted(finder.search([*others.values()]), target), others)
    bins = spread(session, bins_to_search(others.values()))
    known += job.run(job.reports(bins, search, matcher=finder.matcher), others)
    if finder.reads is not None:
        finder.reads += job.report.reads
    return known


def is_named(tasks: Collection[Task]) -> bool:
    """Whether a key index names so few rows that the driver reads them in less time than tasks take to start."""
    rows = [-1 if task.candidates is None else len(task.candidates) for task in tasks]
    return len(rows) <= FEW_FILES and -1 not in rows and sum(rows) <= FEW_ROWS


def bins_to_search(tasks: Iterable[Task]) -> list[list[Task]]:
    """Groups data files into tasks; each file is read once, by one task."""
    by_spec = sorted(tasks, key=lambda task: task.data.spec_id)
    return bins_of_tasks(by_spec, lambda task: (task,))


def _settled(tasks: Iterable[Task], finder: Finder) -> tuple[list[Outcome], dict[str, Task]]:
    """Returns the outcomes that metadata alone decides, and the remaining tasks by path."""
    known, others = [], {}
    for task in tasks:
        if finder.proves(task) and not task.position_deletes:
            found = finder.deletes(task)
            if found.n_new:
                known.append(Outcome(task, found.n_new))
        else:
            others[task.data.file_path] = task
    return known, others
