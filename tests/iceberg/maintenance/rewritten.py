"""Tables, readers and cases that several tests share with `test_rewrite_data_files`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffin_fast import iceberg

if TYPE_CHECKING:
    from pyiceberg.table import Table


LINEAGE = ("*", "_row_id", "_last_updated_sequence_number")


ALL: dict[str, Any] = {"min_deleted": 0.01, "min_input_files": 2}


def lineage(table: Table, **which: Any) -> list[dict[str, Any]]:
    found = iceberg.scan(table, selected_fields=LINEAGE, **which).to_arrow().to_pylist()
    return sorted(found, key=lambda found: found["id"])


def is_sound(table: Table) -> bool:
    kinds = [finding.kind for finding in iceberg.verify(table)]
    return not kinds
