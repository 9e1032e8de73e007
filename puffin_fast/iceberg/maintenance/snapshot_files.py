"""The files of snapshots: manifest lists, manifests, data files, delete files and statistics files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from puffin_fast._concurrency.threads import on_threads
from puffin_fast.errors import NotFoundError
from puffin_fast.iceberg.manifest import ManifestFile, manifests_of, read_manifest
from puffin_fast.iceberg.plan.files import no_snapshot

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

Read = TypeVar("Read")


class SnapshotFile(NamedTuple):
    """What the metadata says of a file.

    Attributes:
        kind: "data file", "delete file", "manifest", "manifest list" or "statistics file".
        n_bytes: its size; 0 for manifest lists, whose size the metadata does not hold.
    """

    kind: str
    n_bytes: int


def snapshots_of(metadata: TableMetadata, snapshot_ids: Collection[int]) -> list[Snapshot]:
    """Returns the snapshots of some ids, in the order of the metadata.

    Raises:
        NotFoundError: there is no such snapshot.
    """
    wanted = set(snapshot_ids)
    found = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in wanted]
    if missing := wanted.difference(snapshot.snapshot_id for snapshot in found):
        raise no_snapshot(metadata, min(missing))
    return found


def snapshot_files(
    table: Table,
    snapshots: Iterable[Snapshot],
    threads: int | None = None,
    *,
    without: Collection[str] = (),
    missing: list[str] | None = None,
) -> dict[str, SnapshotFile]:
    """Returns the files that at least one of some snapshots needs, by location.

    Args:
        table: has the metadata with the statistics files.
        threads: number of files read at a time; the number of processors by default.
        without: locations that are left out; manifests among them are not read.
        missing: takes a sentence for each manifest list and manifest that does not exist, instead of an error.

    Raises:
        NotFoundError: a manifest list or a manifest does not exist.
        CorruptDataError: one of them cannot be read.
    """
    snapshots = list(snapshots)
    snapshot_ids = {snapshot.snapshot_id for snapshot in snapshots}
    found: dict[str, SnapshotFile] = {}

    def unless_missing(read: Callable[[], list[Read]]) -> list[Read]:
        try:
            return read()
        except NotFoundError as error:
            if missing is None:
                raise
            missing.append(str(error))
            return []

    def manifests_in(snapshot: Snapshot) -> list[ManifestFile]:
        return unless_missing(lambda: manifests_of(table.io, snapshot))

    def files_in(manifest: ManifestFile) -> list[tuple[str, SnapshotFile]]:
        entries = unless_missing(lambda: read_manifest(table.io, manifest, table.specs(), metrics=False))
        return [
            (
                entry.file_path,
                SnapshotFile("delete file" if entry.content else "data file", entry.file_size_in_bytes),
            )
            for entry in entries
        ]

    every = {m.path: m for some in on_threads(manifests_in, snapshots, threads) for m in some}
    manifests = [manifest for path, manifest in every.items() if path not in without]
    for pairs in on_threads(files_in, manifests, threads, label="reading manifests"):
        found.update(pairs)
    found.update((manifest.path, SnapshotFile("manifest", manifest.length)) for manifest in manifests)
    found.update((snapshot.manifest_list, SnapshotFile("manifest list", 0)) for snapshot in snapshots)
    for statistics in (*table.metadata.statistics, *table.metadata.partition_statistics):
        if statistics.snapshot_id in snapshot_ids:
            size = SnapshotFile("statistics file", statistics.file_size_in_bytes)
            found[statistics.statistics_path] = size
    return {path: file for path, file in found.items() if path not in without} if without else found
