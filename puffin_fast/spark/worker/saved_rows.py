"""On executors: rows of a DataFrame are written to files of the run, and read again.

A file is a compressed stream of Arrow IPC, named as `Place.paths` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from puffin_fast._io import open_sink, open_source
from puffin_fast._run.groups import split_by_size
from puffin_fast.spark.worker.rows import SAVED, ReportRow, report_rows
from puffin_fast.spark.worker.tasks import Target, items_of, unpack

Batches = Iterator[pa.RecordBatch]

FILE_BYTES = 32 << 20
"""Bytes of rows in a file. A task holds these rows and their compressed form."""


class SavedFile(NamedTuple):
    """A file of rows, and its size in bytes."""

    path: str
    n_bytes: int


def save(batches: Batches, *, target: bytes) -> Batches:
    """Writes the rows of one task; yields rows of `REPORT`."""
    part: Target = unpack(target)
    path_of = part.place.paths(".arrow")
    some = (batch for batch in batches if batch.num_rows)
    for number, group in enumerate(split_by_size(some, FILE_BYTES, lambda batch: batch.nbytes)):
        data, path = _encoded(group), path_of(number)
        open_sink(path, filesystem=_filesystem(part)).write_file(data)
        yield from report_rows([ReportRow(SAVED, path=path, file_size=data.size)])


def _encoded(batches: Batches) -> pa.Buffer:
    first, sink = next(batches), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    with pa.ipc.new_stream(sink, first.schema, options=options) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def load(batches: Batches, *, target: bytes) -> Batches:
    """Yields the rows of the files of one task.

    Args:
        batches: one binary column: packed lists of `SavedFile`.
        target: packed `Target`.
    """
    part: Target = unpack(target)
    for path, n_bytes in items_of(batches):
        with open_source(path, filesystem=_filesystem(part), size=n_bytes) as source:
            yield from pa.ipc.open_stream(source.read_at(0, n_bytes))


def _filesystem(part: Target) -> Any:
    """Returns the filesystem for the files of the run: the FileIO of a Delta table cannot write."""
    return part.io.filesystem if part.place.records else part.io  # type: ignore[attr-defined]
