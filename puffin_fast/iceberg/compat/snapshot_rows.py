"""Tables of Arrow with a row for each of some snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa


def table_of_snapshots(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows with ids of snapshots, which some writers take from all 64 bits: the column is then of type uint64."""
    if any(row["snapshot_id"] >= 1 << 63 for row in rows):
        at = schema.get_field_index("snapshot_id")
        schema = schema.set(at, schema.field(at).with_type(pa.uint64()))
    return pa.Table.from_pylist(rows, schema)
