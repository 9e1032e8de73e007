"""Rewrite of data files, on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast import delta
from puffin_fast.delta.dml.data_files import row_tracking_columns
from puffin_fast.delta.log.snapshot import snapshot
from puffin_fast.delta.log.storage import canonical_path
from puffin_fast.delta.maintenance.rewrite_data_files import run_rewrite as run_rewrite_of_delta
from puffin_fast.delta.scans.plan import DeltaTable
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.maintenance.rewrite_job import (
    RewriteDataFilesResult,
    run_rewrite,
)
from puffin_fast.iceberg.maintenance.rewritten_groups import RewrittenGroup
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, RewriteTerms, live_bytes
from puffin_fast.rows.tasks import columns_of
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import OPEN_BYTES, spread
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.conditions import filter_only
from puffin_fast.spark.table.delta import DeltaVerb
from puffin_fast.spark.table.index_keys import TASK_MEMORY, on_executors
from puffin_fast.spark.table.job import MAIN, Job, bins_of_tasks, checked_id, of_files
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.table.scan import is_delta
from puffin_fast.spark.worker.data_files import rewrite, rewrite_delta
from puffin_fast.verbs.options import Options

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import Column, DataFrame, SparkSession

    from puffin_fast.delta.scans.tasks import DeltaTask
    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.index.segment_maker import Encode
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.rows.rewrite.file_groups import GroupLimits
    from puffin_fast.rows.tasks import Task


@of_session
@refreshing
def rewrite_data_files(
    spark: SparkSession | DataFrame,
    table: Table | Any,
    row_filter: Filter | Column = AlwaysTrue(),  # noqa: B008
    *,
    min_deleted: float = MIN_DELETED,
    min_file_size: int | None = None,
    min_input_files: int = MIN_INPUT_FILES,
    target_file_size: int | None = None,
    max_commits: int = 1,
    branch: str = MAIN,
    case_sensitive: bool = True,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteDataFilesResult | delta.RewriteDataFilesResult:
    """`puffin_fast.iceberg.rewrite_data_files` or `puffin_fast.delta.rewrite_data_files` on executors.

    Groups of data files are rewritten in parallel; a group is read and written by one task, so nothing is shuffled. A
    task holds the row group that it reads, as stored, a batch of its rows, at most twice 128 MiB for the row group that
    it writes (rows, and encoded pages), and the positions of the rows as bitmaps. The driver commits once; deletes that
    other commits add meanwhile are moved to the new files, and nothing is read again. Key indexes are extended as by
    `index_keys`.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs; or a Delta table: its name, a path,
            a URI, or deltalake's `DeltaTable`. A group of its data files that another commit changes is a conflict.
        row_filter: a filter of Iceberg, also as text, or a Column with the meaning of one: it chooses data files by
            their metadata.
        min_deleted, min_file_size, min_input_files, target_file_size, max_commits: as in
            `puffin_fast.iceberg.rewrite_data_files`.
        branch, case_sensitive, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.rewrite_data_files`.

    Returns:
        The same result as `puffin_fast.iceberg.rewrite_data_files` or `puffin_fast.delta.rewrite_data_files`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.rewrite_data_files`.

    Examples:
        >>> result = pf.spark.delete(spark, table, "customer < 5")
        >>> pf.spark.rewrite_data_files(spark, table, min_deleted=0.3).data_files
        1
    """
    session = session_of(spark)

    from pyspark.sql import Column

    table = table_in(session, table)
    if isinstance(row_filter, Column):
        schema = DeltaTable.of(snapshot(table)).schema.schema if is_delta(table) else table.schema()
        row_filter = filter_only(session, row_filter, schema)
    terms = RewriteTerms(
        row_filter, min_deleted, min_file_size, min_input_files, target_file_size, max_commits, case_sensitive
    )
    if is_delta(table):
        options = Options(
            verb="rewrite_data_files",
            branch=branch,
            job_id=checked_id(job_id),
            snapshot_properties=snapshot_properties,
            dry_run=dry_run,
        )
        return _rewrite_delta(session, table, terms, options)
    request = Request(
        verb="rewrite_data_files",
        branch=branch,
        job_id=checked_id(job_id),
        snapshot_properties=snapshot_properties,
    )

    encode = on_executors(session, table, TASK_MEMORY)
    return rewrite_on_executors(session, table, terms, request, encode, dry_run=dry_run)


def rewrite_on_executors(
    session: SparkSession,
    table: Table,
    terms: RewriteTerms,
    request: Request,
    encode: Encode | None,
    *,
    dry_run: bool,
) -> RewriteDataFilesResult:
    """`rewrite_data_files` of an Iceberg table with checked arguments; `encode` as for `run_rewrite`."""

    def write(
        table: WorkingTable, head: Snapshot, groups: Sequence[Sequence[FileTask]], target: int
    ) -> Sequence[RewrittenGroup]:
        job = Job(table, request.job_id, "rewrite")
        number = head.sequence_number or 0
        bins = spread(session, _bins(groups))
        job.run(
            job.reports(bins, rewrite, sequence_number=number, target_file_size=target), (), _shown(groups)
        )
        table.created += [new.entry.file_path for group in job.report.groups for new in group.new]
        return job.report.groups

    return run_rewrite(table, terms, request, write, encode, dry_run=dry_run)


def _shown(groups: Sequence[Sequence[Task]]) -> str:
    return f"{len(groups)} groups of " + of_files([task for group in groups for task in group])


def _bins(groups: Sequence[Sequence[Task]]) -> list[list[Any]]:
    """Divides groups of data files among tasks of similar size."""
    lean: list[list[Any]] = [[*columns_of(tasks)] for tasks in groups]
    return bins_of_tasks(
        lean, lambda tasks: tasks, lambda tasks: sum(live_bytes(task) + OPEN_BYTES for task in tasks)
    )


def _rewrite_delta(
    session: SparkSession, table: Any, terms: RewriteTerms, options: Options
) -> delta.RewriteDataFilesResult:
    request = Request(
        verb=options.verb,
        branch=options.branch,
        job_id=options.job_id,
        snapshot_properties=options.snapshot_properties,
    )
    job = DeltaVerb(table, request)

    def write(
        current: DeltaTable, groups: Sequence[Sequence[DeltaTask]], limits: GroupLimits
    ) -> NewDeltaFiles:
        job.base = current
        part = job.part(dry_run=False, kind="rewrite")
        bins = spread(session, _bins(groups))
        reports = part.reports(bins, rewrite_delta, target_file_size=limits.target_file_size)
        part.run(reports, (), _shown(groups))
        return NewDeltaFiles(part.report.entries, row_tracking_columns(current.snapshot) is not None)

    return run_rewrite_of_delta(job.storage, terms, options, write)


@dataclass
class NewDeltaFiles:
    """The new files of a rewrite; see `NewFiles`."""

    adds: list[dict[str, Any]]
    keeps_row_ids: bool

    @property
    def written(self) -> Sequence[str]:
        """The paths of the new files, below the table."""
        return [canonical_path(add["add"]["path"]) for add in self.adds]
