"""The options of several commands, each defined once, with the names of the arguments of the Python API."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from typing import Any, TypeVar

import click

from puffin_fast._io import split_location
from puffin_fast._text import as_count
from puffin_fast.cli._catalog import open_table
from puffin_fast.cli._completed import CATALOG, complete_column, complete_table
from puffin_fast.cli._files import FORMATS, is_remote_scheme
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import is_path, open_path, verb

Command = TypeVar("Command", bound=Callable[..., Any])

TABLE_HELP = "TABLE is namespace.name, or a path: `puffin-fast --help` names the commands that take paths."


def _all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combines options to one decorator; the help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def catalog(command: Command) -> Command:
    """Adds the options that describe a catalog, named as in PyIceberg's command line."""
    return _all_of(*(click.option(f"--{name}", help=text) for name, text in CATALOG.items()))(command)


READERS = frozenset({"changes", "deletes", "files", "history", "scan", "schema", "snapshots"})
"""The commands that only read a table."""


def on_table(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument TABLE and the options of its catalog; the function gets the table as its first argument.

    The table is PyIceberg's `Table`, or a `PathTable` if TABLE is a path.
    """

    @click.argument("table", metavar="TABLE", shell_complete=complete_table)
    @catalog
    @wraps(command)
    def run(*, table: str, **options: Any) -> Any:
        catalog_options = {name: options.pop(name) for name in CATALOG}
        if is_path(table):
            found = open_path(table, catalog_options)
            if isinstance(found, PathTable):
                verb(found, command.__name__)
            return command(found, **options)
        to_read = command.__name__ in READERS
        return command(open_table(table, catalog_options, to_read=to_read), **options)

    run.__doc__ = f"{cleandoc(command.__doc__ or '')}\n\n{TABLE_HELP}"
    return run


def pairs(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    """Parses the values of a repeatable option such as KEY=VALUE; None if it is not given."""
    found = dict(text.partition("=")[::2] for text in texts)
    if any("=" not in text for text in texts) or "" in found:
        raise click.BadParameter(f"expected {option.metavar or 'KEY=VALUE'}", context, option)
    return found or None


def time(context: click.Context, option: click.Parameter, text: str | None) -> str | int | None:
    """Parses a time: a number is milliseconds since 1970, any other text is left as it is."""
    return text if (number := as_count(text)) is None else number


commit = _all_of(
    click.option("--branch", default="main", show_default=True, help="The branch to commit to."),
    click.option(
        "--job-id",
        help="Recorded in the snapshot's summary. A job whose id is already in the branch's history is not repeated.",
    ),
    click.option(
        "--snapshot-properties",
        "--snapshot-property",
        metavar="KEY=VALUE",
        multiple=True,
        callback=pairs,
        help="Adds an entry to the snapshot's summary; repeatable.",
    ),
    click.option("--dry-run", is_flag=True, help="Counts what would change; writes nothing."),
)
"""Adds the options of a commit: branch, job_id, snapshot_properties, dry_run."""

log_predicate = click.option(
    "--log-predicate/--no-log-predicate",
    default=True,
    show_default=True,
    help="Whether the log of a Delta table gets the filter, whose values may be personal data. Other formats log none.",
)
"""Adds the option log_predicate."""

snapshot = _all_of(
    click.option("--snapshot-id", type=int, help="Reads this snapshot instead of the current one."),
    click.option("--branch", help="Reads the head of this branch."),
    click.option("--tag", help="Reads the snapshot of this tag."),
    click.option(
        "--as-of",
        callback=time,
        help="Reads the snapshot that was current at this time: "
        "a timestamp with a time zone, or milliseconds since 1970.",
    ),
)
"""Adds the options that select a snapshot: snapshot_id, branch, tag, as_of."""


def _names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return ("*",) if text is None else tuple(part.strip() for part in text.split(","))


rows = _all_of(
    click.option(
        "--row-filter",
        default="true",
        help="Reads these rows: 'a > 5 and b is null' (docs/filters.md). Default: all rows.",
    ),
    click.option(
        "--selected-fields",
        callback=_names,
        shell_complete=complete_column,
        help="Columns, separated by commas; also _file, _pos, _row_id. Default: all columns.",
    ),
)
"""Adds the options that select rows and columns: row_filter, selected_fields."""

threads = click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Number of files that are read at a time. Default: the number of processors.",
)
"""Adds the option for the number of threads."""


class _Input(click.Path):
    """The path of a file that exists, the URI of any file, or ``-``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        scheme, _, key = split_location(str(value))
        if is_remote_scheme(scheme):
            return str(value)
        return str(super().convert(key, param, ctx))


class _LocalOutput(click.Path):
    """The path or ``file:`` URI of a file to write."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        scheme, _, key = split_location(str(value))
        if is_remote_scheme(scheme):
            self.fail(f"expected a path of this machine, found {value}", param, ctx)
        return super().convert(key, param, ctx)


FILE = _Input(exists=True, dir_okay=False, allow_dash=True)
"""The type of an argument that is a file of rows, also on an object store, or ``-`` for standard input."""

LOCAL_OUTPUT = _LocalOutput(dir_okay=False, path_type=Path)
"""The type of an option that is a file to write, and cannot be on an object store."""

input_format = click.option(
    "--input-format",
    type=click.Choice(FORMATS),
    help="Format of the file. Default: by its suffix; jsonl (JSON Lines) for standard input.",
)
"""Adds the option for the format of a file of rows."""

key = click.option(
    "--join-col",
    "join_cols",
    multiple=True,
    shell_complete=complete_column,
    help="Key column of TABLE and of the file; repeatable. Default: the identifier fields.",
)
"""Adds the option for the key columns."""

duplicate_keys = click.option(
    "--duplicate-keys",
    type=click.Choice(["refuse", "replace"]),
    default="refuse",
    show_default=True,
    help="What to do if several rows of TABLE have a given key: refuse with an error, or replace all of them by one.",
)
"""Adds the option for keys that several rows have."""

clauses = _all_of(
    click.option(
        "--when-matched-update-all/--no-when-matched-update-all",
        default=True,
        show_default=True,
        help="Whether the rows of TABLE that have a given key are replaced.",
    ),
    click.option(
        "--when-not-matched-insert-all/--no-when-not-matched-insert-all",
        default=True,
        show_default=True,
        help="Whether the given rows whose key is new are inserted.",
    ),
)
"""Adds the options for the clauses of an upsert."""
