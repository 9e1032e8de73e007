"""Rewrite of data files, on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue

from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.maintenance.rewrite_job import (
    RewriteDataFilesResult,
    RewriteTerms,
    run_rewrite,
)
from puffin_fast.iceberg.maintenance.rewritten_groups import RewrittenGroup
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, live_bytes
from puffin_fast.spark.session.executor_calls import mapped, over_batches
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.table.index_keys import TASK_MEMORY, on_executors
from puffin_fast.spark.table.job import (
    MAIN,
    OPEN_BYTES,
    Job,
    bins_of_tasks,
    checked_id,
    spread,
    without_metrics,
)
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.worker.rows import REPORT

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.compat.working_table import WorkingTable
    from puffin_fast.iceberg.plan.delete_index import FileTask


def rewrite_data_files(
    spark: SparkSession | DataFrame,
    table: Table,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
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
) -> RewriteDataFilesResult:
    """`puffin_fast.iceberg.rewrite_data_files` on executors.

    Groups of data files are rewritten in parallel; a group is read and written by one task, so nothing is shuffled. A
    task holds the row group that it reads, as stored, a batch of its rows, at most twice 128 MiB for the row group that
    it writes (rows, and encoded pages), and the positions of the rows as bitmaps. The driver commits once; deletes that
    other commits add meanwhile are moved to the new files, and nothing is read again. Key indexes are extended as by
    `index_keys`.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        row_filter: a filter of Iceberg, also as text: it chooses data files by their metadata.
        min_deleted, min_file_size, min_input_files, target_file_size, max_commits: as in
            `puffin_fast.iceberg.rewrite_data_files`.
        branch, case_sensitive, job_id, snapshot_properties, dry_run: as in `puffin_fast.iceberg.rewrite_data_files`.

    Returns:
        The same result as `puffin_fast.iceberg.rewrite_data_files`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.rewrite_data_files`.

    Examples:
        >>> result = pf.spark.delete(spark, table, "customer < 5")
        >>> pf.spark.rewrite_data_files(spark, table, min_deleted=0.3).data_files
        1
    """
    session = session_of(spark)
    table = table_in(session, table)
    terms = RewriteTerms(
        row_filter, min_deleted, min_file_size, min_input_files, target_file_size, max_commits, case_sensitive
    )
    request = Request(
        verb="rewrite_data_files",
        branch=branch,
        job_id=checked_id(job_id),
        snapshot_properties=snapshot_properties,
    )

    def write(
        table: WorkingTable, head: Snapshot, groups: Sequence[Sequence[FileTask]], target: int
    ) -> Sequence[RewrittenGroup]:
        job = Job(table, job_id, "rewrite")
        body = over_batches(
            "puffin_fast.spark.worker.data_files",
            "rewrite",
            target=job.target(),
            sequence_number=head.sequence_number or 0,
            target_file_size=target,
        )
        lean = [[without_metrics(task) for task in tasks] for tasks in groups]
        bins = bins_of_tasks(
            lean, lambda tasks: tasks, lambda tasks: sum(live_bytes(task) + OPEN_BYTES for task in tasks)
        )
        job.run(mapped(spread(session, bins), body, REPORT), {})
        table.created += [new.entry.file_path for group in job.groups for new in group.new]
        return job.groups

    return run_rewrite(
        table, terms, request, write, on_executors(session, table, TASK_MEMORY), dry_run=dry_run
    )
