"""Tables, readers and cases that several tests share with `test_updates`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from puffin_fast import iceberg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table


Row = dict[str, Any]


def lineage(table: Table) -> list[Row]:
    names = ("_row_id", "_last_updated_sequence_number") if table.metadata.format_version > 2 else ()
    found: list[Row] = iceberg.scan(table, selected_fields=("*", *names)).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def counts(result: Any) -> Mapping[str, Any]:
    left_out = (
        "snapshot_id",
        "seconds",
        "n_bytes",
        "data_files_written",
        "delete_files_written",
        "explanation",
    )
    return {name: value for name, value in asdict(result).items() if name not in left_out}
