"""The command ``index-keys``: key indexes of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from puffin_fast.cli import _options
from puffin_fast.cli._common import DRY_RUN, Answer, answers, fields_grid, with_commit
from puffin_fast.cli._paths import verb

if TYPE_CHECKING:
    from pyiceberg.table import Table


@click.command("index-keys")
@answers
@_options.on_table
@_options.key
@click.option("--branch", default="main", show_default=True, help="The branch whose data files are indexed.")
@click.option("--full", is_flag=True, help="Reads all data files, not only those added since the last run.")
@_options.threads
@click.option("--dry-run", is_flag=True, help="Counts the data files, and writes nothing.")
def index_keys(
    table: Table,
    join_cols: tuple[str, ...],
    branch: str,
    full: bool,
    threads: int | None,
    dry_run: bool,
) -> Answer:
    """Builds the index of a key of TABLE, or adds the data files that were added since.

    delete-keys, upsert, and filters with = and IN then read only rows that may have a key.

    Example: puffin-fast index-keys shop.orders --join-col id
    """

    result = verb(table, "index_keys")(
        join_cols or None,
        branch=branch,
        incremental=False if full else "auto",
        threads=threads,
        dry_run=dry_run,
    )
    name = ".".join(table.name())
    text: list[Any] = list(result.notes)
    if result.commit.id is None and not dry_run:
        text.append(f"{name}: nothing done: the index has all data files")
    found = asdict(result)
    shown = with_commit({key: value for key, value in found.items() if key != "notes"})
    title = DRY_RUN if dry_run else None
    return Answer({"table": name, **found}, [*text, fields_grid("index-keys", shown, title=title)])
