"""Commands on the rows of one Iceberg table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from puffin_fast.cli import _files, _options
from puffin_fast.cli._common import Answer, answers, grid, rows_answer
from puffin_fast.cli._values import rows_of
from puffin_fast.errors import MissingExtraError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg import DeleteResult, UpsertResult

__all__ = ["delete", "delete_keys", "deletes", "scan", "upgrade", "upsert"]

SHOWN = 20
"""Rows that `scan` shows when ``--limit`` is not given."""

case_option = click.option("--case-insensitive", is_flag=True, help="Column names may differ in case.")
conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(["refuse", "merge"]),
    default="refuse",
    show_default=True,
    help="When another commit deleted from the same data files meanwhile.",
)
file_type = click.Path(exists=True, dir_okay=False, path_type=Path)


def session() -> SparkSession:
    """The session that the environment describes (spark-defaults.conf, SPARK_REMOTE), else a local one."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "pyspark", extra="spark") from error
    return SparkSession.builder.appName("puffin-fast").getOrCreate()


def _changed(table: Table, result: DeleteResult | UpsertResult, *, dry_run: bool, **facts: object) -> Answer:
    """What a job on rows did."""
    name = ".".join(table.name())
    counts: dict[str, object] = {"table": name, **facts, **asdict(result)}
    if result.repeated:
        text: Any = f"{name}: nothing done: snapshot {result.snapshot_id} is of this job"
    elif not dry_run and result.snapshot_id is None:
        text = f"{name}: nothing done: no row to change"
    else:
        shown = {**counts, "seconds": round(result.seconds, 3)}
        text = grid([shown], title="dry run: nothing was written" if dry_run else None)
    return Answer([counts], [text])


@click.command()
@answers
@_options.on_table
@click.option(
    "--row-filter", required=True, help="Rows to delete, as docs/filters.md says: 'a > 5 and b is null'."
)
@case_option
@conflict_option
@click.option("--spark", is_flag=True, help="Search and encode on Spark's executors.")
@_options.commit
def delete(table: Table, row_filter: str, case_insensitive: bool, spark: bool, **commit: Any) -> Answer:
    """Deletes rows of TABLE (namespace.name) with deletion vectors, in one commit.

    A filter that matches nothing commits nothing.
    """
    commit["case_sensitive"] = not case_insensitive
    if spark:
        from puffin_fast import spark as on_spark
        from puffin_fast.iceberg.predicate.filters import RowFilter, parse_filter

        # Spark takes text for its SQL; an expression cannot tell a number in text from a date
        RowFilter.bind(row_filter, table.schema(), case_sensitive=not case_insensitive)
        result = on_spark.delete(session(), table, parse_filter(row_filter), **commit)
    else:
        from puffin_fast import iceberg

        result = iceberg.delete(table, row_filter, **commit)
    facts = {"row_filter": row_filter, "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command("delete-keys")
@answers
@_options.on_table
@click.argument("keys", type=file_type)
@_options.key
@click.option("--null-safe", is_flag=True, help="Null equals null; else a key with a null matches no row.")
@conflict_option
@_options.commit
def delete_keys(table: Table, keys: Path, on: tuple[str, ...], **commit: Any) -> Answer:
    """Deletes the rows of TABLE (namespace.name) whose key stands in the file KEYS, in one commit.

    KEYS is Parquet, Arrow or CSV by its suffix; the columns of a CSV file are read in TABLE's types.
    """
    from puffin_fast import iceberg

    with _files.rows(keys, table.schema()) as rows:
        result = iceberg.delete_keys(table, rows, on or None, **commit)
    facts = {"keys": str(keys), "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command()
@answers
@_options.on_table
@click.argument("data", type=file_type)
@_options.key
@click.option("--no-update", is_flag=True, help="Leave the rows that TABLE has as they are.")
@click.option("--no-insert", is_flag=True, help="Leave out rows whose key TABLE does not have.")
@conflict_option
@_options.commit
def upsert(
    table: Table, data: Path, on: tuple[str, ...], no_update: bool, no_insert: bool, **commit: Any
) -> Answer:
    """Replaces the rows of TABLE (namespace.name) by those of the file DATA with the same key, inserts the others.

    DATA is Parquet, Arrow or CSV by its suffix, with all columns of TABLE; the columns of a CSV file are read
    in TABLE's types. One commit; rows that are the same already are left as they are.
    """
    from puffin_fast import iceberg

    with _files.rows(data, table.schema()) as rows:
        result = iceberg.upsert(table, rows, on or None, update=not no_update, insert=not no_insert, **commit)
    facts = {"data": str(data), "branch": commit["branch"]}
    return _changed(table, result, dry_run=commit["dry_run"], **facts)


@click.command()
@answers
@_options.on_table
@click.option("--row-filter", default="true", help="Rows wanted: 'a > 5 and b is null'.")
@click.option(
    "--selected-fields", help="Names, with commas between; also _file, _pos, _row_id. All columns by default."
)
@case_option
@_options.snapshot
@click.option("--limit", type=click.IntRange(min=0), help=f"Rows; {SHOWN} by default when they are shown.")
@click.option("--count", is_flag=True, help="Only how many rows there are.")
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write them to a .parquet, .arrow or .csv file; all rows by default.",
)
def scan(
    table: Table,
    row_filter: str,
    selected_fields: str | None,
    case_insensitive: bool,
    limit: int | None,
    count: bool,
    to: Path | None,
    **snapshot: Any,
) -> Answer:
    """Rows of TABLE (namespace.name), all its deletes applied."""
    from puffin_fast import iceberg

    name = ".".join(table.name())
    names = ("*",) if selected_fields is None else tuple(part.strip() for part in selected_fields.split(","))
    if limit is None and to is None and not count:
        limit = SHOWN
    found = iceberg.scan(
        table, row_filter, names, case_sensitive=not case_insensitive, limit=limit, **snapshot
    )
    if to is not None:
        written = {"table": name, "file": str(to), "rows": _files.write(to, found.to_reader())}
        return rows_answer([written])
    if count:
        n_rows = sum(batch.num_rows for batch in found.to_batches())
        return rows_answer([{"table": name, "row_filter": row_filter, "rows": n_rows}])
    rows = (row for batch in found.to_batches() for row in rows_of(batch))
    return rows_answer(rows, nothing=f"{name}: no rows", null="NULL")


@click.command()
@answers
@_options.on_table
@_options.snapshot
def deletes(table: Table, **snapshot: Any) -> Answer:
    """What is deleted where in TABLE (namespace.name): a row for each delete file and its data file."""
    from puffin_fast import iceberg

    name = ".".join(table.name())
    found = iceberg.deletes(table, **snapshot)
    return rows_answer(
        found.to_pylist(), title=f"{name}: {found.num_rows} deletes", nothing=f"{name}: no deletes"
    )


@click.command()
@answers
@_options.on_table
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def upgrade(table: Table, dry_run: bool) -> Answer:
    """Raises TABLE (namespace.name) to format version 3, which has deletion vectors; rewrites nothing."""
    from puffin_fast import iceberg

    name, before = ".".join(table.name()), table.metadata.format_version
    iceberg.upgrade(table, dry_run=dry_run)
    row = {"table": name, "before": before, "after": max(before, 3), "dry_run": dry_run}
    text = grid([row]) if before < 3 else f"{name}: nothing done: format version {before} already"
    return Answer([row], [text])
