"""Names of tables and columns with which a shell completes the arguments of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from puffin_fast.cli._catalog import open_catalog, open_table
from puffin_fast.cli._path_table import PathTable, columns_of
from puffin_fast.cli._paths import is_path, open_path

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG = {
    "catalog": "Name of the catalog in PyIceberg's configuration.",
    "uri": "Address of the catalog: sqlite:///…, http://…, thrift://…",
    "credential": "Credential of the catalog.",
    "warehouse": "Warehouse of the catalog.",
    "ugi": "Hadoop user and group of a Hive catalog.",
}
"""The options that describe a catalog, and their help."""


def complete_table(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The tables of the catalog that the options before describe; else folders.

    An error gives no names: a shell has no place for its message.
    """
    try:
        with context.scope(cleanup=False):
            names = _tables(open_catalog(_options(context)), incomplete)
    except Exception:
        names = []
    if "/" in incomplete or not names:
        return [CompletionItem(incomplete, type="dir")]
    return [CompletionItem(name) for name in names]


def complete_column(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The columns of the table that was given before, also as the last of several between commas."""
    before, comma, last = incomplete.rpartition(",")
    try:
        with context.scope(cleanup=False):
            # an option without its value ends the parsing: arguments before it are left over
            text, options = context.params.get("table") or context.args[0], _options(context)
            table = open_path(text) if is_path(text) else open_table(text, options, to_read=True)
            columns = table.columns() if isinstance(table, PathTable) else columns_of(table.schema())
            names = [str(column["column"]) for column in columns]
    except Exception:
        return []
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]


def _options(context: click.Context) -> dict[str, str | None]:
    """The options of the catalog, after the command or before it."""
    group = context.find_root().params
    return {name: context.params.get(name) or group.get(name) for name in CATALOG}


def _tables(catalog: Catalog, incomplete: str) -> list[str]:
    namespace, dot, _ = incomplete.rpartition(".")
    spaces = [tuple(namespace.split("."))] if dot else catalog.list_namespaces()
    names = [".".join(table) for space in spaces for table in catalog.list_tables(space)]
    return sorted(name for name in names if name.startswith(incomplete))
