"""Commands on one Iceberg table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from puffin_fast.cli import _rim
from puffin_fast.errors import MissingExtraError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg import DeleteResult

__all__ = ["delete"]


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
@click.option("--branch", default="main", show_default=True, help="The branch to commit to.")
@click.option("--spark", is_flag=True, help="Search and encode on Spark's executors.")
@click.option("--dry-run", is_flag=True, help="Count the rows, write nothing.")
@_rim.catalog_options
@_rim.output_option
def delete(
    table: str, where: str, branch: str, spark: bool, dry_run: bool, output: str, **catalog: str | None
) -> None:
    """Deletes rows of TABLE (namespace.name) with deletion vectors, in one commit.

    A filter that matches nothing commits nothing.
    """
    opened = _rim.open_table(table, catalog)
    if dry_run:
        rows = _count(opened, where, branch)
        _rim.show([{"table": table, "where": where, "branch": branch, "rows_deleted": rows}], output)
        return
    result = _on_spark(opened, where, branch) if spark else _here(opened, where, branch)
    _rim.show([{"table": table, "where": where, "branch": branch, **asdict(result)}], output)
