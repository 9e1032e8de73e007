"""Reads which rows of a table were inserted, deleted and updated between two states."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import public
from puffin_fast.rows.changes.change_scan import Changes
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.tables.opening import open_table

if TYPE_CHECKING:
    from puffin_fast.tables.opening import TableLike


@public
def changes(
    table: TableLike,
    from_snapshot_id_exclusive: int | None = None,
    to_snapshot_id_inclusive: int | None = None,
    *,
    from_timestamp_exclusive: int | str | datetime | None = None,
    to_timestamp_inclusive: int | str | datetime | None = None,
    branch: str | None = None,
    tag: str | None = None,
    net: bool = False,
    updates: bool = True,
    join_cols: str | Sequence[str] | None = None,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    selected_fields: Sequence[str] = ("*",),
    case_sensitive: bool = True,
    threads: int | None = None,
) -> Changes:
    """Returns the rows that were inserted, deleted and updated between two states (docs/changes.md).

    Without `net`, the changes of each snapshot or version are returned, the oldest first. Snapshots of the operation
    ``replace`` (rewrites, compactions) and Delta's actions without ``dataChange`` have no changes. Rows that a commit
    only copied are not returned. Delta's change data feed need not be enabled.

    Args:
        table: as `scan`; of a version of `pf.delta.snapshot`, this version is the state after by default.
        from_snapshot_id_exclusive: the state before, a snapshot or the number of a version of Delta; by default the
            empty table, before its first snapshot.
        to_snapshot_id_inclusive: the state after; by default the current one.
        from_timestamp_exclusive: instead, the newest state of the history that is not newer than this time:
            milliseconds since 1970, or a datetime or ISO 8601 text with a time zone.
        to_timestamp_inclusive: the same for the state after.
        branch: the history of this branch of an Iceberg table, instead of main.
        tag: the history that ends with the snapshot of this tag of an Iceberg table.
        net: compare the two states, which may be any two, also the older one last, with at most one line for a row, or
            two for an update. All lines then have the number and time of the state after.
        updates: whether images of an update are ``update_preimage`` and ``update_postimage``; else they are ``delete``
            and ``insert``.
        join_cols: key columns by which updates are found among rows without a common row id; by default the
            identifier fields of an Iceberg table's schema, if it has any.
        row_filter: as for `scan`; chooses lines by their own values, so an update that leaves the filter is a delete.
        selected_fields: as for `scan`. Metadata columns are ``_row_id``, ``_file`` and ``_pos``.
        case_sensitive: whether column names are compared with case.
        threads: number of reading threads.

    Returns:
        The changes, with the methods of `Scan`: `to_arrow`, `to_batches`, `to_reader`, `count` and others. The columns
        are those of an Iceberg table's current schema or of the last version's, ``_change_type`` (string),
        ``_commit_snapshot_id`` (int64; of Delta ``_commit_version``), ``_commit_timestamp`` (UTC, microseconds), of
        Iceberg ``_change_ordinal`` (int32, 0 for the oldest snapshot with rows), and the requested metadata columns.

    Raises:
        NotFoundError: the table, a snapshot or version, a column, branch or tag does not exist, or a snapshot has
            expired, or the log no longer has a commit.
        InvalidInputError: without `net`, the state before is no ancestor of the state after; an end is named twice; or
            the table has a column with the name of a column of changes.
        CorruptDataError: the metadata or the log is damaged.
        UnsupportedError: the format version or a reader feature is not supported; in a Delta table, a data file has
            other partition columns than the last version, or a column had a type that does not become that of the last
            version.

    Examples:
        >>> before = table.current_snapshot().snapshot_id  # Iceberg
        >>> deleted = pf.delete(table, "id = 7")
        >>> pf.changes(table, before).to_arrow().select(["id", "_change_type"]).to_pylist()
        [{'id': 7, '_change_type': 'delete'}]
        >>> version = pf.delete(path, "id = 7").commit.id  # Delta
        >>> pf.changes(path, version - 1).to_arrow().select(["id", "_change_type"]).to_pylist()
        [{'id': 7, '_change_type': 'delete'}]
    """
    found = open_table(table)
    found.need("changes", branch=branch, tag=tag)
    ends = Ends(
        from_snapshot_id_exclusive,
        to_snapshot_id_inclusive,
        from_timestamp_exclusive,
        to_timestamp_inclusive,
        branch,
        tag,
    )
    return found.changed_rows(
        ends,
        net=net,
        updates=updates,
        join_cols=join_cols,
        row_filter=row_filter,
        selected_fields=selected_fields,
        case_sensitive=case_sensitive,
        threads=threads,
    )
