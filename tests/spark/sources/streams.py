"""Streams of the source `puffin_changes`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffin_fast import spark as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def begun(spark: SparkSession, folder: Path, each: Any, options: dict[str, str], **trigger: Any) -> Any:
    ps.register(spark)
    given = dict(options)
    path = given.pop("path", None)
    df = spark.readStream.format("puffin_changes").options(**given).load(path)
    writer = df.writeStream.foreachBatch(each).option("checkpointLocation", str(folder / "checkpoint"))
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.start()
