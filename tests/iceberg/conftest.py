"""Fixtures of table tests: a catalog with concurrent commits; the rows of a table as other engines read them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import CommitTableResponse, Table


class RacingCatalog(SqlCatalog):
    """A SQLite catalog in which something may happen right before or right after a commit."""

    before: list[Callable[[], object]]
    after: list[Callable[[], object]]

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.before, self.after = [], []

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Runs the planned concurrent commits, each once."""
        planned, self.before = self.before, []
        for happening in planned:
            happening()
        response = super().commit_table(table, requirements, updates)
        planned, self.after = self.after, []
        for happening in planned:
            happening()
        return response


@pytest.fixture
def racing(tmp_path: Path) -> Iterator[RacingCatalog]:
    """A catalog of its own with the namespace ``n``."""
    catalog = RacingCatalog(
        "racing", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/wh"
    )
    catalog.create_namespace("n")
    yield catalog
    catalog.engine.dispose()


def processes(n: int) -> ProcessPoolExecutor:
    """Processes that are forked from one that has imported this package: they start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "puffin_fast.iceberg.dml.upsert", "pyiceberg.io.pyarrow"])
    return ProcessPoolExecutor(n, context)


def local(location: str) -> Path:
    """A location of a test's table as a path."""
    return Path(location.removeprefix("file://"))


def files_of(table: Table) -> set[Path]:
    """Every file in the table's folder."""
    return {path for path in local(table.location()).rglob("*") if path.is_file()}


def rows_of(table: Table, *, order: str = "id") -> pa.Table:
    """The table's rows as PyIceberg's own scan reads them."""
    return table.scan().to_arrow().sort_by(order)


def rows_of_duckdb(
    connection: DuckDBPyConnection, table: Table, *, columns: str = "*", order: str = "id"
) -> pa.Table:
    """The table's rows as DuckDB reads them from the metadata file."""
    query = f"SELECT {columns} FROM iceberg_scan('{table.metadata_location}') ORDER BY {order}"
    return connection.execute(query).to_arrow_table()
