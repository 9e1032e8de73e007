"""Opens the catalog that the options of a command describe, and tables in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from puffin_fast._api.packages import import_optional
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast.cli._sqlite import metadata_in_sqlite
from puffin_fast.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_SQL = ("sqlite", "postgresql", "mysql")
"""The beginnings of the addresses of SQL catalogs."""


def open_table(identifier: str, options: Mapping[str, str | None], *, to_read: bool = False) -> Table:
    """Loads a table.

    Args:
        identifier: ``namespace.name``.
        options: catalog options of the command. Those of the group are used for options that are not given here.
        to_read: whether the table is only read; that of a SQLite catalog is then opened without a client of catalogs.

    Raises:
        MissingExtraError: PyIceberg is not installed.
        NotFoundError: the catalog does not have the table, or the file of a SQLite catalog does not exist.
        InvalidInputError: PyIceberg cannot open the catalog.
        PuffinFastError: as `puffin_fast.iceberg.load_table`.
    """
    if to_read and (found := _table_to_read(identifier, options)) is not None:
        return found
    catalog = open_catalog(options)
    from puffin_fast.iceberg.catalogs.near_names import near_names
    from puffin_fast.iceberg.catalogs.working_table import load_table

    try:
        return load_table(catalog, identifier)
    except NotFoundError as error:
        near = near_names(catalog, identifier)
        here = f"; for the folder write ./{identifier}" if Path(identifier).is_dir() else ""
        raise NotFoundError(
            f"table {identifier}: not in catalog {catalog.name!r}{near}{here}; "
            "use --catalog or --uri for another catalog"
        ) from error


def open_catalog(options: Mapping[str, str | None], *, create: bool = False) -> Catalog:
    """Opens the catalog that the options describe, until the command ends; raises as `open_table`.

    Args:
        options: as for `open_table`.
        create: whether a SQL catalog may be created: the file of SQLite, and the tables of the catalog.
    """
    import_optional("pyiceberg.catalog", extra="iceberg")
    from puffin_fast.iceberg.catalogs.configured_catalog import configured_catalog

    command = click.get_current_context()
    name: str | None = None
    try:
        name, properties, configured = _settings(options)
        uri = str(configured.get("uri") or "")
        if not create:
            _check_sqlite(uri)
        if uri.startswith(_SQL) and not create:  # no other command changes an existing database
            properties["init_catalog_tables"] = "false"
        with interruptible():
            catalog: Catalog = configured_catalog(name, properties)
    except NotFoundError:
        raise
    except Exception as error:  # the client of a catalog may raise any exception
        if is_from_outside(error):
            raise
        raise InvalidInputError(f"catalog {name or 'default'}: {error}{_configured(name)}") from error
    command.call_on_close(catalog.close)
    return catalog


def _configured(name: str | None) -> str:
    """The catalogs of the configuration, if it has others than this one."""
    try:
        known = sorted(import_optional("pyiceberg.utils.config").Config().get_known_catalogs())
    except Exception as error:
        if is_from_outside(error):
            raise
        return ""
    return f"; the configuration has {', '.join(known)}" if known and name not in known else ""


def _settings(options: Mapping[str, str | None]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The name of the catalog, the properties that the options give, and all properties, those of the configuration
    included."""
    config = import_optional("pyiceberg.utils.config", extra="iceberg").Config()
    command = click.get_current_context()
    given = {**(command.obj or {}), **{k: v for k, v in options.items() if v is not None}}
    name = given.pop("catalog", None) or config.get_default_catalog_name()
    properties = {key: value for key, value in given.items() if value is not None}
    return name, properties, {**(config.get_catalog_config(name) or {}), **properties}


def _table_to_read(identifier: str, options: Mapping[str, str | None]) -> Table | None:
    """The table of a SQLite catalog; None if the catalog has to be asked."""
    try:
        name, _, properties = _settings(options)
    except Exception as error:
        if is_from_outside(error):
            raise
        return None
    location = metadata_in_sqlite(name, properties, identifier)
    if location is None:
        return None
    from puffin_fast.iceberg.catalogs.path_table import table_to_read

    return table_to_read(tuple(identifier.split(".")), location, properties)


def _check_sqlite(uri: str) -> None:
    """Refuses a SQLite file that does not exist: SQLite would create it.

    Raises:
        NotFoundError: the file does not exist.
    """
    if not uri.startswith("sqlite"):
        return
    from sqlalchemy.engine import make_url

    path = make_url(uri).database or ""
    if path not in ("", ":memory:") and not path.startswith("file:") and not Path(path).exists():
        raise NotFoundError(f"{uri}: {Path(path).absolute()} does not exist")
