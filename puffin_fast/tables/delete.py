"""Deletes rows without rewriting data files: by a row filter, by data file and position, or by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin_fast._api.keywords import public
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.delete import Delete, DeleteKeys, DeletePositions, group_positions
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.results import DeleteResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from puffin_fast.tables.opening import TableLike


@public
def delete(
    table: TableLike,
    row_filter: Filter,
    *,
    branch: str = "main",
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> DeleteResult:
    """Deletes the rows for which a filter is true, in one commit, without rewriting data files.

    Rows for which the filter is unknown, such as a comparison with NULL, are not deleted. Data files whose metrics or
    partition values exclude a match are not opened. Data files for which they prove that all rows match are removed
    unread.

    Args:
        table: what `open_table` takes. An Iceberg table has format version 3, or 2 (which gets position-delete files);
            a table of PyIceberg is refreshed first, and has the new metadata afterwards.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression.
        branch: an existing branch of an Iceberg table.
        case_sensitive: whether column names are compared with case.
        on_conflict: what to do if a concurrent commit deleted rows of the same data files or removed one:
            ``"refuse"`` raises, ``"merge"`` runs the delete again on top of it.
        job_id: recorded with the commit: in the snapshot's summary, or in the log as a transaction. A job whose id is
            in the table's history is not repeated.
        snapshot_properties: additional entries of the snapshot's summary, or of Delta's ``commitInfo``.
        threads: number of files read at a time; the number of processors by default.
        workers: an executor of ``concurrent.futures`` that reads the data files instead of threads, such as a
            ``ProcessPoolExecutor`` or Dask's ``client.get_executor()``.
        dry_run: count rows and data files, write nothing.
        log_predicate: whether Delta's ``commitInfo`` has the filter. False keeps its values, which may be personal
            data, out of the log. Iceberg's snapshots never have it.

    Returns:
        The counts; `commit` has no id when no row matched.

    Raises:
        NotFoundError: the table, a column, the branch or a data file does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns.
        UnsupportedError: the format of the table or its version, one of its features, or the format of a file is not
            supported; deletion vectors are not enabled in a Delta table.
        CorruptDataError: a file does not agree with the table's metadata.
        ConflictError: a concurrent commit changed the same data files; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.

    Examples:
        >>> result = pf.delete(table, "customer = 7 or id >= 90")  # Iceberg
        >>> result.rows_deleted, result.data_files
        (19, 1)
        >>> pf.delete(path, "id < 10").rows_deleted  # Delta
        10
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
        log_predicate=log_predicate,
    )
    return open_table(table).run(Delete(row_filter, case_sensitive), options, DeleteResult)


@public
def delete_positions(
    table: TableLike,
    deletes: Any,
    *,
    branch: str = "main",
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes rows given by data file and position, in one commit; repeated and deleted positions are ignored.

    Args:
        table: as `delete`.
        deletes: rows as for `append` with columns ``file_path`` (string: the path as a scan gives it in ``_file``) and
            ``pos`` (integer), in any order; or a mapping of paths to positions (``{path: [0, 7]}``).
        branch, on_conflict, job_id, snapshot_properties, threads, dry_run: as `delete`.

    Returns:
        The counts; `commit` has no id when all the rows were deleted already.

    Raises:
        InvalidInputError: a column is missing, or a row has a null, a negative position, or a position that
            is not less than the row count of its data file.
        NotFoundError: a path is not a live data file.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> data_file = pf.scan(table, selected_fields=["_file"]).to_arrow()["_file"][0].as_py()
        >>> pf.delete_positions(table, {data_file: [0, 7]}).rows_deleted
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
    return open_table(table).run(DeletePositions(group_positions(deletes)), options, DeleteResult)


@public
def delete_keys(
    table: TableLike,
    keys: Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    null_safe: bool = False,
    branch: str = "main",
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
        table: as `delete`.
        keys: rows as for `append`, or, for one key column, its values (``[1, 2, 3]``, a column of Arrow, pandas, Polars
            or NumPy). Other columns than the key columns and repeated keys are ignored.
        join_cols: the key column or columns: names in the table, dotted for a field of a struct, and the same in
            `keys` (a column of that dotted name, or a field of a struct). By default the identifier fields of
            an Iceberg table's schema.
        null_safe: whether null equals null; otherwise a key with a null matches no row.
        branch, on_conflict, job_id, snapshot_properties, threads, workers, dry_run: as `delete`.

    Returns:
        The counts; `commit` has no id when no row matched.

    Raises:
        NotFoundError: the table or the keys do not have a column.
        InvalidInputError: there are no key columns, a column cannot be a key, or the type of the keys cannot
            be compared with that of the column.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.delete_keys(table, pa.table({"id": [3, 5, 500]}), join_cols="id").rows_deleted
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
    return open_table(table).run(DeleteKeys(keys, join_cols, null_safe), options, DeleteResult)
