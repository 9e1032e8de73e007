"""Row-level changes of a table: which rows were inserted, deleted and updated between two snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffin_fast._process.cached import cached_property
from puffin_fast.iceberg.catalogs.working_table import complete_metadata
from puffin_fast.iceberg.changelog.history import History
from puffin_fast.iceberg.changelog.plan import plan_changes
from puffin_fast.iceberg.plan.files import metadata_of
from puffin_fast.rows.changes.change_scan import Changes
from puffin_fast.rows.changes.ends import Ends
from puffin_fast.rows.changes.states import Commit, CommitChanges

if TYPE_CHECKING:
    from pyiceberg.table import Table


class SnapshotChanges(Changes):
    """The changes between two snapshots."""

    def __init__(self, table: Table, ends: Ends, **options: Any) -> None:
        metadata_of(table)
        metadata = complete_metadata(table)
        self._table, self._history = table, History.of(table, metadata, ends)
        super().__init__(
            table.io, metadata, metadata.schema(), number="_commit_snapshot_id", ordinal=True, **options
        )
        if not self._net:
            self._history.steps()  # raises if the range is invalid

    def _range(self) -> tuple[int | None, int | None]:
        before, after = (
            None if end is None else end.snapshot_id for end in (self._history.before, self._history.after)
        )
        return before, after

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
