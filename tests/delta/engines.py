"""Tables, readers and cases that several tests share with `test_interop`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def ids_of_duckdb(connection: DuckDBPyConnection, table: Path) -> list[int]:
    return sorted(row[0] for row in connection.execute(f"SELECT id FROM delta_scan('{table}')").fetchall())


def ids_of_deltalake(table: Path) -> list[int]:
    deltalake: Any = require_module("deltalake")
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
    return sorted(pa.table(builder.execute("SELECT id FROM t").read_all())["id"].to_pylist())
