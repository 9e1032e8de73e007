"""Changes of tables that other engines wrote: the same as two full scans, compared, and as Iceberg's changelog view.

``PUFFIN_FAST_HISTORIES`` says how many histories there are; 2 by default.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from puffin_fast import iceberg
from tests.iceberg.changes.states import frozen
from tests.iceberg.changes.test_changes_model import check_history
from tests.interop.spark_histories import SparkHistory

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jar, pytest.mark.spark, pytest.mark.slow]

HISTORIES = int(os.environ.get("PUFFIN_FAST_HISTORIES", "2"))
STEPS = 20


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_changes_of_sparks_and_pyicebergs_histories_are_the_difference_of_scans(
    iceberg_spark: SparkSession, shared_catalog: SqlCatalog, namespace: str, seed: int
) -> None:
    history = SparkHistory(iceberg_spark, shared_catalog, namespace, seed)
    try:
        for _ in range(STEPS):
            history.step()
        check_history(history.table, random.Random(seed))
        theirs = iceberg_spark.sql(f"SELECT * FROM {history.name}").toArrow().to_pylist()
        ours = iceberg.scan(history.table).to_arrow().to_pylist()
        rows = [Counter(tuple(map(frozen, row.values())) for row in side) for side in (theirs, ours)]
        assert rows[0] == rows[1]
    except BaseException as error:
        error.add_note("\n".join(history.log))
        raise
