"""Reads what a version says about the table, its protocol and metadata, without its files.

Commits are searched for lines with these actions; of a Parquet checkpoint only their columns are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from puffin_fast._run.threads import on_threads
from puffin_fast.delta.log.actions import read_file_changes
from puffin_fast.delta.log.checkpoint import read_rare_actions
from puffin_fast.delta.log.protocol import Protocol, check_readable
from puffin_fast.delta.log.segment import LogSegment, commit_path, load_segment
from puffin_fast.delta.log.snapshot import LOG_READERS, Snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import CorruptDataError

_KINDS = ("protocol", "metaData")
_NO_FILES = pa.table({})


def load_head(storage: TableStorage, segment: LogSegment) -> Snapshot:
    """Loads a version without its files: the table `files` has no column.

    Raises:
        As `load_snapshot`.
    """
    return load_segment(_load, storage, segment)


def _load(storage: TableStorage, segment: LogSegment) -> Snapshot:
    paths = [commit_path(at) for at in segment.commits]
    contents = list(on_threads(storage.read, paths, None if storage.is_local else LOG_READERS))
    found: dict[str, dict[str, Any]] = {}
    for at, path, data in zip(reversed(segment.commits), reversed(paths), reversed(contents), strict=True):
        _add(found, reversed([*_in_commit(at, f"{storage.root}/{path}", data)]))
    for path in segment.checkpoint_files if len(found) < len(_KINDS) else ():
        _add(found, _in_checkpoint(storage, segment.checkpoint, path))
    for kind in _KINDS:
        if kind not in found:
            raise CorruptDataError(
                f"{kind} of version {segment.version}", path=storage.root, expected="one", found="none"
            )
    protocol = Protocol.of(found["protocol"], storage.root)
    check_readable(protocol, storage.root)
    return Snapshot(storage, segment.version, protocol, found["metaData"], _NO_FILES, segment=segment)


def _add(found: dict[str, dict[str, Any]], actions: Iterable[tuple[str, dict[str, Any]]]) -> None:
    for kind, action in actions:
        found.setdefault(kind, action)


def _in_commit(version: int, path: str, data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the protocol and metadata of a commit; its other lines are not parsed."""
    names = [f'"{kind}"'.encode() for kind in _KINDS]
    lines = [line for line in data.split(b"\n") if any(name in line for name in names)]
    if not lines:
        return
    try:
        actions = read_file_changes(version, path, b"\n".join(lines))
    except CorruptDataError:
        actions = read_file_changes(
            version, path, data
        )  # an action has several lines, or the error names its line
    yield from ((kind, action) for kind, action in actions if kind in _KINDS)


def _in_checkpoint(storage: TableStorage, version: int, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.endswith(".json"):
        return _in_commit(version, f"{storage.root}/{path}", storage.read(path))
    return read_rare_actions(storage, path, _KINDS)
