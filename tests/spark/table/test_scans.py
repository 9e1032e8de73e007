"""Scans as DataFrames return the same rows as on one machine, in Spark's types, from tasks of limited size."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.types import (
    NestedField,
)

from puffin_fast import iceberg
from puffin_fast import spark as ps
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError
from puffin_fast.spark.session.sessions import own_errors
from tests.iceberg.maintenance.delete_files import random_table
from tests.iceberg.scans.row_groups import ROWS, table
from tests.kit.tables import path_of
from tests.spark.table.scans import COLUMNS, every_type

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
__all__ = ["table"]


def rows_of(df: DataFrame) -> list[str]:
    with own_errors():
        return sorted(map(repr, df.toArrow().to_pylist()))


def expected(table: Table, *arguments: Any, **options: Any) -> list[str]:
    return sorted(map(repr, iceberg.scan(table, *arguments, **options).to_arrow().to_pylist()))


AS_SPARK: dict[str, Any] = {
    "clock": ((3600 + 2 * 60 + 3) * 10**6 + 4),
    "u": "00ff1234-0102-0304-0506-0708090a0bfe",
    "tags": [str(uuid.UUID(int=5)), None],
    "deep": {"a": 3, "l": [{"t": 10**6}, {"t": None}]},
}


def test_every_type_has_one_of_sparks_and_loses_nothing(spark: SparkSession, racing: RacingCatalog) -> None:
    fields = [NestedField(at, name, kind) for at, (name, (kind, _, _)) in enumerate(COLUMNS.items(), 1)]
    table = iceberg.create_table(racing, "n.t", Schema(*fields))
    data = every_type(table)
    iceberg.append(table, data)
    iceberg.append(table, data.slice(1))
    df = ps.scan(spark, table)
    assert {f.name: f.dataType.simpleString() for f in df.schema} == {n: c[2] for n, c in COLUMNS.items()}
    assert all(field.nullable for field in df.schema)
    with own_errors():
        found = df.toArrow().to_pylist()
    assert len(found) == 5
    for name, (_, value, _) in COLUMNS.items():
        want = AS_SPARK.get(name, value)
        values = [row[name] for row in found]
        assert values.count(None) == 2, name
        assert values.count(want) == 3, (name, values)


def test_deletes_of_all_kinds_are_applied(spark: SparkSession, racing: RacingCatalog) -> None:
    table = random_table(racing, 3)
    iceberg.delete(table, "id = 3")
    assert rows_of(ps.scan(spark, table)) == expected(table)
    some = ("k = 2 or x > 1", ("s", "id"))
    assert rows_of(ps.scan(spark, table, *some)) == expected(table, *some)


def test_metadata_columns_are_the_single_machines(spark: SparkSession, table: Table) -> None:
    iceberg.delete(table, "id < 30 or id = 500")
    fields = ("id", "_file", "_pos", "_row_id", "_last_updated_sequence_number")
    df = ps.scan(spark, table, "id < 600", fields)
    assert rows_of(df) == expected(table, "id < 600", fields)
    assert df.where("_pos < 40").count() == 10
    assert ps.scan(spark, table, selected_fields=()).count() == ROWS.num_rows - 31


def test_a_large_file_is_read_by_several_tasks(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions

    monkeypatch.setattr("puffin_fast.spark.table.job.TASK_BYTES", 1000)
    monkeypatch.setattr("puffin_fast.spark.table.job.OPEN_BYTES", 32 << 20)
    iceberg.delete(table, "id >= 100 and id < 350")
    df = ps.scan(spark, table).withColumn("task", functions.spark_partition_id())
    found = df.toArrow()
    assert len(set(found["task"].to_pylist())) > 1
    assert sorted(found["id"].to_pylist()) == [*range(100), *range(350, ROWS.num_rows)]


def test_a_dataframe_stays_with_its_snapshot(spark: SparkSession, table: Table) -> None:
    before = ps.scan(spark, table, selected_fields=["id"])
    first = table.metadata.current_snapshot_id
    iceberg.delete(table, "id >= 10")
    assert before.count() == ROWS.num_rows
    assert ps.scan(spark, table).count() == 10
    assert ps.scan(spark, table, snapshot_id=first).count() == ROWS.num_rows
    assert ps.scan(spark, table, branch="main", limit=3).count() == 3
    assert ps.scan(spark, table, limit=0).count() == 0
    ours = ps.scan(before, table).alias("a")
    assert ours.join(before.alias("b"), "id").count() == 10  # a DataFrame like any other


def test_an_empty_table_has_a_schema(spark: SparkSession, racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema)
    df = ps.scan(spark, table, selected_fields=["s", "_file"])
    assert df.toArrow().num_rows == 0
    assert df.columns == ["s", "_file"]


def test_what_is_wrong_is_said(spark: SparkSession, table: Table) -> None:
    for options, error, message in (
        ({"row_filter": EqualTo("nobody", 1)}, NotFoundError, "nobody"),
        ({"row_filter": "nobody = 1"}, InvalidInputError, "nobody"),
        ({"selected_fields": "nobody"}, NotFoundError, "nobody"),
        ({"snapshot_id": 5}, NotFoundError, "snapshot 5"),
        ({"branch": "twig"}, NotFoundError, "twig"),
        ({"limit": -1}, InvalidInputError, "limit"),
    ):
        with pytest.raises(error, match=message):
            ps.scan(spark, table, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="SparkSession"):
        ps.scan(None, table)  # type: ignore[arg-type]
    df = ps.scan(spark, table)
    path = path_of(iceberg.plan_files(table).tasks[0].data.file_path)
    path.write_bytes(b"PAR1" + bytes(40))
    with pytest.raises(CorruptDataError, match=path.name), own_errors():
        df.toArrow()


@pytest.mark.jar
def test_spark_reads_the_same_with_and_without_the_jar(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str
) -> None:
    name = f"{shared_catalog.name}.{namespace}.t"
    iceberg_spark.sql(
        f"CREATE TABLE {name} (id BIGINT, d DECIMAL(9,2), at TIMESTAMP, l ARRAY<STRING>, "
        "s STRUCT<a: INT, m: MAP<STRING, DATE>>) USING iceberg TBLPROPERTIES ('format-version'='3', "
        "'write.delete.mode'='merge-on-read')"
    )
    iceberg_spark.sql(
        f"INSERT INTO {name} SELECT id, id / 4, timestamp_micros(id), array('x', null, cast(id as string)), "
        "if(id % 5 = 0, null, named_struct('a', id, 'm', map('k', date'2020-01-01'))) FROM range(500)"
    )
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
    theirs = iceberg_spark.table(name)
    ours = ps.scan(iceberg_spark, shared_catalog.load_table(f"{namespace}.t"))
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    assert rows_of(ours) == rows_of(theirs)
