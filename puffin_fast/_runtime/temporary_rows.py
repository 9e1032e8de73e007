"""Temporary Arrow files of rows that do not fit in memory; compressed, because disks are slower than LZ4."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

__all__ = ["read_rows", "rows_writer"]


def rows_writer(path: Path, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
    """Returns a writer of a new file, as a context manager."""
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    return pa.ipc.new_stream(str(path), schema, options=options)


def read_rows(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file, one at a time."""
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as batches:
        yield from batches
