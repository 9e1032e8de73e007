"""On executors, after the shuffle: the partial vectors of each data file are united into one deletion vector.

Partial vectors arrive sorted by data file. A task buffers at most ``memory`` bytes of them. When the buffer is
full, the partial vectors of each file are united and all files but the last, which may continue, are returned.
Peak memory is ``memory`` plus a few times the largest deletion vector.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from puffin_fast import arrow
from puffin_fast.dv.conversion import SAME, convert
from puffin_fast.errors import InvalidInputError

VECTORS = pa.schema([("file_path", pa.string()), ("blob", pa.binary()), ("cardinality", pa.int64())])
"""The rows that `merge` returns."""

SLICE = 8 << 20
"""Largest batch that is returned to Spark, in bytes; a single larger row is a batch of its own."""


def in_slices(batch: pa.RecordBatch, limit: int = SLICE) -> Iterator[pa.RecordBatch]:
    """Splits a batch whose second column is binary into parts of ``limit`` bytes, plus at most one row."""
    if batch.num_rows == 0:
        return
    column = batch.column(1)
    ends = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    starts = np.flatnonzero(np.diff((ends[:-1].astype(np.int64) - int(ends[0])) // limit, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield batch.slice(start, stop - start)


def grouped_union(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Unites the vectors of each data file, with one native call for all files.

    Args:
        batches: (file_path string, blob binary), at least one; a data file may occur any number of times. The
            list is emptied, so that the memory of each copy is freed as soon as the next copy is made.

    Returns:
        (file_path, blob): one row per data file, in the order of their first occurrence.
    """
    table = pa.Table.from_batches(batches)
    batches.clear()
    coded = pa.concat_arrays(table["file_path"].chunks).dictionary_encode()
    blobs = pa.concat_arrays(table["blob"].chunks)
    del table
    if len(coded.dictionary) < len(coded):
        codes = coded.indices.to_numpy()
        if np.any(codes[1:] < codes[:-1]):  # rows from the shuffle are in order
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
    """Unites the partial vectors of each data file of one task.

    Args:
        batches: (file_path string, blob binary); all rows of a data file are adjacent.
        memory: limit of the buffer of partial vectors, in bytes.

    Yields:
        (file_path string, blob binary, cardinality int64), one row per data file.

    Raises:
        CorruptDataError: a blob is not a valid deletion vector.
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
            )  # a copy, because a slice would keep the memory of the whole batch
            held, n_bytes = [last], 0
            del folded, last
    if held:
        yield from _whole(grouped_union(held))


def merge_into(batches: Iterator[pa.RecordBatch], *, memory: int, format: str) -> Iterator[pa.RecordBatch]:
    """`merge`, with the vectors in another format (see `puffin_fast.dv.convert`).

    Raises:
        LimitExceededError: a position that the format cannot hold.
    """
    for batch in merge(batches, memory=memory):
        if format not in SAME:
            blobs = [convert(blob, "iceberg", format) for blob in batch["blob"].to_pylist()]
            batch = batch.set_column(1, "blob", pa.array(blobs, pa.binary()))
        yield batch


def check_vectors(batch: pa.RecordBatch, names: tuple[str, str]) -> None:
    """Raises InvalidInputError where (file_path, blob) has a null; ``names`` are the caller's names of the columns."""
    for name, column in zip(names, batch.columns, strict=True):
        if column.null_count:
            raise InvalidInputError(f"column {name!r}: expected a value in every row, found null")


def merge_whole(
    batches: Iterator[pa.RecordBatch], *, names: tuple[str, str], memory: int
) -> Iterator[pa.RecordBatch]:
    """`merge` for vectors of the caller, which are checked for nulls first.

    Raises:
        InvalidInputError: a null.
    """

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            check_vectors(batch, names)
            yield batch

    return merge(checked(), memory=memory)
