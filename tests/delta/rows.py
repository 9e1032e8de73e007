"""Tables, readers and cases that several tests share with `test_rows`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast import delta
from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


Rows = list[dict[str, Any]]


def rows_of(table: Path, **options: Any) -> Rows:
    return sorted(delta.scan(table, **options).to_arrow().to_pylist(), key=lambda row: row["id"])


def agreed(table: Path, duckdb: DuckDBPyConnection) -> Rows:
    """The rows of a table, after DuckDB and deltalake have read the same."""
    rows = rows_of(table)
    names = list(rows[0]) if rows else ["id"]
    mapped = "delta.columnMapping.mode" in delta.snapshot(table).configuration
    own = [
        name for name in names if name != "part" or not mapped
    ]  # DuckDB 1.5 reads NULL in mapped partitions
    theirs = duckdb.execute(f"SELECT {', '.join(own)} FROM delta_scan('{table}') ORDER BY id").fetchall()
    assert [dict(zip(own, row, strict=True)) for row in theirs] == [{n: row[n] for n in own} for row in rows]
    deltalake: Any = require_module("deltalake")
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
    read = pa.table(builder.execute(f"SELECT {', '.join(names)} FROM t").read_all())
    assert sorted(read.to_pylist(), key=lambda row: row["id"]) == rows
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
