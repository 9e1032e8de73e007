"""What all commands share: errors become one line, answers are tables or JSON, catalogs come from options.

Exit codes: 0 done, 1 an error of ours or a check that failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from puffin_fast.errors import InvalidInputError, MissingExtraError, NotFoundError, PuffinFastError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

__all__ = [
    "ErrorReportingGroup",
    "catalog_options",
    "console",
    "grid",
    "open_table",
    "output_option",
    "print_json",
    "show",
]

Command = TypeVar("Command", bound=Callable[..., Any])

INTERRUPTED = 130


class ErrorReportingGroup(click.Group):
    """The group of all commands: where an error of the package's tree leaves as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PuffinFastError as error:
            message = str(error)
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        click.echo(f"{ctx.info_name}: error: {' '.join(message.split())}", err=True)
        return ctx.exit(1)


# Answers -------------------------------------------------------------------------------------------------


def console() -> Console:
    """Where tables go: as wide as the terminal, or as wide as they need when nobody watches."""
    return Console() if sys.stdout.isatty() else Console(width=240)


def output_option(command: Command) -> Command:
    """``--output text|json``."""
    choice = click.Choice(["text", "json"])
    return click.option(
        "--output", type=choice, default="text", show_default=True, help="Form of the answer."
    )(command)


def print_json(answer: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(answer, indent=2, default=str))


def grid(rows: Iterable[Mapping[str, object]], *, title: str | None = None) -> Grid:
    """A table with the keys of the first row as its columns; numbers to the right, None as nothing."""
    rows = list(rows)
    table = Grid(title=title, title_justify="left", title_style="bold")
    for key, value in (rows[0] if rows else {}).items():
        table.add_column(key, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row.values()))
    return table


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, Mapping):
        return "\n".join(f"{key} = {item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(item) for item in value)
    return str(value)


def show(rows: Sequence[Mapping[str, object]], output: str, *, title: str | None = None) -> None:
    """Rows as the user asked for them: a table, or a JSON array."""
    if output == "json":
        print_json(rows)
    else:
        console().print(grid(rows, title=title))


# Catalogs ------------------------------------------------------------------------------------------------

_CATALOG_OPTIONS = {
    "catalog": "Name of the catalog in PyIceberg's configuration.",
    "uri": "Address of the catalog: sqlite:///…, http://…, thrift://…",
    "credential": "Credential of the catalog.",
    "warehouse": "Warehouse of the catalog.",
    "ugi": "Hadoop user and group of a Hive catalog.",
}


def catalog_options(command: Command) -> Command:
    """The options that name a catalog, as PyIceberg's command line has them."""
    for name, text in reversed(_CATALOG_OPTIONS.items()):
        command = click.option(f"--{name}", help=text)(command)
    return command


def open_catalog(options: Mapping[str, str | None]) -> Catalog:
    """The catalog that the options name, those of the group filled in from those of the command.

    Raises:
        MissingExtraError: without PyIceberg.
        InvalidInputError: when PyIceberg cannot open it.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "pyiceberg", extra="iceberg") from error
    given = {**(click.get_current_context().obj or {}), **{k: v for k, v in options.items() if v is not None}}
    name = given.pop("catalog", None)
    properties = {key: value for key, value in given.items() if value is not None}
    try:
        return load_catalog(name, **properties)
    except Exception as error:  # whatever a catalog's client raises, its message is all that a shell needs
        raise InvalidInputError(f"catalog {name or 'default'}: {error}") from error


def open_table(identifier: str, options: Mapping[str, str | None]) -> Table:
    """The table of that name.

    Raises:
        NotFoundError: when the catalog has no such table.
        InvalidInputError: when the catalog cannot be asked.
    """
    catalog = open_catalog(options)
    from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(identifier)
    except (NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError) as error:
        raise NotFoundError(f"table {identifier}: not in catalog {catalog.name}") from error
    except Exception as error:  # as above: a catalog that does not answer
        raise InvalidInputError(f"table {identifier}: {error}") from error
