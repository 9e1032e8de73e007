"""Checks for locations that PyIceberg resolves to another path: it parses a location with a scheme as a URL.

A ``#`` or ``?`` ends the path, tabs and line ends are dropped, and the host of ``file://localhost/a`` becomes a folder.
Files would be written to other places than the metadata has.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 parse it so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast._io import split_location
from puffin_fast._io.location import PLAIN_FILE_IO
from puffin_fast.errors import InvalidInputError

if TYPE_CHECKING:
    from pyiceberg.table import Table

DATA_PATH, METADATA_PATH = "write.data.path", "write.metadata.path"
WITHOUT_AUTHORITY = ("file", "hdfs", "viewfs")
"""Schemes whose paths do not begin with the authority."""


def check_locations(table: Table) -> None:
    """Refuses a table whose files PyIceberg would write to other locations than those in the metadata.

    Raises:
        InvalidInputError: it would.
    """
    paths = (table.properties.get(name) for name in (DATA_PATH, METADATA_PATH))
    for location in (table.location(), *paths):
        if location is not None:
            _check(location, table.io)


def check_new_location(
    catalog: Catalog, name: str | tuple[str, ...], location: str | None, properties: Mapping[str, str]
) -> str | None:
    """The same for a table that is to be created.

    Returns:
        The location to create the table at: the given one, or the absolute one of a catalog whose warehouse is
        relative, because the metadata would have a path that is right in one folder only.

    Raises:
        InvalidInputError: as `check_locations`, or there is no location: none is given, and the catalog has no
            warehouse. Or a given location is relative: other processes and engines would look for the files below
            their own current directories.
    """
    given = [location, *(properties.get(name) for name in (DATA_PATH, METADATA_PATH))]
    for path in given:
        if path is not None and is_relative(path, load_file_io(dict(catalog.properties), path)):
            raise InvalidInputError(f"location {path!r}: expected an absolute path or a URI")
    if isinstance(catalog, MetastoreCatalog):
        identifier = Catalog.identifier_to_tuple(name)
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        with suppress(NoSuchNamespaceError):  # raised again when the table is created
            try:
                found = catalog._resolve_table_location(location, namespace, identifier[-1])
            except ValueError as error:
                raise InvalidInputError(
                    f"{namespace}.{identifier[-1]}: expected a location of the table, or a catalog with a warehouse "
                    "(location or warehouse in Python, --location or --warehouse in a shell), found neither"
                ) from error
            if is_relative(found, load_file_io(dict(catalog.properties), found)):
                found = location = os.path.abspath(split_location(found)[2])
            given.append(found)
    for path in given:
        if path is not None:
            _check(path, load_file_io(dict(catalog.properties), path))
    return location


def is_relative(location: str, io: FileIO) -> bool:
    """Whether a location depends on the current directory of the process."""
    scheme, _, key = split_location(location)
    return scheme in ("", "file") and not key.startswith("/") and type(io).__module__ in PLAIN_FILE_IO


def path_opened_instead(location: str, io: FileIO) -> str | None:
    """Returns the path that PyIceberg opens, writes or removes in place of a location; None if it is the location's."""
    scheme, authority, key = split_location(location)
    if not scheme or not isinstance(io, PyArrowFileIO):
        return None
    expected = key if scheme in WITHOUT_AUTHORITY else authority + key
    _, _, found = io.parse_location(location)
    return None if found == expected else found


def _check(location: str, io: FileIO) -> None:
    found = path_opened_instead(location, io)
    if found is not None:
        raise InvalidInputError(
            f"location {location!r}: PyIceberg would write to {found!r}: expected a location without '#', '?', tabs, "
            "line ends and, after file://, a host"
        )
