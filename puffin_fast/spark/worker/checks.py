"""On executors: a check is called for each of many files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa

from puffin_fast.spark.worker.tasks import items_of, unpack

CHECKED = pa.schema([pa.field("number", pa.int64()), pa.field("found", pa.binary())])
"""The number of an item, and the pickled result of its check."""


def checked(batches: Iterator[pa.RecordBatch], *, check: bytes) -> Iterator[pa.RecordBatch]:
    """Checks items.

    Args:
        batches: one binary column: packed lists of the number of an item and the item.
        check: the packed check.

    Yields:
        rows of `CHECKED`.
    """
    call = unpack(check)
    found = [(number, pickle.dumps(call(item))) for number, item in items_of(batches)]
    if found:
        yield pa.RecordBatch.from_arrays([*map(pa.array, zip(*found, strict=True))], schema=CHECKED)
