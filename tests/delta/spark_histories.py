"""Random histories of Delta tables that Spark and this package change in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffin_fast import delta
from tests.delta.changes_model import History

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MERGE = (
    "MERGE INTO {t} t USING given s ON t.id = s.id WHEN MATCHED AND t.x = 1.5 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET x = s.x WHEN NOT MATCHED THEN INSERT *"
)


class SparkHistory(History):
    """A table, changed at random."""

    def __init__(self, spark: SparkSession, path: Path, kind: str, seed: int) -> None:
        super().__init__(path, kind, seed)
        self._spark, self.foreign, self.has_feed = spark, False, kind in ("feed", "mapped")
        spark.conf.set("spark.databricks.delta.restore.protocolDowngradeAllowed", "true")

    def verbs(self) -> list[Callable[[], Any]]:
        theirs = [
            "INSERT INTO {t} SELECT * FROM given",
            f"DELETE FROM {{t}} WHERE {self.where()}",
            f"DELETE FROM {{t}} WHERE {self.where()}",
            f"UPDATE {{t}} SET x = {self.chance.randrange(4) / 2} WHERE {self.where()}",
            f"UPDATE {{t}} SET g = 'b' WHERE {self.where()}",
            MERGE,
            "OPTIMIZE {t}",
            "REORG TABLE {t} APPLY (PURGE)",
            f"INSERT OVERWRITE {{t}} SELECT id, g, x FROM {{t}} WHERE {self.where()}",
            f"RESTORE TABLE {{t}} TO VERSION AS OF {self.chance.randrange(delta.snapshot(self.path).version + 1)}",
        ]
        return [*super().verbs(), *(lambda text=text: self._sql(text) for text in theirs)]

    def _sql(self, text: str) -> None:
        self.log.append(text)
        self._spark.createDataFrame(self.rows()).createOrReplaceTempView("given")
        self._spark.sql(text.format(t=f"delta.`{self.path}`")).collect()

    def feed(self) -> pa.Table:
        return self._spark.sql(f"SELECT * FROM table_changes_by_path('{self.path}', 0)").toArrow()

    def is_read_right(self, version: int) -> bool:
        return True
