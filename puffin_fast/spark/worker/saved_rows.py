"""On executors: rows of a DataFrame are written to files of the run, and read again.

A file is a compressed stream of Arrow IPC, named as `RunFolder` does. Few rows are sent to the driver instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._io import open_sink, open_source
from puffin_fast.spark.session.executor_calls import Batches, items_of
from puffin_fast.spark.worker.reports import Report, SavedRows
from puffin_fast.spark.worker.tasks import Target

FILE_BYTES = 32 << 20
"""Bytes of rows in a file. A task holds these rows and their compressed form."""


SENT_BYTES = 64 << 10
"""Bytes of a compressed stream that a task sends to the driver in place of a file; a job may have many tasks."""


def save(batches: Batches, target: Target) -> Iterator[Report]:
    """Writes the rows of one task, or sends them if they are few."""
    name = target.place.folder.names()
    some = (batch for batch in batches if batch.num_rows)
    for number, group in enumerate(split_by_size(some, FILE_BYTES, lambda batch: batch.nbytes)):
        rows = list(group)
        data = encoded(rows)
        n_rows, n_bytes = sum(batch.num_rows for batch in rows), sum(batch.nbytes for batch in rows)
        saved = SavedRows(None, data.size, n_rows, n_bytes)
        if number == 0 and data.size <= SENT_BYTES:
            saved = saved._replace(data=data.to_pybytes())
        elif not target.place.dry_run:
            path = name(".arrow")
            open_sink(path, filesystem=_filesystem(target)).write_file(data)
            saved = saved._replace(path=path)
        yield Report(saved=[saved])


def encoded(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Returns at least one batch as a compressed stream of Arrow IPC."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def load(batches: Batches, target: Target) -> Batches:
    """Yields the rows of one task.

    Args:
        batches: one binary column: packed lists of `SavedRows`.
    """
    return rows_of(target, items_of(batches))


def rows_of(part: Target, items: Iterable[SavedRows]) -> Batches:
    """Yields saved rows."""
    for one in items:
        if one.data is not None:
            yield from pa.ipc.open_stream(one.data)
            continue
        assert one.path is not None, "nothing is saved in a dry run"
        with open_source(one.path, filesystem=_filesystem(part), size=one.file_size) as source:
            yield from pa.ipc.open_stream(source.read_at(0, one.file_size))


def _filesystem(part: Target) -> Any:
    """Returns the filesystem for the files of the run: the FileIO of a Delta table cannot write."""
    return part.io.filesystem if part.place.records else part.io  # type: ignore[attr-defined]
