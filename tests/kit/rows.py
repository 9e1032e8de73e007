"""The rows of a table as this package and other implementations read them, all in one form.

The form is a list of dicts in the order of one column, so that the answers of two readers are compared by ``==``. A
table is one of PyIceberg, read at its current snapshot as the object knows it, or the folder of a Delta table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from puffin_fast import delta, open_table, scan, verify
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.schema import ROW_TRACKING
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.located_rows import LocatedRows
from tests.conftest import require_module

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

__all__ = [
    "Rows",
    "agreed",
    "by_deltalake",
    "by_duckdb",
    "by_polars",
    "by_pyiceberg",
    "by_spark",
    "by_us",
    "delta_rows",
    "in_order",
    "row_ids",
]

Rows = list[dict[str, Any]]


def in_order(rows: pa.Table | Rows, order: str = "id") -> Rows:
    """Rows by the values of a column, nulls last; rows without this column by all their values."""
    found = rows.to_pylist(maps_as_pydicts="strict") if isinstance(rows, pa.Table) else rows
    if found and order in found[0]:
        return sorted(
            found, key=lambda row: ((row[order] is None), row[order] if row[order] is not None else 0)
        )
    return sorted(found, key=repr)


def _is_delta(table: Table | Path | str) -> bool:
    return isinstance(table, Path | str)


def _opened(table: Table | Path | str) -> Any:
    """The table; a folder is one of Delta, though a table of Iceberg may be there, too."""
    return open_table(table, format="Delta") if isinstance(table, Path | str) else table


def by_us(table: Table | Path | str, *columns: str, order: str = "id", **options: Any) -> Rows:
    """The rows by `scan`.

    Args:
        table: to read.
        columns: some columns, by default all.
        order: the column that orders the rows.
        options: of the scan.
    """
    return in_order(scan(_opened(table), selected_fields=columns or ("*",), **options).to_arrow(), order)


def by_pyiceberg(table: Table, *columns: str, order: str = "id", **options: Any) -> Rows:
    """The rows by PyIceberg's own scan; `options` are of it."""
    return in_order(table.scan(selected_fields=columns or ("*",), **options).to_arrow(), order)


def by_duckdb(
    connection: DuckDBPyConnection, table: Table | Path | str, *columns: str, order: str = "id"
) -> Rows:
    """The rows by DuckDB; the connection is that of the fixture of the format."""
    place = f"delta_scan('{table}')" if _is_delta(table) else f"iceberg_scan('{_metadata(table)}')"
    return in_order(connection.execute(f"SELECT {_list(columns)} FROM {place}").to_arrow_table(), order)


def by_polars(table: Table | Path | str, *columns: str, order: str = "id") -> Rows:
    """The rows by Polars: its own reader of Iceberg, deltalake's log and its own reader of Parquet for Delta."""
    polars: Any = require_module("polars")
    frame = polars.scan_delta(str(table)) if _is_delta(table) else polars.scan_iceberg(table)
    return in_order((frame.select(columns) if columns else frame).collect().to_arrow(), order)


def by_deltalake(table: Path | str, *columns: str, order: str = "id") -> Rows:
    """The rows of a Delta table by deltalake's query engine, which is DataFusion on arrow-rs."""
    deltalake: Any = require_module("deltalake")
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))
    return in_order(pa.table(builder.execute(f"SELECT {_list(columns)} FROM t").read_all()), order)


def by_spark(session: SparkSession, table: Table | Path | str, *columns: str, order: str = "id") -> Rows:
    """The rows by Spark.

    Args:
        session: with Delta, or with a catalog of the name that PyIceberg's has.
        table: to read.
        columns: some columns, by default all.
        order: the column that orders the rows.
    """
    name = f"delta.`{table}`"
    if not isinstance(table, Path | str):
        name = ".".join((table.catalog.name, *table.name()))
    selected = _list(columns).replace('"', "`")
    return in_order(session.sql(f"SELECT {selected} FROM {name}").toArrow(), order)


def agreed(table: Table | Path | str, duckdb: DuckDBPyConnection | None = None, order: str = "id") -> Rows:
    """The rows of a table, after other readers have read the same and `verify` has found no error.

    The readers are PyIceberg or deltalake, and DuckDB if a connection is given.
    """
    ours = by_us(table, order=order)
    if _is_delta(table):
        base, columns = delta.snapshot(table), list(ours[0]) if ours else []
        assert by_deltalake(table, *columns, order=order) == ours  # type: ignore[arg-type]
        if "delta.columnMapping.mode" in base.configuration:  # DuckDB 1.5 reads NULL in mapped partitions
            columns = [name for name in columns if name not in base.metadata["partitionColumns"]]
        assert verify(_opened(table)) == []
    else:
        columns = []
        assert by_pyiceberg(table, order=order) == ours  # type: ignore[arg-type]
        assert verify(table) == []
    if duckdb is not None:
        theirs = by_duckdb(duckdb, table, *columns, order=order)
        assert theirs == [{name: row[name] for name in columns or row} for row in ours]
    return ours


def row_ids(table: Table | Path | str) -> dict[Any, int]:
    """The row id of each ``id``: of an Iceberg table of version 3, or of a Delta table with row tracking."""
    if not _is_delta(table):
        return {row["id"]: row["_row_id"] for row in by_us(table, "id", "_row_id")}
    located = delta_rows(table)
    ids, numbers = located.rows["id"].to_pylist(), located.metadata["_row_id"].to_pylist()
    return dict(zip(ids, numbers, strict=True))


def delta_rows(table: Any, version: int | None = None) -> LocatedRows:
    """The live rows of a version of a Delta table, with their row ids and row commit versions."""
    read = DeltaTable.of(delta.snapshot(table, version=version))
    every, fields = RowFilter.bind(AlwaysTrue(), read.schema.schema), read.schema.schema.fields
    return LocatedRows.read(read.reader_factory(every), fields, plan_files(read), ROW_TRACKING, threads=1)


def _metadata(table: Any) -> str:
    location: str = table.metadata_location
    return location


def _list(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns) or "*"
