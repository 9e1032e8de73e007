"""A set of files that recognises different spellings of a location."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from puffin_fast._io.location import errors_of, split_location


class FileSet:
    """Files by location, for callers that remove files: `in` returns True if a location may be in the set.

    Two locations are treated as the same file if their normalised paths are equal. Normalisation removes repeated
    slashes, ``.`` and ``..``, decodes percent-encoding, and ignores the scheme (``s3`` and ``s3a``, ``file:/x``
    and ``/x``). The authority may be missing in one of them (``hdfs://host/x`` and ``/x``). Two local files are also
    the same if they have the same inode: links, or names that differ only by case.

    Args:
        locations: the locations of the files, which need not exist.
    """

    def __init__(self, locations: Iterable[str]) -> None:
        self._locations = list(locations)
        self._keys = {key for location in self._locations for key in _keys(location)}
        self._inodes: set[tuple[int, int]] | None = None

    def __contains__(self, location: str) -> bool:
        if not self._keys.isdisjoint(_keys(location)):
            return True
        inode = _inode(location)
        if inode is None:
            return False
        if self._inodes is None:
            self._inodes = {found for path in self._locations if (found := _inode(path)) is not None}
        return inode in self._inodes


def _keys(location: str) -> Iterator[str]:
    _, authority, path = split_location(location)
    if "%" in path:
        path = unquote(path)
    path = posixpath.normpath("/" + path.lstrip("/"))
    yield path
    if authority:
        yield f"/{authority}{path}"


def _inode(location: str) -> tuple[int, int] | None:
    """Device and inode of a local file, following links; None if it does not exist or is not local."""
    scheme, _, path = split_location(location)
    if scheme not in ("", "file"):
        return None
    with errors_of(location):
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
    return found.st_dev, found.st_ino
