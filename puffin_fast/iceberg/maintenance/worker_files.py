"""Data files that the workers of an executor write.

Those of one run are in a folder of its own, so that the files of workers that ended, or were given a bin again, are
found and removed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider

from puffin_fast._io import FileSet
from puffin_fast._io.folder import names_in, remove_empty
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.catalogs.working_table import remove_files
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.table_properties import data_folder

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionKey

_LOG = logging.getLogger(__name__)


class RunFolder:
    """A folder for the data files of one run.

    Attributes:
        table: a table for workers, which names data files in the folder. It can be pickled.
    """

    def __init__(self, table: Table, verb: str) -> None:
        folder = f"{data_folder(table)}/{verb}-{uuid.uuid4().hex[:12]}"
        self.table = _WorkerTable(table, folder)
        self._folder, self._io = folder, table.io

    def remove_others(self, keep: Collection[str]) -> None:
        """Removes the files of the folder that are not to be kept, and the folder if it is local and empty then.

        Errors are logged: they must not replace others.
        """
        try:
            handle, _ = filesystem(self._io, self._folder)
            kept = FileSet(keep)
            paths = (f"{self._folder}/{name}" for name in names_in(self._folder, "", filesystem=handle))
            remove_files(self._io, [path for path in paths if path not in kept])
            remove_empty(self._folder, filesystem=self._io)
        except (OSError, PuffinFastError) as trouble:
            _LOG.warning("unused files may be left in %s: %s", self._folder, trouble)


class _WorkerTable(Table):
    def __init__(self, table: Table, folder: str) -> None:
        super().__init__(table.name(), without_history(table.metadata), "", table.io, NoopCatalog("worker"))
        self._folder = folder

    def location_provider(self) -> LocationProvider:
        return _InFolder(self, self._folder)


class _InFolder(LocationProvider):
    def __init__(self, table: Table, folder: str) -> None:
        super().__init__(table.location(), table.properties)
        self._folder = folder

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> str:
        return f"{self._folder}/{data_file_name}"  # the name has the writer's UUID
