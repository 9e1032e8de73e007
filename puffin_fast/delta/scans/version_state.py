"""A version of a Delta table, as scans read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from puffin_fast._api.arguments import check_texts
from puffin_fast._process.cached import cached_property
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTasks
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS, MetadataColumn
from puffin_fast.rows.filters.filters import Filter, RowFilter, column_names
from puffin_fast.rows.scan.scan import ScanPlan, State
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_COLUMNS = {name: METADATA_COLUMNS[name] for name in ("_file", "_pos")}


class VersionState(State):
    """A version of a table.

    Args:
        snapshot: the version.
        columns: the columns that are read; None for all.
    """

    metadata_columns: ClassVar[Mapping[str, MetadataColumn]] = _COLUMNS

    def __init__(self, snapshot: Snapshot, columns: set[str] | None = None) -> None:
        self.snapshot, self._columns = snapshot, columns

    @cached_property
    def _table(self) -> DeltaTable:
        return DeltaTable.of(self.snapshot, self._columns)

    @property
    def schema(self) -> Schema:
        return self._table.schema.schema

    @property
    def io(self) -> FileIO:
        return self.snapshot.storage

    @property
    def metadata(self) -> TableMetadata:
        return self._table.metadata

    @property
    def reading(self) -> Mapping[str, Any]:
        return self._table.reading

    def __repr__(self) -> str:
        return f"{self.snapshot.root}, version {self.snapshot.version}"

    def reading_only(self, row_filter: Filter, selected_fields: Sequence[str]) -> VersionState:
        named = column_names(row_filter)
        if named is None:
            return self
        named |= {*check_texts("selected_fields", selected_fields)}
        own = {field["name"] for field in self.snapshot.delta_schema["fields"]}
        is_known = own.issuperset(named - _COLUMNS.keys())
        return VersionState(self.snapshot, named & own) if is_known else self

    def at(self, reference: str) -> State:
        raise UnsupportedError(f"{self.snapshot.root}: tables of Delta have no branches and tags")

    def plan(self, row_filter: RowFilter) -> ScanPlan:
        tasks = plan_files(self._table, row_filter)
        return ScanPlan(tasks, tasks.whole)

    def tasks_without_index(self, row_filter: RowFilter, plan: ScanPlan) -> Sequence[Task]:
        return plan.tasks

    def count(self, plan: ScanPlan) -> int | None:
        assert isinstance(plan.tasks, DeltaTasks)
        return int(plan.tasks.n_rows.sum() - plan.tasks.vectors.cardinality.sum())

    def files(self, plan: ScanPlan) -> pa.Table:
        assert isinstance(plan.tasks, DeltaTasks)
        return plan.tasks.to_arrow()
