"""What the tests of Delta tables share: actions, files and rows of a table, by this package and by other readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue

from puffin_fast import delta
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.schema import ROW_TRACKING
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.located_rows import LocatedRows
from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Rows = list[dict[str, Any]]


# Rows --------------------------------------------------------------------------------------------------------


def rows_of(table: Path, **options: Any) -> Rows:
    return sorted(delta.scan(table, **options).to_arrow().to_pylist(), key=lambda row: row["id"])


def ids(table: Any, **options: Any) -> list[int]:
    found: list[int] = delta.scan(table, selected_fields=("id",), **options).to_arrow()["id"].to_pylist()
    return sorted(found)


def by_duckdb(connection: DuckDBPyConnection, table: Path, names: list[str]) -> Rows:
    read = connection.execute(f"SELECT {', '.join(names)} FROM delta_scan('{table}') ORDER BY id").fetchall()
    return [dict(zip(names, row, strict=True)) for row in read]


def by_deltalake(table: Path, names: list[str]) -> Rows:
    deltalake: Any = require_module("deltalake")
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
    rows = pa.table(builder.execute(f"SELECT {', '.join(names)} FROM t").read_all()).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def ids_of_duckdb(connection: DuckDBPyConnection, table: Path) -> list[int]:
    return [row["id"] for row in by_duckdb(connection, table, ["id"])]


def ids_of_deltalake(table: Path) -> list[int]:
    return [row["id"] for row in by_deltalake(table, ["id"])]


def ids_of_others(connection: DuckDBPyConnection, table: Path) -> list[list[int]]:
    return [ids_of_duckdb(connection, table), ids_of_deltalake(table)]


def agreed(table: Path, duckdb: DuckDBPyConnection) -> Rows:
    """The rows of a table, after DuckDB and deltalake have read the same."""
    rows = rows_of(table)
    names = list(rows[0]) if rows else ["id"]
    mapped = "delta.columnMapping.mode" in delta.snapshot(table).configuration
    own = [name for name in names if name != "part" or not mapped]
    assert by_duckdb(duckdb, table, own) == [
        {n: row[n] for n in own} for row in rows
    ]  # 1.5: NULL in mapped partitions
    assert by_deltalake(table, names) == rows
    assert delta.verify(table) == []
    return rows


def row_ids(table: Path) -> dict[int, int]:
    """The row id of each row, by the log and the files, in the slow way."""
    base = delta.snapshot(table)
    name = base.configuration["delta.rowTracking.materializedRowIdColumnName"]
    live = {
        (row["_file"], row["_pos"]): row["id"]
        for row in delta.scan(table, selected_fields=("id", "_file", "_pos")).to_arrow().to_pylist()
    }
    found = {}
    for add in base.adds(range(base.files.num_rows)):
        location = base.storage.location(add["path"])
        stored = pq.ParquetFile(location).read()
        own = stored[name].to_pylist() if name in stored.column_names else [None] * stored.num_rows
        for at, row_id in enumerate(own):
            if (location, at) in live:
                found[live[location, at]] = add["baseRowId"] + at if row_id is None else row_id
    return found


def rows_and_ids(table: Any, version: int | None = None) -> LocatedRows:
    """The live rows of a version, with their row ids and row commit versions."""
    read = DeltaTable.of(delta.snapshot(table, version=version))
    every = RowFilter.bind(AlwaysTrue(), read.schema.schema)
    fields = read.schema.schema.fields
    return LocatedRows.read(read.reader_factory(every), fields, plan_files(read), ROW_TRACKING, threads=1)


# Files and actions -------------------------------------------------------------------------------------------


def files_of(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


def state(table: Path) -> dict[Path, bytes]:
    """Each file of a table and its bytes."""
    return {path: path.read_bytes() for path in files_of(table)}


def commit_of(table: Path, version: int) -> dict[str, list[dict[str, Any]]]:
    """The actions of a version by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines():
        for kind, action in json.loads(line).items():
            found.setdefault(kind, []).append(action)
    return found


def alter(table: Path, kind: str, edit: Callable[[dict[str, Any]], object], version: int = 0) -> None:
    """Alters the actions of one kind in a commit."""
    file = table / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if kind in line:
            edit(line[kind])
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")


def append(table: Path, version: int, *, blind: bool = True) -> None:
    """A commit of another writer that adds a copy of a data file under a new name."""
    name = "part=p 0/other.parquet"
    largest = max(table.glob("part=p 0/part*.parquet"), key=lambda path: path.stat().st_size)  # 100 rows
    (table / name).write_bytes(largest.read_bytes())
    add = {
        "path": name.replace(" ", "%20"),
        "partitionValues": {"part": "p 0"},
        "size": (table / name).stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords":100}',
    }
    info = {"operation": "WRITE", "isBlindAppend": blind}
    lines = [{"commitInfo": info}, {"add": add}]
    text = "\n".join(json.dumps(line) for line in lines)
    (table / "_delta_log" / f"{version:020d}.json").write_text(text + "\n")
