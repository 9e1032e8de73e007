"""Rewrites data files with many deleted rows, and joins small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import public
from puffin_fast._concurrency.workers import workers_of
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.rewrite.file_groups import MIN_DELETED, MIN_INPUT_FILES, RewriteTerms
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.maintenance import RewriteDataFilesResult
from puffin_fast.verbs.options import OnConflict, Options

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table.sorting import SortOrder
    from pyspark.sql import SparkSession

    from puffin_fast.tables.opening import TableLike


@public
def rewrite_data_files(
    table: TableLike,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    *,
    min_deleted: float = MIN_DELETED,
    min_file_size: int | None = None,
    min_input_files: int = MIN_INPUT_FILES,
    target_file_size: int | None = None,
    max_commits: int = 1,
    sort_by: SortOrder | Sequence[str] | None = None,
    branch: str = "main",
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> RewriteDataFilesResult:
    """Rewrites the data files that have many deleted rows, and joins small ones, in one commit.

    No row changes: rows keep their row ids and their ``_last_updated_sequence_number``, and change feeds get no change.
    New files have the partition and the spec of the old ones. The old files stay in storage until
    `iceberg.expire_snapshots`, or a vacuum of Delta, removes them.

    In Iceberg tables, rows that other commits delete meanwhile stay deleted: the deletes are moved to the new files.
    Delete files that apply to no other data file leave the table. The new files are added to the key indexes that the
    table property ``puffin-fast.key-indexes`` names, as far as these exist.

    Data files of Iceberg are streamed: a thread holds the row group that it reads, as stored, a batch of its rows, at
    most twice 128 MiB for the row group that it writes, and the positions of the rows as bitmaps. Of Delta, it holds
    the rows of one new file. With `sort_by`, the rewritten rows of each partition are sorted together, in runs of at
    most 128 MiB; several runs are merged, and are in files in Python's temporary directory.

    Args:
        table: as `delete`.
        row_filter: only data files that may have rows for which the filter is true are rewritten, whole.
        min_deleted: deleted share of a data file's rows at which it is rewritten, from 0 to 1. Counted are rows that
            deletion vectors delete, or position-delete files for this data file alone.
        min_file_size: data files of fewer bytes are joined; by default 0.75 of the target size. 0: none are.
        min_input_files: minimum number of data files of a partition that are joined to one file.
        target_file_size: target size of a new data file in bytes; by default the property
            ``write.target-file-size-bytes`` (512 MiB) of Iceberg, or ``delta.targetFileSize`` (128 MiB).
        max_commits: maximum number of commits. With several, the groups of data files are divided, and what is
            committed stays if a later part fails. Data files that other commits changed meanwhile are left out. Only
            without `job_id`.
        sort_by: sort order of the rows: a PyIceberg sort order, as ``table.sort_order()``, or texts such as
            ``"id"``, ``"time desc"``, ``"name asc nulls last"``; nulls are first in ascending order by default, and
            last in descending order; by default the table's own, if it has one. Data files that are not marked with a
            given order are rewritten, too: in Delta tables, whose log records no order, all. Those that are marked may
            overlap: join them with a greater `min_file_size`.
        branch, case_sensitive, job_id, snapshot_properties, threads: as `delete`.
        on_conflict: as `delete`, of a Delta table.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which rewrites groups of data files
            instead of threads, each with one thread.
        dry_run: count from the metadata, write nothing.

    Returns:
        The counts; `commit` has no id when there was nothing to do.

    Raises:
        InvalidInputError: an argument, or a row that the table's schema does not allow.
        NotFoundError: the branch, a column of the filter or of `sort_by`, or a file does not exist.
        UnsupportedError: a file format, property ``write.format.default`` is not Parquet, or a column of an Iceberg
            table has the name of a column of row lineage; also as `delete`.
        CorruptDataError: a file does not agree with the metadata, or a data file has two vectors (see
            `iceberg.repair`).
        ConflictError: other commits changed or removed all data files meanwhile, or, with ``"refuse"``, one of a Delta
            table; the table is unchanged.
        CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.delete(table, "customer < 5")  # Iceberg
        >>> pf.rewrite_data_files(table).rows_purged
        50
        >>> result = pf.delete(path, "id < 50")  # Delta
        >>> pf.rewrite_data_files(path).rows_purged
        50
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
    terms.check_job(job_id)
    options = Options(
        verb="rewrite_data_files",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
    )
    opened = open_table(table)
    opened.check(options)
    return opened.rewrite_files(terms, options, who)


def purge(
    table: TableLike,
    *,
    min_deleted: float = 0.1,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
) -> RewriteDataFilesResult:
    """`rewrite_data_files` with other thresholds: of data files with many deleted rows only, whatever their size.

    Args:
        table, min_deleted, on_conflict, job_id, snapshot_properties, threads, workers, dry_run: as
            `rewrite_data_files`.

    Examples:
        >>> result = pf.delete(path, "id < 50")
        >>> pf.delta.purge(path).data_files
        1
    """
    return rewrite_data_files(
        table,
        min_deleted=min_deleted,
        min_file_size=0,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
