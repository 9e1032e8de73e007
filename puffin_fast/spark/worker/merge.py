"""On the executors, after the shuffle: partial vectors, sorted by file, become one vector per file.

A task holds at most ``memory`` bytes of partials, folded per file when full, and gives out every file that
is complete; what stays is one file's union. So its memory is ``memory`` plus a few times the largest vector.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from puffin_fast import arrow
from puffin_fast.errors import InvalidInputError

__all__ = ["VECTORS", "check_vectors", "grouped_union", "in_slices", "merge", "merge_whole"]

VECTORS = "file_path string, blob binary, cardinality long"
"""What `merge` gives back, as Spark's DDL."""

SLICE = 8 << 20
"""Bytes of a batch that goes back to Spark, unless one row alone is larger."""


def in_slices(batch: pa.RecordBatch, limit: int = SLICE) -> Iterator[pa.RecordBatch]:
    """A batch whose second column is binary, in parts that pass ``limit`` bytes by one row at most."""
    if batch.num_rows == 0:
        return
    column = batch.column(1)
    ends = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    starts = np.flatnonzero(np.diff((ends[:-1].astype(np.int64) - int(ends[0])) // limit, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield batch.slice(start, stop - start)


def grouped_union(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One vector per file, with one native call for all of them.

    Args:
        batches: (file_path string, blob binary), at least one; a file may come any number of times. The list
            is emptied, so that each copy on the way frees the one before it.

    Returns:
        (file_path, blob), files in the order in which they first came.
    """
    table = pa.Table.from_batches(batches)
    batches.clear()
    coded = pa.concat_arrays(table["file_path"].chunks).dictionary_encode()
    blobs = pa.concat_arrays(table["blob"].chunks)
    del table
    if len(coded.dictionary) < len(coded):
        codes = coded.indices.to_numpy()
        if np.any(codes[1:] < codes[:-1]):  # what comes from the shuffle is in order
            blobs = blobs.take(pa.array(np.argsort(codes, kind="stable")))
        ends = np.cumsum(np.bincount(codes, minlength=len(coded.dictionary)))
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        blobs = arrow.union(pa.ListArray.from_arrays(offsets, blobs))
    return pa.RecordBatch.from_arrays([coded.dictionary, blobs], ["file_path", "blob"])


def _whole(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows:
        cardinality = arrow.cardinality(batch["blob"])
        yield from in_slices(batch.append_column("cardinality", cardinality))


def merge(batches: Iterator[pa.RecordBatch], *, memory: int) -> Iterator[pa.RecordBatch]:
    """All partial vectors of the files of one task, united.

    Args:
        batches: (file_path string, blob binary); all rows of a file stand together.
        memory: bytes of partial vectors that may be held.

    Yields:
        (file_path string, blob binary, cardinality int64), one row per file.

    Raises:
        CorruptDataError: a blob that is no vector.
    """
    held: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in batches:
        held.append(batch)
        n_bytes += batch.nbytes
        if n_bytes >= memory:
            folded = grouped_union(held)
            yield from _whole(folded.slice(0, folded.num_rows - 1))
            last = folded.slice(folded.num_rows - 1).take(
                pa.array([0])
            )  # a copy: a slice would keep the rest alive
            held, n_bytes = [last], 0
            del folded, last
    if held:
        yield from _whole(grouped_union(held))


def check_vectors(batch: pa.RecordBatch, names: tuple[str, str]) -> None:
    """Refuses nulls in (file_path, blob), naming the column as the caller spells it."""
    for name, column in zip(names, batch.columns, strict=True):
        if column.null_count:
            raise InvalidInputError(f"column {name!r}: expected a value in every row, found null")


def merge_whole(
    batches: Iterator[pa.RecordBatch], *, names: tuple[str, str], memory: int
) -> Iterator[pa.RecordBatch]:
    """`merge` of a caller's vectors, which may hold nulls.

    Raises:
        InvalidInputError: a null.
    """

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            check_vectors(batch, names)
            yield batch

    return merge(checked(), memory=memory)
