"""On executors: data files of a table are written, with names that no other attempt of the task uses."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider

from puffin_fast.iceberg.maintenance.rewritten_groups import GroupWriter
from puffin_fast.spark.worker.rows import DATA_FILE, GROUP, ReportRow, report_rows
from puffin_fast.spark.worker.tasks import Target, items_of, unpack

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionKey

    from puffin_fast.iceberg.manifest import ManifestEntry

FIRST = 1_000_000
"""The number of a task's first data file: the delete files of the task have lower ones."""


class TaskTable(Table):
    """A table whose data files are named by the job and by this attempt of the task.

    Args:
        target: the parts of the table that an executor has.
    """

    def __init__(self, target: Target) -> None:
        super().__init__((target.place.job,), target.metadata, "", target.io, NoopCatalog("task"))
        self._locations = _Locations(self, target)

    def location_provider(self) -> LocationProvider:
        """Returns the one location provider of the task: it does not repeat a name."""
        return self._locations


class _Locations(LocationProvider):
    def __init__(self, table: Table, target: Target) -> None:
        super().__init__(table.location(), table.properties)
        self._path_of, self._numbers = target.place.paths(".parquet"), itertools.count(FIRST)

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> str:
        return self._path_of(next(self._numbers))


def data_file_rows(entries: Iterable[ManifestEntry]) -> Iterator[pa.RecordBatch]:
    """Rows of `REPORT` for new data files."""
    return report_rows([ReportRow(DATA_FILE, path=e.file_path, entry=pickle.dumps(e)) for e in entries])


def rewrite(
    batches: Iterator[pa.RecordBatch], *, target: bytes, sequence_number: int, target_file_size: int
) -> Iterator[pa.RecordBatch]:
    """Writes the live rows of groups of data files to new ones.

    Args:
        batches: one binary column: packed lists of groups, which are lists of `FileTask`.
        target: packed `Target`.
        sequence_number, target_file_size: as in `GroupWriter`.

    Yields:
        rows of `REPORT`: the new data files, and the groups.
    """
    table: Target = unpack(target)
    writer = GroupWriter(TaskTable(table), sequence_number, target_file_size, 1)
    for tasks in items_of(batches):
        group = writer.write(tasks)
        paths = [ReportRow(DATA_FILE, path=new.entry.file_path) for new in group.new]
        yield from report_rows([*paths, ReportRow(GROUP, entry=pickle.dumps(group))])
