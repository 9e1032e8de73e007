"""Lists the files in a Delta table's folder that no version needs, and removes them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa

from puffin_fast._concurrency.threads import on_threads
from puffin_fast._io import FileSet
from puffin_fast._io.folder import FileInfo
from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast.delta.dml.data_files import CHANGES_FOLDER
from puffin_fast.delta.log.actions import FileActions, check_paths, read_commits, read_file_changes
from puffin_fast.delta.log.checkpoint import read_checkpoint, sidecars_of
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.snapshot import load_snapshot
from puffin_fast.delta.log.storage import INLINE, LOG_FOLDER, TableStorage
from puffin_fast.delta.scans.descriptors import path_of
from puffin_fast.verbs.remove_orphan_files import (
    RemoveOrphanFilesResult,
    modified_before,
    orphan_table,
)

_LOG = logging.getLogger(__name__)


def orphans(storage: TableStorage, older_than: timedelta) -> pa.Table:
    """The files of `orphan_files`.

    A file is needed if a commit or checkpoint in the log refers to it, as an added or removed data file, file of
    vectors, file of the change data feed or sidecar.
    """
    limit = modified_before(older_than)
    files = list(storage.files())
    others = {file.path.partition(f"/{LOG_FOLDER}/")[0] for file in files if f"/{LOG_FOLDER}/" in file.path}
    old = [
        (f"{storage.root}/{file.path}", file.n_bytes, file.modified)
        for file in files
        if file.modified is not None
        and file.modified < limit
        and not _is_hidden(file.path)
        and not any(file.path.startswith(f"{folder}/") for folder in others)
    ]
    # read after the listing, so that files of concurrent commits are not listed
    needed = FileSet(needed_files(storage) | (_feed(storage) if any(map(_is_feed, files)) else set()))
    return orphan_table(row for row in old if row[0] not in needed)


def remove_orphans(
    storage: TableStorage, older_than: timedelta, threads: int | None, dry_run: bool
) -> RemoveOrphanFilesResult:
    """`remove_orphan_files` with checked arguments."""
    started = time.perf_counter()
    found = orphans(storage, older_than)
    if dry_run:
        return RemoveOrphanFilesResult.of(found, started)
    paths = found["path"].to_pylist()
    errors = [*on_threads(lambda path: _removed(storage, path), paths, threads, label="removing files")]
    removed = [path for path, error in zip(paths, errors, strict=True) if error is None]
    return RemoveOrphanFilesResult.of(found, started, removed, [*filter(None, errors)])


def _removed(storage: TableStorage, location: str) -> str | None:
    """Removes a file; returns a sentence if it could not be removed."""
    try:
        with interruptible():
            storage.remove(location.removeprefix(f"{storage.root}/"))
    except Exception as error:
        if is_from_outside(error):
            raise
        _LOG.warning("not removed: %s: %s", location, error)
        return f"{location}: {error}"
    _LOG.debug("removed %s", location)
    return None


def needed_files(storage: TableStorage) -> set[str]:
    """Returns the locations of all files that a commit or checkpoint in the log refers to.

    Raises:
        As `orphan_files`.
    """
    load_snapshot(storage, LogListing.of(storage).segment())
    listing = LogListing.of(storage)
    found = {location for path in listing.v2_files for location in sidecars_of(storage, path)}
    for actions in _actions(storage, listing):
        for table in (actions.adds, actions.removes):
            found.update(storage.location(path) for path in table["path"].to_pylist())
            for vector in table["deletionVector"].to_pylist():
                if vector is not None and not (location := path_of(vector, storage)).startswith(INLINE):
                    found.add(location)
    return found


def _actions(storage: TableStorage, listing: LogListing) -> Iterator[FileActions]:
    for version, files in listing.checkpoints:
        found = read_checkpoint(storage, files, version)
        check_paths(found.removes, [(version, f"{storage.root}/{files[0]}", 0)])
        yield found
    commits = (
        (at, f"{storage.root}/{commit_path(at)}", storage.read(commit_path(at))) for at in listing.commits
    )
    yield read_commits(commits, list)


def _is_feed(file: FileInfo) -> bool:
    """Whether a file is in the folder of the change data feed."""
    return file.path.startswith(f"{CHANGES_FOLDER}/")


def _feed(storage: TableStorage) -> set[str]:
    """The locations of the files of the change data feed that a commit refers to; checkpoints have none."""
    return {
        storage.location(action["path"])
        for at in LogListing.of(storage).commits
        for kind, action in read_file_changes(at, commit_path(at), storage.read(commit_path(at)))
        if kind == "cdc"
    }


def _is_hidden(path: str) -> bool:
    """Whether a file or a folder above it is hidden. Partition folders and that of the change data feed never are."""
    *folders, name = path.removeprefix(f"{CHANGES_FOLDER}/").split("/")
    return name[0] in "_." or any(folder[0] in "_." and "=" not in folder for folder in folders if folder)
