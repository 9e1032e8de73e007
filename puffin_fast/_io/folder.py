"""Lists folders: the names in a folder with a prefix, or all files below it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from puffin_fast._io.location import errors_of, resolve, takes
from puffin_fast._process.interrupt import suppressed
from puffin_fast.errors import UnsupportedError

_STORES = {"s3", "gcs", "gs", "abfs"}
"""Names of filesystems whose paths begin with a bucket or a container."""


class FileInfo(NamedTuple):
    """A file below a folder.

    Attributes:
        path: relative to the folder.
        n_bytes: the size in bytes.
        modified: the time of the last modification in UTC; None if the filesystem does not have it.
    """

    path: str
    n_bytes: int
    modified: datetime | None


def names_in(folder: str, prefix: str, *, folders: bool = False, filesystem: Any = None) -> list[str]:
    """Lists the sorted names of the files in a folder that start with `prefix`; empty if there is no such folder.

    Args:
        folder: a local path, a URI, or a path on `filesystem`.
        prefix: the start of the names.
        folders: whether to list folders instead of files. Local links to folders are omitted.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem.

    Raises:
        UnsupportedError: `filesystem` is a PyIceberg FileIO, which cannot list.
    """
    kind, handle, key = resolve(folder, filesystem)
    with errors_of(folder):
        if kind == "local":
            try:
                found = list(os.scandir(key))
            except (FileNotFoundError, NotADirectoryError):
                found = []
            names = [e.name for e in found if (e.is_dir(follow_symlinks=False) if folders else e.is_file())]
        elif kind == "arrow":
            from pyarrow.fs import FileSelector, FileType

            found = handle.get_file_info(FileSelector(key, allow_not_found=True))
            wanted = FileType.Directory if folders else FileType.File
            names = [info.base_name for info in found if info.type == wanted]
        elif kind == "fsspec":
            wanted = "directory" if folders else "file"
            entries = _entries(handle, handle._strip_protocol(key).rstrip("/"))
            names = [name for name, info in entries.items() if info["type"] == wanted]
        else:
            raise _cannot_list(folder, handle)
    return sorted(name for name in names if name.startswith(prefix))


def missing_folder(folder: str, *, filesystem: Any = None) -> str | None:
    """Says that nothing is at a path, or that its bucket does not exist; None if something is, or if that is unknown.

    Args:
        folder: a local path, a URI, or a path on `filesystem`.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem.
    """
    kind, handle, key = resolve(folder, filesystem)
    with errors_of(folder):
        if kind == "local":
            return None if os.path.exists(key) else "there is no such folder"
        if kind == "arrow":
            from pyarrow.fs import FileType

            name = handle.type_name

            def exists(path: str) -> bool:
                return bool(handle.get_file_info(path).type != FileType.NotFound)

        elif kind == "fsspec":
            key = handle._strip_protocol(key)
            name, exists = handle.protocol, handle.exists
        else:
            return None
        if exists(key):
            return None
        bucket = key.lstrip("/").partition("/")[0]
        in_bucket = not _STORES.isdisjoint([name] if isinstance(name, str) else name)
        return (
            f"there is no bucket {bucket}" if in_bucket and not exists(bucket) else "there is no such folder"
        )


def remove_empty(folder: str, *, filesystem: Any = None) -> None:
    """Removes a local folder that has no entries; object stores have no folders."""
    kind, _, key = resolve(folder, filesystem)
    if kind == "local":
        with suppressed(OSError):  # there is no such folder, or it has entries
            os.rmdir(key)


def _entries(handle: Any, key: str) -> dict[str, Any]:
    """The entries of a folder on an fsspec filesystem by name, without a cached listing.

    `glob` would take characters of the folder's name for patterns.
    """
    handle.invalidate_cache(key)  # other processes write too
    # another thread may fill the cache with a listing that it began earlier
    fresh = {"refresh": True} if takes(handle, "ls", "refresh") else {}
    try:
        found = handle.ls(key, detail=True, **fresh)
    except FileNotFoundError:
        return {}
    entries = {}
    for info in found:
        parent, _, name = info["name"].rstrip("/").rpartition("/")
        if parent.endswith(key):  # a file's listing is the file itself
            entries[name] = info
    return entries


def files_below(folder: str, *, filesystem: Any = None) -> Iterator[FileInfo]:
    """Yields all files below a folder, at any depth; none if there is no such folder. Local links are omitted.

    A file that is removed while the folder is listed may be omitted.

    Args:
        folder: a local path, a URI, or a path on `filesystem`.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem.

    Raises:
        UnsupportedError: `filesystem` is a PyIceberg FileIO, which cannot list.
    """
    kind, handle, key = resolve(folder, filesystem)
    with errors_of(folder):
        if kind == "local":
            yield from _local_files(key, "")
        elif kind == "arrow":
            from pyarrow.fs import FileSelector, FileType

            root = handle.normalize_path(key).rstrip("/") + "/"
            for info in handle.get_file_info(FileSelector(root[:-1], recursive=True, allow_not_found=True)):
                if info.type == FileType.File:
                    yield FileInfo(_below(info.path, root), info.size or 0, info.mtime)
        elif kind == "fsspec":
            root = handle._strip_protocol(key).rstrip("/") + "/"
            for path, info in handle.find(root[:-1], detail=True).items():
                try:
                    modified = _modified(handle, path, info)
                except FileNotFoundError:
                    continue
                yield FileInfo(_below(path, root), info["size"] or 0, modified)
        else:
            raise _cannot_list(folder, handle)


def _local_files(folder: str, prefix: str) -> Iterator[FileInfo]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _local_files(entry.path, f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield FileInfo(prefix + entry.name, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def _below(path: str, root: str) -> str:
    if not path.startswith(root):
        raise UnsupportedError(f"listing of {root}: expected only paths below it, found {path}")
    return path[len(root) :]


def _modified(handle: Any, path: str, info: dict[str, Any]) -> datetime | None:
    """The modification time of a file on an fsspec filesystem; its key depends on the filesystem."""
    for name in ("LastModified", "last_modified", "mtime"):
        if isinstance(value := info.get(name), datetime):
            return value
    try:
        found = handle.modified(path)
    except NotImplementedError:
        return None
    return found if isinstance(found, datetime) and found.tzinfo is not None else None


def _cannot_list(folder: str, handle: Any) -> UnsupportedError:
    return UnsupportedError(f"{folder}: {type(handle).__name__} cannot list a folder")
