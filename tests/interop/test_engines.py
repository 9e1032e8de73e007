"""All other engines start, and agree on a table that this package did not write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.interop.conftest import attached
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "word": [f"w{i % 7}" for i in range(100)]})


@pytest.mark.jar
@pytest.mark.spark
def test_one_sqlite_file_serves_pyiceberg_spark_and_duckdb(
    shared_catalog: SqlCatalog,
    namespace: str,
    iceberg_spark: SparkSession,
    duckdb_iceberg: DuckDBPyConnection,
) -> None:
    table = iceberg_table(shared_catalog, ROWS, name=f"{namespace}.t", version=2, by="pyiceberg")
    name = f"{shared_catalog.name}.{namespace}.t"
    assert iceberg_spark.sql(f"SELECT * FROM {name} ORDER BY id").toArrow().equals(ROWS)
    iceberg_spark.sql(f"INSERT INTO {name} VALUES (100, 'spark')")
    table.refresh()
    assert table.scan().to_arrow().num_rows == 101
    found = duckdb_iceberg.execute(f"SELECT count(*) FROM iceberg_scan('{table.metadata_location}')")
    assert found.fetchone() == (101,)


@pytest.mark.jar
def test_the_rest_catalog_serves_pyiceberg_and_duckdb(
    rest_catalog: RestCatalog, rest_namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    iceberg_table(rest_catalog, ROWS, name=f"{rest_namespace}.t", version=2, by="pyiceberg")
    with attached(duckdb_iceberg, rest_catalog.properties["uri"]) as name:
        found = duckdb_iceberg.execute(f"SELECT count(*), sum(id) FROM {name}.{rest_namespace}.t").fetchone()
        assert found == (100, 4950)
