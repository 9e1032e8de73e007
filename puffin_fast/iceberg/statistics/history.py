"""The earlier sketches of a snapshot's columns, in the statistics of the snapshot and its ancestors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from puffin_fast.errors import CorruptDataError, LimitExceededError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.catalogs.working_table import with_history
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id
from puffin_fast.iceberg.plan.statistics_files import files_of_history
from puffin_fast.iceberg.statistics.stored import (
    OWN_WRITER,
    StoredSketch,
    hashed_type,
    load_sketches,
    named_fields,
)

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile

    from puffin_fast.iceberg.statistics.columns import SketchedColumn

_KEEPS_ROWS = (Operation.APPEND, Operation.REPLACE)


class History:
    """Earlier sketches of a snapshot's columns, which are read when they are needed.

    Attributes:
        notes: statistics files that could not be read, and why.
    """

    def __init__(self, table: Table, snapshot: Snapshot, schema: Schema) -> None:
        self._table, self._snapshot, self._schema = table, snapshot, schema
        self._metadata = with_history(table, snapshot)
        self._files = list(files_of_history(self._metadata, snapshot))
        line = ancestors(snapshot, by_id(self._metadata))
        self._ancestors = {known.snapshot_id: known for known in line}
        self._loaded: dict[str, dict[int, StoredSketch]] = {}
        self.notes: list[str] = []

    @property
    def path(self) -> str:
        """The path of the snapshot's own statistics file, which exists."""
        return self._files[0][1].statistics_path

    def sketches(self, statistics: StatisticsFile) -> dict[int, StoredSketch]:
        """Returns the sketches of a statistics file; none, and adds a note, if it cannot be read."""
        path = statistics.statistics_path
        if path not in self._loaded:
            try:
                self._loaded[path] = load_sketches(self._table.io, statistics)
            except (NotFoundError, CorruptDataError, LimitExceededError, UnsupportedError) as error:
                self._loaded[path] = {}
                self.notes.append(f"statistics of snapshot {statistics.snapshot_id} are not used: {error}")
        return self._loaded[path]

    def usable(self, column: SketchedColumn) -> tuple[Snapshot, StoredSketch] | None:
        """Returns the nearest earlier sketch of a column and its snapshot, if it can be united with sketches of new
        values."""
        for _, statistics in self._files:
            if column.field_id not in named_fields(statistics):
                continue
            stored = self.sketches(statistics).get(column.field_id)
            snapshot = None if stored is None else self._ancestors.get(stored.snapshot_id)
            if stored is None or snapshot is None:
                continue
            if column.type == "uuid" and not stored.writer.startswith(OWN_WRITER):
                return None  # Java's job hashes the text of a uuid
            if hashed_type(self._metadata, stored) != column.type:
                return None
            return snapshot, stored
        return None

    def lost_rows_since(self, snapshot_id: int) -> bool:
        """Whether a commit after a snapshot may have deleted rows."""
        for snapshot in self._ancestors.values():
            if snapshot.snapshot_id == snapshot_id:
                return False
            if snapshot.summary is None or snapshot.summary.operation not in _KEEPS_ROWS:
                return True
        return True

    def others(self, statistics: StatisticsFile | None) -> dict[int, StoredSketch]:
        """Returns the nearest sketch of each column of the schema.

        Args:
            statistics: the current statistics file of the snapshot.
        """
        files = [
            known for snapshot, known in self._files if snapshot.snapshot_id != self._snapshot.snapshot_id
        ]
        found: dict[int, StoredSketch] = {}
        for known in ([] if statistics is None else [statistics]) + files:
            for field_id, stored in self.sketches(known).items():
                if self._schema.find_column_name(field_id) is not None:
                    found.setdefault(field_id, stored)
        return found
