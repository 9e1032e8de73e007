"""Renames a local file unless the new name exists, in one step. Python's own functions replace an existing file.

Filesystems without hard links need it: a writer that is killed between two steps would leave an empty file.

Linux     renameat2(…, RENAME_NOREPLACE)
macOS     renamex_np(…, RENAME_EXCL)
Windows   a plain rename
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4

_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
"""Errors of a filesystem or kernel without the flag."""


def rename_new(path: str, to: str) -> bool:
    """Renames a file unless the new name exists.

    Args:
        to: the new path, on the same filesystem.

    Returns:
        False if the filesystem or the system cannot do it; nothing has changed then.

    Raises:
        FileExistsError: the new name exists.
        OSError: any other error of the rename.
    """
    if os.name == "nt":
        os.rename(path, to)
        return True
    rename = _system_call()
    if rename is None:
        return False
    if rename(os.fsencode(path), os.fsencode(to)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), path, None, to)


@cache
def _system_call() -> Callable[[bytes, bytes], int] | None:
    """The function that renames and returns 0, or sets the error number; None if the system has none."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            exclusive = library.renamex_np
            exclusive.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda path, to: int(exclusive(path, to, _RENAME_EXCL))
        rename = library.renameat2
    except (OSError, AttributeError):
        return None
    rename.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return lambda path, to: int(rename(_AT_FDCWD, path, _AT_FDCWD, to, _RENAME_NOREPLACE))
