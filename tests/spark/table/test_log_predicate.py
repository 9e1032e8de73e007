"""On executors, too, the log of a Delta table has no filter with ``log_predicate=False``; Iceberg never has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from puffin_fast import delta, iceberg
from puffin_fast import spark as ps
from tests.delta.tables import commit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kit.faults import RacingCatalog

ROWS = pa.table({"id": range(20), "word": [f"w{i}" for i in range(20)]})
OTHER = pa.table({"id": [50], "word": ["other"]})
FILTERS = {
    "text": "word = 'w7'",
    "a condition of Spark": "concat(word, '') = 'w7'",
    "an expression": EqualTo("word", "w7"),
}
VERBS: dict[str, Callable[..., Any]] = {
    "delete": lambda spark, table, where, **options: ps.delete(spark, table, where, **options),
    "update": lambda spark, table, where, **options: ps.update(
        spark, table, where, {"word": "new"}, **options
    ),
    "overwrite": lambda spark, table, where, **options: ps.overwrite(
        spark.createDataFrame(OTHER.to_pylist()), table, where, **options
    ),
}
CASES = [
    (verb, name) for verb in VERBS for name in FILTERS if (verb, name[:11]) != ("overwrite", "a condition")
]


@pytest.mark.parametrize(("verb", "name"), CASES)
def test_the_log_has_no_filter(verb: str, name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    delta.create_table(table, ROWS.schema)
    delta.append(table, ROWS)
    VERBS[verb](spark, str(table), FILTERS[name], log_predicate=False)
    (info,) = commit_of(table, 2)["commitInfo"]
    assert "w7" not in str(info)
    if (verb, name) != ("delete", "a condition of Spark"):  # a condition is not logged by deletes
        delta.append(table, ROWS)
        VERBS[verb](spark, str(table), FILTERS[name])
        (info,) = commit_of(table, 4)["commitInfo"]
        assert "w7" in info["operationParameters"]["predicate"]


@pytest.mark.parametrize("verb", VERBS)
def test_summaries_of_iceberg_have_no_value(verb: str, spark: SparkSession, racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(table, ROWS)
    VERBS[verb](spark, table, FILTERS["text"], log_predicate=False)
    head = table.refresh().current_snapshot()
    assert head is not None
    assert "w7" not in str(head.summary)
