"""Commands on one Iceberg table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from puffin_fast.cli import _common, _files
from puffin_fast.errors import MissingExtraError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg import DeleteResult

__all__ = ["delete", "delete_keys", "deletes", "scan", "upgrade", "upsert"]

branch_option = click.option("--branch", default="main", show_default=True, help="The branch to commit to.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Count the rows, write nothing.")
job_id_option = click.option("--job-id", help="Recorded in the summary; a job done before is not done again.")

SHOWN = 20
"""Rows that `scan` shows when nobody says how many."""


def session() -> SparkSession:
    """The session that the environment describes (spark-defaults.conf, SPARK_REMOTE), else a local one."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "pyspark", extra="spark") from error
    return SparkSession.builder.appName("puffin-fast").getOrCreate()


def _here(table: Table, where: str, branch: str) -> DeleteResult:
    from puffin_fast import iceberg

    return iceberg.delete(table, where, branch=branch)


def _on_spark(table: Table, where: str, branch: str) -> DeleteResult:
    from puffin_fast import spark

    return spark.delete(session(), table, where, branch=branch)


def _count(table: Table, where: str, branch: str) -> int:
    """Rows that a filter matches, read batch by batch."""
    from puffin_fast import iceberg

    return sum(batch.num_rows for batch in iceberg.scan(table, where, branch=branch).to_batches())


@click.command()
@click.argument("table")
@click.option(
    "--where", required=True, help="Rows to delete, as PyIceberg writes filters: 'a > 5 and b is null'."
)
@branch_option
@click.option("--spark", is_flag=True, help="Search and encode on Spark's executors.")
@dry_run_option
@_common.catalog_options
@_common.output_option
def delete(
    table: str, where: str, branch: str, spark: bool, dry_run: bool, output: str, **catalog: str | None
) -> None:
    """Deletes rows of TABLE (namespace.name) with deletion vectors, in one commit.

    A filter that matches nothing commits nothing.
    """
    opened = _common.open_table(table, catalog)
    if dry_run:
        rows = _count(opened, where, branch)
        _common.show([{"table": table, "where": where, "branch": branch, "rows_deleted": rows}], output)
        return
    result = _on_spark(opened, where, branch) if spark else _here(opened, where, branch)
    _common.show([{"table": table, "where": where, "branch": branch, **asdict(result)}], output)


@click.command("delete-keys")
@click.argument("table")
@click.argument("keys", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--on",
    multiple=True,
    help="Key column, in TABLE and in KEYS; repeatable. By default the identifier fields.",
)
@click.option("--null-safe", is_flag=True, help="Null equals null; else a key with a null matches no row.")
@branch_option
@job_id_option
@dry_run_option
@_common.catalog_options
@_common.output_option
def delete_keys(
    table: str,
    keys: Path,
    on: tuple[str, ...],
    null_safe: bool,
    branch: str,
    job_id: str | None,
    dry_run: bool,
    output: str,
    **catalog: str | None,
) -> None:
    """Deletes the rows of TABLE (namespace.name) whose key stands in the file KEYS, in one commit.

    KEYS is Parquet, Arrow or CSV by its suffix; a CSV file's columns are read as TABLE has them.
    """
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    with _files.rows(keys, opened.schema()) as rows:
        result = iceberg.delete_keys(
            opened,
            rows,
            on or None,
            null_safe=null_safe,
            branch=branch,
            job_id=job_id,
            dry_run=dry_run,
        )
    _common.show([{"table": table, "keys": str(keys), "branch": branch, **asdict(result)}], output)


@click.command()
@click.argument("table")
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--on",
    multiple=True,
    help="Key column, in TABLE and in DATA; repeatable. By default the identifier fields.",
)
@click.option("--no-update", is_flag=True, help="Leave rows that are there alone.")
@click.option("--no-insert", is_flag=True, help="Leave out rows whose key TABLE does not have.")
@branch_option
@job_id_option
@dry_run_option
@_common.catalog_options
@_common.output_option
def upsert(
    table: str,
    data: Path,
    on: tuple[str, ...],
    no_update: bool,
    no_insert: bool,
    branch: str,
    job_id: str | None,
    dry_run: bool,
    output: str,
    **catalog: str | None,
) -> None:
    """Replaces the rows of TABLE (namespace.name) by those of the file DATA with the same key, inserts the others.

    DATA is Parquet, Arrow or CSV by its suffix, with all columns of TABLE; a CSV file's columns are read as
    TABLE has them. One commit; rows that are the same already are left as they are.
    """
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    with _files.rows(data, opened.schema()) as rows:
        result = iceberg.upsert(
            opened,
            rows,
            on or None,
            update=not no_update,
            insert=not no_insert,
            branch=branch,
            job_id=job_id,
            dry_run=dry_run,
        )
    _common.show([{"table": table, "data": str(data), "branch": branch, **asdict(result)}], output)


@click.command()
@click.argument("table")
@click.option("--where", default="true", help="Rows wanted: 'a > 5 and b is null'.")
@click.option("--columns", help="Names, with commas between; also _file, _pos, _row_id. All by default.")
@click.option("--branch", help="A branch or tag, instead of the current snapshot.")
@click.option("--snapshot-id", type=int, help="A snapshot, instead of the current one.")
@click.option("--limit", type=click.IntRange(min=0), help=f"Rows; {SHOWN} by default when they are shown.")
@click.option("--count", is_flag=True, help="Only how many rows there are.")
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write them to a .parquet, .arrow or .csv file; all rows by default.",
)
@_common.catalog_options
@_common.output_option
def scan(
    table: str,
    where: str,
    columns: str | None,
    branch: str | None,
    snapshot_id: int | None,
    limit: int | None,
    count: bool,
    to: Path | None,
    output: str,
    **catalog: str | None,
) -> None:
    """Rows of TABLE (namespace.name), all its deletes applied."""
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    names = ("*",) if columns is None else tuple(name.strip() for name in columns.split(","))
    if limit is None and to is None and not count:
        limit = SHOWN
    found = iceberg.scan(opened, where, names, branch=branch, snapshot_id=snapshot_id, limit=limit)
    if to is not None:
        rows = _files.write(to, found.to_reader())
        _common.show([{"table": table, "file": str(to), "rows": rows}], output)
    elif count:
        n_rows = sum(batch.num_rows for batch in found.to_batches())
        _common.show([{"table": table, "where": where, "rows": n_rows}], output)
    else:
        _common.show(list(_plain(found.to_batches())), output)


def _plain(batches: Iterator[Any]) -> Iterator[dict[str, object]]:
    """Rows without what JSON has no word for: NaN and infinities become text."""
    for batch in batches:
        for row in batch.to_pylist():
            yield {
                name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in row.items()
            }


@click.command()
@click.argument("table")
@click.option("--branch", help="A branch or tag, instead of the current snapshot.")
@click.option("--snapshot-id", type=int, help="A snapshot, instead of the current one.")
@_common.catalog_options
@_common.output_option
def deletes(
    table: str, branch: str | None, snapshot_id: int | None, output: str, **catalog: str | None
) -> None:
    """What is deleted where in TABLE (namespace.name): a row for each delete file and its data file."""
    opened = _common.open_table(table, catalog)
    from puffin_fast import iceberg

    found = iceberg.deletes(opened, branch=branch, snapshot_id=snapshot_id)
    _common.show(found.to_pylist(), output, title=f"{table}: {found.num_rows} deletes")


@click.command()
@click.argument("table")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@_common.catalog_options
@_common.output_option
def upgrade(table: str, dry_run: bool, output: str, **catalog: str | None) -> None:
    """Raises TABLE (namespace.name) to format version 3, which has deletion vectors; rewrites nothing."""
    opened = _common.open_table(table, catalog)
    before = opened.metadata.format_version
    after = max(before, 3)
    if not dry_run:
        from puffin_fast import iceberg

        after = iceberg.upgrade(opened).metadata.format_version
    _common.show([{"table": table, "before": before, "after": after, "dry_run": dry_run}], output)
