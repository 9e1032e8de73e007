"""A table of sixty rows with nested columns, in three data files, and its check by three readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.iceberg import scan
from tests.kit.rows import by_duckdb, by_pyiceberg
from tests.kit.tables import iceberg_table, parts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("g", pa.string()),
        ("x", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)


def row(id: int, g: str | None = "a", x: float | None = 1.0) -> dict[str, Any]:
    return {
        "id": id,
        "g": g,
        "x": x,
        "tags": None if id % 5 == 0 else [str(id % 3), None],
        "s": None if id % 4 == 0 else {"a": id % 7, "b": g},
    }


def of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


N = 60
START = [row(i, f"g{i % 3}", i / 2) for i in range(N)]


def made(catalog: Any, namespace: str, *, version: int = 3, spec: tuple[str, ...] = ()) -> Table:
    """A table `t` with START, appended in three commits."""
    return iceberg_table(catalog, parts(of(START), 3), name=f"{namespace}.t", version=version, partition=spec)


def check(table: Table, connection: DuckDBPyConnection, expected: list[dict[str, Any]]) -> None:
    expected = sorted(expected, key=lambda found: found["id"])
    assert by_pyiceberg(table) == expected
    assert by_duckdb(connection, table) == expected
    assert sorted(scan(table).to_arrow().to_pylist(), key=lambda found: found["id"]) == expected
