"""The creation of a table: one request to the catalog, and what becomes of the metadata file that was written for it.

| ends with | meaning | metadata file |
|---|---|---|
| return | the table exists, with this metadata | the table's |
| `BusyError` | no table: the catalog's database was locked | removed |
| `InvalidInputError` | another table has the name | removed |
| `CommitUnknownError` | the catalog did not answer | kept, and named in the message |
| other errors | no table: the catalog refused, or the metadata was not written | removed |
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import load_file_io

from puffin_fast._pyiceberg.versions import check_version
from puffin_fast._runtime.interrupt import interruptible
from puffin_fast.errors import CommitUnknownError, InvalidInputError, PuffinFastError
from puffin_fast.iceberg.compat.catalog_commit import BusyError
from puffin_fast.iceberg.compat.sql_catalog import is_locked, roll_back_returned_connections
from puffin_fast.iceberg.compat.table_metadata import catalog_for_commit
from puffin_fast.iceberg.compat.working_table import remove_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["create_in_catalog"]


def create_in_catalog(catalog: Catalog, name: str | tuple[str, ...], shown: str, **description: Any) -> Table:
    """Creates a table of format version 3.

    Args:
        catalog: any PyIceberg catalog.
        name: of the table.
        shown: the name in messages.
        description: the other arguments of the catalog's `create_table`.

    Raises:
        BusyError, InvalidInputError, CommitUnknownError, PuffinFastError: see the table above.
        Exception: what a catalog raises that did not write metadata in this process.
    """
    check_version()
    roll_back_returned_connections(catalog)
    begun: list[str] = []
    sent: list[bool] = []
    maker = catalog_for_commit(catalog, begun.append, lambda: sent.append(True))
    try:
        with interruptible():
            table = maker.create_table(name, **description)
    except BaseException as error:
        if not sent:
            _remove(catalog, begun)
        if not begun or isinstance(error, PuffinFastError) or not isinstance(error, Exception):
            raise  # the caller knows errors from before anything was written
        if not sent:
            raise PuffinFastError(f"{shown}: the metadata could not be written: {error}") from error
        table = _settle(catalog, name, shown, begun, error)
    table.catalog = catalog
    return table


def _settle(
    catalog: Catalog, name: str | tuple[str, ...], shown: str, begun: list[str], error: Exception
) -> Table:
    """Returns the table if the catalog has it with the metadata written here; raises else."""
    reason = getattr(error, "orig", error)
    if is_locked(error):
        _remove(catalog, begun)
        raise BusyError.of(shown, error) from error
    try:
        with interruptible():
            found = catalog.load_table(name)
    except NoSuchTableError:
        if isinstance(reason, sqlite3.Error):
            _remove(catalog, begun)
            raise PuffinFastError(f"{shown}: the catalog refused the table: {reason}") from error
    except Exception:
        pass
    else:
        log = (entry.metadata_file for entry in found.metadata.metadata_log)
        if not {found.metadata_location, *log}.isdisjoint(begun):  # also if another commit came on top
            return found
        _remove(catalog, begun)
        if isinstance(error, TableAlreadyExistsError):
            raise InvalidInputError(f"{shown}: {error}") from error
        raise PuffinFastError(f"{shown}: the catalog refused the table: {reason}") from error
    raise CommitUnknownError(
        f"{shown}: it is unknown whether the table was created, because the catalog did not answer "
        f"({type(error).__name__}: {reason}). {', '.join(begun)} was not removed: it is the table's metadata if the "
        "table exists"
    ) from error


def _remove(catalog: Catalog, paths: list[str]) -> None:
    """Removes the metadata of a table that was not created."""
    for path in paths:
        remove_files(load_file_io(dict(catalog.properties), path), [path])
