"""Tables that are opened by their metadata file, without a catalog: they can be read, and not changed.

A folder is opened by its newest metadata file: the one with the greatest number, as writers count them
(``00003-….metadata.json``, ``v3.metadata.json``), of several with one number the one that was updated last. The
catalog may name another one: if a writer dies, the file of a commit that did not happen stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

from puffin_fast._io import split_location
from puffin_fast._io.folder import names_in
from puffin_fast._io.table_formats import other_format
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast._pyiceberg.v3_types import read_v3_types
from puffin_fast.errors import NotFoundError, UnsupportedError
from puffin_fast.iceberg.catalogs.relative_paths import FolderFileIO, folder_of_metadata, is_relative_path
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

READ_ONLY = (
    "opened by its metadata file, so it can be read only; changes need its catalog: catalog.load_table, or "
    "catalog.register_table for a table that no catalog has"
)

_METADATA_FILE = re.compile(r"v?(\d+)(?:-.*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")


def is_metadata_path(table: object) -> bool:
    """Whether an argument is the path of a table or of its metadata file, and not the name of a table."""
    if isinstance(table, os.PathLike):
        return True
    return isinstance(table, str) and ("/" in table or table in (".", "..") or ".metadata.json" in table)


def as_table(table: Table | str | os.PathLike[str]) -> Table:
    """Returns the table at a path, which can be read only; other arguments as they are.

    Raises:
        NotFoundError: there is no metadata file.
        UnsupportedError: PyIceberg cannot read the metadata.
        CorruptDataError: the metadata file is damaged.
    """
    if not isinstance(table, str | os.PathLike) or not is_metadata_path(table):
        return table  # type: ignore[return-value]  # other objects are refused where the metadata is read
    path = os.fspath(table).rstrip("/") or "/"
    scheme, _, key = split_location(path)
    if not scheme:
        path = os.path.abspath(key)
    io = load_file_io({}, path)
    location, document = (path, None) if ".metadata.json" in path.rpartition("/")[2] else _newest(path, io)
    document = read_metadata_file(io, location) if document is None else document
    return _opened((location,), location, document, io, folder=None, why=READ_ONLY)


def table_in_folder(name: tuple[str, ...], metadata_file: str, folder: str) -> Table:
    """Returns a table of a catalog whose metadata has paths relative to a folder; it can be read only.

    Raises:
        As `as_table`.
    """
    io = FolderFileIO(folder)
    why = (
        f"its metadata has paths relative to {folder}, so elsewhere it can be read only; change it in a process that "
        "is started there, or create a table with an absolute location and append the rows to it"
    )
    return _opened(name, metadata_file, read_metadata_file(io, metadata_file), io, folder=folder, why=why)


def table_to_read(name: tuple[str, ...], metadata_file: str, properties: Mapping[str, Any]) -> Table | None:
    """Returns a table by the metadata file that its catalog names; it can be read only.

    Args:
        metadata_file: its location.
        properties: the properties of the catalog, for the file access.

    Returns:
        The table; None if its paths are relative, which only the catalog can resolve.

    Raises:
        As `as_table`.
    """
    if is_relative_path(metadata_file):
        return None
    io = load_file_io(dict(properties), metadata_file)
    document = read_metadata_file(io, metadata_file)
    if is_relative_path(str(document.get("location", ""))):
        return None
    return _opened(name, metadata_file, document, io, folder=None, why=READ_ONLY)


class _PathCatalog(NoopCatalog):
    """The catalog of a table that can be read only.

    Attributes:
        why: why, and what to do.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self.why = why


def why_read_only(table: Table) -> str | None:
    """Why a table can be read only, and what to do to change it; None if it has a catalog."""
    return getattr(table.catalog, "why", READ_ONLY) if isinstance(table.catalog, NoopCatalog) else None


def _opened(
    name: tuple[str, ...],
    location: str,
    document: dict[str, Any],
    io: FileIO,
    *,
    folder: str | None,
    why: str,
) -> Table:
    read_v3_types()
    try:
        with interruptible():
            metadata = TableMetadataUtil.parse_obj(document)
    except Exception as error:
        if is_from_outside(error):
            raise
        raise UnsupportedError(f"{location}: PyIceberg cannot read the metadata: {error}") from error
    if folder is None and is_relative_path(metadata.location):
        folder = folder_of_metadata(location, metadata.location)
        io = io if folder is None else FolderFileIO(folder)
    return Table(name, metadata, location, io, _PathCatalog(".".join(name), why))


def _newest(folder: str, io: FileIO) -> tuple[str, dict[str, Any] | None]:
    """The newest metadata file of a table's folder, and its document if it was read."""
    found: list[tuple[int, str]] = []
    for place in (f"{folder}/metadata", folder):
        for name in names_in(place, ""):
            if match := _METADATA_FILE.fullmatch(name):
                found.append((int(match[1]), f"{place}/{name}"))
        if found:
            break
    if not found:
        hint = other_format(folder)
        raise NotFoundError(
            f"{folder}: expected a table of Iceberg: a folder metadata with a file *.metadata.json, found none{hint}"
        )
    last = max(number for number, _ in found)
    newest = [path for number, path in found if number == last]
    if len(newest) == 1:
        return newest[0], None
    documents = [(path, read_metadata_file(io, path)) for path in newest]
    return max(documents, key=lambda one: (_updated(one[1]), one[0]))


def _updated(document: dict[str, Any]) -> int:
    found = document.get("last-updated-ms")
    return found if isinstance(found, int) else 0
