"""Compaction of Puffin files, on executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from puffin_fast._run.arguments import check_integer, check_texts
from puffin_fast._run.groups import split_by_size
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.compat.table_properties import delete_file_size, vectors_per_file
from puffin_fast.iceberg.maintenance.compact import n_bytes_of, select_vectors
from puffin_fast.iceberg.maintenance.rewrite import RewriteResult, Rewritten, rewrite
from puffin_fast.spark.session.sessions import session_of
from puffin_fast.spark.session.with_session import of_session
from puffin_fast.spark.session.workers import spread
from puffin_fast.spark.table.caches import refreshing
from puffin_fast.spark.table.job import MAIN, Job, checked_id
from puffin_fast.spark.table.names import table_in
from puffin_fast.spark.worker.conversions import move

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.iceberg.plan.inventory import DeleteInventory

ONE_FILE = 1 << 62
"""No limit: each task writes one file, whose size was determined when the tasks were made."""


@of_session
@refreshing
def compact(
    spark: SparkSession | DataFrame,
    table: Table,
    *,
    target_file_size: int | None = None,
    file_paths: Sequence[str] | None = None,
    branch: str = MAIN,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteResult:
    """`puffin_fast.iceberg.compact` on executors.

    Each task writes one Puffin file of the target size. It holds its deletion vectors, and the bytes of adjacent blobs
    that are read together.

    Args:
        spark: the session, or a DataFrame of it.
        table: a PyIceberg table whose files the executors reach with the table's own FileIO, or its name in the
            session's catalogs.
        target_file_size, file_paths, branch, job_id, snapshot_properties, dry_run: as in
            `puffin_fast.iceberg.compact`.

    Returns:
        The same result as `puffin_fast.iceberg.compact`.

    Raises:
        MissingExtraError: a package is missing on an executor; the message names it, the host and its Python.
        PuffinFastError: in the cases of `puffin_fast.iceberg.compact`.

    Examples:
        >>> pf.spark.compact(spark, table, dry_run=True).snapshot_id is None
        True
    """
    session = session_of(spark)
    table = table_in(session, table)
    checked_id(job_id)
    check_integer("target_file_size", target_file_size, least=1)
    only = None if file_paths is None else check_texts("file_paths", file_paths)

    def work(table: Table, inventory: DeleteInventory) -> Rewritten:
        limit = delete_file_size(table.properties) if target_file_size is None else target_file_size
        chosen, terms = select_vectors(table, inventory, limit, None)
        if not chosen:
            return Rewritten.of(table, (), terms)
        job = Job(table, job_id, "compact", target_file_size=ONE_FILE, dry_run=dry_run)
        report = job.reports(spread(session, _bins(chain.from_iterable(chosen), limit, table)), move)
        return Rewritten.of(table, job.run(report, [*chain.from_iterable(chosen)]), terms)

    request = Request(verb="compact", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    return rewrite(table, work, request, dry_run=dry_run, file_paths=only)


def _bins(tasks: Iterable[FileTask], limit: int, table: Table) -> list[list[list[FileTask]]]:
    """Groups vectors by new Puffin file, each with one partition spec; vectors of an old file are adjacent."""
    most = vectors_per_file(table.properties)
    groups = split_by_size(tasks, limit, n_bytes_of, kind=lambda task: task.data.spec_id, most=most)
    return [[list(some) for _, some in groupby(group, key=_puffin_file)] for group in groups]


def _puffin_file(task: FileTask) -> str:
    return "" if task.vector is None else task.vector.file_path
