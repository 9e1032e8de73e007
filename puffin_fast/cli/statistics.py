"""The command ``ndv``: numbers of distinct values of the columns of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from puffin_fast.cli import _options
from puffin_fast.cli._common import Answer, answers, grid, tracked, without_zeros
from puffin_fast.cli._completed import complete_column
from puffin_fast.cli._paths import verb
from puffin_fast.cli.table import case_option, session

if TYPE_CHECKING:
    from pyiceberg.table import Table


@click.command()
@answers
@_options.on_table
@click.option(
    "--collect", is_flag=True, help="Counts first, and commits the counts as the statistics of the snapshot."
)
@click.option(
    "--columns",
    shell_complete=complete_column,
    help="Columns, separated by commas. Default: all columns of primitive types.",
)
@case_option
@_options.snapshot
@click.option(
    "--full",
    is_flag=True,
    help="With --collect: reads all data files, not only those added since the last run.",
)
@_options.threads
@click.option("--spark", is_flag=True, help="With --collect: reads the data files on Spark executors.")
@click.option("--dry-run", is_flag=True, help="With --collect: counts, and commits nothing.")
def ndv(
    table: Table,
    collect: bool,
    columns: str | None,
    case_insensitive: bool,
    full: bool,
    threads: int | None,
    spark: bool,
    dry_run: bool,
    **selected: Any,
) -> Answer:
    """Prints the numbers of distinct values of the columns of TABLE, from its statistics.

    Counts above 4096 are estimates; lower and upper are their bounds with a confidence of 95.4%.

    Example: puffin-fast ndv shop.orders --collect --columns customer,product
    """
    if (full or threads or spark or dry_run) and not collect:
        raise click.UsageError("--full, --threads, --spark and --dry-run need --collect")
    if spark and threads:
        raise click.UsageError("--spark cannot be combined with --threads")
    from puffin_fast import iceberg

    name = ".".join(table.name())
    names = None if columns is None else [part.strip() for part in columns.split(",")]
    of_snapshot: dict[str, Any] = {**selected, "case_sensitive": not case_insensitive}
    document: dict[str, object] = {"table": name}
    text = []
    if collect:
        options: dict[str, Any] = {
            **of_snapshot,
            "incremental": False if full else "auto",
            "dry_run": dry_run,
        }
        if spark:
            from puffin_fast import spark as on_spark

            result = tracked(on_spark.collect_ndv)(session(), table, names, **options)
        else:
            result = verb(table, "collect_ndv")(names, threads=threads, **options)
        document["collected"] = asdict(result)
        text += list(result.notes)
        if dry_run:
            counts = [{"column": column, "ndv": count} for column, count in result.ndv.items()]
            title = f"{name}: {len(counts)} columns, nothing committed"
            return Answer(document, [*text, grid(counts, title=title)])
        if result.commit.id is None:
            text.append(f"{name}: nothing done: {result.statistics_path} already has these columns")
    rows = iceberg.ndv(table, names, **of_snapshot).to_pylist()
    bounds = ("lower", "upper")
    shown = without_zeros(
        [
            {
                key: round(value) if key in bounds and value is not None else value
                for key, value in row.items()
                if key not in ("field_id", "writer")
            }
            for row in rows
        ]
    )
    document["columns"] = rows
    title = f"{name}: {len(rows)} columns"
    nothing = f"{name}: no NDV statistics; --collect collects them"
    return Answer(document, [*text, grid(shown, title=title, one_line=True) if rows else nothing])
