"""Tables that are given by a path instead of a catalog: the functions of their format, with Iceberg's arguments.

A command calls the function that `verb` returns. If the format of a table has no such function, `verb` raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from puffin_fast._io.folder import names_in
from puffin_fast._io.table_formats import METADATA_FILE
from puffin_fast._text import printable
from puffin_fast.cli._common import tracked
from puffin_fast.cli._delta_path import DeltaPath
from puffin_fast.cli._lance_path import LancePath
from puffin_fast.cli._paimon_path import PaimonPath
from puffin_fast.cli._path_table import PathTable
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.table import Table


def is_path(text: str) -> bool:
    """Whether TABLE is a path or a URI: it has a slash, is ``.`` or ``..``, a metadata file of Iceberg, or a folder
    without a dot in its name. Names of tables in a catalog have a dot and no slash."""
    return (
        "/" in text
        or text in (".", "..")
        or METADATA_FILE in text
        or ("." not in text and os.path.isdir(text))
    )


def name_of(table: Table | PathTable) -> str:
    """The name of a table in the output of a command."""
    if isinstance(table, PathTable):
        return table.path
    name = ".".join(table.name())
    return name.rpartition("/metadata/")[0] or name if METADATA_FILE in name else name


def verb(table: Table | PathTable, name: str) -> Callable[..., Any]:
    """Returns the function of a command for a table, with the arguments of the function after the table.

    Raises:
        UnsupportedError: the format of the table has no such function.
    """
    if not isinstance(table, PathTable):
        from puffin_fast import iceberg

        return tracked(partial(getattr(iceberg, name), table))
    if (found := getattr(table, name, None)) is not None:
        return tracked(found)
    from puffin_fast.tables.opening import open_table

    if (found := getattr(open_table(table.path, format=table.format), name, None)) is not None:
        return tracked(found)
    instead = f": {table.instead[name]}" if name in table.instead else ""
    raise UnsupportedError(
        f"{table.path}: {name.replace('_', '-')} is not supported for tables of {table.format}{instead}"
    )


def open_path(path: str, catalog: Mapping[str, str | None] | None = None) -> Table | PathTable:
    """Returns the table in a folder. One of Iceberg that no hadoop catalog has can be read only.

    Args:
        path: the path of the folder, or of a metadata file of Iceberg.
        catalog: options of the catalog in which `convert` registers a table.

    Raises:
        NotFoundError: the folder has no table of a known format.
    """
    path = path.rstrip("/") or "/"
    found = [
        kind(path, catalog or {})
        for kind in (DeltaPath, PaimonPath, LancePath)
        if METADATA_FILE not in path and names_in(f"{path}/{kind.folder}", "")
    ]
    if not found:
        if METADATA_FILE in path or any(METADATA_FILE in name for name in names_in(f"{path}/metadata", "")):
            return _iceberg(path)
        known = "_delta_log (Delta), metadata (Iceberg), snapshot (Paimon) or _versions (Lance)"
        raise NotFoundError(f"{path}: expected a table: a folder {known} with files in it, found none")
    if len(found) > 1:
        formats = " and ".join(table.format for table in found)
        raise InvalidInputError(f"{path}: expected a table of one format, found folders of {formats}")
    return found[0]


def _iceberg(path: str) -> Table:
    """The table of Iceberg at a path; if it can be read only, a note says which metadata file was read."""
    from puffin_fast.iceberg.catalogs.path_table import why_read_only
    from puffin_fast.tables.iceberg import IcebergTable

    table = IcebergTable.at(path, None).table
    if why_read_only(table) is None:
        return table
    name = table.metadata_location.rpartition("/")[2]
    click.echo(f"puffin-fast: note: {printable(path)}: read only, as of {printable(name)}", err=True)
    return table
