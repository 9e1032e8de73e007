"""On executors: deletion vectors are decoded to rows (file_path, pos), in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from puffin_fast import arrow
from puffin_fast.dv import iceberg as codec
from puffin_fast.spark.worker.merge import check_vectors

ROWS = 1 << 18
"""Maximum rows of a batch that is returned to Spark, and maximum positions that are decoded at once."""


def explode(batches: Iterator[pa.RecordBatch], *, names: tuple[str, str]) -> Iterator[pa.RecordBatch]:
    """Decodes deletion vectors: many small ones in one call, large ones in parts.

    Args:
        batches: (file_path string, blob binary).
        names: the caller's names of these two columns, for error messages.

    Yields:
        (file_path string, pos int64), at most `ROWS` rows each.
    """
    for batch in batches:
        check_vectors(batch, names)
        paths, blobs = batch.columns
        counts = arrow.cardinality(blobs).to_numpy()
        ends = np.cumsum(counts)
        start = 0
        while start < len(ends):
            if counts[start] > ROWS:
                yield from _large(paths[start], blobs[start])
                start += 1
                continue
            stop = int(np.searchsorted(ends, ends[start] - counts[start] + ROWS, side="right"))
            lists = arrow.decode(blobs[start:stop])
            owners = paths[start:stop].take(lists.value_parent_indices())
            yield pa.RecordBatch.from_arrays([owners, lists.flatten()], ["file_path", "pos"])
            start = stop


def _large(path: pa.Scalar, blob: pa.Scalar) -> Iterator[pa.RecordBatch]:
    """Decodes a vector of more than `ROWS` positions in parts."""
    bitmap = codec.decode(blob.as_py())
    for part in bitmap.split(n_bytes=bitmap.n_bytes, cardinality=ROWS):
        rows = part.to_arrow()
        yield pa.RecordBatch.from_arrays([pa.repeat(path, len(rows)), rows], ["file_path", "pos"])
