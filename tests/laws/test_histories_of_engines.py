"""Tables that Spark or DuckDB changes, too, are lists of rows with a history.

`seeds` says how many histories of each kind there are; 2 by default. Those of Delta and Spark are a case of
`tests.delta.spark.with_spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.conftest import attached
from tests.kit.histories import KINDS, follow
from tests.kit.seeds import seeds

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::puffin_fast.errors.EngineSupportWarning"),
]

EACH = 22
SEEDS = seeds(2)


def kinds(format: str, engine: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(format) and kind.endswith(engine)]


@pytest.mark.jar
@pytest.mark.parametrize("table_kind", kinds("iceberg", "spark"))
@pytest.mark.parametrize("seed", SEEDS)
def test_of_iceberg_and_spark(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, table_kind: str, seed: int
) -> None:
    follow(table_kind, seed, EACH, spark=iceberg_spark, catalog=shared_catalog, namespace=namespace)


@pytest.mark.jar
@pytest.mark.parametrize("table_kind", kinds("iceberg", "duckdb"))
@pytest.mark.parametrize("seed", SEEDS)
def test_of_iceberg_and_duckdb(
    rest_catalog: RestCatalog,
    rest_namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    table_kind: str,
    seed: int,
) -> None:
    with attached(duckdb_iceberg, rest_catalog.properties["uri"]) as database:
        given: dict[str, Any] = {"catalog": rest_catalog, "namespace": rest_namespace}
        follow(table_kind, seed, EACH, duckdb=duckdb_iceberg, database=database, **given)
