"""Columns of entries that no manifest has yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from puffin_fast.iceberg.manifest.columns import FileColumns
from puffin_fast.iceberg.manifest.entries import DATA, DELETES, ManifestEntry
from puffin_fast.iceberg.manifest.reader import read_columns
from puffin_fast.iceberg.manifest.writer import write_manifest

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata


class _Memory(BytesIO):
    """A file in memory, for a writer that takes PyIceberg's file access."""

    def new_output(self, _path: str) -> _Memory:
        return self

    def create(self, *, overwrite: bool) -> _Memory:
        return self

    def close(self) -> None:
        """Does nothing: the bytes are read afterwards."""


def columns_of(metadata: TableMetadata, spec: PartitionSpec, entries: Sequence[ManifestEntry]) -> FileColumns:
    """Returns the columns of entries, as if a manifest had them.

    Args:
        spec: the partition spec of all entries.
        entries: data files, or delete files; at least one, with status added and a sequence number.
    """
    memory: Any = _Memory()
    manifest = write_manifest(
        cast("FileIO", memory),
        "entries in memory",
        metadata=metadata,
        spec=spec,
        content=DATA if entries[0].content == DATA else DELETES,
        snapshot_id=metadata.new_snapshot_id(),
        entries=entries,
    )
    number = max(entry.sequence_number or 0 for entry in entries)
    manifest = replace(manifest, sequence_number=number, min_sequence_number=0)
    return read_columns(memory, manifest, {spec.spec_id: spec}, data=memory.getvalue())
