"""Upserts rows by key: commits deletes of the old rows and data files of the new rows together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._runtime.arguments import check_flags, check_texts
from puffin_fast._runtime.html import HtmlFields
from puffin_fast._runtime.threads import check_threads
from puffin_fast.columns.arrow_rows import arrow_reader
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.dml.column_update import update_columns as set_columns
from puffin_fast.iceberg.dml.delete_job import OnConflict, check_on_conflict, start
from puffin_fast.iceberg.dml.replacement import Replaced, Replacement, write_parts
from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import merge_rows, paths_of_rows
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.keys.key_columns import key_fields
from puffin_fast.rows.match.change_feed import ChangeFeed
from puffin_fast.rows.match.duplicate_keys import DuplicateKeys, OnDuplicateKeys, refuses_duplicates
from puffin_fast.rows.match.matching import Counts, Matches, Source, check_clauses, find_matches, row_ids
from puffin_fast.rows.match.source_parts import source_parts
from puffin_fast.rows.scan.file_reader import reader_factory

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.compat.working_table import WorkingTable

__all__ = ["UpsertResult", "columns_to_set", "upsert"]

ROW_ID = METADATA_COLUMNS["_row_id"]


@dataclass(frozen=True)
class UpsertResult(HtmlFields):
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
        delete_files_written: number of deletion vectors, or of position-delete files in a table of format
            version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
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
    duplicate_keys: OnDuplicateKeys = "refuse",
    branch: str = MAIN_BRANCH,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
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
            is inserted. Such rows need only their key; if all rows are such ones, or with both of the above False, so
            does `data`.
        order_column: a column of `data`: of several given rows with one key, the one with the greatest value counts;
            of several such rows that are equal, one. Columns of these two names that the table does not have are not
            written.
        duplicate_keys: what to do if a given row would replace several live rows of the table, because the key is not
            unique there: ``"refuse"`` raises, as PyIceberg's own upsert does; ``"replace"`` replaces all of them by it.
        branch: an existing branch.
        on_conflict, job_id, snapshot_properties, threads: as `delete`. Data files that a concurrent commit
            added are always checked for given keys.
        dry_run: count rows, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, a column is missing, two rows have one key,
            a key has a null, `delete_column` or `order_column` has one, two different rows are the last of their key,
            `update_columns` has a key column or an identifier field, a given row would replace several rows (see
            `duplicate_keys`), or nothing is to be done: `when_matched_update_all`, `when_not_matched_insert_all` and
            `delete_column` are off.
        NotFoundError: a column or the branch does not exist.
        PuffinFastError: a temporary file could not be written or read.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.
    """
    check_threads(threads)
    check_on_conflict(on_conflict)
    check_flags(skip_unchanged=skip_unchanged, dry_run=dry_run)
    refused = refuses_duplicates(duplicate_keys)
    update, insert = when_matched_update_all, when_not_matched_insert_all
    check_clauses(update, insert, delete_column)
    feed = ChangeFeed(delete_column, order_column)
    rows = arrow_reader(data, "data")
    request = Request(verb="upsert", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    job = start(table, request, oldest=2)
    table = job.table
    metadata = table.metadata
    columns = columns_to_set(metadata.schema(), update_columns, join_cols, update=update)
    needed = None if insert or (update and columns is None) else columns or ()

    def replacement(base: Snapshot | None, source: Source) -> tuple[Counts, Replacement]:
        if columns is not None:
            return set_columns(
                table,
                base,
                source,
                columns,
                insert=insert,
                skip_unchanged=skip_unchanged,
                threads=threads,
            )
        matches = Matches()
        if base is not None and source.n_keys:
            compared = update and skip_unchanged
            matches = _find(table, base, source, compared=compared, threads=threads)
        counts = Counts.of(
            matches,
            source.n_keys,
            update=update,
            insert=insert,
            n_deletes=source.n_keys - source.rows.num_rows,
        )
        return counts, _replace(table, source, matches, counts, threads)

    with source_parts(table.io, metadata, rows, join_cols, columns=needed, feed=feed) as given:

        def plan(base: Snapshot | None) -> _Planned:
            found = _Planned()

            def counted() -> Iterator[Replacement]:
                duplicates = DuplicateKeys()
                for source in given.parts:
                    counts, part = replacement(base, source)
                    found.add(counts, source.n_superseded)
                    if refused:
                        duplicates += counts.duplicates
                    if not duplicates.n_keys:
                        yield part
                    del source, part  # the next part needs the memory
                duplicates.refuse(name for name, _ in key_fields(metadata.schema(), join_cols))

            conflict_filter = given.bounds.may_match(table.schema())
            found.replaced = write_parts(table, counted(), conflict_filter, dry_run=dry_run)
            return found

        planned, committed = job.commit(plan, on_conflict)
    planned = planned or _Planned()
    result = job.result(planned.replaced.written, committed)
    return UpsertResult(
        rows_deleted=result.rows_deleted, **dict[str, Any](planned.rows), **planned.replaced.facts(result)
    )


def columns_to_set(
    schema: Schema, names: Sequence[str] | None, join_cols: str | Sequence[str] | None, *, update: bool
) -> tuple[str, ...] | None:
    """Checks `update_columns`.

    Raises:
        NotFoundError, InvalidInputError: as `upsert`.
    """
    if names is None:
        return None
    if not update:
        raise InvalidInputError("update_columns: expected when_matched_update_all=True, found False")
    columns = check_texts("update_columns", names)
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(f"update_columns: expected distinct columns, found {list(columns)}")
    known = dict.fromkeys(field.name for field in schema.fields)
    if missing := [name for name in columns if name not in known]:
        raise NotFoundError(f"update_columns: no column {missing[0]} in the table; it has {', '.join(known)}")
    keys = {name for key, _ in key_fields(schema, join_cols) for name in (key, key.partition(".")[0])}
    keys |= schema.identifier_field_names()
    if wrong := [name for name in columns if name in keys]:
        raise InvalidInputError(
            f"update_columns: column {wrong[0]} is a key column or an identifier field; expected other columns"
        )
    return columns


@dataclass
class _Planned:
    """An upsert planned on one head: counts of given rows by attribute of the result, and what was written."""

    rows: Counter[str] = field(default_factory=Counter)
    replaced: Replaced = field(default_factory=Replaced)

    def add(self, counts: Counts, n_superseded: int) -> None:
        """Adds the counts of a part."""
        self.rows += Counter(
            rows_updated=counts.updated,
            rows_inserted=counts.inserted,
            rows_unchanged=counts.unchanged,
            keys_deleted=counts.deleted,
            rows_superseded=n_superseded,
        )

    @property
    def changes(self) -> Changes:
        return self.replaced.changes


def _find(table: Table, base: Snapshot, source: Source, *, compared: bool, threads: int | None) -> Matches:
    """The live rows of a snapshot that have a given key."""
    metadata, schema = table.metadata, table.schema()
    return find_matches(
        plan_snapshot(table, base, schema, source.keys, metrics=True).tasks,
        source,
        schema.fields,
        reader_factory(table, source.keys),
        compared=compared,
        row_ids=metadata.format_version > 2,
        threads=threads,
    )


def _replace(
    table: WorkingTable, source: Source, matches: Matches, counts: Counts, threads: int | None
) -> Replacement:
    """The rows to delete and to write."""
    file, position = matches.file[counts.replaced], matches.position[counts.replaced]
    return Replacement(
        merge_rows(matches.tasks, file, position, DeleteLoader(table.io), threads),
        source.take(counts.written),
        row_ids(source, matches, counts),
        paths_of_rows(matches.tasks, matches.file),
        source.keys.may_match(table.schema()),
    )
