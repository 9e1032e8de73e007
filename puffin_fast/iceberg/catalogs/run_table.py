"""A table for workers, whose new files are in the folder of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider

from puffin_fast._io.run_folder import RunFolder
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.table_properties import data_folder

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable


class RunTable(Table):
    """A table for workers. It can be pickled.

    Attributes:
        folder: the folder of the run, in which its new files are.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata, folder: RunFolder) -> None:
        super().__init__((folder.run,), metadata, "", io, NoopCatalog("worker"))
        self.folder = folder

    def location_provider(self) -> LocationProvider:
        return _InFolder(self, self.folder)


class _InFolder(LocationProvider):
    def __init__(self, table: Table, folder: RunFolder) -> None:
        super().__init__(table.location(), table.properties)
        self._name = folder.names()

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> str:
        return self._name(data_file_name[data_file_name.rindex(".") :])


@contextmanager
def run_table(table: WorkingTable, run: str) -> Iterator[tuple[RunTable, list[str]]]:
    """Yields a table for workers, and a list for the files that are kept after the block; all others are removed.

    Args:
        table: the table of the job, which removes the kept files if the job fails.
        run: the name of the run.
    """
    folder = RunFolder(f"{data_folder(table)}/{run}", run)
    with folder.keeping(filesystem(table.io, folder.location)[0]) as kept:
        yield RunTable(table.io, without_history(table.metadata), folder), kept
    table.created += kept
