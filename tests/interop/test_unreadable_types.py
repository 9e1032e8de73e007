"""The engines that the warning of a type names cannot read tables with it, and the others can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast._pyiceberg.engine_types import UNREADABLE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

READABLE = ("uuid", "fixed[4]", "timestamp", "timestamptz", "date", "binary", "decimal(38, 2)")


@pytest.mark.spark
@pytest.mark.jar
def test_the_engines_that_cannot_read_a_type(
    spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    for number, kind in enumerate((*UNREADABLE, *READABLE)):
        name = f"{namespace}.t{number}"
        table = iceberg.create_table(shared_catalog, name, {"id": "long", "x": kind})
        iceberg.append(table, pa.table({"id": [1]}))
        files = f"iceberg_scan('{table.metadata_location}')"
        reads: dict[str, Callable[[], Any]] = {
            "DuckDB": lambda files=files: duckdb_iceberg.execute(f"SELECT * FROM {files}").fetchall(),  # type: ignore[misc]
            "Polars": lambda table=table: pl.scan_iceberg(table).collect(),  # type: ignore[misc]
            "PyIceberg": lambda table=table: table.scan().to_arrow(),  # type: ignore[misc]
            "Spark": lambda name=name: spark.sql(f"SELECT * FROM shared.{name}").collect(),  # type: ignore[misc]
        }
        assert tuple(engine for engine, read in reads.items() if not _is_read(read)) == UNREADABLE.get(
            kind, ()
        ), kind


def _is_read(read: Callable[[], Any]) -> bool:
    try:
        return len(read()) == 1
    except Exception:
        return False
