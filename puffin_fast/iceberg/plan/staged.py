"""A snapshot that is not committed: the head of a branch with the files that a transaction adds and removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import PrivateAttr
from pyiceberg.table.snapshots import Snapshot

from puffin_fast.iceberg.manifest import (
    DATA,
    Key,
    ManifestEntry,
    ManifestFile,
    key_of,
    manifests_of,
    read_many,
)
from puffin_fast.iceberg.manifest.columns import FileColumns, Paths, Select
from puffin_fast.iceberg.manifest.new_entries import columns_of
from puffin_fast.iceberg.manifest.reader import Fetched

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of a snapshot: those of committed manifests, without some and with others if it is staged.

    Attributes:
        base: the committed snapshot; None if there is none.
        added: new files. Their rows have no row ids yet: the commit assigns them.
        removed: files of the base that are no longer live.
    """

    base: Snapshot | None
    added: tuple[ManifestEntry, ...] = ()
    removed: frozenset[Key] = frozenset()

    def manifests(self, io: FileIO) -> list[ManifestFile]:
        """Returns the manifests of the committed snapshot."""
        return [] if self.base is None else manifests_of(io, self.base)

    def live(
        self,
        table: Table,
        manifests: Sequence[ManifestFile],
        *,
        data: bool,
        metrics: bool = False,
        bounds: bool = False,
        select: Select | None = None,
        fetched: Fetched | None = None,
    ) -> Iterator[FileColumns]:
        """Yields the live files of manifests, and those that are added.

        Args:
            table: whose snapshot it is.
            manifests: the manifests of the committed snapshot.
            data: whether these have data files; delete files otherwise.
            metrics, bounds, select: as for `read_columns`.
            fetched: as for `read_many`.
        """
        removed = Paths(path for path, _ in self.removed)
        for files in read_many(
            table.io,
            manifests,
            table.specs(),
            metrics=metrics,
            bounds=bounds,
            select=select,
            fetched=fetched,
        ):
            yield self._remaining(files, removed) if self.removed else files
        added = [entry for entry in self.added if (entry.content == DATA) == data]
        for spec_id in dict.fromkeys(entry.spec_id for entry in added):
            some = [entry for entry in added if entry.spec_id == spec_id]
            files = columns_of(table.metadata, table.specs()[spec_id], some)
            yield files if select is None else files.take(select.chosen(files))

    def _remaining(self, files: FileColumns, removed: Paths) -> FileColumns:
        rows = np.flatnonzero(removed.among(files))
        gone = [key_of(entry) in self.removed for entry in files.take(rows).entries()]
        remains = np.ones(len(files), np.bool_)
        remains[rows[np.array(gone, np.bool_)]] = False
        return files.take(remains)


class StagedSnapshot(Snapshot):
    """A snapshot without a manifest list: `files_of` returns its files."""

    _files: SnapshotFiles = PrivateAttr(default=SnapshotFiles(None))

    @classmethod
    def on(
        cls,
        base: Snapshot | None,
        metadata: TableMetadata,
        added: Iterable[ManifestEntry],
        removed: Iterable[ManifestEntry],
    ) -> StagedSnapshot:
        """Makes the snapshot that a commit of these files would make.

        Args:
            base: the head that the changes were planned on; None for an empty branch.
            metadata: the metadata of the table. New files get the sequence number that its next commit has.
            added: new entries, whose inherited fields are None.
            removed: entries of the base.
        """
        number = metadata.next_sequence_number()
        staged = cls.model_validate(
            {
                "snapshot-id": metadata.new_snapshot_id(),
                "parent-snapshot-id": None if base is None else base.snapshot_id,
                "sequence-number": number,
                "manifest-list": "",
                "schema-id": metadata.current_schema_id,
            }
        )
        new = tuple(replace(entry, sequence_number=number, file_sequence_number=number) for entry in added)
        staged._files = SnapshotFiles(base, new, frozenset(map(key_of, removed)))
        return staged


def files_of(snapshot: Snapshot) -> SnapshotFiles:
    """Returns the files of a snapshot, staged or committed."""
    return snapshot._files if isinstance(snapshot, StagedSnapshot) else SnapshotFiles(snapshot)
