"""A job whose Spark jobs are cancelled is interrupted: nothing is committed, and its files are removed."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from puffin_fast import spark as ps
from puffin_fast.errors import JobInterruptedError
from tests.kit.tables import files_of
from tests.spark.faults.injection import wait
from tests.spark.table.tables import ROWS, made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
GROUP = "cancelled by a test"

CANCEL: dict[str, Callable[[SparkSession], object]] = {
    "group": lambda spark: spark.sparkContext.cancelJobGroup(GROUP),
    "all": lambda spark: spark.sparkContext.cancelAllJobs(),
}


def stuck(spark: SparkSession, folder: Path, schema: str, rows: pa.Table) -> DataFrame:
    """Rows that a task never gives: Spark ends its Python."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (folder / "started").touch()
        Event().wait(60)
        yield from batches

    return spark.createDataFrame(rows, schema).coalesce(1).mapInArrow(body, schema)


@pytest.mark.parametrize(
    ("verb", "how"), [("upsert", "group"), ("positions", "all"), ("few", "all"), ("write", "group")]
)
def test_a_cancelled_job_says_what_was_committed_and_removed(
    spark: SparkSession, racing: RacingCatalog, tmp_path: Path, verb: str, how: str
) -> None:
    table = made(racing, "n")
    before, head = files_of(table), table.refresh().metadata.current_snapshot_id
    given = stuck(spark, tmp_path, "id long, word string, small int", ROWS.slice(0, 9))
    places = given.selectExpr("word AS file_path", "id AS pos")
    jobs: dict[str, Callable[[], Any]] = {
        "upsert": lambda: ps.upsert(given, table, "id"),
        "positions": lambda: ps.delete_positions(places, table),
        "few": lambda: ps.delete_keys(given, table, "id"),
        "write": lambda: ps.write_deletion_vectors(places, tmp_path / "out"),
    }

    def cancel() -> None:
        wait((tmp_path / "started").exists)
        CANCEL[how](spark)

    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    # Iceberg's procedures leave interruptOnCancel=false behind, so properties are not cleared but restored
    properties = context.getLocalProperties().clone()
    spark.sparkContext.setJobGroup(GROUP, "a job of a test")
    canceller = Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(JobInterruptedError, match="nothing was committed") as caught:
            jobs[verb]()
    finally:
        canceller.join()
        context.setLocalProperties(properties)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1_000
    if verb in ("positions", "write"):  # the others have not written files yet
        assert "are removed" in text
    assert table.refresh().metadata.current_snapshot_id == head
    wait(lambda: files_of(table) == before)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
