"""Lists the orphan files of a table, and removes them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table import Table

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import FileSet
from puffin_fast._io.folder import files_below
from puffin_fast.errors import (
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
)
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.locations import DATA_PATH, METADATA_PATH
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file
from puffin_fast.iceberg.maintenance.removal import check_may_remove, is_metadata_file, path_below, remove_all
from puffin_fast.iceberg.maintenance.snapshot_files import snapshot_files, snapshots_of
from puffin_fast.iceberg.maintenance.unknown_metadata import (
    Listed,
    check_newest,
    metadata_folders,
    parsed_metadata,
    unknown_metadata,
)
from puffin_fast.iceberg.plan.files import metadata_of, snapshot_of
from puffin_fast.verbs.remove_orphan_files import (
    RemoveOrphanFilesResult,
    modified_before,
    orphan_table,
)

if TYPE_CHECKING:
    from uuid import UUID

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_LOG = logging.getLogger(__name__)

OTHER_FORMAT = re.compile(r"(?:^|/)(?:_delta_log/|\.hoodie/|_versions/|snapshot/snapshot-\d+$)")
"""A file of the log of a table of Delta, Hudi, Lance or Paimon. The table's folder is the text before the match."""

MAX_LISTINGS = 20


def orphans(
    table: Table, older_than: timedelta, keep: Collection[int] | None, threads: int | None
) -> pa.Table:
    """The files of `orphan_files`, with its arguments."""
    metadata_of(table)
    limit = modified_before(older_than)
    table = WorkingTable(table)
    table.load()
    table.complete()
    listed, of_others = _by_owner(table)
    table.load()  # after the listing: files that were committed since are needed
    table.complete()
    table.publish()
    needed = FileSet(needed_files(table, _snapshots_to_keep(table, keep), threads))
    unused = [
        (path, size, modified)
        for path, size, modified in listed
        if modified and modified < limit and path not in needed
    ]
    others = FileSet(())
    if unused:
        unknown = files_of_unknown(table, threads, below=(*listed, *of_others))
        others = FileSet(_needed_by_others(table, listed, needed, threads) | unknown)
    return orphan_table(row for row in unused if row[0] not in others)


def remove_orphans(
    table: Table, older_than: timedelta, threads: int | None, dry_run: bool
) -> RemoveOrphanFilesResult:
    """`remove_orphan_files` with checked arguments."""
    started = time.perf_counter()
    found = orphans(table, older_than, None, threads)
    check_may_remove(table)
    check_newest(WorkingTable(table), threads)
    if dry_run:
        return RemoveOrphanFilesResult.of(found, started)
    removed = remove_all(table.io, found["path"].to_pylist(), threads)
    return RemoveOrphanFilesResult.of(found, started, removed.paths, removed.not_removed)


def _snapshots_to_keep(table: Table, keep: Iterable[int] | None) -> list[Snapshot]:
    metadata = table.metadata
    for reference in metadata.refs:
        snapshot_of(
            metadata, reference
        )  # raises if the snapshot is missing: its files would be listed as orphans
    if keep is None:
        return list(metadata.snapshots)
    return snapshots_of(metadata, {*keep, *(reference.snapshot_id for reference in metadata.refs.values())})


def needed_files(
    table: Table,
    snapshots: Iterable[Snapshot],
    threads: int | None = None,
    *,
    missing: list[str] | None = None,
) -> set[str]:
    """Returns the locations of all files that the metadata or one of the snapshots references.

    Args:
        snapshots: the snapshots whose files are needed.
        threads: number of manifests read at a time; the number of processors by default.
        missing: as for `snapshot_files`.
    """
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    found.add(f"{_folder(table.metadata_location)}/version-hint.text")  # of catalogs in a filesystem
    found.update(snapshot_files(table, snapshots, threads, missing=missing))
    return found


def files_of_unknown(
    table: Table, threads: int | None = None, *, below: Iterable[Listed] | None = None
) -> set[str]:
    """Returns the files that `unknown_metadata` needs, all snapshots of each; takes its arguments."""
    found: set[str] = set()
    for path, metadata in unknown_metadata(table, threads, below=below).items():
        _LOG.warning(
            "%s: metadata of this table that its catalog does not have, of another catalog or of a commit that failed: "
            "the files that it needs are kept. Remove it if it is certain that no catalog has it",
            path,
        )
        other = Table(table.name(), metadata, path, table.io, table.catalog)
        found |= needed_files(other, (), threads)
        found.update(snapshot_files(other, metadata.snapshots, threads, without=found, missing=[]))
    return found


def _needed_by_others(
    table: Table, listed: Iterable[Listed], needed: FileSet, threads: int | None
) -> set[str]:
    """Returns the files that other tables need whose metadata files are among the listed files.

    Metadata files of any age are read: the newest one of another table may be younger than the files that it needs, and
    an older one the state of another catalog, which needs the files of its snapshots.

    Args:
        table: its files are left out.
        listed: as `_listed` returns them.
        needed: the files that the table needs.
        threads: number of files read at a time.

    Raises:
        UnsupportedError: the metadata of another table cannot be read, so its files are not known.
        LimitExceededError: a metadata file is larger than `read_metadata_file` reads.
        ConflictError: metadata files were removed after each of `MAX_LISTINGS` listings.
    """

    def load(path: str) -> tuple[str, TableMetadata | None, bool]:
        try:
            stated = read_metadata_file(table.io, path)
        except NotFoundError:
            return path, None, False
        except (CorruptDataError, InvalidInputError):
            return path, None, True  # its writer was killed
        if stated.get("table-uuid") == str(table.metadata.table_uuid):
            return path, None, True
        return path, parsed_metadata(path, stated), True

    found: set[str] = set()
    read: set[str] = set()
    newest: dict[UUID, tuple[str, TableMetadata]] = {}
    known: set[str] = set()
    older: list[tuple[str, TableMetadata]] = []
    for _ in range(MAX_LISTINGS):
        paths = [path for path, _, _ in listed if is_metadata_file(path) and path not in read]
        is_complete = True
        for path, metadata, exists in on_threads(load, [p for p in paths if p not in needed], threads):
            is_complete &= exists
            if metadata is not None:
                found.add(path)
                before = newest.get(metadata.table_uuid)
                if before is None or before[1].last_updated_ms < metadata.last_updated_ms:
                    newest[metadata.table_uuid] = path, metadata
                own = [snapshot for snapshot in metadata.snapshots if snapshot.manifest_list not in known]
                if own:  # few: a metadata file repeats the snapshots of the one before it
                    known.update(snapshot.manifest_list for snapshot in own)
                    older.append((path, metadata.model_copy(update={"snapshots": own})))
        if is_complete:
            break
        read.update(paths)
        listed = _listed(table)  # a commit that removes a metadata file has written another one before
    else:
        raise ConflictError(f"{table.location()}: other commits removed metadata files after each listing")
    for path, metadata in newest.values():
        other = Table(table.name(), metadata, path, table.io, table.catalog)
        found |= needed_files(other, metadata.snapshots, threads)
    for path, metadata in older:
        other = Table(table.name(), metadata, path, table.io, table.catalog)
        some = [snapshot for snapshot in metadata.snapshots if snapshot.manifest_list not in found]
        found.update(
            snapshot_files(other, some, threads, without=found, missing=[])
        )  # some snapshots have expired
    return found


def files_of_others(table: Table) -> FileSet:
    """Returns the files below the table's location that are in the folder of another table.

    A table in the same folder counts, as that of `puffin_fast.delta.from_iceberg`: all but metadata files are its.

    Raises:
        UnsupportedError: the FileIO cannot list files.
    """
    return FileSet(path for path, _, _ in _by_owner(table)[1])


def _listed(table: Table) -> list[Listed]:
    """Lists the files below the table's location, without files of tables in other folders."""
    return _by_owner(table)[0]


def _by_owner(table: Table) -> tuple[list[Listed], list[Listed]]:
    """Lists the files below the table's location: its own, and those of other tables."""
    location = table.location().rstrip("/")
    handle, root = filesystem(table.io, location)
    files = list(files_below(root, filesystem=handle))
    own = FileSet(metadata_folders(table))
    metadata = {_folder(file.path): file.path for file in files if is_metadata_file(file.path)}
    foreign = {folder: path for folder, path in metadata.items() if f"{location}/{folder}" not in own}
    # a table's folder is the one above that of its metadata, unless its metadata has another one
    others = {f"{folder}/" for folder in (*foreign, *map(_folder, foreign)) if folder}
    paths = [f"{location}/{path}" for path in foreign.values()]
    for stated in on_threads(lambda path: _stated_folders(table.io, path), paths, None):
        within = (path_below(folder, location) for folder in stated)
        others.update(f"{folder}/" for folder in within if folder)
    logs = {file.path[: log.start()] for file in files if (log := OTHER_FORMAT.search(file.path))}
    others.update(f"{folder}/" for folder in logs if folder)

    def is_own(path: str) -> bool:
        if "" in logs and f"{location}/{_folder(path)}" not in own:
            return False
        return others.isdisjoint(_parents(path))

    found: tuple[list[Listed], list[Listed]] = ([], [])
    for file in files:
        found[not is_own(file.path)].append((f"{location}/{file.path}", file.n_bytes, file.modified))
    return found


def _stated_folders(io: FileIO, path: str) -> list[str]:
    """Returns the folders that a metadata file states; none if it cannot be read."""
    try:
        stated = read_metadata_file(io, path)
    except (CorruptDataError, InvalidInputError, LimitExceededError, NotFoundError):
        return []
    properties = stated.get("properties")
    values = properties if isinstance(properties, dict) else {}
    folders = [stated.get("location"), values.get(DATA_PATH), values.get(METADATA_PATH)]
    return [folder for folder in folders if isinstance(folder, str)]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _parents(path: str) -> Iterator[str]:
    """Yields the parent folders of a path, each with a slash at the end."""
    return (path[: at + 1] for at, letter in enumerate(path) if letter == "/")
