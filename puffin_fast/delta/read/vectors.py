"""Reads the deletion vectors of a version as an Arrow table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.read.plan import DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.iceberg.deletes.loader import ReadAhead, within

__all__ = ["VECTORS", "vectors"]

VECTORS = pa.schema(
    [
        ("file_path", pa.string()),
        ("blob", pa.large_binary()),
        ("cardinality", pa.int64()),
        ("n_rows", pa.int64()),
    ]
)
"""The schema of the result of `vectors`."""


def vectors(
    table: Any,
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    filesystem: Any = None,
) -> pa.Table:
    """Reads and checks all deletion vectors of a version.

    Args:
        table, version, as_of, filesystem: as `scan`.

    Returns:
        A row for each data file with a vector: ``file_path``, ``blob`` (`deletion-vector-v1`, as the functions of
        `puffin_fast.arrow` accept it), ``cardinality`` and ``n_rows`` (rows of the file, deleted ones included).

    Raises:
        CorruptDataError: a vector does not agree with its descriptor, or a position is not less than the row count of
            its data file; and all errors of `scan`.
    """
    base = (
        table
        if isinstance(table, Snapshot)
        else snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    )
    tasks = [task for task in plan_files(DeltaTable.of(base)).tasks if task.vector is not None]
    entries = [task.vector for task in tasks if task.vector is not None]
    ahead = ReadAhead(base.storage, entries, counted=True, decode=codec.decode)
    bitmaps = [
        within(ahead.take(entry), task.data, entry) for task, entry in zip(tasks, entries, strict=True)
    ]
    return pa.table(
        {
            "file_path": [task.data.file_path for task in tasks],
            "blob": pa.array([codec.encode(bitmap) for bitmap in bitmaps], pa.large_binary()),
            "cardinality": [len(bitmap) for bitmap in bitmaps],
            "n_rows": [task.data.record_count for task in tasks],
        },
        schema=VECTORS,
    )
