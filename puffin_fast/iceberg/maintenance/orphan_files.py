"""Lists the orphan files of a table, and removes them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

from puffin_fast._runtime import FileSet
from puffin_fast._runtime.arguments import check_flags, check_ids
from puffin_fast._runtime.folder import files_below
from puffin_fast._runtime.interrupt import interruptible
from puffin_fast._runtime.threads import check_threads, on_threads
from puffin_fast.errors import CorruptDataError, InvalidInputError, UnsupportedError
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file
from puffin_fast.iceberg.compat.working_table import refresh
from puffin_fast.iceberg.maintenance.removal import check_may_remove, remove_all
from puffin_fast.iceberg.maintenance.snapshot_files import snapshot_files, snapshots_of
from puffin_fast.iceberg.plan.files import metadata_of, snapshot_of

if TYPE_CHECKING:
    from uuid import UUID

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["RemoveOrphanFilesResult", "needed_files", "orphan_files", "remove_orphan_files"]

IN_FLIGHT = timedelta(days=3)
"""Files modified within this time may belong to a commit in progress."""

METADATA_FILE = re.compile(r"(?:^|/)metadata/[^/]+\.metadata\.json(?:\.gz)?$")


SCHEMA = pa.schema([("path", pa.string()), ("n_bytes", pa.int64()), ("modified", pa.timestamp("us", "UTC"))])


def orphan_files(
    table: Table,
    *,
    older_than: timedelta = IN_FLIGHT,
    keep: Iterable[int] | None = None,
    threads: int | None = None,
) -> pa.Table:
    """Lists the files below the table's location that none of its snapshots needs.

    These are files of commits that failed, files of expired snapshots, and Puffin files whose vectors were
    merged or compacted. No file is removed: the caller does that.

    In doubt a file is not listed: if its location may be another spelling of a needed one (see `FileSet`), if
    the filesystem does not report its age, or if it belongs to another table whose metadata is at or below this
    one's location, also to a table that was dropped and created again there. Local links are not followed. Files
    outside of the table's location (``write.data.path``) are not listed.

    A file of another table whose metadata is somewhere else, and whose ``write.data.path`` points below this
    table's location, cannot be recognised: give such tables folders of their own.

    Args:
        table: refreshed first.
        older_than: list only files that were not modified within this time.
        keep: ids of the snapshots to treat as the only ones, to list the files that expiring the others would
            make orphans; all by default. Heads of branches and tags are always included.
        threads: number of manifests read at a time; the number of processors by default.

    Returns:
        ``path`` string (with the scheme of the table's location), ``n_bytes`` int64, ``modified`` timestamp
        in UTC; sorted by path.

    Raises:
        InvalidInputError: `older_than` is not a timedelta.
        NotFoundError: a snapshot of `keep` or a manifest does not exist.
        CorruptDataError: a manifest cannot be read.
        UnsupportedError: the FileIO cannot list files, or the metadata of the table, or of another table in the
            location, cannot be read by PyIceberg.
    """
    check_threads(threads)
    metadata_of(table)
    if not isinstance(older_than, timedelta):
        raise InvalidInputError(f"older_than: expected a timedelta, found {older_than!r}")
    keep = check_ids("keep", keep)
    refresh(table)
    limit = datetime.now(UTC) - older_than
    old = [(path, size, modified) for path, size, modified in _listed(table) if modified and modified < limit]
    refresh(table)  # after the listing: files that were committed since are needed
    needed = FileSet(needed_files(table, _snapshots_to_keep(table, keep), threads))
    unused = [row for row in old if row[0] not in needed]
    others = FileSet(_needed_by_others(table, [path for path, _, _ in unused], threads))
    rows = sorted(row for row in unused if row[0] not in others)
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


@dataclass(frozen=True)
class RemoveOrphanFilesResult:
    """The result of a removal of orphan files.

    Attributes:
        files: the files that were removed, or would be in a dry run: as `orphan_files` returns them.
        n_bytes: their size in bytes.
        not_removed: a sentence for each orphan file that could not be removed.
        seconds: wall time.
        dry_run: True if no file was removed.
    """

    files: pa.Table
    n_bytes: int = 0
    not_removed: tuple[str, ...] = ()
    seconds: float = 0.0
    dry_run: bool = True


def remove_orphan_files(
    table: Table,
    *,
    older_than: timedelta = IN_FLIGHT,
    threads: int | None = None,
    dry_run: bool = True,
) -> RemoveOrphanFilesResult:
    """Removes the files that `orphan_files` lists; unlike other verbs, only with ``dry_run=False``.

    Args:
        table, older_than, threads: as `orphan_files`.
        dry_run: remove nothing, and return what would be removed.

    Raises:
        InvalidInputError, NotFoundError, CorruptDataError: as `orphan_files`.
        UnsupportedError: as `orphan_files`, and if the property ``gc.enabled`` is false.
    """
    started = time.perf_counter()
    check_flags(dry_run=dry_run)
    found = orphan_files(table, older_than=older_than, threads=threads)
    check_may_remove(table)
    not_removed: tuple[str, ...] = ()
    if not dry_run:
        removed = remove_all(table.io, found["path"].to_pylist(), threads)
        found = found.filter(pc.is_in(found["path"], pa.array(removed.paths, pa.string())))
        not_removed = removed.not_removed
    return RemoveOrphanFilesResult(
        files=found,
        n_bytes=pc.sum(found["n_bytes"]).as_py() or 0,
        not_removed=not_removed,
        seconds=time.perf_counter() - started,
        dry_run=dry_run,
    )


def _snapshots_to_keep(table: Table, keep: Iterable[int] | None) -> list[Snapshot]:
    metadata = table.metadata
    for reference in metadata.refs:
        snapshot_of(
            metadata, reference
        )  # raises if the snapshot is missing: its files would be listed as orphans
    if keep is None:
        return list(metadata.snapshots)
    return snapshots_of(metadata, {*keep, *(reference.snapshot_id for reference in metadata.refs.values())})


def needed_files(table: Table, snapshots: Iterable[Snapshot], threads: int | None = None) -> set[str]:
    """Returns the locations of all files that the metadata or one of the snapshots references.

    Args:
        table: the table.
        snapshots: the snapshots whose files are needed.
        threads: number of manifests read at a time; the number of processors by default.
    """
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    found.add(f"{_folder(table.metadata_location)}/version-hint.text")  # of catalogs in a filesystem
    found.update(snapshot_files(table, snapshots, threads))
    return found


def _needed_by_others(table: Table, paths: Iterable[str], threads: int | None) -> set[str]:
    """Returns the files that other tables need whose metadata files are among some paths.

    Raises:
        UnsupportedError: the metadata of another table cannot be read, so its files are not known.
        LimitExceededError: a metadata file is larger than `read_metadata_file` reads.
    """

    def load(path: str) -> tuple[str, TableMetadata | None]:
        try:
            stated = read_metadata_file(table.io, path)
        except (CorruptDataError, InvalidInputError):
            return path, None  # of a writer that was killed
        if stated.get("table-uuid") == str(table.metadata.table_uuid):
            return path, None
        try:
            with interruptible():
                return path, TableMetadataUtil.parse_obj(stated)
        except Exception as error:
            raise UnsupportedError(
                f"{path}: metadata of another table in this table's location that PyIceberg cannot read, so "
                f"its files cannot be told from orphans: {error}"
            ) from error

    found: set[str] = set()
    newest: dict[UUID, tuple[str, TableMetadata]] = {}
    for path, metadata in on_threads(load, [p for p in paths if METADATA_FILE.search(p)], threads):
        if metadata is not None:
            found.add(path)
            before = newest.get(metadata.table_uuid)
            if before is None or before[1].last_updated_ms < metadata.last_updated_ms:
                newest[metadata.table_uuid] = path, metadata
    for path, metadata in newest.values():
        other = Table(table.name(), metadata, path, table.io, table.catalog)
        found |= needed_files(other, metadata.snapshots, threads)
    return found


def _listed(table: Table) -> list[tuple[str, int, datetime | None]]:
    """Location, size and modification time of each file below the table's location, without files of other tables."""
    location = table.location().rstrip("/")
    handle, root = filesystem(table.io, location)
    files = list(files_below(root, filesystem=handle))
    log = (entry.metadata_file for entry in table.metadata.metadata_log)
    own = FileSet([f"{location}/metadata", *map(_folder, (table.metadata_location, *log))])
    metadata = {_folder(file.path) for file in files if METADATA_FILE.search(file.path)}
    others = {f"{_folder(folder)}/" for folder in metadata if f"{location}/{folder}" not in own}
    return [
        (f"{location}/{file.path}", file.n_bytes, file.modified)
        for file in files
        if not others.intersection(_parents(file.path))
    ]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _parents(path: str) -> Iterator[str]:
    """Yields the parent folders of a path, each with a slash at the end."""
    return (path[: at + 1] for at, letter in enumerate(path) if letter == "/")
