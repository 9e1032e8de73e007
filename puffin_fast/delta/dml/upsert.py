"""Upserts rows by key in one commit: vectors for the replaced rows, data files for the given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from puffin_fast._run.arguments import check_texts
from puffin_fast.columns.arrow_rows import arrow_reader
from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.rows.match.duplicate_keys import OnDuplicateKeys
from puffin_fast.rows.scan.explain import Explanation
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.upsert import Upsert, UpsertFields


@dataclass(frozen=True)
class UpsertResult(UpsertFields):
    """The result of an upsert.

    Attributes:
        version: the new version; None if there was no change to commit.
        rows_updated: number of given rows that replaced one or several rows.
        rows_inserted: number of given rows whose key was new.
        rows_unchanged: number of given rows that were not written although the table has their key: it has equal
            rows, or `when_matched_update_all` is off.
        rows_deleted: number of rows of the table that were replaced or deleted; several may have had one key.
        keys_deleted: number of given rows that deleted their key, by `delete_column`.
        rows_superseded: number of given rows that were not the last of their key, by `order_column`.
        data_files_written: number of data files with the given rows.
        vectors_written: number of deletion vectors written.
        n_bytes: size of the files of vectors.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark joins
            the given rows with the table.
    """

    version: int | None
    rows_updated: int = 0
    rows_inserted: int = 0
    rows_unchanged: int = 0
    rows_deleted: int = 0
    keys_deleted: int = 0
    rows_superseded: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def upsert(
    table: Any,
    data: Any,
    join_cols: str | Sequence[str],
    *,
    when_matched_update_all: bool = True,
    when_not_matched_insert_all: bool = True,
    skip_unchanged: bool = True,
    update_columns: Sequence[str] | None = None,
    delete_column: str | None = None,
    order_column: str | None = None,
    changes: bool | str = False,
    duplicate_keys: OnDuplicateKeys = "refuse",
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> UpsertResult:
    """Replaces the rows whose key is given, and inserts the given rows whose key is new, in one commit.

    Afterwards each given row is in the table once. Replaced rows get deletion vectors; the new rows keep their row ids.
    Files that concurrent commits add are always searched for the given keys.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        data: Arrow rows with all columns of the table, because whole rows are replaced (but see `update_columns`). Rows
            that would take more than 4 GiB with their keys are divided among temporary files, as by
            `puffin_fast.iceberg.upsert`.
        join_cols: the key column or columns, compared as in `delete_keys`.
        when_matched_update_all: whether existing rows are replaced.
        when_not_matched_insert_all: whether given rows with a new key are inserted.
        skip_unchanged: whether the other columns are compared, and equal rows are not written.
        update_columns: only these top-level columns of existing rows are set, of each row with a given key; the other
            columns keep their values. With ``when_not_matched_insert_all=False``, `data` needs only these and the key
            columns.
        delete_column: a column of booleans in `data`: where it is true, each row with this key is deleted, and nothing
            is inserted. Such rows need only their key.
        order_column: a column of `data`: of several given rows with one key, the one with the greatest value counts.
            Columns of these two names that the table does not have are not written.
        changes: as `puffin_fast.iceberg.upsert`: whether `data` are changes of a table with unique keys.
        duplicate_keys: as `puffin_fast.iceberg.upsert`.
        on_conflict, job_id, snapshot_properties, threads, workers, filesystem, storage_options: as `delete`.
        dry_run: count rows, write nothing.

    Returns:
        The counts; `version` is None if there was nothing to change.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, a column is missing, two rows have one key, a key
            has a null, `delete_column` or `order_column` has one, two different rows are the last of their key,
            `update_columns` has a key column, a given row would replace several rows (see `duplicate_keys`), or nothing
            is to be done: `when_matched_update_all`, `when_not_matched_insert_all` and `delete_column` are off; or the
            changes have no column of kinds, or an unknown kind.
        NotFoundError: the table or a column does not exist.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError: the table has CHECK constraints, generated or identity columns; also as `delete`.
        CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> rows = pa.table({"id": [1, 200], "state": ["sent", "new"]})
        >>> result = pf.delta.upsert(path, rows, "id")
        >>> result.rows_updated, result.rows_inserted
        (1, 1)
    """
    options = Options(
        verb="upsert",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
    action = Upsert(
        rows=arrow_reader(data, "data"),
        join_cols=[join_cols] if isinstance(join_cols, str) else check_texts("join_cols", join_cols),
        update=when_matched_update_all,
        insert=when_not_matched_insert_all,
        skip_unchanged=skip_unchanged,
        update_columns=update_columns,
        delete_column=delete_column,
        order_column=order_column,
        changes=changes,
        duplicate_keys=duplicate_keys,
    )
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, UpsertResult)
