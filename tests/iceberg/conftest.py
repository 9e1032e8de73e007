"""States of Iceberg tables, and their rows as other engines read them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast.iceberg import v3_metadata
from tests.kit.tables import files_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def processes(n: int) -> ProcessPoolExecutor:
    """Processes that are forked from one that has imported this package: they start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "puffin_fast.tables.upsert", "pyiceberg.io.pyarrow"])
    return ProcessPoolExecutor(n, context)


def current_snapshot(table: Table) -> Snapshot:
    """The current snapshot of a table that has one."""
    found = table.current_snapshot()
    assert found is not None
    return found


def summary_of(table: Table) -> dict[str, str]:
    """What the current snapshot's summary says, and its ``operation``."""
    found = current_snapshot(table).summary
    assert found is not None
    return {"operation": found.operation.value, **found.additional_properties}


def add_branch(table: Table, name: str) -> None:
    """Makes a branch of the current snapshot."""
    with v3_metadata(table.catalog):
        table.manage_snapshots().create_branch(current_snapshot(table).snapshot_id, name).commit()


def set_properties(table: Table, properties: dict[str, str]) -> None:
    with v3_metadata(table.catalog), table.transaction() as change:
        change.set_properties(properties)


@contextmanager
def unchanged(table: Table) -> Iterator[None]:
    """Checks that a block commits nothing, and neither leaves nor removes a file."""
    before = files_of(table), table.metadata_location
    yield
    assert (files_of(table), table.refresh().metadata_location) == before


@contextmanager
def refused(
    table: Table, error: type[Exception] | tuple[type[Exception], ...], match: str | None = None
) -> Iterator[Any]:
    """Checks that a block raises an error, and changes nothing."""
    with unchanged(table), pytest.raises(error, match=match) as caught:
        yield caught


def rows_of(table: Table, *, order: str = "id") -> pa.Table:
    """The table's rows as PyIceberg's own scan reads them."""
    return table.scan().to_arrow().sort_by(order)


def rows_of_duckdb(
    connection: DuckDBPyConnection, table: Table, *, columns: str = "*", order: str = "id"
) -> pa.Table:
    """The table's rows as DuckDB reads them from the metadata file."""
    query = f"SELECT {columns} FROM iceberg_scan('{table.metadata_location}') ORDER BY {order}"
    return connection.execute(query).to_arrow_table()
