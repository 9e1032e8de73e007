"""Tables, readers and cases that several tests share with `test_position_files`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.tables.scan import scan
from tests.iceberg.conftest import rows_of, rows_of_duckdb
from tests.kit.tables import iceberg_table, parts

N = 300
ROWS = pa.table(
    {"id": pa.array(range(N), pa.int64()), "word": pa.array([f"w{i // 75}" for i in range(N)], pa.string())}
)
GRANULARITY = "write.delete.granularity"


def made(
    catalog: SqlCatalog, namespace: str, *, partitioned: bool = False, files: int = 3, **properties: str
) -> Table:
    """A table `t` of version 2 with ROWS, appended in several commits."""
    return iceberg_table(
        catalog,
        parts(ROWS, files),
        name=f"{namespace}.t",
        version=2,
        partition=["word"] if partitioned else [],
        properties=properties,
    )


def position_files(table: Table) -> dict[str, Any]:
    """Live position-delete files by path."""
    return {entry.file_path: entry for task in plan_files(table).tasks for entry in task.position_deletes}


def check(table: Table, connection: DuckDBPyConnection, expected: list[int]) -> None:
    assert rows_of(table)["id"].to_pylist() == expected
    assert rows_of_duckdb(connection, table)["id"].to_pylist() == expected
    assert sorted(scan(table).to_arrow()["id"].to_pylist()) == expected
