"""Commands that show what a catalog and a table have; they change nothing.

``list``, ``describe``, ``schema``, ``history``, ``snapshots`` and ``files``, with the names of PyIceberg's commands.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._text import as_count, counted
from puffin_fast.cli import _options
from puffin_fast.cli._catalog import open_catalog, open_table
from puffin_fast.cli._common import (
    Answer,
    answers,
    fields_grid,
    grid,
    relative_to,
    rows_answer,
    without_zeros,
)
from puffin_fast.cli._completed import complete_table
from puffin_fast.cli._path_table import PathTable, columns_of
from puffin_fast.cli._paths import is_path, name_of, open_path, verb
from puffin_fast.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@click.command("list")
@answers
@click.argument("parent", required=False)
@_options.catalog
def list_names(parent: str | None, **catalog: str | None) -> Answer:
    """Lists the namespaces of the catalog, or the tables and namespaces in the namespace PARENT.

    Example: puffin-fast list shop
    """
    opened = open_catalog(catalog)
    rows = _names_in(opened, parent)
    if rows or parent is not None:
        return rows_answer(rows, nothing=f"{parent}: no tables and no namespaces")
    from puffin_fast.iceberg.catalogs.near_names import near_names

    return rows_answer([], nothing=f"catalog {opened.name!r}: no namespaces{near_names(opened, 'a.b')}")


def _names_in(catalog: Catalog, parent: str | None) -> list[dict[str, object]]:
    from pyiceberg.exceptions import NoSuchNamespaceError

    at = () if parent is None else tuple(parent.split("."))
    try:
        spaces = sorted(catalog.list_namespaces(at))
        tables = sorted(catalog.list_tables(at)) if at else []
    except NoSuchNamespaceError as error:
        raise _no_namespace(catalog, str(parent)) from error
    except Exception as error:  # the client of a catalog may raise any exception
        if is_from_outside(error):
            raise
        raise InvalidInputError(f"catalog {catalog.name}: {error}") from error
    found = [("namespace", name) for name in spaces] + [("table", name) for name in tables]
    return [{"kind": kind, "name": ".".join(name)} for kind, name in found]


@click.command()
@answers
@click.argument("identifier", shell_complete=complete_table)
@click.option(
    "--entity",
    type=click.Choice(["any", "namespace", "table"]),
    default="any",
    show_default=True,
    help="What IDENTIFIER names.",
)
@_options.catalog
def describe(identifier: str, entity: str, **catalog: str | None) -> Answer:
    """Describes a table or a namespace: where it is, its columns, its properties, its counts.

    IDENTIFIER is a table or namespace of the catalog, or the path of a table.

    Example: puffin-fast describe shop.orders
    """
    table: Table | PathTable
    if is_path(identifier):
        table = open_path(identifier)
    elif entity == "namespace" or (entity == "any" and "." not in identifier):
        return _described_namespace(identifier, catalog)
    else:
        try:
            table = open_table(identifier, catalog, to_read=True)
        except NotFoundError as error:
            if entity == "table":
                raise
            try:
                return _described_namespace(identifier, catalog)
            except NotFoundError:
                raise error from None
    facts = verb(table, "describe")() if isinstance(table, PathTable) else _facts(table)
    properties = {str(name): str(value) for name, value in facts.pop("properties").items()}
    columns = _columns(table)
    text: list[RenderableType] = [fields_grid(name_of(table), facts), grid(columns, title="columns")]
    if properties:
        text.append(grid([{"property": name, "value": value} for name, value in properties.items()]))
    return Answer({"table": name_of(table), **facts, "properties": properties, "columns": columns}, text)


def _described_namespace(name: str, options: Mapping[str, str | None]) -> Answer:
    from pyiceberg.exceptions import NoSuchNamespaceError

    catalog = open_catalog(options)
    try:
        properties = dict(catalog.load_namespace_properties(tuple(name.split("."))))
    except NoSuchNamespaceError as error:
        raise _no_namespace(catalog, name) from error
    text = fields_grid(name, properties) if properties else f"{name}: a namespace without properties"
    return Answer({"namespace": name, "properties": properties}, [text])


def _no_namespace(catalog: Catalog, name: str) -> NotFoundError:
    """The error for a namespace that does not exist, with near names."""
    from puffin_fast.iceberg.catalogs.near_names import near_namespaces

    near = near_namespaces(catalog, name)
    here = f"; {name} is a folder: `list` takes a namespace" if os.path.isdir(name) else ""
    return NotFoundError(f"namespace {name}: not in catalog {catalog.name!r}{near}{here}")


def _facts(table: Table) -> dict[str, Any]:
    """What is known of an Iceberg table without opening a manifest."""
    metadata, snapshot = table.metadata, table.current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    totals = ("total-records", "total-data-files", "total-delete-files", "total-position-deletes")
    return {
        "format": f"Iceberg, version {metadata.format_version}",
        "location": metadata.location,
        "metadata": table.metadata_location,
        "uuid": str(metadata.table_uuid),
        "last updated": _time(metadata.last_updated_ms),
        "partition spec": ", ".join(
            f"{field.transform}({table.schema().find_column_name(field.source_id)})"
            for field in table.spec().fields
        ),
        "current snapshot": None if snapshot is None else snapshot.snapshot_id,
        **{
            name.removeprefix("total-").replace("-", " "): as_count(summary.get(name, "0")) for name in totals
        },
        "branches and tags": ", ".join(sorted(set(metadata.refs) - {"main"})),
        "properties": metadata.properties,
    }


def _time(milliseconds: int) -> str:
    """A time of metadata in UTC; the number if Python has no such time."""
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


@click.command()
@answers
@_options.on_table
def schema(table: Table | PathTable) -> Answer:
    """Prints the columns of TABLE.

    Example: puffin-fast schema shop.orders
    """
    return rows_answer(_columns(table), title=name_of(table))


def _columns(table: Table | PathTable) -> list[dict[str, object]]:
    return table.columns() if isinstance(table, PathTable) else columns_of(table.schema())


@click.command()
@answers
@_options.on_table
def history(table: Table | PathTable) -> Answer:
    """Lists which snapshots of TABLE were current, and since when.

    For tables of other formats, lists their snapshots or versions.

    Example: puffin-fast history shop.orders
    """
    if isinstance(table, PathTable):
        return times_answer(table, verb(table, "history")())
    from puffin_fast.iceberg.catalogs.working_table import complete_metadata

    metadata = complete_metadata(table)
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
    ancestors, at = set(), metadata.current_snapshot_id
    while at is not None and at not in ancestors:
        ancestors.add(at)
        at = parents.get(at)
    rows = [
        {
            "timestamp_ms": entry.timestamp_ms,
            "snapshot_id": entry.snapshot_id,
            "parent_id": parents.get(entry.snapshot_id),
            "is_current_ancestor": entry.snapshot_id in ancestors,
        }
        for entry in metadata.snapshot_log
    ]
    return times_answer(table, rows)


@click.command()
@answers
@_options.on_table
def snapshots(table: Table | PathTable) -> Answer:
    """Lists the snapshots of TABLE, of all branches, and what each one added.

    For tables of other formats, lists their snapshots or versions.

    Example: puffin-fast snapshots shop.orders
    """
    if isinstance(table, PathTable):
        return times_answer(table, verb(table, "history")())
    from puffin_fast.iceberg.catalogs.working_table import complete_metadata

    metadata = complete_metadata(table)
    rows = []
    for one in sorted(metadata.snapshots, key=lambda one: (one.timestamp_ms, one.sequence_number or 0)):
        summary = one.summary
        counts = {} if summary is None else summary.additional_properties
        names = (name for name, ref in metadata.refs.items() if ref.snapshot_id == one.snapshot_id)
        rows.append(
            {
                "timestamp_ms": one.timestamp_ms,
                "snapshot_id": one.snapshot_id,
                "parent_id": one.parent_snapshot_id,
                "operation": None if summary is None else summary.operation.value,
                "rows": as_count(counts.get("total-records")),
                "added": as_count(counts.get("added-records")),
                "deleted": _deleted(counts),
                "refs": ", ".join(sorted(names)),
            }
        )
    return times_answer(table, rows)


def _deleted(counts: Mapping[str, str]) -> int | None:
    """The rows that a snapshot deleted by position and with their files: vectors that replace others hold theirs."""
    added = [as_count(counts.get(name)) for name in ("added-position-deletes", "deleted-records")]
    gone = sum(filter(None, added)) - (as_count(counts.get("removed-position-deletes")) or 0)
    return gone if gone > 0 else None


_JSON_ONLY = ("timestamp_ms", "parent_id", "rows", "parameters")


def times_answer(
    table: Table | PathTable,
    rows: list[dict[str, Any]],
    nothing: str = "no snapshots",
    counts: Collection[str] = (),
) -> Answer:
    """Rows with a time; some columns are for JSON only, so that a row fits a line, and counts of zero are empty."""
    shown = without_zeros(
        [
            {
                "time (UTC)": _time(row["timestamp_ms"])[: len("2026-11-26T12:33")].replace("T", " "),
                **{
                    name: None if name in counts and value == 0 else value
                    for name, value in row.items()
                    if name not in _JSON_ONLY
                },
            }
            for row in rows
        ]
    )
    if not shown:
        return Answer(rows, [f"{name_of(table)}: {nothing}"])
    _, key, *_ = shown[0]  # beside the time
    return Answer(rows, [grid(shown, one_line=True, key=key)])


@click.command()
@answers
@_options.on_table
@_options.snapshot
def files(table: Table | PathTable, **snapshot: Any) -> Answer:
    """Lists the live data files of TABLE, their rows, bytes and deletes; paths are relative to the table.

    Example: puffin-fast files shop.orders --output json
    """
    name = name_of(table)
    if isinstance(table, PathTable):
        rows, root = verb(table, "files")(**snapshot), table.root()
    else:
        from puffin_fast.iceberg.plan.files import resolve
        from puffin_fast.iceberg.plan.inventory import take_inventory

        root = table.metadata.location
        rows = [
            {
                "file_path": file.data.file_path,
                "rows": file.data.record_count,
                "bytes": file.data.file_size_in_bytes,
                "deleted": sum(vector.record_count for vector in file.vectors),
                "delete_files": len(file.position_deletes) + len(file.equality_deletes),
            }
            for file in take_inventory(table, resolve(table, **snapshot)[0]).files
        ]
    shown = without_zeros(relative_to(root, rows))
    title, nothing = f"{name}: {counted(len(rows), 'data file')}", f"{name}: no data files"
    return Answer(rows, [grid(shown, title=title, one_line=True) if shown else nothing])
