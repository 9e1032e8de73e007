"""A snapshot of an Iceberg table, as scans read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyiceberg.table.refs import SnapshotRefType

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.index.lookup import planned
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import Plan, plan_snapshot, resolve
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.scan import ScanPlan, State
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.manifest.columns import Select


class SnapshotState(State):
    """A snapshot of a table, or the table without snapshots.

    Args:
        selected: `snapshot_id`, `branch`, `tag` or `as_of`, as for `resolve`; raises as this does.
    """

    file_types: ClassVar[bool] = True

    def __init__(self, table: Table, **selected: Any) -> None:
        self._table = table
        self._selected = [name for name, value in selected.items() if value is not None]
        self.snapshot, self._schema = resolve(table, **selected)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def io(self) -> FileIO:
        return self._table.io

    @property
    def metadata(self) -> TableMetadata:
        return self._table.metadata

    def __repr__(self) -> str:
        name, snapshot = ".".join(self._table.name()), self.snapshot
        return f"{name}, no snapshot" if snapshot is None else f"{name}, snapshot {snapshot.snapshot_id}"

    def at(self, reference: str) -> SnapshotState:
        found = self.metadata.refs.get(reference)
        is_tag = found is not None and found.snapshot_ref_type == SnapshotRefType.TAG
        if self._selected:
            raise InvalidInputError(
                f"use_ref: expected a scan of the current snapshot, found one with {self._selected[0]}"
            )
        return SnapshotState(self._table, **{"tag" if is_tag else "branch": reference})

    def plan(self, row_filter: RowFilter) -> ScanPlan:
        made: list[Plan] = []
        notes: list[str] = []

        def plan(select: Select | None) -> Sequence[FileTask]:
            made.append(self._plan(row_filter, select))
            return made[0].tasks

        tasks = planned(self.io, self.metadata, self.snapshot, row_filter.equalities(), plan, notes=notes)
        return ScanPlan(tasks, made[0].whole, notes)

    def tasks_without_index(self, row_filter: RowFilter, plan: ScanPlan) -> Sequence[Task]:
        return self._plan(row_filter).tasks

    def _plan(self, row_filter: RowFilter, select: Select | None = None) -> Plan:
        return plan_snapshot(self._table, self.snapshot, self._schema, row_filter, select=select)
