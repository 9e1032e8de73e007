"""What two workers have in common after the same job: the result, the rows and their lineage."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from puffin_fast import iceberg

if TYPE_CHECKING:
    from pyiceberg.table import Table

HIDDEN = ("id", "snapshot_id", "seconds", "files", "n_bytes", "explanation")


def facts(result: Any, *others: str) -> dict[str, Any]:
    """The fields of a result that do not depend on the distribution of the work.

    Args:
        result: of a verb or of a job.
        others: fields that depend on it, beside `HIDDEN`.
    """
    fields = asdict(result)
    fields |= fields.pop("commit", {})
    return {name: value for name, value in fields.items() if name not in (*HIDDEN, *others)}


def lineage(table: Table) -> list[dict[str, Any]]:
    """The rows with their lineage, which tables of version 2 do not have."""
    names = ("_row_id", "_last_updated_sequence_number") if table.metadata.format_version > 2 else ()
    found: list[dict[str, Any]] = iceberg.scan(table, selected_fields=("*", *names)).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])
