"""Replaces rows by their key, and inserts those whose key is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin_fast._api.keywords import public
from puffin_fast.columns.arrow_rows import arrow_reader
from puffin_fast.rows.match.duplicate_keys import OnDuplicateKeys
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.results import UpsertResult
from puffin_fast.verbs.upsert import Upsert

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from puffin_fast.tables.opening import TableLike


@public
def upsert(
    table: TableLike,
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
    branch: str = "main",
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> UpsertResult:
    """Replaces the rows whose key is given, and inserts the given rows whose key is new, in one commit.

    Afterwards each given row is in the table once. PyIceberg's own upsert rewrites data files, and inserts rows with a
    null in their key again each time. Updated rows keep their row ids.

    Args:
        table: as `delete`.
        data: rows as for `append` with all columns of the table, because whole rows are replaced (but see
            `update_columns`). Rows that would take more than 4 GiB with their keys are divided among temporary files
            (see "Many keys" in the guide).
        join_cols: the key column or columns; by default the identifier fields of an Iceberg table's schema. Keys are
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
        branch, on_conflict, job_id, snapshot_properties, threads, workers: as `delete`. Data files that a concurrent
            commit added are always checked for given keys.
        dry_run: count rows, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, a column is missing, two rows have one key,
            a key has a null, `delete_column` or `order_column` has one, two different rows are the last of their key,
            `update_columns` has a key column or an identifier field, a given row would replace several rows (see
            `duplicate_keys`), or nothing is to be done: `when_matched_update_all`, `when_not_matched_insert_all` and
            `delete_column` are off; or the changes have no column of kinds, or an unknown kind.
        NotFoundError: the table, a column or the branch does not exist.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError: a Delta table has CHECK constraints, generated or identity columns; also as `delete`.
        CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> rows = pa.table({"id": [1, 200], "customer": [9, 9], "price": [1.0, 2.0]})
        >>> result = pf.upsert(table, rows, join_cols="id")  # Iceberg
        >>> result.rows_updated, result.rows_inserted
        (1, 1)
        >>> pf.upsert(path, pa.table({"id": [1], "state": ["sent"]}), "id").rows_updated  # Delta
        1
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
    return open_table(table).run(action, options, UpsertResult)
