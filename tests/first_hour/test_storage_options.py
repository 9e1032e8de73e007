"""The `storage_options` of deltalake reach the store, in every verb; those of a `DeltaTable` count too."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import puffin_fast as pf
from tests.kit.object_store import Store, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["store"]

ROWS = pa.table({"id": [1, 2, 3]})


def options_of(store: Store) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "aws_secret_access_key": "secret",
        "region": "us-east-1",
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "conditional_put": "etag",
    }


@pytest.mark.spark
def test_the_options_of_a_delta_table_count_on_spark(
    store: Store, spark: SparkSession, tmp_path: Path
) -> None:
    options = options_of(store)
    uri = f"s3://lake/{tmp_path.name}/t"
    pf.delta.create_table(uri, ROWS.schema, storage_options=options)
    pf.delta.append(pf.open_table(uri, storage_options=options), ROWS)
    table = DeltaTable(uri, storage_options=options)
    assert pf.spark.delete(spark, table, "id = 1", job_id="job").rows_deleted == 1
    assert pf.spark.job_files(table, "job")
    assert pf.spark.remove_job_files(table, "job") == []
    assert pf.spark.scan(spark, table, "id < 3").toArrow()["id"].to_pylist() == [2]


def test_the_options_of_deltalake(store: Store, tmp_path: Path) -> None:
    options = options_of(store)
    uri = f"s3://lake/{tmp_path.name}/t"
    pf.delta.create_table(uri, ROWS.schema, storage_options=options)
    pf.delta.append(pf.open_table(uri, storage_options=options), ROWS)
    assert pf.delta.delete(pf.open_table(uri, storage_options=options), "id = 1").rows_deleted == 1
    table = DeltaTable(uri, storage_options=options)
    assert pf.delta.scan(table).to_arrow()["id"].to_pylist() == [2, 3]
    assert pf.delta.delete(table, "id = 2").rows_deleted == 1
    assert pf.delta.verify(table) == []
    with pytest.raises(
        pf.UnsupportedError, match="storage_options: AWS_S3_LOCKING_PROVIDER: no certain counterpart"
    ):
        pf.delta.scan(pf.open_table(uri, storage_options=options | {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}))
    with pytest.raises(pf.InvalidInputError, match="found both"):
        pf.delta.scan(pf.open_table(uri, storage_options=options, filesystem=object()))
    with pytest.raises(pf.UnsupportedError, match="found scheme https"):
        pf.delta.scan(pf.open_table("https://host/t", storage_options=options))


def test_a_local_table_needs_none(tmp_path: Path) -> None:
    pf.delta.create_table(tmp_path / "t", ROWS.schema, storage_options={"anything": "x"})
    assert pf.delta.scan(pf.open_table(tmp_path / "t", storage_options={"anything": "x"})).count() == 0


def test_every_function_with_a_filesystem_takes_them() -> None:
    functions = [getattr(pf.delta, name) for name in pf.delta.__all__]
    parameters = [set(inspect.signature(one).parameters) for one in functions if inspect.isfunction(one)]
    assert all(("storage_options" in names) == ("filesystem" in names) for names in parameters)
    assert any("filesystem" in names for names in parameters)
