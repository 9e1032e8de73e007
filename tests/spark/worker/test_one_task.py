"""Jobs whose steps Spark runs in one task: it does so with the sides of a union that have one partition each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast import spark as ps
from tests.spark.conftest import MOST, NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

pytestmark = pytest.mark.spark
SETTING = "spark.sql.shuffle.partitions"


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "1")
    yield spark
    spark.conf.set(SETTING, before)


def test_updated_and_inserted_rows_are_files_of_their_own(
    one_partition: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MOST, NONE)
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    iceberg.append(table, pa.table({"id": range(10), "x": [0] * 10}))
    given = one_partition.createDataFrame([(id, 1) for id in range(7, 17)], "id long, x long")
    result = ps.upsert(given, table, "id")
    assert (result.rows_updated, result.rows_inserted, result.data_files_written) == (3, 7, 2)
    rows = iceberg.scan(table).to_arrow().sort_by("id")
    assert rows.to_pydict() == {"id": [*range(17)], "x": [0] * 7 + [1] * 10}
