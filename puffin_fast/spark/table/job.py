"""The common part of jobs on tables, on the driver: folder, tasks of similar size, results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar

import pyarrow as pa

from puffin_fast._concurrency.workers import OPEN_BYTES
from puffin_fast._io.run_folder import RunFolder
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast._text import counted
from puffin_fast.columns.objects import Objects, Same
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.table_properties import data_folder, delete_file_size, vectors_per_file
from puffin_fast.rows.deletes.outcome import Outcome
from puffin_fast.rows.scan.bins import slices_of, with_deletes
from puffin_fast.rows.scan.splits import data_bytes, row_groups_of
from puffin_fast.rows.tasks import AnyTask, Task, columns_of, named, total
from puffin_fast.spark.dataframe.job_files import check_job, run_name
from puffin_fast.spark.dataframe.write import collect_report
from puffin_fast.spark.session import workers
from puffin_fast.spark.session.executor_calls import Batches, Options, sent_by
from puffin_fast.spark.session.sessions import tagged
from puffin_fast.spark.session.workers import TASK_BYTES, frame_of
from puffin_fast.spark.worker.marked import MARKED, pickled_tasks
from puffin_fast.spark.worker.pack import Place
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Numbered, Share, Target

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

MAIN = "main"

Item = TypeVar("Item")


def checked_id(job_id: str | None) -> str | None:
    """Checks that a job id, if there is one, can begin a file name.

    Raises:
        InvalidInputError: the job id cannot begin a file name.
    """
    return None if job_id is None else check_job(job_id)


class Job:
    """One run of a job: where its executors write, and what they reported.

    Args:
        table: the table to change.
        job_id: the first part of the names of its files; `kind` by default.
        kind: one word for what the job does.
        target_file_size: bytes of blobs above which a task begins another file; the table's by default.
        dry_run: whether executors write to memory only, and discard it.

    Attributes:
        name: the first part of the name of each file; also the tag of its Spark jobs.
        report: the sum of what its tasks reported.
    """

    def __init__(
        self,
        table: Table,
        job_id: str | None,
        kind: str = "delete",
        *,
        target_file_size: int | None = None,
        dry_run: bool = False,
    ) -> None:
        self.table = table
        self.name = run_name(job_id, kind)
        properties = table.properties
        limit = delete_file_size(properties) if target_file_size is None else target_file_size
        folder = RunFolder(f"{data_folder(table)}/{self.name}", self.name)
        self.place = Place(folder, limit, dry_run, most=vectors_per_file(properties))
        self.report = Report()

    def executor_view(self) -> Target:
        """The parts of the table that executors need."""
        return Target(self.table.io, without_history(self.table.metadata), self.place)

    def listing(self) -> Any:
        """The filesystem that lists the folder of the run."""
        return filesystem(self.table.io, self.place.folder.location)[0]

    def reports(
        self,
        df: DataFrame,
        body: Callable[Concatenate[Batches, Target, Options], Iterable[Report]],
        *args: Options.args,
        **options: Options.kwargs,
    ) -> DataFrame:
        """The reports of tasks, which call a function for the rows of a DataFrame."""
        work: Any = body
        return sent_by(df, work, target=self.executor_view(), **options)

    def run(self, reports: DataFrame, tasks: Sequence[Task], what: str | None = None) -> list[Outcome]:
        """Runs the Spark job once and reads its reports.

        Args:
            reports: the Spark job, as `reports` returns it.
            tasks: the data files.
            what: what the job does; by default the number and the size of the data files.
        """
        listing = self.listing()
        with tagged(reports.sparkSession, self.name, what or of_files(tasks)):
            found = collect_report(reports, self.place.folder, listing)
        return self._outcomes(found, tasks)

    def run_here(self, body: Callable[[Target], Iterable[Report]], tasks: Sequence[Task]) -> list[Outcome]:
        """Runs the work of a task on the driver, if that takes less time than starting a task.

        Args:
            body: the work.
            tasks: the data files.
        """
        try:
            found = Report.sum(body(self.executor_view()))
        except BaseException:
            self.remove_files()
            raise
        return self._outcomes(found, tasks)

    def _outcomes(self, report: Report, tasks: Sequence[Task]) -> list[Outcome]:
        self.report += report
        with paused_gc():
            found = zip(named(tasks, [one.data_file for one in report.deleted]), report.deleted, strict=True)
            return [Outcome(task, one.n_new, one.vector, one.by_files) for task, one in found]

    def remove_files(self) -> None:
        """Removes all files of a run that commits none of them."""
        self.place.folder.clear((), self.listing())


def shares_of(tasks: Sequence[Task]) -> Objects[Share]:
    """Splits data files into shares of about `TASK_BYTES`, at row groups; without metrics."""
    with paused_gc():
        every = columns_of(tasks)
        sizes = every.column("data").values("file_size_in_bytes") if len(every) else ()
        large = {row: _n_shares(every[row]) for row, size in enumerate(sizes) if size > TASK_BYTES}
        if not large:
            return Objects(Share, [every, Same(0), Same(1)], len(every))
        counts = [large.get(row, 1) for row in range(len(every))]
        rows = [(row, number) for row, count in enumerate(counts) for number in range(count)]
        of_task = [row for row, _ in rows]
        columns = [every.take(of_task), [number for _, number in rows], [counts[row] for row in of_task]]
        return Objects(Share, columns, len(rows))


def _n_shares(task: Task) -> int:
    return max(1, min(row_groups_of(task), -(-task.data.file_size_in_bytes // TASK_BYTES)))


def bins_of_shares(shares: Objects[Share]) -> list[Objects[Share]]:
    """Groups adjacent shares, as `bins_of_tasks`."""
    return _bins_of_columns(shares, shares.column("task"), shares.values("n_shares")) if shares else []


def bins_of_files(tasks: Sequence[AnyTask]) -> list[Objects[AnyTask]]:
    """Groups adjacent data files, as `bins_of_tasks`; without metrics."""
    every = columns_of(tasks)
    return _bins_of_columns(every, every) if every else []


def bins_of_numbered(numbers: Sequence[int], tasks: Sequence[Task]) -> list[Objects[Numbered]]:
    """Groups adjacent data files with their numbers, as `bins_of_files`."""
    every = columns_of(tasks)
    return _bins_of_columns(Objects(Numbered, [[*numbers], every], len(every)), every) if every else []


def _bins_of_columns(
    items: Objects[Item], tasks: Objects[Task], counts: Iterable[int] = repeat(1)
) -> list[Objects[Item]]:
    """Groups items; of each, the task and the number of its shares."""
    with paused_gc():
        if any(tasks.has_any(name) for name in ("candidates", "position_deletes", "equality_deletes")):
            pairs = zip(tasks, counts, strict=False)
            sized = [with_deletes((task,), data_bytes(task) // count + OPEN_BYTES) for task, count in pairs]
        else:
            sizes = tasks.column("data").values("file_size_in_bytes")
            sized = [(size // count + OPEN_BYTES, ()) for size, count in zip(sizes, counts, strict=False)]
        return [items[some] for some in slices_of(sized, TASK_BYTES)]


def of_files(tasks: Sequence[Task]) -> str:
    """The number and the size of data files, for logs and Spark's UI."""
    return f"{counted(len(tasks), 'data file')}, {total(tasks, 'file_size_in_bytes') / 1e6:.1f} MB"


def is_small(tasks: Collection[Task], field_ids: Sequence[int] | None = None) -> bool:
    """Whether the driver reads data files in less time than Spark takes to run a job.

    Args:
        field_ids: the columns that are read; None for all.
    """
    if len(tasks) > workers.HERE_FILES:
        return False
    n_bytes = 0
    for task in tasks:
        n_bytes += _column_bytes(task, field_ids)
        n_bytes += sum(entry.file_size_in_bytes for entry in (*task.position_deletes, *task.equality_deletes))
    return n_bytes <= workers.HERE_BYTES


def _column_bytes(task: Task, field_ids: Sequence[int] | None) -> int:
    """The size of some columns of a data file as far as its metrics have it, else of the file."""
    sizes = getattr(task.data, "column_sizes", None) or {}
    if task.candidates is None and field_ids is not None and sizes.keys() >= {*field_ids}:
        return sum(sizes[field_id] for field_id in field_ids)
    return data_bytes(task)


def task_rows(session: SparkSession, paths: Sequence[str], tasks: Objects[Any]) -> tuple[DataFrame, bytes]:
    """Returns rows of `MARKED` with the task of each data file, and what tasks have in common, as `pickled_tasks`."""
    with paused_gc():
        pickled, common = pickled_tasks(tasks)
    columns = [
        pa.array(paths, pa.string()),
        pa.nulls(len(tasks), pa.binary()),
        pa.array(pickled, pa.binary()),
    ]
    return frame_of(session, pa.Table.from_arrays(columns, schema=MARKED)), common
