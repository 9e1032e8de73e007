"""Upserts rows by key: commits deletes of the old rows and data files of the new rows together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast.columns.arrow_rows import arrow_reader
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.rows.match.duplicate_keys import OnDuplicateKeys
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.upsert import Upsert, UpsertFields

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table

    from puffin_fast.rows.scan.explain import Explanation


@dataclass(frozen=True)
class UpsertResult(UpsertFields):
    """The result of an upsert.

    Attributes:
        snapshot_id: the new snapshot; None when there was no change to commit.
        rows_updated: number of given rows that replaced one or several rows.
        rows_inserted: number of given rows whose key was new.
        rows_unchanged: number of given rows that were not written although the table has their key: it has equal
            rows, or `when_matched_update_all` is off.
        rows_deleted: number of rows of the table that were replaced or deleted; several may have had one key.
        keys_deleted: number of given rows that deleted their key, by `delete_column`.
        rows_superseded: number of given rows that were not the last of their key, by `order_column`.
        data_files_written: number of data files with the new rows.
        delete_files_written: number of deletion vectors, or of position-delete files in a table of format version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
        explanation: what was read, and what each step left out; None if no data file was searched, or if Spark joins
            the given rows with the table.
    """

    snapshot_id: int | None
    rows_updated: int = 0
    rows_inserted: int = 0
    rows_unchanged: int = 0
    rows_deleted: int = 0
    keys_deleted: int = 0
    rows_superseded: int = 0
    data_files_written: int = 0
    delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def upsert(
    table: Table,
    data: Any,
    join_cols: str | Sequence[str] | None = None,
    *,
    when_matched_update_all: bool = True,
    when_not_matched_insert_all: bool = True,
    skip_unchanged: bool = True,
    update_columns: Sequence[str] | None = None,
    delete_column: str | None = None,
    order_column: str | None = None,
    changes: bool | str = False,
    duplicate_keys: OnDuplicateKeys = "refuse",
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> UpsertResult:
    """Replaces the rows whose key is given, and inserts the given rows whose key is new, in one commit.

    Afterwards each given row is in the table once. PyIceberg's own upsert rewrites data files, and inserts rows with a
    null in their key again each time. Updated rows keep their row ids (version 3).

    Args:
        table: a PyIceberg table of format version 3 or 2. It is refreshed first, and has the new metadata
            afterwards.
        data: Arrow rows with all columns of the table, because whole rows are replaced (but see `update_columns`). Rows
            that would take more than 4 GiB with their keys are divided among temporary files (see "Many keys" in the
            guide).
        join_cols: the key column or columns; by default the identifier fields of the table's schema. Keys are
            compared as in `delete_keys`.
        when_matched_update_all: whether existing rows are replaced.
        when_not_matched_insert_all: whether given rows with a new key are inserted.
        skip_unchanged: whether the other columns are compared (floats bit by bit), and equal rows are not written;
            otherwise every row with a given key is written.
        update_columns: only these top-level columns of existing rows are set, of each row with a given key, also of
            several with one key; the other columns keep their values. With ``when_not_matched_insert_all=False``,
            `data` needs only these and the key columns.
        delete_column: a column of booleans in `data`: where it is true, each row with this key is deleted, and nothing
            is inserted. Such rows need only their key. If all rows are such rows, or both arguments above are False,
            `data` needs no other columns.
        order_column: a column of `data`: if several given rows have one key, the row with the greatest value counts, or
            one of several equal rows with this value. If the table does not have columns with these two names, they are
            not written.
        changes: `data` are changes of a table with unique keys (docs/changes.md#apply-changes): those of `changes`, of
            Delta's change data feed, or of Iceberg's changelog view, in any order, or rows of Debezium or Paimon in
            theirs. True looks for the column of kinds, a string is its name. The last change of a key counts.
        duplicate_keys: what to do if a given row would replace several live rows of the table, because the key is not
            unique there: ``"refuse"`` raises, as PyIceberg's own upsert does; ``"replace"`` replaces all of them by it.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads, workers: as `delete`. Data files that a concurrent commit
            added are always checked for given keys.
        dry_run: count rows, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, a column is missing, two rows have one key,
            a key has a null, `delete_column` or `order_column` has one, two different rows are the last of their key,
            `update_columns` has a key column or an identifier field, a given row would replace several rows (see
            `duplicate_keys`), or nothing is to be done: `when_matched_update_all`, `when_not_matched_insert_all` and
            `delete_column` are off; or the changes have no column of kinds, or an unknown kind.
        NotFoundError: a column or the branch does not exist.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> rows = pa.table({"id": [1, 200], "customer": [9, 9], "price": [1.0, 2.0]})
        >>> result = pf.iceberg.upsert(table, rows, join_cols="id")
        >>> result.rows_updated, result.rows_inserted
        (1, 1)
    """
    options = Options(
        verb="upsert",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
    )
    action = Upsert(
        rows=arrow_reader(data, "data"),
        join_cols=join_cols,
        update=when_matched_update_all,
        insert=when_not_matched_insert_all,
        skip_unchanged=skip_unchanged,
        update_columns=update_columns,
        delete_column=delete_column,
        order_column=order_column,
        changes=changes,
        duplicate_keys=duplicate_keys,
    )
    return IcebergAttempt(table, options).run(action, UpsertResult)
