"""On executors: data files of a table are written, with names that no other attempt of the task uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from puffin_fast.iceberg.catalogs.run_table import RunTable
from puffin_fast.iceberg.dml.attempt import write_new_rows
from puffin_fast.spark.worker.reports import FileWritten
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from puffin_fast.delta.scans.plan import DeltaTable


class NewRows(Protocol):
    """Writes the new rows of a task."""

    def write(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
    ) -> list[FileWritten]:
        """Writes rows to data files.

        Args:
            rows: all columns of the table.
            row_ids: for each row the id of the row that it replaces, or null. None if no row replaces another.
        """


def new_rows(target: Target) -> NewRows:
    """Returns the writer of the new rows of a task. There is only one, so that no name is repeated."""
    return _IcebergRows(target) if target.delta is None else _DeltaRows(target, target.delta)


class _IcebergRows:
    def __init__(self, target: Target) -> None:
        self._table = RunTable(target.io, target.metadata, target.place.folder)

    def write(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
    ) -> list[FileWritten]:
        entries = write_new_rows(self._table, rows, row_ids)
        return [FileWritten(entry.file_path, entry) for entry in entries]


class _DeltaRows:
    def __init__(self, target: Target, table: DeltaTable) -> None:
        from puffin_fast.delta.dml.data_files import DataFileWriter, NamesIn

        self._snapshot = table.snapshot
        self._writer = DataFileWriter(table, name=NamesIn(target.place.folder))

    def write(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
    ) -> list[FileWritten]:
        from puffin_fast.delta.dml.data_files import row_tracking_columns

        assert isinstance(rows, pa.Table)
        extra = None if row_ids is None else row_tracking_columns(self._snapshot, row_ids)
        n_earlier = len(self._writer.written)
        adds = self._writer.write(rows, extra)
        paths = self._writer.written[n_earlier:]
        return [
            FileWritten(f"{self._snapshot.root}/{path}", add) for path, add in zip(paths, adds, strict=True)
        ]
