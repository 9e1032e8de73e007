"""Tables whose metadata has relative paths, as PyIceberg writes them for a catalog whose warehouse is relative.

The paths are right in one folder only: the current one of the process that created the table. Where this folder is
certain, the table is read from every folder. It is not changed: a catalog writes the metadata of a commit below the
current folder of its own process.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 write such paths.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast._io import split_location

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import InputFile, OutputFile


class FolderFileIO(PyArrowFileIO):
    """A FileIO that opens relative paths below a folder instead of the current one.

    Args:
        folder: an absolute path.
    """

    def __init__(self, folder: str) -> None:
        super().__init__({})
        self.folder = folder

    def new_input(self, location: str) -> Any:
        return super().new_input(self._absolute(location))

    def new_output(self, location: str) -> Any:
        return super().new_output(self._absolute(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        super().delete(self._absolute(location) if isinstance(location, str) else location)

    def _absolute(self, location: str) -> str:
        return os.path.join(self.folder, location) if is_relative_path(location) else location


def is_relative_path(location: str) -> bool:
    """Whether a location is a local path that depends on the current folder."""
    return not split_location(location)[0] and not os.path.isabs(location)


def folder_of_metadata(metadata_file: str, location: str) -> str | None:
    """The folder below which a table's relative location is the folder of its metadata file; None if there is none."""
    ending = os.path.join("/", os.path.normpath(location), "metadata")
    folder = os.path.dirname(metadata_file)
    return (folder.removesuffix(ending) or "/") if folder.endswith(ending) else None


def folder_of_catalog(catalog: Catalog) -> str | None:
    """The folder of the SQLite file of a catalog; None for other catalogs."""
    url = getattr(getattr(catalog, "engine", None), "url", None)
    if url is None or url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return os.path.dirname(os.path.abspath(str(url.database)))


def stored_metadata_file(catalog: Any, namespace: str, name: str) -> str | None:
    """The metadata file of a table as a SQL catalog has it; None for other catalogs, and without such a table."""
    if getattr(catalog, "engine", None) is None:
        return None
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    wanted = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == namespace,
        IcebergTables.table_name == name,
    )
    with catalog.engine.connect() as connection:
        found = connection.execute(wanted).scalar()
    return None if found is None else str(found)


def said_of_relative_path(path: str) -> str:
    """What an error says about a relative metadata file that was not found."""
    return (
        f"metadata file {path!r} not found: the path is relative, so the table can be opened only in the folder in "
        f"which it was created, and the current folder is {os.getcwd()}. Start there; or create a table with an "
        "absolute location there, and append the rows of this one to it"
    )
