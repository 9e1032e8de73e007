"""Rewrites data files with many deleted rows, and joins small ones; keeps the deletes of concurrent commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, Workers, workers_of
from puffin_fast._io.run_folder import run_name
from puffin_fast.iceberg.catalogs.run_table import run_table
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.index.build import encode_by
from puffin_fast.iceberg.index.segment_maker import Encode
from puffin_fast.iceberg.maintenance.rewrite_job import RewriteDataFilesResult, run_rewrite
from puffin_fast.iceberg.maintenance.rewritten_groups import GroupWriter, RewrittenGroup
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, RewriteTerms, live_bytes
from puffin_fast.rows.tasks import columns_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortOrder
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable


_WRITING = "rewriting file groups"


def rewrite_data_files(
    table: Table,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    *,
    min_deleted: float = MIN_DELETED,
    min_file_size: int | None = None,
    min_input_files: int = MIN_INPUT_FILES,
    target_file_size: int | None = None,
    max_commits: int = 1,
    sort_by: SortOrder | Sequence[str] | None = None,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> RewriteDataFilesResult:
    """Rewrites the data files that have many deleted rows, and joins small ones, in one commit.

    No row changes. Deletes of all kinds are applied; in format version 3 rows keep their row ids and their
    ``_last_updated_sequence_number`` (specification, "Row Lineage"). New files have the partition and the spec of the
    old ones. Their data sequence number is that of the snapshot that was read, so that equality deletes of later
    commits apply to them. Rows that other commits delete meanwhile stay deleted: the deletes are moved to the new
    files, and nothing is read again.

    Delete files that apply to no other data file leave the table. All old files stay in storage until no snapshot needs
    them: see `orphan_files`.

    The new data files are added to the key indexes that the table property ``puffin-fast.key-indexes`` names, as far as
    these exist: the key columns are read. A failure there is a note of the result; the rewrite is committed before.

    Data files are streamed: a thread holds the row group that it reads, as stored, a batch of its rows, at most twice
    128 MiB for the row group that it writes (rows, and encoded pages), and the positions of the rows as bitmaps.

    With `sort_by`, the rows of each partition that are rewritten are sorted together, so that filters by these columns
    skip files and row groups. They are sorted in runs of at most 128 MiB. Several runs are merged; they are in files in
    Python's temporary directory, LZ4-compressed. The place of each row takes 4 bytes, in a temporary file above 16 MiB.

    Args:
        table: a PyIceberg table of format version 3, or 2. It is refreshed first, and has the new metadata afterwards.
        row_filter: only data files that may have rows for which the filter is true are rewritten, whole;
            as for `scan`.
        min_deleted: deleted share of a data file's rows at which it is rewritten, from 0 to 1. Counted are rows that
            deletion vectors delete, or position-delete files for this data file alone.
        min_file_size: data files of fewer bytes are joined; by default 0.75 of the target size. 0: none are.
        min_input_files: minimum number of data files of a partition that are joined to one file.
        target_file_size: target size of a new data file in bytes; by default the table's property
            ``write.target-file-size-bytes`` (512 MiB).
        max_commits: maximum number of commits. With several, the groups of data files are divided, and what is
            committed stays if a later part fails. Data files that other commits removed meanwhile are left out. Only
            without `job_id`.
        sort_by: sort order of the rows: a PyIceberg sort order, as ``table.sort_order()``, or texts such as
            ``"id"``, ``"time desc"``, ``"name asc nulls last"``; nulls are first in ascending order by default, and
            last in descending order; by default the table's own, if it has one. Data files that are not marked with a
            given order are rewritten, too; those that are marked may overlap: join them with a greater `min_file_size`.
            New files are marked if it is a sort order of the table.
        branch, case_sensitive, job_id, snapshot_properties, threads: as `delete`.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which rewrites groups of data files
            instead of threads, each with one thread.
        dry_run: count from the manifests, write nothing.

    Returns:
        The counts; `snapshot_id` is None when there was nothing to do.

    Raises:
        InvalidInputError: an argument, or a row that the table's schema does not allow.
        NotFoundError: the branch, a column of the filter or a file does not exist.
        CorruptDataError: a file does not agree with the metadata, or a data file has two vectors (see `repair`).
        UnsupportedError: a file format, property ``write.format.default`` is not Parquet, or a column of the table has
            the name of a column of row lineage.
        ConflictError: other commits changed or removed all data files meanwhile, or upgraded the table; it is
            unchanged.
        CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.iceberg.delete(table, "customer < 5")
        >>> pf.iceberg.rewrite_data_files(table, min_deleted=0.3).data_files
        1
        >>> pf.iceberg.deletes(table).num_rows
        0
    """
    who = workers_of(workers, threads)
    terms = RewriteTerms(
        row_filter,
        min_deleted,
        min_file_size,
        min_input_files,
        target_file_size,
        max_commits,
        case_sensitive,
        sort_by,
    )
    request = Request(
        verb="rewrite_data_files", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    return rewritten(table, terms, request, who, encode_by(who, table), dry_run=dry_run)


def rewritten(
    table: Table,
    terms: RewriteTerms,
    request: Request,
    workers: Workers,
    encode: Encode | None,
    *,
    dry_run: bool,
) -> RewriteDataFilesResult:
    """`rewrite_data_files` with checked arguments; `encode` as for `run_rewrite`."""

    def write(
        table: WorkingTable, head: Snapshot, groups: Sequence[Sequence[FileTask]], target: int
    ) -> Iterable[RewrittenGroup]:
        writer = GroupWriter(table, head.sequence_number or 0, target, 1, terms.order(table.metadata))
        if not isinstance(workers, Threads):
            return _written_by(workers, writer, table, groups, run_name(request.job_id, "rewrite"))
        n_threads = workers.n or pa.cpu_count()
        writer = replace(writer, threads=max(1, n_threads // len(groups)))
        return Threads(n_threads).each(writer.write, groups, _group_bytes, _WRITING)

    return run_rewrite(table, terms, request, write, encode, dry_run=dry_run)


def _written_by(
    workers: Workers,
    writer: GroupWriter,
    table: WorkingTable,
    groups: Sequence[Sequence[FileTask]],
    run: str,
) -> list[RewrittenGroup]:
    """Has groups written by workers. Their files are in a folder that no other run uses."""
    lean = [[*columns_of(tasks)] for tasks in groups]
    with run_table(table, run) as (there, kept):
        write = replace(writer, table=there).write
        written = [*workers.each(write, lean, _group_bytes, _WRITING, run=run)]
        kept += [new.entry.file_path for group in written for new in group.new]
    return written


def _group_bytes(tasks: Sequence[FileTask]) -> int:
    return sum(live_bytes(task) + OPEN_BYTES for task in tasks)
