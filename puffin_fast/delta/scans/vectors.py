"""The deletion vectors of a version as Arrow tables: listed from the log, or read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._io.storage_options import filesystem_of
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import INLINE
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.puffin.vectors import read_ranges
from puffin_fast.rows.deletes.loader import within
from puffin_fast.verbs.listed_deletes import APPLIES, SCHEMA, VECTOR

VECTORS = pa.schema(
    [
        ("file_path", pa.string()),
        ("blob", pa.large_binary()),
        ("cardinality", pa.int64()),
        ("n_rows", pa.int64()),
    ]
)
"""The schema of the result of `vectors`."""


def listed_deletes(base: Snapshot) -> pa.Table:
    """`deletes` of a version."""
    files = plan_files(DeltaTable.of(base)).to_arrow()
    files = files.filter(files["vector_path"].is_valid())
    inline = pc.starts_with(files["vector_path"], INLINE)
    columns = {
        "data_file": files["file_path"],
        "rows": files["n_rows"],
        "kind": pa.repeat(pa.scalar(VECTOR), files.num_rows),
        "state": pa.repeat(pa.scalar(APPLIES), files.num_rows),
        "path": pc.if_else(inline, pa.scalar(None, pa.string()), files["vector_path"]),
        "offset": pc.if_else(inline, pa.scalar(None, pa.int64()), files["offset"]),
        "n_bytes": files["length"],
        "deleted": files["cardinality"],
        "share": pc.divide(files["cardinality"].cast(pa.float64()), files["n_rows"].cast(pa.float64())),
        "sequence_number": pa.nulls(files.num_rows, pa.int64()),
    }
    return pa.table(columns, schema=SCHEMA)


def vectors(
    table: Any,
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Reads and checks all deletion vectors of a version.

    Args:
        table, version, as_of, filesystem, storage_options: as `scan`.

    Returns:
        A row for each data file with a vector: ``file_path``, ``blob`` (`deletion-vector-v1`, as the functions of
        `puffin_fast.arrow` accept it), ``cardinality`` and ``n_rows`` (rows of the file, deleted ones included).

    Raises:
        CorruptDataError: a vector does not agree with its descriptor, or a position is not less than the row count of
            its data file; and all errors of `scan`.

    Examples:
        >>> result = pf.delta.delete(path, "id < 10")
        >>> pf.delta.vectors(path)["cardinality"].to_pylist()
        [10]
    """
    base = _version(table, version, as_of, filesystem, storage_options)
    tasks = plan_files(base)
    files = tasks.to_arrow()
    known = np.flatnonzero(tasks.vectors.exists)
    names = files["vector_path"].combine_chunks().take(pa.array(known)).dictionary_encode()
    numbers, paths = names.indices.to_numpy(), names.dictionary.to_pylist()
    offset, length, cardinality = (
        files[name].combine_chunks().take(pa.array(known)).to_numpy()
        for name in ("offset", "length", "cardinality")
    )
    blobs: list[bytes] = [b""] * len(known)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(paths) + 1))
    for number, path in enumerate(paths):
        own = order[starts[number] : starts[number + 1]]
        ranges = zip(offset[own].tolist(), length[own].tolist(), cardinality[own].tolist(), strict=True)
        for at, bitmap in read_ranges(path, ranges, filesystem=base.snapshot.storage, decode=codec.decode):
            row = int(own[at])
            if bitmap and bitmap.max() >= tasks.n_rows[known[row]]:
                task = tasks[int(known[row])]
                assert task.vector is not None
                within(bitmap, task.data, task.vector)
            blobs[row] = codec.encode(bitmap)
    return pa.table(
        {
            "file_path": files["file_path"].take(pa.array(known)),
            "blob": pa.array(blobs, pa.large_binary()),
            "cardinality": cardinality,
            "n_rows": tasks.n_rows[known],
        },
        schema=VECTORS,
    )


def _version(
    table: Any,
    version: int | None,
    as_of: int | str | datetime | None,
    filesystem: Any,
    storage_options: Mapping[str, str] | None,
) -> DeltaTable:
    filesystem = filesystem_of(table, filesystem, storage_options)
    if not isinstance(table, Snapshot):
        table = snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    return DeltaTable.of(table)
