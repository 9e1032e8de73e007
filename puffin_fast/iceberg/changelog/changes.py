"""Row-level changes of a table: which rows were inserted, deleted and updated between two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import named_methods
from puffin_fast._process.cached import cached_property
from puffin_fast.iceberg.catalogs.working_table import complete_metadata
from puffin_fast.iceberg.changelog.history import Ends, History
from puffin_fast.iceberg.changelog.plan import plan_changes
from puffin_fast.iceberg.plan.files import metadata_of
from puffin_fast.rows.changes.change_scan import ChangeScan
from puffin_fast.rows.changes.states import Commit, CommitChanges
from puffin_fast.rows.filters.shown import filter_text

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


@named_methods("count", "to_arrow")
class Changes(ChangeScan):
    """The changes between two snapshots, created by `changes`. Metadata is read when they are requested."""

    def __init__(self, table: Table, ends: Ends, **options: Any) -> None:
        metadata_of(table)
        metadata = complete_metadata(table)
        self._table, self._history = table, History.of(table, metadata, ends)
        super().__init__(
            table.io, metadata, metadata.schema(), number="_commit_snapshot_id", ordinal=True, **options
        )
        if not self._net:
            self._history.steps()  # raises if the range is invalid

    def __repr__(self) -> str:
        ends = (self._history.before, self._history.after)
        before, after = ("no snapshot" if end is None else end.snapshot_id for end in ends)
        row_filter = "" if self._row_filter.always_true else f", row_filter={filter_text(self._given_filter)}"
        limit = "" if self._limit is None else f", limit={self._limit}"
        return f"Changes(from={before}, to={after}, net={self._net}{row_filter}{limit})"

    @cached_property
    def plan(self) -> list[CommitChanges]:
        """The changed data files of each snapshot, the oldest first; planned on first access."""
        before, after = self._history.before, self._history.after
        if self._net:
            same = before is not None and after is not None and before.snapshot_id == after.snapshot_id
            steps = [] if same or (before is None and after is None) else [(before, after)]
        else:
            steps = [*self._history.steps()]
        found = plan_changes(self._table, self.metadata, steps)
        result = []
        for ordinal, ((older, newer), files) in enumerate(zip(steps, found, strict=True)):
            snapshot = newer or older
            assert snapshot is not None
            result.append(CommitChanges(Commit(snapshot.snapshot_id, snapshot.timestamp_ms, ordinal), files))
        return result


def changes(
    table: Table,
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
    row_filter: str | BooleanExpression | pc.Expression = AlwaysTrue(),  # noqa: B008
    selected_fields: Sequence[str] = ("*",),
    case_sensitive: bool = True,
    threads: int | None = None,
) -> Changes:
    """Returns the rows that were inserted, deleted and updated between two snapshots (docs/changes.md).

    Without `net`, the changes of each snapshot are returned, the oldest first. Snapshots of the operation
    ``replace`` (rewrites, compactions) have no changes. Rows that a commit only copied are not returned.

    Args:
        table: a PyIceberg table of format version 1 to 3.
        from_snapshot_id_exclusive: the state before; by default the empty table, before its first snapshot.
        to_snapshot_id_inclusive: the state after; by default the current snapshot.
        from_timestamp_exclusive: instead, the newest snapshot of the history that is not newer than this time:
            milliseconds since 1970, or a datetime or ISO 8601 text with a time zone.
        to_timestamp_inclusive: the same for the state after.
        branch: the history of this branch, instead of main.
        tag: the history that ends with the snapshot of this tag.
        net: compare the two states, which may be any two snapshots, with at most one line for a row, or two for an
            update. All lines then have the snapshot id and time of the state after.
        updates: whether images of an update are ``update_preimage`` and ``update_postimage``; else they are ``delete``
            and ``insert``.
        join_cols: key columns by which updates are found among rows without a common row id; by default the
            identifier fields of the schema, if it has any.
        row_filter: as for `scan`; chooses lines by their own values, so an update that leaves the filter is a delete.
        selected_fields: as for `scan`. Metadata columns are ``_row_id``, ``_file`` and ``_pos``.
        case_sensitive: whether column names are compared with case.
        threads: number of reading threads.

    Returns:
        The changes, with the methods of `Scan`: `to_arrow`, `to_batches`, `to_reader`, `count` and others. The columns
        are those of the table's current schema, ``_change_type`` (string), ``_commit_snapshot_id`` (int64),
        ``_commit_timestamp`` (UTC, microseconds), ``_change_ordinal`` (int32, 0 for the oldest snapshot with rows), and
        the requested metadata columns.

    Raises:
        NotFoundError: a snapshot does not exist or has expired, or there is no such column, branch or tag.
        InvalidInputError: without `net`, the state before is no ancestor of the state after; an end is named twice; or
            the table has a column with the name of a column of changes.
        UnsupportedError: the format version is above 3.

    Examples:
        >>> before = table.current_snapshot().snapshot_id
        >>> pf.iceberg.delete(table, "id = 7").rows_deleted
        1
        >>> found = pf.iceberg.changes(table, before)
        >>> found.to_arrow().select(["id", "_change_type"]).to_pylist()
        [{'id': 7, '_change_type': 'delete'}]
    """
    ends = Ends(
        from_snapshot_id_exclusive,
        to_snapshot_id_inclusive,
        from_timestamp_exclusive,
        to_timestamp_inclusive,
        branch,
        tag,
    )
    return Changes(
        table,
        ends,
        net=net,
        updates=updates,
        join_cols=join_cols,
        row_filter=row_filter,
        selected_fields=selected_fields,
        case_sensitive=case_sensitive,
        threads=threads,
    )
