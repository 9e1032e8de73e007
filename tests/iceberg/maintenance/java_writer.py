"""Equality deletes written by Iceberg's own Java classes, in the JVM of a Spark session."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_equal(
    spark: SparkSession,
    name: str,
    columns: Sequence[str],
    keys: Sequence[Sequence[object]],
    partition: str = "",
) -> None:
    """Commits one equality-delete file.

    Args:
        spark: with Iceberg's runtime.
        name: the table, as Spark calls it.
        columns: the key's, of types int and string: a Python number reaches Java as an Integer.
        keys: one value per column, None for a null.
        partition: as a path, ``k=1/s=a``, for a partitioned table.
    """
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # type: ignore[attr-defined]
    schema = table.schema().select(_list(jvm, columns))
    ids = gateway.new_array(gateway.jvm.int, len(columns))
    for at, column in enumerate(columns):
        ids[at] = schema.findField(column).fieldId()
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    factory = (
        builder.deleteFileFormat(iceberg.FileFormat.PARQUET)
        .equalityFieldIds(ids)
        .equalityDeleteRowSchema(schema)
        .build()
    )
    path = table.locationProvider().newDataLocation(f"{uuid.uuid4()}-equality.parquet")
    plain = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(path))
    spec = table.spec()
    where = iceberg.DataFiles.data(spec, partition) if partition else None
    writer = factory.newEqualityDeleteWriter(plain, spec, where)
    for key in keys:
        record = iceberg.data.GenericRecord.create(schema)
        for column, value in zip(columns, key, strict=True):
            record.setField(column, value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def _list(jvm: Any, items: Sequence[str]) -> Any:
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return found
