"""On executors: given rows are sent to the tasks of their partitions, and written as data files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast.rows.keys.key_columns import column_of
from puffin_fast.rows.keys.transforms import partition_values
from puffin_fast.spark.session.executor_calls import Batches
from puffin_fast.spark.worker.data_files import new_rows
from puffin_fast.spark.worker.given import Given
from puffin_fast.spark.worker.keys import for_spark
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField

GROUP_BYTES = 128 << 20
"""Bytes of rows that a task holds before it writes them, if they cannot be streamed."""


def placed(
    batches: Batches, target: Target, *, columns: Sequence[str], fields: Sequence[PartitionField]
) -> Batches:
    """Adds the values of the partition fields to given rows.

    Args:
        batches: the given rows.
        columns: the names of their columns.

    Yields:
        The same columns, and the partition fields as columns of `spark_schema`.

    Raises:
        InvalidInputError: a value does not fit its column, or no partition value can be computed from it.
    """
    given, schema = Given(target, columns, whole=True), target.metadata.schema()
    for batch in batches:
        if not batch.num_rows:
            continue
        (rows,) = given.rows([batch]).combine_chunks().to_batches()
        arrays = list(batch.columns)
        for field in fields:
            name = str(schema.find_column_name(field.source_id))
            kind = schema.find_type(field.source_id)
            arrays.append(for_spark(partition_values(field.transform, kind, column_of(rows, name), name)))
        names = [f"k{at}" for at in range(len(fields))]
        yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *names])


def append(batches: Batches, target: Target, *, columns: Sequence[str]) -> Iterator[Report]:
    """Writes given rows as data files.

    Rows of an unpartitioned table are streamed; others are written 128 MiB at a time.

    Args:
        batches: the given rows; rows of one partition are adjacent.
        target: the target.
        columns: names of their columns.

    Raises:
        InvalidInputError: a value does not fit its column.
    """
    given, writer = Given(target, columns, whole=True), new_rows(target)
    stream = target.delta is None and target.metadata.spec().is_unpartitioned()
    n_rows = 0

    def fitted(group: Batches) -> Batches:
        nonlocal n_rows
        for batch in group:
            n_rows += batch.num_rows
            yield from given.rows([batch]).to_batches()

    for group in _groups(batches, stream=stream):
        rows = fitted(group)
        if target.place.dry_run:
            for _ in rows:
                pass
        elif stream:
            yield Report(data_files=writer.write(_reader(rows)))
        else:
            yield Report(data_files=writer.write(pa.Table.from_batches(rows)))
    yield Report(n_inserted=n_rows)


def _groups(batches: Batches, *, stream: bool) -> Iterator[Batches]:
    some = (batch for batch in batches if batch.num_rows)
    if not stream:
        yield from split_by_size(some, GROUP_BYTES, lambda batch: batch.nbytes)
        return
    first = next(some, None)
    if first is not None:
        yield chain([first], some)


def _reader(batches: Batches) -> pa.RecordBatchReader:
    first = next(batches)
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
