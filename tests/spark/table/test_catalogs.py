"""Tables by their names in Spark's catalogs; tables of hadoop catalogs, which Spark and this package change in turn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.spark.table.names import iceberg_catalog
from tests.conftest import require_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CREDENTIALS = {"access-key-id": "k", "secret-access-key": "s", "region": "us-east-1"}

V3 = "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"


@pytest.fixture
def hadoop(iceberg_spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The name of a catalog of type hadoop, on a new folder."""
    name = f"hadoop_{tmp_path.name}".replace("-", "_")
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(tmp_path / "wh"),
    }
    settings[".cache-enabled"] = "false"
    for key, value in settings.items():
        iceberg_spark.conf.set(f"{prefix}{key}", value)
    yield name
    for key in settings:
        iceberg_spark.conf.unset(f"{prefix}{key}")


def ids(spark: SparkSession, name: str) -> list[int]:
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {name}").collect())


def test_the_session_sees_each_commit_to_a_table_that_it_keeps(
    iceberg_spark: SparkSession, hadoop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Iceberg's catalog keeps tables, and ``CACHE TABLE`` keeps rows."""
    spark, name = iceberg_spark, f"{hadoop}.db.t"
    spark.conf.set(f"spark.sql.catalog.{hadoop}.cache-enabled", "true")
    spark.conf.set(f"spark.sql.catalog.{hadoop}.cache.expiration-interval-ms", "-1")
    try:
        spark.sql(f"CREATE TABLE {name} (id BIGINT, x STRING) USING iceberg {V3}")
        spark.sql(f"INSERT INTO {name} SELECT id, 'a' FROM range(20)")
        for command in ("REFRESH TABLE", "CACHE TABLE"):
            spark.sql(f"{command} {name}")
            before = ids(spark, name)
            assert ps.delete(spark, name, f"id = {before[0]}").rows_deleted == 1
            assert ids(spark, name) == before[1:]
            ps.append(spark.sql("SELECT 100L AS id, 'b' AS x"), name)
            assert ids(spark, name) == [*before[1:], 100]
            ps.upsert(spark.sql("SELECT id, 'c' AS x FROM VALUES (100L), (101L) AS given(id)"), name, "id")
            assert ids(spark, name) == [*before[1:], 100, 101]
            ps.update(spark, name, "id = 101", {"x": "d"})
            assert [row.id for row in spark.table(name).where("x = 'd'").collect()] == [101]
            ps.delete_keys(spark.sql("SELECT 101L AS id"), name, "id")
            assert ids(spark, name) == [*before[1:], 100]
            spark.sql(f"DELETE FROM {name} WHERE id = 100")
            assert ids(spark, name) == before[1:]
            with pytest.raises(InvalidInputError):
                ps.delete(spark, name, "none = 1")
            assert ids(spark, name) == before[1:]
            iceberg.append(ps.load_table(spark, name), pa.table({"id": [900], "x": ["of another client"]}))
            assert ps.delete(spark, name, "id = 900", dry_run=True).rows_deleted == 1
            assert ids(spark, name) == before[1:]  # a dry run changes nothing, so Spark keeps what it has
            assert ps.delete(spark, name, "id = 900").rows_deleted == 1
    finally:
        spark.sql(f"UNCACHE TABLE IF EXISTS {name}")
        spark.conf.unset(f"spark.sql.catalog.{hadoop}.cache.expiration-interval-ms")
    assert "does not refresh" not in caplog.text


def test_all_verbs_take_a_name_of_a_hadoop_catalog(
    iceberg_spark: SparkSession, hadoop: str, tmp_path: Path
) -> None:
    spark, name = iceberg_spark, f"{hadoop}.db.t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, x STRING) USING iceberg {V3}")
    spark.sql(f"INSERT INTO {name} SELECT id, 'a' FROM range(100)")
    given = spark.range(95, 105).selectExpr("id", "'b' AS x")
    assert ps.delete(spark, name, "id < 10").rows_deleted == 10
    spark.sql(f"DELETE FROM {name} WHERE id < 20")
    assert ps.delete_keys(spark.range(20, 25), name, "id").rows_deleted == 5
    assert ps.upsert(given, name, "id").rows_inserted == 5
    assert ps.update(spark, name, "id = 30", {"x": "c"}).rows_updated == 1
    spark.sql(f"UPDATE {name} SET x = 'd' WHERE id = 31")
    assert ps.append(spark.range(200, 203).selectExpr("id", "'e' AS x"), name).commit.id
    found = ps.scan(spark, name, "x = 'e'", ["_file", "_pos"]).limit(1)
    assert (
        ps.delete_positions(
            found.withColumnsRenamed({"_file": "file_path", "_pos": "pos"}), name
        ).rows_deleted
        == 1
    )
    assert ids(spark, name) == ids_of(name, spark)
    assert len(ids(spark, name)) == 82
    loaded: Any = ps.load_table(spark, name)
    assert iceberg.scan(loaded).count() == 82
    ps.index_keys(spark, name, "id")
    ps.rewrite_data_files(spark, name)
    ps.compact(spark, name)
    ps.collect_ndv(spark, name)
    changed: Any = ps.changes(spark, name)
    assert changed.count() > 100
    spark.sql(f"INSERT INTO {name} VALUES (1000, 'f')")
    assert len(ids(spark, name)) == 83 == ps.scan(spark, name).count()
    assert ps.overwrite(spark.range(3).selectExpr("id", "'z' AS x"), name).commit.id
    assert ids(spark, name) == [0, 1, 2]
    assert not list((tmp_path / "wh/db/t/metadata").glob("*.tmp"))


def ids_of(name: str, spark: SparkSession) -> list[int]:
    return sorted(row[0] for row in ps.scan(spark, name, selected_fields=["id"]).collect())


def test_names_are_resolved_as_spark_does(iceberg_spark: SparkSession, hadoop: str) -> None:
    spark = iceberg_spark
    spark.sql(f"CREATE TABLE {hadoop}.`d-b`.`t``1` (id BIGINT) USING iceberg {V3}")
    spark.sql(f"INSERT INTO {hadoop}.`d-b`.`t``1` VALUES (1), (2)")
    before = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    try:
        spark.sql(f"USE {hadoop}.`d-b`")
        assert ps.scan(spark, "`t``1`").count() == 2
        assert ps.scan(spark, "`d-b`.`t``1`").count() == 2
        with pytest.raises(InvalidInputError, match=r"expected 'namespace\.table'"):
            ps.scan(spark, f"{hadoop}.`t``1`")  # a table of no namespace, not of the current one
        spark.sql("CREATE OR REPLACE TEMP VIEW `t``1` AS SELECT 1 AS id")
        with pytest.raises(UnsupportedError, match="a temporary view"):
            ps.delete(spark, "`t``1`", "id = 1")
    finally:
        spark.catalog.dropTempView("t`1")
        spark.catalog.setCurrentCatalog(before[0])
        spark.catalog.setCurrentDatabase(before[1])
    with pytest.raises(NotFoundError, match=r"db\.nope"):
        ps.scan(spark, f"{hadoop}.db.nope")
    with pytest.raises(NotFoundError, match="Spark has no such table"):
        ps.delete(spark, "nope.db.t", "id = 1")
    for text in ("a/b", "", None):
        with pytest.raises(InvalidInputError, match="name: expected the name of a table"):
            ps.load_table(spark, text)  # type: ignore[arg-type]
    spark.sql("CREATE OR REPLACE TEMP VIEW some_rows AS SELECT 1 AS id")
    with pytest.raises((NotFoundError, UnsupportedError)):
        ps.delete(spark, "some_rows", "id = 1")


def test_a_jdbc_catalog(iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str) -> None:
    name = f"{shared_catalog.name}.{namespace}.t"
    iceberg_spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg {V3}")
    iceberg_spark.sql(f"INSERT INTO {name} SELECT id FROM range(10)")
    assert ps.delete(iceberg_spark, name, "id = 3").rows_deleted == 1
    assert ids(iceberg_spark, name) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_rest_catalog(iceberg_spark: SparkSession, rest_catalog: RestCatalog, rest_namespace: str) -> None:
    spark, name = iceberg_spark, "over_rest"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": rest_catalog.properties["uri"],
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    spark.sql(f"CREATE TABLE {name}.{rest_namespace}.t (id BIGINT) USING iceberg {V3}")
    spark.sql(f"INSERT INTO {name}.{rest_namespace}.t SELECT id FROM range(10)")
    assert ps.delete(spark, f"{name}.{rest_namespace}.t", "id > 3").rows_deleted == 6
    assert rest_catalog.load_table(f"{rest_namespace}.t").current_snapshot() is not None


def test_a_glue_catalog(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Iceberg's classes for Glue in Spark, which a verb does not need."""
    require_module("moto")
    from moto.server import ThreadedMotoServer

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        ".glue.endpoint": f"http://{host}:{port}",
        ".warehouse": f"file://{tmp_path}/wh",
        **{f".client.{key}": value for key, value in CREDENTIALS.items()},
    }
    try:
        for key, value in settings.items():
            spark.conf.set(f"spark.sql.catalog.over_glue{key}", value)
        catalog = iceberg_catalog("over_glue", spark.conf.getAll)
        catalog.create_namespace("shop")
        table = iceberg.create_table(catalog, "shop.t", pa.schema([("id", pa.int64()), ("x", pa.string())]))
        iceberg.append(table, pa.table({"id": range(100), "x": ["a"] * 100}))
        name, given = "over_glue.shop.t", spark.range(95, 105).selectExpr("id", "'b' AS x")
        assert ps.delete(spark, name, "id < 10").rows_deleted == 10
        assert ps.upsert(given, name, "id").rows_inserted == 5
        assert sorted(row.id for row in ps.scan(spark, name).collect()) == [*range(10, 105)]
        assert iceberg.verify(catalog.load_table("shop.t")) == []
        with pytest.raises(NotFoundError, match=r"shop\.nope"):
            ps.scan(spark, "over_glue.shop.nope")
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.catalog.over_glue{key}")
        server.stop()


@pytest.mark.parametrize(
    ("settings", "kind", "properties"),
    [
        (
            {"type": "glue", "warehouse": "s3://b/wh", "client.region": "us-east-1", "io-impl": "x"},
            "GlueCatalog",
            {"warehouse": "s3://b/wh", "client.region": "us-east-1"},
        ),
        (
            {
                "catalog-impl": "org.apache.iceberg.rest.RESTCatalog",
                "uri": "http://127.0.0.1:1",
                "token": "t",
            },
            None,
            {},
        ),
        ({"type": "nessie"}, UnsupportedError, "type nessie"),
        ({"catalog-impl": "com.example.Mine"}, UnsupportedError, "com.example.Mine"),
        ({}, InvalidInputError, "hive.metastore.uris"),
        ({"type": "hadoop"}, InvalidInputError, "warehouse"),
        ({"type": "jdbc", "uri": "jdbc:oracle:thin:@x"}, UnsupportedError, "database oracle"),
        ({"type": "jdbc", "uri": "sqlite://u:secret@x"}, InvalidInputError, "jdbc:<database>.*sqlite:…$"),
        ({"Type": "Hadoop", "WAREHOUSE": "/wh"}, "HadoopCatalog", {"warehouse": "/wh"}),
        (
            {"type": "hadoop", "warehouse": "/wh", "hadoop.fs.defaultFS": "hdfs://h"},
            UnsupportedError,
            "hdfs://h",
        ),
    ],
)
def test_settings_of_spark_are_those_of_a_catalog(
    settings: dict[str, str], kind: Any, properties: Any
) -> None:
    spark = {f"spark.sql.catalog.c.{key}": value for key, value in settings.items()}
    if kind is None:  # the server does not answer
        with pytest.raises(InvalidInputError, match="catalog c: PyIceberg cannot open it"):
            iceberg_catalog("c", spark)
    elif isinstance(kind, str):
        catalog = iceberg_catalog("c", spark)
        assert type(catalog).__name__ == kind
        assert properties.items() <= catalog.properties.items()
        assert "io-impl" not in catalog.properties
    else:
        with pytest.raises(kind, match=properties):
            iceberg_catalog("c", spark)


def test_java_and_this_package_commit_to_a_hadoop_table_at_once(
    iceberg_spark: SparkSession, hadoop: str
) -> None:
    spark, name, n = iceberg_spark, f"{hadoop}.db.raced", 8
    retries = "'commit.retry.num-retries'='50', 'commit.retry.min-wait-ms'='5'"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version'='3', {retries})"
    )
    table = iceberg.HadoopCatalog(
        hadoop, warehouse=spark.conf.get(f"spark.sql.catalog.{hadoop}.warehouse") or ""
    )

    def java(i: int) -> None:
        spark.sql(f"INSERT INTO {name} VALUES ({i})")

    def ours(i: int) -> None:
        iceberg.append(table.load_table("db.raced"), pa.table({"id": [1000 + i]}))

    with ThreadPoolExecutor(3) as pool:
        for done in [*(pool.submit(java, i) for i in range(n)), *(pool.submit(ours, i) for i in range(n))]:
            done.result()
    assert ids(spark, name) == [*range(n), *range(1000, 1000 + n)]
