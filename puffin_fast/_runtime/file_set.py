"""A set of files, found again by any spelling of their locations."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from puffin_fast._runtime.location import errors_of, split_location

__all__ = ["FileSet"]


class FileSet:
    """Files by location, for callers that remove files: `in` answers "perhaps" with True.

    Two locations are taken for the same file when their normalised paths are equal: without repeated slashes,
    ``.`` and ``..``, percent-encoding decoded, whatever the scheme is (``s3`` and ``s3a``, ``file:/x`` and
    ``/x``), with or without the authority (``hdfs://host/x`` and ``/x``). Local files are also the same when
    the operating system says so: links, or names that differ in case only.

    Args:
        locations: of the files; they need not exist.
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
    """Device and inode of a local file, through links; None for what is not there, or not local."""
    scheme, _, path = split_location(location)
    if scheme not in ("", "file"):
        return None
    with errors_of(location):
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
    return found.st_dev, found.st_ino
