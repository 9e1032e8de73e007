"""Metadata of a table that its catalog does not have: the table is registered in another catalog, too.

Metadata of a commit in progress, or of one whose writer was killed, cannot be told from it before another commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import FileSet
from puffin_fast._io.folder import files_below
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast.errors import (
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from puffin_fast.iceberg.commit.protocol import attempts
from puffin_fast.iceberg.compat.filesystem import filesystem
from puffin_fast.iceberg.compat.metadata_file import read_metadata_file
from puffin_fast.iceberg.maintenance.removal import is_metadata_file, path_below

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable


def metadata_folders(table: Table) -> set[str]:
    """Returns the folders of a table's metadata files."""
    older = (entry.metadata_file for entry in table.metadata.metadata_log)
    folders = {path.rpartition("/")[0] for path in (table.metadata_location, *older)}
    return {f"{table.location().rstrip('/')}/metadata", *folders}


Listed = tuple[str, int, datetime | None]
"""Location, size and modification time of a file."""


def unknown_metadata(
    table: Table, threads: int | None = None, *, below: Iterable[Listed] | None = None
) -> dict[str, TableMetadata]:
    """Returns the table's metadata that is not known to be an earlier state of its catalog's, by its file.

    Known are the files of the metadata log, those of the log of its oldest file, and so on. A state of another catalog
    is in none of these logs, whatever its age and its snapshots. In doubt, as after a metadata file in between was
    removed, a file is unknown. The table's location and the folders of its metadata are searched: metadata in other
    places is not found.

    Args:
        table: the table, with the newest and complete metadata of its catalog.
        threads: number of files read at a time; the number of processors by default.
        below: the files below the table's location, listed before its metadata was loaded; None: they are listed.

    Raises:
        UnsupportedError: the FileIO cannot list files, or PyIceberg cannot read such a file.
    """
    location = table.location().rstrip("/")  # another catalog may have another write.metadata.path
    outside = (folder for folder in metadata_folders(table) if path_below(folder, location) is None)
    listed = (
        files_in(table, location) if below is None else below,
        *map(partial(files_in, table), sorted(outside)),
    )
    paths = list(dict.fromkeys(path for files in listed for path, _, _ in files if is_metadata_file(path)))
    for log in _logs(table):
        known = FileSet(log)
        paths = [path for path in paths if path not in known]
        if not paths:
            return {}
    found = zip(paths, on_threads(partial(_stated, table), paths, threads), strict=True)
    return {path: parsed_metadata(path, stated) for path, stated in found if stated is not None}


def _logs(table: Table) -> Iterator[list[str]]:
    """Yields the catalog's metadata file with its log, then the log of the oldest file in it that exists, and so on.

    A log is a part of its predecessor's and the predecessor itself, so the oldest file leads to all before it.
    """
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    yield [table.metadata_location, *log]
    seen = {table.metadata_location, *log}
    while log:
        documents = (_stated(table, path) for path in log)
        oldest = next((stated for stated in documents if stated is not None), {})
        entries = oldest.get("metadata-log")
        files = (entry.get("metadata-file") for entry in entries or () if isinstance(entry, dict))
        log = [file for file in files if isinstance(file, str) and file not in seen]
        seen.update(log)
        yield log


def _stated(table: Table, path: str) -> dict[str, Any] | None:
    """Returns the document of a metadata file; None if it is not complete, does not exist or is of another table."""
    try:
        stated = read_metadata_file(table.io, path)
    except (
        CorruptDataError,
        InvalidInputError,
        NotFoundError,
    ):  # its writer was killed, or the file was removed since
        return None
    return stated if stated.get("table-uuid") == str(table.metadata.table_uuid) else None


def _is_newer(other: TableMetadata, table: Table) -> bool:
    """Returns whether unknown metadata is newer than the catalog's, or follows other commits since its log begins."""
    metadata = table.metadata
    if _age(other) > _age(metadata) or other.last_updated_ms > metadata.last_updated_ms:
        return True
    log = {entry.metadata_file: entry.timestamp_ms for entry in metadata.metadata_log}
    oldest_ms = min((*log.values(), metadata.last_updated_ms))
    known = FileSet((table.metadata_location, *log))
    later = (entry for entry in other.metadata_log if entry.timestamp_ms > oldest_ms)
    return any(entry.metadata_file not in known for entry in later)


def files_in(table: Table, folder: str) -> Iterator[Listed]:
    """Lists the files below a folder."""
    handle, root = filesystem(table.io, folder)
    for file in files_below(root, filesystem=handle):
        yield f"{folder}/{file.path}", file.n_bytes, file.modified


def check_newest(table: WorkingTable, threads: int | None) -> None:
    """Checks that no metadata in the table's location is newer than its catalog's; waits for commits in progress.

    Raises:
        ConflictError: there is such metadata.
    """
    for _ in attempts(table.properties):
        table.load()
        table.complete()
        unknown = unknown_metadata(table, threads)
        newer = [path for path, other in unknown.items() if _is_newer(other, table)]
        if not newer:
            return
    raise ConflictError(
        f"{table.shown}: no file was removed: {', '.join(sorted(newer))} is metadata of this table that follows other "
        f"commits than those up to {table.metadata_location}, which the catalog has. Is the table in another catalog, "
        "too? If not, the writer was killed: repeat its job, or remove this metadata file once it is certain that no "
        "catalog has it"
    )


def parsed_metadata(path: str, stated: dict[str, Any]) -> TableMetadata:
    """Parses the document of a metadata file that is not the table's.

    Raises:
        UnsupportedError: PyIceberg cannot read it, so the files that it needs are not known.
    """
    try:
        with interruptible():
            return TableMetadataUtil.parse_obj(stated)
    except Exception as error:
        if is_from_outside(error):
            raise
        raise UnsupportedError(
            f"{path}: metadata in this table's location that PyIceberg cannot read, so "
            f"its files cannot be told from orphans: {error}"
        ) from error


def _age(metadata: TableMetadata) -> int:
    return getattr(metadata, "last_sequence_number", 0)
