"""Commands that make a table or change its format: ``create``, ``upgrade``, ``disable``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from puffin_fast._api.packages import import_optional
from puffin_fast.cli import _files, _options
from puffin_fast.cli._catalog import open_catalog
from puffin_fast.cli._common import (
    DRY_RUN,
    Answer,
    answers,
    grid,
    result_grid,
    rows_answer,
    shown_warnings,
    tracked,
)
from puffin_fast.cli._delta_path import delta
from puffin_fast.cli._path_table import PathTable
from puffin_fast.cli._paths import is_path, name_of, verb
from puffin_fast.errors import EngineSupportWarning, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.table import Table


@click.command()
@answers
@click.argument("table", metavar="TABLE")
@click.argument("data", type=_options.FILE)
@_options.input_format
@click.option(
    "--partition-spec",
    multiple=True,
    help="Partitions by a column or transform, such as day(time) or bucket[16](id); repeatable.",
)
@click.option(
    "--types",
    "--type",
    metavar="COLUMN=TYPE",
    multiple=True,
    callback=_options.pairs,
    help="Gives a column another type than that of DATA, such as time=timestamp_ns or n=int; repeatable.",
)
@click.option("--location", help="Folder of the table. Default: one in the warehouse.")
@click.option(
    "--properties",
    "--property",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_options.pairs,
    help="Sets a property of the table; repeatable.",
)
@click.option(
    "--create-namespace",
    is_flag=True,
    help="Creates the namespace, and the file of a SQLite catalog, if missing.",
)
@_options.catalog
def create(
    table: str,
    data: str,
    input_format: str | None,
    partition_spec: tuple[str, ...],
    types: dict[str, str] | None,
    location: str | None,
    properties: dict[str, str] | None,
    create_namespace: bool,
    **catalog: str | None,
) -> Answer:
    """Creates the empty TABLE (namespace.name) of format version 3 with the columns of the file DATA.

    For a path, it creates a Delta table with deletion vectors; its partition specs are names of columns.

    DATA is a .parquet, .arrow, .csv, .jsonl or .json file, path or URI, or -
    for standard input. Its rows are not appended: `append` does.
    Times have microseconds, which all engines read.

    Example: puffin-fast create shop.orders orders.parquet
    """
    from puffin_fast import iceberg

    schema = import_optional("pyiceberg.schema", extra="iceberg").Schema()
    if is_path(table) and (location is not None or create_namespace):
        raise UnsupportedError(f"{table}: tables of Delta have no --location and no --create-namespace")
    with _files.rows(data, schema, input_format) as rows:
        columns = rows.schema
    if is_path(table):
        with shown_warnings(EngineSupportWarning):
            tracked(delta().create_table)(
                table, columns, types=types, partition_columns=partition_spec, properties=properties
            )
        return _created(table, data, len(columns), table)
    try:
        opened = open_catalog(catalog, create=create_namespace)
    except NotFoundError as error:
        raise NotFoundError(f"{error}; --create-namespace creates it") from error
    if create_namespace and "." in table:
        opened.create_namespace_if_not_exists(table.rpartition(".")[0])
    with shown_warnings(EngineSupportWarning):
        made = tracked(iceberg.create_table)(
            opened,
            table,
            columns,
            types=types,
            partition_spec=partition_spec,
            location=location,
            properties=properties,
        )
    return _created(table, data, len(columns), made.location())


def _created(table: str, data: str, n_columns: int, location: str) -> Answer:
    title = f"a table without rows: `puffin-fast append {table} {data}` adds those of the file"
    return rows_answer([{"table": table, "columns": n_columns, "location": location}], title=title)


@click.command()
@answers
@_options.on_table
@click.option("--dry-run", is_flag=True, help="Prints what would be done; writes nothing.")
def upgrade(table: Table | PathTable, dry_run: bool) -> Answer:
    """Raises TABLE to format version 3, which has deletion vectors; rewrites no file.

    For a Delta table, it enables deletion vectors: it sets the property delta.enableDeletionVectors and raises the
    protocol.

    Example: puffin-fast upgrade shop.orders --dry-run
    """
    name = name_of(table)
    before: int
    after: int
    if isinstance(table, PathTable):
        with shown_warnings(EngineSupportWarning):
            before, after = verb(table, "upgrade")(dry_run=dry_run), True
        what = "deletion vectors are already enabled"
    else:
        before = table.metadata.format_version
        after, what = max(before, 3), f"it already has format version {before}"
        verb(table, "upgrade")(dry_run=dry_run)
    row = {"table": name, "before": before, "after": after, "dry_run": dry_run}
    return Answer(
        [row],
        [
            grid([row], title=DRY_RUN if dry_run else None)
            if before != after
            else f"{name}: nothing done: {what}"
        ],
    )


@click.command()
@answers
@_options.on_table
@_options.threads
@_options.commit
def disable(table: Table | PathTable, **options: Any) -> Answer:
    """Disables deletion vectors of TABLE, a Delta table, so that all readers can read it.

    Rewrites the data files that have deletion vectors, and drops the feature from the protocol, in several
    commits. If earlier versions have deletion vectors, other writers must then know the feature
    checkpointProtection.

    Example: puffin-fast disable data/orders --dry-run
    """
    name = name_of(table)
    if not isinstance(table, PathTable):
        raise UnsupportedError(
            f"{name}: expected the path of a Delta table: no table of Iceberg gets an older format"
        )
    given = {key: value for key, value in options.items() if value is not None}
    result = verb(table, "disable")(**given)
    answer = {"table": name, "job": "disable", **asdict(result)}
    if result.commit.repeated:
        return Answer(answer, [f"{name}: disable: nothing done: the log has this job id"])
    if result.commit.id is None and not result.data_files and not result.dry_run:
        return Answer(answer, [f"{name}: disable: nothing done: the table has no deletion vectors"])
    return Answer(answer, [result_grid("disable", result, dry_run=result.dry_run)])
