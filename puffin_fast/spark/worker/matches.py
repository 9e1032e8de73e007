"""On executors: the rows of data files that have the key of a given row, for a driver that has few such rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast.rows.match.matching import find_matches
from puffin_fast.spark.worker.tasks import Target, items_of, unpack

if TYPE_CHECKING:
    from puffin_fast.rows.match.matching import Source

MATCHES = pa.schema(
    [
        pa.field("file", pa.int32()),
        pa.field("pos", pa.int64()),
        pa.field("source", pa.int32()),
        pa.field("same", pa.bool_()),
        pa.field("row_id", pa.int64()),
    ]
)
"""The columns of `Matches`."""

MOST = 1 << 20
"""A task reports this number of rows, and more if there are more given rows."""

MANY = -1
"""The number in place of a data file that says that a task found more rows than it reports."""


def matches(
    batches: Iterator[pa.RecordBatch], *, target: bytes, source: bytes, compared: bool
) -> Iterator[pa.RecordBatch]:
    """Finds the rows of data files that have a given key.

    Args:
        batches: one binary column: packed lists of the number of a data file and its task.
        target: packed `Target`.
        source: packed `Source`.
        compared: as for `find_matches`.

    Yields:
        rows of `MATCHES`; one row with the number `MANY` if they would be too many for the driver.
    """
    part: Target = unpack(target)
    given: Source = unpack(source)
    numbers, tasks = zip(*items_of(batches), strict=True)
    found = find_matches(
        tasks,
        given,
        part.metadata.schema().fields,
        part.reader_factory(given.keys),
        compared=compared,
        row_ids=bool(part.lineage),
        threads=1,
        current=part.loader(),
    )
    if len(found.file) > max(MOST, 2 * given.n_keys):
        yield pa.RecordBatch.from_pylist([{"file": MANY}], MATCHES)
        return
    file = np.array(numbers, np.int32)[found.file]
    arrays = [file, found.position, found.source, found.same, found.row_id]
    yield pa.RecordBatch.from_arrays([pa.array(one) for one in arrays], schema=MATCHES)
