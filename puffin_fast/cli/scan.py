"""Commands that read one table: ``scan`` (its rows) and ``deletes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from puffin_fast._text import counted
from puffin_fast.cli import _files, _options
from puffin_fast.cli._common import (
    Answer,
    answers,
    chosen_output,
    grid,
    percent,
    relative_to,
    rows_answer,
    without_zeros,
)
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import name_of, verb
from puffin_fast.cli._values import rows_of
from puffin_fast.cli.table import case_option
from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.rows.scan.explain import Explanation

SHOWN = 20
"""Maximum number of rows that `scan` prints if ``--limit`` is not given."""

to_option = click.option(
    "--to",
    help="Writes the rows to a .parquet, .arrow, .csv, .jsonl or .json file, a path or URI; - prints JSON Lines.",
)


@click.command()
@answers
@_options.on_table
@_options.rows
@case_option
@_options.snapshot
@_options.threads
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Maximum number of rows. Default: {SHOWN}; no limit with --to, --count or --output csv.",
)
@click.option("--count", is_flag=True, help="Prints only the number of rows.")
@click.option(
    "--explain", is_flag=True, help="Prints what is read, and what each step leaves out, not the rows."
)
@to_option
def scan(
    table: Table | PathTable,
    row_filter: str,
    selected_fields: tuple[str, ...],
    case_insensitive: bool,
    limit: int | None,
    count: bool,
    explain: bool,
    to: str | None,
    threads: int | None,
    **snapshot: Any,
) -> Answer:
    """Prints the rows of TABLE, with all deletes applied.

    Example: puffin-fast scan shop.orders --as-of 2026-01-01T00:00Z --count
    """
    name = name_of(table)
    as_csv = chosen_output() == "csv" and not count and to in (None, "-")
    if explain and (count or to is not None):
        raise click.UsageError("--explain prints no rows: expected it without --count and --to")
    if limit is None and to is None and not count and not as_csv:
        limit = SHOWN
    to = "-" if as_csv else to
    check_target(to)
    found = verb(table, "scan")(
        row_filter,
        selected_fields,
        case_sensitive=not case_insensitive,
        limit=limit,
        threads=threads,
        **snapshot,
    )
    if explain:
        return _explained(name, found.explain())
    if to is not None:
        return written(name, found, to)
    if count:
        filtered = {} if row_filter == "true" else {"row_filter": row_filter}
        return rows_answer([{"table": name, **filtered, "rows": found.count()}])
    reader = found.to_reader()
    rows = [row for batch in reader for row in rows_of(batch)]
    if not rows:
        return Answer([], [f"{name}: no rows"])
    shown = grid(
        rows,
        null="NULL",
        one_line=True,
        types={field.name: str(field.type).removeprefix("large_") for field in reader.schema},
    )
    if row_filter != "true" or _has_equality_deletes(table):
        size = (
            f"first {len(rows):,} rows; --count counts all"
            if len(rows) == limit
            else counted(len(rows), "row")
        )
    else:
        total = verb(table, "scan")(
            "true", ("*",), case_sensitive=True, limit=None, threads=threads, **snapshot
        ).count()
        size = f"{len(rows):,} of {total:,} rows"
    return Answer(rows, [shown, size])


def _explained(name: str, found: Explanation) -> Answer:
    rows = found.rows()
    return Answer(rows, [grid(rows, title=name, one_line=True), *found.notes])


def check_target(to: str | None) -> None:
    """Refuses a file of another format before anything is read."""
    if to not in (None, "-"):
        _files.suffix_of(to)


def written(name: str, found: Any, to: str) -> Answer:
    """Writes the rows of a table to a file, or prints them: as CSV with ``--output csv``, else as JSON Lines."""
    if to != "-":
        return rows_answer([{"table": name, "file": to, "rows": _files.write(to, found.to_reader())}])
    suffix = ".csv" if chosen_output() == "csv" else ".jsonl"
    return Answer(
        [],
        [],
        stream=lambda write: _files.write_stream(write, suffix, found.to_reader(), "standard output"),
    )


def _has_equality_deletes(table: Table | PathTable) -> bool:
    """Whether a count of the rows of a table reads them."""
    snapshot = None if isinstance(table, PathTable) else table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return False
    return snapshot.summary.additional_properties.get("total-equality-deletes", "0") != "0"


@click.command()
@answers
@_options.on_table
@click.option(
    "--file-path", multiple=True, help="Lists those of this data file only. May be given several times."
)
@_options.snapshot
def deletes(table: Table | PathTable, file_path: tuple[str, ...], **snapshot: Any) -> Answer:
    """Lists the deletes of TABLE: one row for each data file and each of its deletion vectors and delete files.

    Example: puffin-fast deletes shop.orders --output json
    """
    name = name_of(table)
    if file_path and isinstance(table, PathTable):
        raise UnsupportedError(f"{table.path}: tables of {table.format} have no --file-path")
    some = {"file_paths": file_path} if file_path else {}
    rows = verb(table, "deletes")(**some, **snapshot).to_pylist()
    root = table.root() if isinstance(table, PathTable) else table.metadata.location
    shown = without_zeros([{**row, "share": percent(row["share"])} for row in relative_to(root, rows)])
    title = f"{name}: {counted(len(rows), 'delete')}"
    return Answer(rows, [grid(shown, title=title, one_line=True) if rows else f"{name}: no deletes"])
