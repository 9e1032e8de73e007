"""Replaces rows in one commit: vectors for the old rows, data files for the new ones, the change data feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from puffin_fast.delta.dml.changes import Written, actions_of, allowed, write_vectors
from puffin_fast.delta.dml.data_files import DataFileWriter
from puffin_fast.delta.log.commit import Changes
from puffin_fast.delta.log.protocol import MAPPING_MODE, is_set
from puffin_fast.delta.log.row_ids import MATERIALIZED
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.read.plan import DeltaTable
from puffin_fast.rows.deletes.outcome import NewDeletes

__all__ = ["Replacement", "Replaced", "row_tracking_columns"]


def row_tracking_columns(base: Snapshot, *values: Any) -> dict[str, Any] | None:
    """Returns the row-tracking columns of rewritten files, by physical name.

    Args:
        base: the version.
        values: the row ids; for rows that only move also the row commit versions.

    Returns:
        None if the table tracks rows but the ids cannot be kept: with column mapping by id, these columns have no field
        ids.
    """
    names = [base.configuration.get(name) for name in MATERIALIZED]
    if not is_set(base.configuration, "delta.enableRowTracking"):
        return {}
    if None in names or base.configuration.get(MAPPING_MODE) == "id":
        return None
    return {str(name): column for name, column in zip(names, values, strict=False)}


@dataclass(frozen=True)
class Replaced:
    """The files and counts of a replacement.

    Attributes:
        written: the vectors.
        rows: number of new rows.
        data_files: number of new data files.
        changes: to commit; None if nothing was written.
    """

    written: Written = field(default_factory=Written)
    rows: int = 0
    data_files: int = 0
    changes: Changes | None = None


@dataclass(frozen=True)
class Replacement:
    """Rows to replace.

    Attributes:
        deletes: of the old rows.
        rows: the new rows.
        row_ids: for each new row the id of the row that it replaces, else null.
        feed: rows of the change data feed by type of change.
    """

    deletes: Iterable[NewDeletes]
    rows: pa.Table
    row_ids: Any
    feed: Mapping[str, pa.Table]

    def write(self, table: DeltaTable, operation: str, **terms: Any) -> Replaced:
        """Writes all files. After an error, no file is left.

        Args:
            table: the version.
            operation: for `commitInfo`.
            terms: of `Changes`.
        """
        base, writer = table.snapshot, DataFileWriter(table)
        tracked = row_tracking_columns(base, self.row_ids)
        written = Written()
        try:
            written = write_vectors(base.storage, allowed(base, self.deletes))
            adds = writer.write(self.rows, tracked)
            feed = writer.write_changes(self.feed) if writer.keeps_changes else []
            actions, touched = actions_of(base, written)
        except BaseException:
            for path in (*written.files, *writer.written):
                base.storage.remove(path)
            raise
        if not written.changes and not adds:
            return Replaced(written)
        changes = Changes(
            [*actions, *adds, *feed],
            operation,
            touched,
            (*written.files, *writer.written),
            keeps_row_ids=tracked is not None,
            looks_at_rows=True,
            **terms,
        )
        return Replaced(written, self.rows.num_rows, len(adds), changes)
