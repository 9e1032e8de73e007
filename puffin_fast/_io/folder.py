"""What lies in a folder: the names that begin with some letters, not what lies below."""

from __future__ import annotations

import os
from typing import Any

from puffin_fast._io.location import errors_of, resolve
from puffin_fast.errors import UnsupportedError

__all__ = ["names_in"]


def names_in(folder: str, prefix: str, *, folders: bool = False, filesystem: Any = None) -> list[str]:
    """Names of the files in a folder that begin with `prefix`, sorted; none where there is no such folder.

    Args:
        folder: a local path, a URI, or a path on `filesystem`.
        prefix: the first letters of a name.
        folders: the folders in it instead.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem.

    Raises:
        UnsupportedError: a PyIceberg FileIO, which cannot list.
    """
    kind, handle, key = resolve(folder, filesystem)
    with errors_of(folder):
        if kind == "local":
            entries = list(os.scandir(key)) if os.path.isdir(key) else []
            names = [entry.name for entry in entries if (entry.is_dir() if folders else entry.is_file())]
        elif kind == "arrow":
            from pyarrow.fs import FileSelector, FileType

            found = handle.get_file_info(FileSelector(key, allow_not_found=True))
            wanted = FileType.Directory if folders else FileType.File
            names = [info.base_name for info in found if info.type == wanted]
        elif kind == "fsspec":
            found = handle.glob(f"{key.rstrip('/')}/{prefix}*", detail=True).values()
            kind_of = "directory" if folders else "file"
            names = [info["name"].rstrip("/").rpartition("/")[2] for info in found if info["type"] == kind_of]
        else:
            raise UnsupportedError(f"{folder}: {type(handle).__name__} cannot list a folder")
    return sorted(name for name in names if name.startswith(prefix))
