"""Files in a table's folder that no snapshot needs: listed, never removed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from puffin_fast._io import split_location
from puffin_fast.errors import NotFoundError
from puffin_fast.iceberg._job import on_threads
from puffin_fast.iceberg._pyiceberg import filesystem
from puffin_fast.iceberg.manifests import ManifestFile, read_manifest, read_manifest_list

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["key_of_location", "needed_files", "unneeded_files"]

IN_FLIGHT = timedelta(days=3)
"""Younger files may belong to a commit that is still to come."""

SCHEMA = pa.schema([("path", pa.string()), ("n_bytes", pa.int64()), ("modified", pa.timestamp("us", "UTC"))])


def unneeded_files(
    table: Table,
    *,
    older_than: timedelta = IN_FLIGHT,
    keep: Iterable[int] | None = None,
    threads: int | None = None,
) -> pa.Table:
    """Lists the files below the table's folder that none of its snapshots needs.

    These are files of commits that did not happen, files that expired snapshots left behind, and Puffin files
    whose vectors were merged or compacted away. The listing is for those who remove: nothing is removed here.

    Args:
        table: loaded anew first.
        older_than: leave out files modified since then.
        keep: snapshots to take as all there are, to see what expiring the others would set free; by default
            all. Heads of branches and tags are always kept.
        threads: manifests read at a time; the number of processors by default.

    Returns:
        ``path`` string (with the scheme that the table's location has), ``n_bytes`` int64, ``modified``
        timestamp in UTC; by path.

    Raises:
        NotFoundError: a snapshot of `keep` is not there, or a manifest is gone.
        CorruptDataError: a manifest that cannot be read.
        UnsupportedError: a FileIO that cannot list.
    """
    table.refresh()
    needed = {key_of_location(path) for path in needed_files(table, _kept(table, keep), threads)}
    limit = datetime.now(UTC) - older_than
    rows = sorted(
        (path, size, modified)
        for path, size, modified in _listed(table)
        if key_of_location(path) not in needed and (modified is None or modified < limit)
    )
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def _kept(table: Table, keep: Iterable[int] | None) -> list[Snapshot]:
    metadata = table.metadata
    if keep is None:
        return list(metadata.snapshots)
    wanted = {*keep, *(reference.snapshot_id for reference in metadata.refs.values())}
    found = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in wanted]
    if missing := wanted - {snapshot.snapshot_id for snapshot in found}:
        raise NotFoundError(f"no snapshot {min(missing)}: the table has {len(metadata.snapshots)} others")
    return found


def needed_files(table: Table, snapshots: Iterable[Snapshot], threads: int | None = None) -> set[str]:
    """Every location that the metadata or one of the snapshots names."""
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    snapshots = list(snapshots)
    kept = {snapshot.snapshot_id for snapshot in snapshots}
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        if statistics.snapshot_id in kept:
            found.add(statistics.statistics_path)
    manifests: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        manifests.update((m.path, m) for m in read_manifest_list(table.io, snapshot.manifest_list))

    def files(manifest: ManifestFile) -> list[str]:
        return [entry.file_path for entry in read_manifest(table.io, manifest, table.specs(), metrics=False)]

    found |= manifests.keys()
    for paths in on_threads(files, list(manifests.values()), threads):
        found.update(paths)
    return found


def key_of_location(location: str) -> str:
    """The same file whichever way it is spelt: ``file:/x`` and ``/x``, ``s3a://b/x`` and ``s3://b/x``."""
    scheme, authority, path = split_location(location)
    return f"{authority}/{path.lstrip('/')}" if scheme not in ("", "file") else f"/{path.lstrip('/')}"


def _listed(table: Table) -> Iterable[tuple[str, int, datetime | None]]:
    """Location, size and time of each file in the table's folder."""
    location = table.location().rstrip("/")
    handle, root = filesystem(table.io, location)
    if not isinstance(handle, fs.FileSystem):
        handle, root = fs.PyFileSystem(fs.FSSpecHandler(handle)), handle._strip_protocol(root)
    infos: list[Any] = handle.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    for info in infos:
        if info.type == fs.FileType.File:
            yield location + info.path[len(root.rstrip("/")) :], info.size or 0, info.mtime
