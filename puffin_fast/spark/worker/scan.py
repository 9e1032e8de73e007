"""On executors: the live rows of a table in Arrow types that Spark accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.rows.scan.splits import Split
from puffin_fast.spark.session.executor_calls import items_of
from puffin_fast.spark.worker.column_types import converter

if TYPE_CHECKING:
    from puffin_fast.rows.scan.file_reader import FileReader

ROW = "row"
"""Column that stands for rows without columns, which PySpark 4.0 drops."""


def rows(
    batches: Iterator[pa.RecordBatch], *, reader: FileReader, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Reads the splits of one task.

    Args:
        batches: one binary column: packed lists of a `FileTask`, the number of a share of it and the number of
            shares.
        schema: the columns of the scan.
    """
    steps = [converter(field.type) for field in schema]
    for task, number, count in items_of(batches):
        for batch in reader.read(Split.of(task, number, count)):
            columns = [c if s is None else s(c) for c, s in zip(batch.columns, steps, strict=True)]
            names = schema.names
            if not columns:
                columns, names = [pa.nulls(batch.num_rows, pa.bool_())], [ROW]
            yield pa.RecordBatch.from_arrays(columns, names)
