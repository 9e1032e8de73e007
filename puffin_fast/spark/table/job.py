"""The common part of jobs on tables, on the driver: folder, tasks of similar size, results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeVar

import pyarrow as pa

from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast._run.gc_pause import paused_gc
from puffin_fast._text import counted
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.table_properties import data_folder
from puffin_fast.iceberg.delete_files.deletion_vectors import target_file_size as size_of
from puffin_fast.iceberg.manifest.entries import METRICS
from puffin_fast.rows.deletes.outcome import Outcome
from puffin_fast.rows.scan.splits import data_bytes, row_groups_of
from puffin_fast.rows.shared_deletes import DeleteFiles as SharedDeleteFiles
from puffin_fast.rows.tasks import DataFile, Task
from puffin_fast.spark.dataframe.job_files import check_job, run_name
from puffin_fast.spark.dataframe.write import collect_report, remove_unnamed
from puffin_fast.spark.session.batches import rows_per_batch
from puffin_fast.spark.session.executor_calls import Batches, Options, pack, sent_by
from puffin_fast.spark.session.sessions import tagged
from puffin_fast.spark.worker.marked import MARKED, pickled_tasks
from puffin_fast.spark.worker.pack import Place
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

MAIN = "main"

TASK_BYTES = 128 << 20
"""Bytes of files that one task reads (a larger file is a task of its own), as in Spark's own scans."""

OPEN_BYTES = 512 << 10
"""The cost of opening a data file, expressed as bytes that are read."""

LITERAL_BYTES = 1 << 20
"""Bytes of packed bins that are part of a query's plan."""

HERE_FILES, HERE_BYTES = 256, 32 << 20
"""Up to these numbers of data files and of bytes of their columns, the driver reads them in less time than Spark takes
to run a job."""

Item = TypeVar("Item")
AnyTask = TypeVar("AnyTask", bound=Task)


class WithDeletes(Protocol):
    """A data file and its deletes: a `Task`, or `FileDeletes`."""

    @property
    def data(self) -> DataFile: ...
    @property
    def position_deletes(self) -> SharedDeleteFiles: ...
    @property
    def equality_deletes(self) -> SharedDeleteFiles: ...


Share = tuple[Task, int, int]
"""A data file, the number of one share of its row groups, and the number of shares."""


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
        limit = size_of(table) if target_file_size is None else target_file_size
        self.place = Place(f"{data_folder(table)}/{self.name}", self.name, limit, dry_run)
        self.report = Report()

    def executor_view(self) -> Target:
        """The parts of the table that executors need."""
        return Target(self.table.io, without_history(self.table.metadata), self.place)

    def listing(self) -> Any:
        """The filesystem that lists the folder of the run."""
        return filesystem(self.table.io, self.place.location)[0]

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

    def run(self, reports: DataFrame, tasks: Mapping[str, Task], what: str | None = None) -> list[Outcome]:
        """Runs the Spark job once and reads its reports.

        Args:
            reports: the Spark job, as `reports` returns it.
            tasks: the data files, by path.
            what: what the job does; by default the number and the size of the data files.
        """
        listing = self.listing()
        with tagged(reports.sparkSession, self.name, what or of_files(tasks.values())):
            found = collect_report(reports, self.place.location, self.name, listing)
        return self._outcomes(found, tasks)

    def run_here(
        self, body: Callable[[Target], Iterable[Report]], tasks: Mapping[str, Task]
    ) -> list[Outcome]:
        """Runs the work of a task on the driver, if that takes less time than starting a task.

        Args:
            body: the work.
            tasks: the data files, by path.
        """
        try:
            found = Report.sum(body(self.executor_view()))
        except BaseException:
            self.remove_files()
            raise
        return self._outcomes(found, tasks)

    def _outcomes(self, report: Report, tasks: Mapping[str, Task]) -> list[Outcome]:
        self.report += report
        return [Outcome(tasks[one.data_file], one.n_new, one.vector, one.by_files) for one in report.deleted]

    def remove_files(self) -> None:
        """Removes all files of a run that commits none of them."""
        remove_unnamed(self.place.location, self.name, (), self.listing())


def without_metrics(tasks: Iterable[AnyTask]) -> list[AnyTask]:
    """Tasks without the metrics of their data files, which executors do not need."""
    with paused_gc():
        return [*map(_without_metrics, tasks)]


def _without_metrics(task: AnyTask) -> AnyTask:
    known = [name for name in METRICS if getattr(task.data, name, None) is not None]
    if not known:
        return task
    found, data = copy(task), copy(task.data)
    found.data = data
    for name in known:
        setattr(data, name, None)
    return found


def shares_of(tasks: Iterable[Task]) -> list[Share]:
    """Splits data files into shares of about `TASK_BYTES`, at row groups."""
    with paused_gc():
        counts = [(task, _n_shares(task)) for task in tasks]
        return [(task, number, count) for task, count in counts for number in range(count)]


def _n_shares(task: Task) -> int:
    wanted = -(-task.data.file_size_in_bytes // TASK_BYTES)
    return 1 if wanted < 2 else max(1, min(row_groups_of(task), wanted))


def share_bytes(share: Share) -> int:
    """The cost of reading a share, in bytes."""
    task, _, count = share
    return task.data.file_size_in_bytes // count + OPEN_BYTES


def bins_of_tasks(
    items: Iterable[Item],
    tasks_of: Callable[[Item], Sequence[WithDeletes]],
    cost: Callable[[Item], int] | None = None,
) -> list[list[Item]]:
    """Groups adjacent items so that each group reads data files of at most about `TASK_BYTES`, or as many as its delete
    files. Groups are of similar size, so that two cores end at the same time.

    Each group reads all delete files that its data files share. If groups were smaller than these delete files, the
    cost would be proportional to the product of data files and delete files.

    Args:
        items: the items to group.
        tasks_of: returns the data files of an item, with their deletes.
        cost: returns the cost of reading these data files, in bytes; by default their sizes, and `OPEN_BYTES` for each.
    """
    with paused_gc():
        return _bins_of([(item, *_bytes_of(item, tasks_of, cost)) for item in items])


def _bins_of(sized: Sequence[tuple[Item, int, list[Any]]]) -> list[list[Item]]:
    groups: list[list[Item]] = []
    lists: set[int] = set()
    entries: set[int] = set()
    left = sum(size for _, size, _ in sized)
    n_bytes = n_shared = share = 0
    for item, size, shared in sized:
        is_full = n_bytes + size > TASK_BYTES or n_bytes + size // 2 > share
        if not groups or (is_full and n_bytes + size > n_shared):
            groups.append([])
            share = -(-left // max(1, -(-left // TASK_BYTES)))
            lists, entries, n_bytes, n_shared = set(), set(), 0, 0
        for one in shared:
            if id(one) not in lists:
                lists.add(id(one))
                for entry in one.entries[one.first or 0 :]:
                    if id(entry) not in entries:
                        entries.add(id(entry))
                        n_shared += entry.file_size_in_bytes + OPEN_BYTES
        groups[-1].append(item)
        n_bytes += size
        left -= size
    return groups


def _bytes_of(
    item: Item, tasks_of: Callable[[Item], Sequence[WithDeletes]], cost: Callable[[Item], int] | None
) -> tuple[int, list[Any]]:
    """The bytes of an item and of the delete files of its own, and the lists of delete files that items share."""
    tasks = tasks_of(item)
    if cost is None:
        size = sum(data_bytes(task) + OPEN_BYTES for task in tasks)
    else:
        size = cost(item)
    parts = [part for task in tasks for part in (*task.position_deletes.parts, *task.equality_deletes.parts)]
    for one, start in parts:
        if one.of_one:
            size += sum(entry.file_size_in_bytes + OPEN_BYTES for entry in one.entries[start:])
    return size, [one for one, _ in parts if not one.of_one]


def of_files(tasks: Collection[WithDeletes]) -> str:
    """The number and the size of data files, for logs and Spark's UI."""
    n_bytes = sum(task.data.file_size_in_bytes for task in tasks)
    return f"{counted(len(tasks), 'data file')}, {n_bytes / 1e6:.1f} MB"


def is_small(tasks: Collection[Task], field_ids: Sequence[int] | None = None) -> bool:
    """Whether the driver reads data files in less time than Spark takes to run a job.

    Args:
        field_ids: the columns that are read; None for all.
    """
    if len(tasks) > HERE_FILES:
        return False
    n_bytes = 0
    for task in tasks:
        n_bytes += _column_bytes(task, field_ids)
        n_bytes += sum(entry.file_size_in_bytes for entry in (*task.position_deletes, *task.equality_deletes))
    return n_bytes <= HERE_BYTES


def _column_bytes(task: Task, field_ids: Sequence[int] | None) -> int:
    """The size of some columns of a data file as far as its metrics have it, else of the file."""
    sizes = getattr(task.data, "column_sizes", None) or {}
    if task.candidates is None and field_ids is not None and sizes.keys() >= {*field_ids}:
        return sum(sizes[field_id] for field_id in field_ids)
    return data_bytes(task)


def _frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    """`createDataFrame` for sessions without a limit of rows per batch, too, where PySpark passes 0 to PyArrow."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema)
    if rows_per_batch(session) > 0:
        return session.createDataFrame(rows, schema)
    return session.createDataFrame(list(zip(*(c.to_pylist() for c in rows.columns), strict=True)), schema)


def spread(session: SparkSession, bins: list[list[Any]]) -> DataFrame:
    """A DataFrame with one partition per bin: those of a range.

    Small bins are literals of the query, others are joined with the range by a broadcast, which is a Spark job.
    """
    from pyspark.sql import functions

    packed = [pack(items) for items in bins]
    numbers = session.range(0, len(bins), 1, len(bins))
    if 0 < sum(map(len, packed)) <= LITERAL_BYTES:
        every = functions.array(*map(functions.lit, packed))
        return numbers.select(functions.get(every, functions.col("id").cast("int")).alias("tasks"))
    table = pa.table({"id": pa.array(range(len(bins)), pa.int64()), "tasks": pa.array(packed, pa.binary())})
    return numbers.join(functions.broadcast(_frame(session, table)), "id").select("tasks")


def task_rows(session: SparkSession, tasks: Mapping[str, Any]) -> tuple[DataFrame, bytes]:
    """Returns rows of `MARKED` with the task of each data file, and the lists of `pickled_tasks`."""
    pickled, lists = pickled_tasks(tasks.values())
    columns = [
        pa.array(list(tasks), pa.string()),
        pa.nulls(len(tasks), pa.binary()),
        pa.array(pickled, pa.binary()),
    ]
    return _frame(session, pa.Table.from_arrays(columns, schema=MARKED)), lists
