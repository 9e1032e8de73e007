"""Reads what a version says about the table, its protocol and metadata, without its files.

Commits are searched for lines with these actions; of a Parquet checkpoint only their columns are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from puffin_fast._concurrency.threads import on_threads
from puffin_fast.delta.log.actions import read_file_changes
from puffin_fast.delta.log.checkpoint import read_rare_actions
from puffin_fast.delta.log.segment import LOG_READERS, LogSegment, commit_path, load_segment
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.errors import CorruptDataError

_KINDS = ("protocol", "metaData")


def head_of(storage: TableStorage, segment: LogSegment) -> dict[str, dict[str, Any]]:
    """Returns the `protocol` and the `metaData` of a version.

    Raises:
        NotFoundError: the log no longer has the version.
        CorruptDataError: a file of the log is damaged, or one of the actions is missing.
    """
    return load_segment(_load, storage, segment)


def _load(storage: TableStorage, segment: LogSegment) -> dict[str, dict[str, Any]]:
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
    return found


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
