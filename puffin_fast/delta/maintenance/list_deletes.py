"""Lists the deletion vectors of a version, without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import INLINE
from puffin_fast.delta.log.storage_options import filesystem_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files

SCHEMA = pa.schema(
    [
        ("data_file", pa.string()),
        ("rows", pa.int64()),
        ("kind", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("n_bytes", pa.int64()),
        ("deleted", pa.int64()),
        ("share", pa.float64()),
    ]
)


def deletes(
    table: Any,
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Lists the deletion vectors of a version, from the log.

    Args:
        table, version, as_of, filesystem, storage_options: as `scan`.

    Returns:
        A row for each data file with a vector, with names as `puffin_fast.iceberg.deletes` has them: ``data_file``
        string, ``rows`` int64 (deleted ones included), ``kind`` string (``vector``), ``path`` string (null if the
        vector is in the log itself), ``offset`` and ``n_bytes`` int64 (of the vector), ``deleted`` int64, and
        ``share`` double (``deleted`` as a share of ``rows``).

    Raises:
        PuffinFastError: in the cases of `scan`.

    Examples:
        >>> result = pf.delta.delete(path, "id < 10")
        >>> pf.delta.deletes(path).select(["kind", "deleted", "rows"]).to_pylist()
        [{'kind': 'vector', 'deleted': 10, 'rows': 100}]
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    if not isinstance(table, Snapshot):
        table = snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    files = plan_files(DeltaTable.of(table)).to_arrow()
    files = files.filter(files["vector_path"].is_valid())
    inline = pc.starts_with(files["vector_path"], INLINE)
    columns = [
        files["file_path"],
        files["n_rows"],
        pa.repeat(pa.scalar("vector"), files.num_rows),
        pc.if_else(inline, pa.scalar(None, pa.string()), files["vector_path"]),
        pc.if_else(inline, pa.scalar(None, pa.int64()), files["offset"]),
        files["length"],
        files["cardinality"],
        pc.divide(files["cardinality"].cast(pa.float64()), files["n_rows"].cast(pa.float64())),
    ]
    return pa.table(columns, schema=SCHEMA)
