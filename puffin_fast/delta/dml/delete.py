"""Deletes rows without rewriting data files: by a filter, by data file and position, or by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from puffin_fast._run.arguments import check_texts
from puffin_fast._show.html import HtmlFields
from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.scan.explain import Explanation
from puffin_fast.verbs.delete import Delete, DeleteKeys, DeletePositions, group_positions
from puffin_fast.verbs.options import OnConflict, Options


@dataclass(frozen=True)
class DeleteResult(HtmlFields):
    """The result of a delete.

    Attributes:
        version: the new version; None if there was no row to delete, and nothing was committed.
        rows_deleted: number of newly deleted rows.
        data_files: number of data files with newly deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        vectors_written: number of deletion vectors written.
        vectors_merged: number of data files whose new deletes include earlier ones.
        n_bytes: size of the files of vectors.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark
            evaluates the filter, or joins the keys with the table.
    """

    version: int | None
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def delete(
    table: Any,
    row_filter: Filter,
    *,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose
    statistics or partition values exclude a match are not opened. Data files for which they prove that all rows match
    are removed unread.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression.
        case_sensitive: whether column names are compared with case.
        on_conflict: what to do if a concurrent commit changed the same data files: ``"refuse"`` raises, ``"merge"``
            runs the delete again on top of it.
        job_id: recorded in the log as a transaction. A job whose id is in the log is not repeated.
        snapshot_properties: additional entries of the commit's ``commitInfo``.
        threads: number of files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` that reads the data files instead of threads, such as a
            ``ProcessPoolExecutor`` or Dask's ``client.get_executor()``.
        dry_run: count rows and data files, write nothing.
        log_predicate: whether the commit's ``commitInfo`` has the filter. False keeps its values, which may be personal
            data, out of the log.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path. Commits on an object store need an
            fsspec filesystem with conditional writes (s3fs, gcsfs, adlfs).
        storage_options: instead of it, the options that deltalake takes, such as ``AWS_ACCESS_KEY_ID``. By
            default, those of a given `DeltaTable`.

    Returns:
        The counts; `version` is None if no row matched.

    Raises:
        NotFoundError: the table, a column or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns.
        UnsupportedError: deletion vectors must not be committed to the table; the message names the reason.
        CorruptDataError: the log or a file is damaged.
        ConflictError: a concurrent commit changed the same data files or the table's metadata; the table is unchanged.
        CommitUnknownError: the storage did not answer whether the commit happened; no file was removed.

    Examples:
        >>> result = pf.delta.delete(path, "id < 10")
        >>> result.rows_deleted, pf.delta.scan(path).count()
        (10, 90)
    """
    options = Options(
        verb="delete",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
        log_predicate=log_predicate,
    )
    action = Delete(row_filter, case_sensitive)
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, DeleteResult)


def delete_keys(
    table: Any,
    keys: Any,
    join_cols: str | Sequence[str],
    *,
    null_safe: bool = False,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeleteResult:
    """Deletes the rows whose key is in a table of keys, in one commit, without rewriting data files.

    Only the key columns are read, from data files and row groups whose bounds include a key. Keys that would take more
    than 4 GiB are divided among temporary files, as by `puffin_fast.iceberg.delete_keys`.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        keys: Arrow rows (table, batch, reader, or an object with the Arrow C stream interface).
        join_cols: the key column or columns: names in the table, dotted for a field of a struct, and the same in
            `keys`.
        null_safe: whether null equals null; otherwise a key with a null matches no row.
        on_conflict, job_id, snapshot_properties, threads, workers, dry_run, filesystem, storage_options: as `delete`.

    Returns:
        The counts; `version` is None if no row matched.

    Raises:
        NotFoundError: the table or the keys do not have a column.
        InvalidInputError: a column cannot be a key, or the type of the keys cannot be compared with that of the column.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.delta.delete_keys(path, pa.table({"id": [3, 5, 500]}), "id").rows_deleted
        2
    """
    options = Options(
        verb="delete_keys",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
    names = [join_cols] if isinstance(join_cols, str) else check_texts("join_cols", join_cols)
    action = DeleteKeys(keys, names, null_safe)
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, DeleteResult)


def delete_positions(
    table: Any,
    deletes: Any,
    *,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeleteResult:
    """Deletes rows given by data file and position, in one commit; repeated and deleted positions are ignored.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        deletes: Arrow rows with columns ``file_path`` (as in ``_file`` of a scan, or relative to the table) and
            ``pos`` (integer), in any order.
        on_conflict, job_id, snapshot_properties, threads, dry_run, filesystem, storage_options: as `delete`.

    Returns:
        The counts; `version` is None if all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, or a row has a null, a negative position, or a position that is not less
            than the row count of its data file.
        NotFoundError: a path is not a live data file.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> name = pf.delta.scan(path).files()["file_path"][0].as_py()
        >>> pf.delta.delete_positions(path, {name: [0, 7]}).rows_deleted
        2
    """
    options = Options(
        verb="delete_positions",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
    )
    action = DeletePositions(group_positions(deletes))
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, DeleteResult)
