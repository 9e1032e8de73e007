"""Tables of a Hive catalog: a real metastore, from the jars of PySpark, on an embedded Derby database."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import NotFoundError
from tests.conftest import free_port, require_module
from tests.spark.faults.injection import wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jar, pytest.mark.slow]

V3 = "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')"


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def metastore(iceberg_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a Hive Metastore, which runs in the JVM of the session until this ends."""
    require_module("thrift", "pip install 'pyiceberg[hive]'")
    root, port = tmp_path_factory.mktemp("hive"), free_port()
    jvm: Any = iceberg_spark.sparkContext._jvm
    hive = jvm.org.apache.hadoop.hive
    conf = hive.conf.HiveConf()
    for key, value in {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root}/metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"{root}/warehouse",
    }.items():
        conf.set(key, value)
    hive.metastore.txn.TxnDbUtil.prepDb(conf)  # the tables of locks
    bridge = hive.shims.ShimLoader.getHadoopThriftAuthBridge()
    Thread(target=hive.metastore.HiveMetaStore.startMetaStore, args=(port, bridge, conf), daemon=True).start()
    wait(lambda: answers(port))
    return f"thrift://127.0.0.1:{port}"


def test_this_package_and_spark_commit_to_a_table_of_a_hive_catalog_in_turn(
    iceberg_spark: SparkSession, metastore: str, tmp_path: Path
) -> None:
    spark, catalog = iceberg_spark, "over_hive"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hive", ".uri": metastore}
    settings |= {".warehouse": f"file://{tmp_path}/wh", ".cache-enabled": "false"}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
    name = f"{catalog}.shop.t"
    spark.sql(f"CREATE NAMESPACE {catalog}.shop LOCATION 'file://{tmp_path}/wh/shop'")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, x STRING) USING iceberg {V3}")
    spark.sql(f"INSERT INTO {name} SELECT id, 'a' FROM range(100)")
    assert ps.delete(spark, name, "id < 10").rows_deleted == 10
    spark.sql(f"DELETE FROM {name} WHERE id < 20")
    given = spark.range(95, 105).selectExpr("id", "'b' AS x")
    assert ps.upsert(given, name, "id").rows_inserted == 5
    assert ps.update(spark, name, "id = 30", {"x": "c"}).rows_updated == 1
    spark.sql(f"INSERT INTO {name} VALUES (1000, 'd')")
    assert ps.delete_keys(spark.range(40, 45), name, "id").rows_deleted == 5
    expected = sorted([*range(20, 40), *range(45, 105), 1000])
    assert sorted(row.id for row in spark.sql(f"SELECT id FROM {name}").collect()) == expected
    assert sorted(row.id for row in ps.scan(spark, name).collect()) == expected
    table = ps.load_table(spark, name)
    assert iceberg.verify(table) == []  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match=r"shop\.nope"):
        ps.scan(spark, f"{catalog}.shop.nope")
