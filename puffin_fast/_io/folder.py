"""What lies in a folder: the names that begin with some letters, not what lies below."""

from __future__ import annotations

import os
from typing import Any

from puffin_fast._io.location import errors_of, resolve
from puffin_fast.errors import UnsupportedError

__all__ = ["names_in"]


def names_in(folder: str, prefix: str, *, filesystem: Any = None) -> list[str]:
    """Names of the files in a folder that begin with `prefix`, sorted; none where there is no such folder.

    Args:
        folder: a local path, a URI, or a path on `filesystem`.
        prefix: the first letters of a name.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem.

    Raises:
        UnsupportedError: a PyIceberg FileIO, which cannot list.
    """
    kind, handle, key = resolve(folder, filesystem)
    with errors_of(folder):
        if kind == "local":
            names = [entry.name for entry in os.scandir(key) if entry.is_file()] if os.path.isdir(key) else []
        elif kind == "arrow":
            from pyarrow.fs import FileSelector, FileType

            found = handle.get_file_info(FileSelector(key, allow_not_found=True))
            names = [info.base_name for info in found if info.type == FileType.File]
        elif kind == "fsspec":
            found = handle.glob(f"{key.rstrip('/')}/{prefix}*")
            names = [str(path).rpartition("/")[2] for path in found]
        else:
            raise UnsupportedError(f"{folder}: {type(handle).__name__} cannot list a folder")
    return sorted(name for name in names if name.startswith(prefix))
