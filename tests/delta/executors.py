"""Tables, readers and cases that several tests share with `test_executors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast import delta
from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def ids(table: Any, **options: Any) -> list[int]:
    return sorted(delta.scan(table, selected_fields=("id",), **options).to_arrow()["id"].to_pylist())


def ids_of_others(connection: DuckDBPyConnection, table: Path) -> list[list[int]]:
    """What DuckDB and deltalake read."""
    deltalake: Any = require_module("deltalake")
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
    rows = connection.execute(f"SELECT id FROM delta_scan('{table}')").fetchall()
    return [
        sorted(row[0] for row in rows),
        sorted(pa.table(builder.execute("SELECT id FROM t").read_all())["id"].to_pylist()),
    ]


def files_of(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}
