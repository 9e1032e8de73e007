"""Tables that Spark wrote with all of its types: `to_arrow` returns PyIceberg's rows and types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast import iceberg

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark]

COLUMNS = {
    "yes": ("boolean", "true"),
    "small": ("int", "-2147483648"),
    "large": ("bigint", "9223372036854775807"),
    "single": ("float", "float('nan')"),
    "double": ("double", "double('-infinity')"),
    "price": ("decimal(9, 2)", "-1234567.89"),
    "other": ("decimal(9, 2)", "0.01"),
    "tall": ("decimal(18, 6)", "123456789012.345678"),
    "wide": ("decimal(38, 10)", "-1234567890123456789012345678.0123456789"),
    "day": ("date", "date '0001-01-01'"),
    "at": ("timestamp", "timestamp '1969-12-31 23:59:59Z'"),
    "local": ("timestamp_ntz", "timestamp_ntz '2262-04-11 23:47:16.854775'"),
    "word": ("string", "'Grüße ' || id"),
    "raw": ("binary", "X'00ff'"),
    "point": ("struct<x: int, y: struct<z: string>>", "named_struct('x', 1, 'y', named_struct('z', 'deep'))"),
    "list": ("array<decimal(9, 2)>", "array(1.25, null)"),
    "map": ("map<string, struct<x: double>>", "map('k', named_struct('x', 0.5), 'none', null)"),
}
"""Each column's type and a value, in Spark's SQL; every third row is null. PyArrow reads ORC's times as nanoseconds."""


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_to_arrow_of_what_spark_wrote_is_that_of_pyiceberg(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, version: int, format: str
) -> None:
    name = f"{shared_catalog.name}.{namespace}.t"
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in COLUMNS.items())
    values = ", ".join(
        f"if(id % 3 = 0, null, cast({value} as {kind})) as {column}"
        for column, (kind, value) in COLUMNS.items()
    )
    iceberg_spark.sql(
        f"CREATE TABLE {name} (id bigint, {columns}) USING iceberg TBLPROPERTIES "
        f"('format-version' = '{version}', 'write.format.default' = '{format}', 'write.delete.mode' = 'merge-on-read')"
    )
    for start in (0, 50):
        iceberg_spark.sql(f"INSERT INTO {name} SELECT id, {values} FROM range({start}, {start + 50}, 1, 1)")
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
    table = shared_catalog.load_table(f"{namespace}.t")
    ours = iceberg.scan(table).to_arrow().sort_by("id")
    assert ours["id"].to_pylist() == [id for id in range(100) if id % 7]
    theirs = iceberg_spark.sql(f"SELECT * FROM {name} ORDER BY id").toArrow()
    assert repr(ours.to_pylist()) == repr(theirs.to_pylist())  # NaN is not equal to itself
    if format == "parquet":  # PyIceberg reads no Avro, and no times in ORC
        kept = [column for column in ours.column_names if column != "map"]  # it gives [] for a null map
        pyiceberg = table.scan().to_arrow().sort_by("id")
        assert ours.schema == pyiceberg.schema
        assert repr(ours.select(kept).to_pylist()) == repr(pyiceberg.select(kept).to_pylist())
        assert pa.concat_tables([ours, pyiceberg]).num_rows == 2 * ours.num_rows
    text = "price < -1234567.885 and tall > 123456789012.3456775"
    gone = iceberg.delete(table, text, dry_run=True).rows_deleted
    assert gone == len([id for id in range(100) if id % 7 and id % 3])
