"""On executors: the lines of changes in Arrow types that Spark accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.spark.session.batches import arrow_schema
from puffin_fast.spark.session.executor_calls import items_of
from puffin_fast.spark.worker.column_types import converter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from puffin_fast.rows.changes.lines import ChangeReader
    from puffin_fast.rows.changes.states import CommitChanges


def lines(batches: Iterator[pa.RecordBatch], *, reader: ChangeReader) -> Iterator[pa.RecordBatch]:
    """Reads the lines of one task.

    Args:
        batches: one binary column: packed lists of `CommitChanges`.
    """
    return lines_of(items_of(batches), reader)


def batches_of(
    changes: Iterable[CommitChanges], reader: ChangeReader, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yields the lines of commits in exactly the types that PySpark's data sources require.

    Args:
        changes, reader: as `lines_of`.
        schema: the schema of the data source.
    """
    wanted = arrow_schema(schema)
    for batch in lines_of(changes, reader):
        yield from _cast(batch, wanted)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Casts columns to 32-bit offsets; a batch whose texts are too large for them is halved."""
    try:
        columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except pa.ArrowInvalid:
        half = batch.num_rows // 2
        if not half:
            raise
        yield from _cast(batch.slice(0, half), schema)
        yield from _cast(batch.slice(half), schema)
        return
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def lines_of(changes: Iterable[CommitChanges], reader: ChangeReader) -> Iterator[pa.RecordBatch]:
    """Yields the lines of commits.

    Args:
        changes: the changes of the commits. Only rows of the same commit are paired.
    """
    steps = [converter(field.type) for field in reader.schema]
    for batch in reader.lines(changes):
        columns = [c if s is None else s(c) for c, s in zip(batch.columns, steps, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, reader.schema.names)
