"""The metadata of a table as another process needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def without_history(metadata: TableMetadata) -> TableMetadata:
    """The metadata of a table without its history, which readers of data files do not need."""
    history: dict[str, Any] = {
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
        "statistics": [],
    }
    return metadata.model_copy(update=history)
