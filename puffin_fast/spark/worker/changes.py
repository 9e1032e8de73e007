"""On executors: the lines of changes in Arrow types that Spark accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.spark.worker.column_types import converter
from puffin_fast.spark.worker.tasks import items_of, unpack

if TYPE_CHECKING:
    from puffin_fast.rows.changes.lines import ChangeReader
    from puffin_fast.rows.changes.states import CommitChanges


def lines(batches: Iterator[pa.RecordBatch], *, reader: bytes) -> Iterator[pa.RecordBatch]:
    """Reads the lines of one task.

    Args:
        batches: one binary column: packed lists of `CommitChanges`.
        reader: packed `ChangeReader`.
    """
    return lines_of(items_of(batches), reader)


def lines_of(changes: Iterable[CommitChanges], reader: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the lines of commits.

    Args:
        changes: of the commits; rows that may pair are of one of them.
        reader: packed `ChangeReader`.
    """
    read: ChangeReader = unpack(reader)
    steps = [converter(field.type) for field in read.schema]
    for one in changes:
        for batch in read.lines(one):
            columns = [c if s is None else s(c) for c, s in zip(batch.columns, steps, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, read.schema.names)
