"""On executors: data files of a table are written, with names that no other attempt of the task uses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider

from puffin_fast.iceberg.dml.attempt import write_new_rows
from puffin_fast.spark.worker.reports import FileWritten
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionKey

    from puffin_fast.delta.scans.plan import DeltaTable

FIRST = 1_000_000
"""The number of a task's first data file; the delete files of the task have lower numbers."""


class TaskTable(Table):
    """A table whose data files are named by the job and by this attempt of the task.

    Args:
        target: the parts of the table that an executor has.
    """

    def __init__(self, target: Target) -> None:
        super().__init__((target.place.job,), target.metadata, "", target.io, NoopCatalog("task"))
        self._locations = _Locations(self, target)

    def location_provider(self) -> LocationProvider:
        """Returns the location provider of the task. There is only one, so that no name is repeated."""
        return self._locations


class _Locations(LocationProvider):
    def __init__(self, table: Table, target: Target) -> None:
        super().__init__(table.location(), table.properties)
        self._path_of, self._numbers = target.place.paths(".parquet"), itertools.count(FIRST)

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> str:
        return self._path_of(next(self._numbers))


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
        self._table = TaskTable(target)

    def write(
        self,
        rows: pa.Table | pa.RecordBatchReader,
        row_ids: pa.Array | pa.ChunkedArray | None = None,
    ) -> list[FileWritten]:
        entries = write_new_rows(self._table, rows, row_ids)
        return [FileWritten(entry.file_path, entry) for entry in entries]


class _DeltaRows:
    def __init__(self, target: Target, table: DeltaTable) -> None:
        from puffin_fast.delta.dml.data_files import DataFileWriter

        self._snapshot = table.snapshot
        self._writer = DataFileWriter(table, name=_delta_names(target, table))

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
        return _files(self._snapshot.root, self._writer.written[n_earlier:], adds)


def _files(root: str, paths: Sequence[str], adds: Sequence[Any]) -> list[FileWritten]:
    return [FileWritten(f"{root}/{path}", add) for path, add in zip(paths, adds, strict=True)]


def _delta_names(target: Target, table: DeltaTable) -> Callable[[], str]:
    """Returns a function that makes the paths of a task's data files, below the table."""
    path_of, numbers = target.place.paths(".parquet"), itertools.count(FIRST)
    return lambda: path_of(next(numbers)).removeprefix(f"{table.snapshot.root}/")
