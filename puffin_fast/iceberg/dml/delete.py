"""Deletes rows without rewriting data files: by a row filter, by data file and position, or by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._show.html import HtmlFields
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.verbs.delete import Delete, DeleteKeys, DeletePositions, group_positions
from puffin_fast.verbs.options import OnConflict, Options

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table

    from puffin_fast.rows.scan.explain import Explanation


@dataclass(frozen=True)
class DeleteResult(HtmlFields):
    """The result of a delete.

    Attributes:
        snapshot_id: the new snapshot; None when there was no row to delete, and nothing was committed.
        rows_deleted: number of newly deleted rows. Where a data file was not read (positions that the caller gives, and
            data files that are removed as a whole), rows that equality deletes had already deleted are counted too.
        data_files: number of data files with newly deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        vectors_written: number of deletion vectors written.
        vectors_merged: number of data files whose new deletes include earlier ones.
        position_delete_files_written: number of position-delete files written, in a table of format version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
        rows_dangling: number of given rows that were skipped because their path is not a data file of the branch.
        warning: on Spark, whether rows were deleted that other engines do not delete; else None.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark
            evaluates the filter, or joins the keys with the table.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    position_delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    rows_dangling: int = 0
    warning: str | None = None
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def delete(
    table: Table,
    row_filter: Filter,
    *,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose
    metrics exclude a match are not opened. Data files whose metrics prove that all rows match are removed
    unread.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete
            files). It is refreshed first, and has the new metadata afterwards.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression, as for `scan`.
        branch: an existing branch.
        case_sensitive: whether column names are compared with case.
        on_conflict: what to do if a concurrent commit deleted rows of the same data files or removed one:
            ``"refuse"`` raises, ``"merge"`` runs the delete again on top of it.
        job_id: recorded in the snapshot's summary. A job whose id is in the branch's history is not repeated.
        snapshot_properties: additional entries of the snapshot's summary.
        threads: number of files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` that reads the data files instead of threads, such as a
            ``ProcessPoolExecutor`` or Dask's ``client.get_executor()``.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: a column, the branch or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns.
        UnsupportedError: the table is not of format version 2 or 3, or the format of a file is not supported.
        CorruptDataError: a file does not agree with the table's metadata.
        ConflictError: a concurrent commit changed the same data files; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.

    Examples:
        >>> result = pf.iceberg.delete(table, "customer = 7 or id >= 90")
        >>> result.rows_deleted, result.data_files
        (19, 1)
        >>> pf.iceberg.scan(table).count()
        81
    """
    options = Options(
        verb="delete",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
    action = Delete(row_filter, case_sensitive)
    return IcebergAttempt(table, options).run(action, DeleteResult)


def delete_positions(
    table: Table,
    deletes: Any,
    *,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes rows given by data file and position, in one commit; repeated and deleted positions are ignored.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete
            files). It is refreshed first, and has the new metadata afterwards.
        deletes: rows as for `append` with columns ``file_path`` (string: the path exactly as in the table's metadata)
            and ``pos`` (integer), in any order; or a mapping of paths to positions (``{path: [0, 7]}``).
        branch, on_conflict, job_id, snapshot_properties, threads, dry_run: as `delete`.

    Returns:
        The counts; `snapshot_id` is None when all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, or a row has a null, a negative position, or a position that
            is not less than the row count of its data file.
        NotFoundError: a path is not a live data file of the branch.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> path = pf.iceberg.scan(table, selected_fields=["_file"]).to_arrow()["_file"][0].as_py()
        >>> pf.iceberg.delete_positions(table, {path: [0, 7]}).rows_deleted
        2
    """
    options = Options(
        verb="delete_positions",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
    )
    action = DeletePositions(group_positions(deletes))
    return IcebergAttempt(table, options).run(action, DeleteResult)


def delete_keys(
    table: Table,
    keys: Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    null_safe: bool = False,
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes the rows whose key is in a table of keys, in one commit, without rewriting data files.

    Only the key columns are read, from data files and row groups whose bounds include a key. The distinct
    keys and one batch per thread are held in memory: about 40 bytes for each key of one column of integers, dates or
    times (up to 100 where keys are more than 65,000 apart), more for other keys. Keys that are estimated to take more
    than 4 GiB are divided among temporary files, and the table is searched for one part of them after another (see
    "Many keys" in the guide).

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files). It is refreshed
            first, and has the new metadata afterwards.
        keys: rows as for `append`, or, for one key column, its values (``[1, 2, 3]``, a column of Arrow, pandas, Polars
            or NumPy). Other columns than the key columns and repeated keys are ignored.
        join_cols: the key column or columns: names in the table, dotted for a field of a struct, and the same in
            `keys` (a column of that dotted name, or a field of a struct). By default the identifier fields of
            the table's schema.
        null_safe: whether null equals null; otherwise a key with a null matches no row.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads, workers: as `delete`.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: the table or the keys do not have a column.
        InvalidInputError: there are no key columns, a column cannot be a key, or the type of the keys cannot
            be compared with that of the column.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.iceberg.delete_keys(table, pa.table({"id": [3, 5, 500]}), join_cols="id").rows_deleted
        2
    """
    options = Options(
        verb="delete_keys",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
    action = DeleteKeys(keys, join_cols, null_safe)
    return IcebergAttempt(table, options).run(action, DeleteResult)
