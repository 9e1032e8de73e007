"""Files in a Delta table's folder that no version needs: listed, never removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from puffin_fast._runtime import FileSet
from puffin_fast.delta.log.actions import FileActions, read_commits
from puffin_fast.delta.log.checkpoint import read_checkpoint
from puffin_fast.delta.log.segment import LogListing, commit_path
from puffin_fast.delta.log.snapshot import load_snapshot
from puffin_fast.delta.log.storage import INLINE, LOG_FOLDER, TableStorage, storage_of
from puffin_fast.delta.read.descriptors import path_of
from puffin_fast.errors import InvalidInputError

__all__ = ["IN_FLIGHT", "needed_files", "orphan_files"]

IN_FLIGHT = timedelta(days=3)
"""Younger files may belong to a commit that is still to come."""

SCHEMA = pa.schema([("path", pa.string()), ("n_bytes", pa.int64()), ("modified", pa.timestamp("us", "UTC"))])


def orphan_files(table: Any, *, older_than: timedelta = IN_FLIGHT, filesystem: Any = None) -> pa.Table:
    """Lists the files below a table's folder that no version of its log needs.

    A file is needed if any commit or checkpoint that is still in the log names it, as a data file or as a file of
    vectors, added or removed: time travel may come back to it. The listing is for those who remove: nothing is
    removed here. Left out are hidden files and folders (names that begin with `_` or `.`, as vacuum leaves them out),
    files whose age the filesystem does not tell, and tables below this one.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        older_than: leave out files modified since then.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem on which the path lies.

    Returns:
        ``path`` string, ``n_bytes`` int64, ``modified`` timestamp in UTC; by path.

    Raises:
        InvalidInputError: `older_than` is not a timedelta.
        NotFoundError: no Delta table.
        CorruptDataError: a log that cannot be read, or lacks a commit.
        UnsupportedError: a future protocol, or a feature of readers that is not known.
    """
    if not isinstance(older_than, timedelta):
        raise InvalidInputError(f"older_than: expected a timedelta, found {older_than!r}")
    storage = storage_of(table, filesystem)
    limit = datetime.now(UTC) - older_than
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
    needed = FileSet(needed_files(storage))  # after the listing: what was committed meanwhile is needed
    rows = sorted(row for row in old if row[0] not in needed)
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def needed_files(storage: TableStorage) -> set[str]:
    """The location of every file that a commit or checkpoint in the log names.

    Raises:
        As `orphan_files`: for a log that does not say what is needed.
    """
    load_snapshot(storage, LogListing.of(storage).segment())
    found: set[str] = set()
    for actions in _actions(storage):
        for table in (actions.adds, actions.removes):
            found.update(storage.location(path) for path in table["path"].to_pylist())
            for vector in table["deletionVector"].to_pylist():
                if vector is not None and not (location := path_of(vector, storage)).startswith(INLINE):
                    found.add(location)
    return found


def _actions(storage: TableStorage) -> Iterator[FileActions]:
    listing = LogListing.of(storage)
    for version, files in listing.checkpoints:
        yield read_checkpoint(storage, files, version)
    commits = (
        (at, f"{storage.root}/{commit_path(at)}", storage.read(commit_path(at))) for at in listing.commits
    )
    yield read_commits(commits, list)


def _is_hidden(path: str) -> bool:
    """Whether a file or a folder above it is hidden; a folder of a partition is not, whatever its column is called."""
    *folders, name = path.split("/")
    return name[0] in "_." or any(folder[0] in "_." and "=" not in folder for folder in folders if folder)
