"""Temporary Arrow files of rows that do not fit in memory; compressed, because disks are slower than LZ4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa


@contextmanager
def rows_writer(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatchStreamWriter]:
    """Opens a new file for writing. After an error, the file is closed without an end-of-stream marker."""
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    with pa.OSFile(str(path), "wb") as sink:
        writer = pa.ipc.new_stream(sink, schema, options=options)
        yield writer
        writer.close()


def read_rows(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file, one at a time."""
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as batches:
        yield from batches
