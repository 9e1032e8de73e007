"""A location: which file a path, a URI or a file object means, and through which filesystem.

Locations follow Iceberg's habit: ``file:/a``, ``file:///a`` and ``/a`` are the same local file, other
locations are ``scheme://authority/key``; characters stand for themselves, no percent-decoding.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, TypeAlias, TypeGuard

from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError

__all__ = [
    "Location",
    "errors_of",
    "is_file_object",
    "is_local",
    "name_of",
    "path_of",
    "resolve",
    "split_location",
]

Location: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""What a caller may pass: a path or URI, or an open binary file object."""

PLAIN_FILE_IO = ("pyiceberg.io.pyarrow", "pyiceberg.io.fsspec")
PLAIN_FSSPEC = "fsspec.implementations.local"
"""Where the classes live whose local files are just that. Another class, or one derived from these, may
encrypt or count: it is asked for every byte."""

ALIASES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of a scheme, and what the rest of the world calls it."""


def split_location(location: str) -> tuple[str, str, str]:
    """Scheme, authority and key of a location, its characters as they stand; a local path has no scheme."""
    if location.startswith("file:"):
        rest = location[5:]
        if rest.startswith("//"):
            authority, slash, key = rest[2:].partition("/")
            return "file", authority, slash + key
        return "file", "", rest
    scheme, separator, rest = location.partition("://")
    if not separator or not scheme.replace("+", "").replace("-", "").replace(".", "").isalnum():
        return "", "", location
    authority, slash, key = rest.partition("/")
    return scheme.lower(), authority, slash + key


def resolve(path: str, filesystem: Any) -> tuple[str, Any, str]:
    """Which way leads to a file: ("local" | "arrow" | "fsspec" | "pyiceberg", handle, key)."""
    scheme, authority, key = split_location(path)
    if scheme == "file" and authority not in ("", "localhost"):
        raise UnsupportedError(f"{path}: a file on another machine ({authority})")
    if filesystem is None:
        if scheme in ("", "file"):
            return "local", None, key
        kind, handle, root = _filesystem_of(scheme, authority)
        return kind, handle, f"{root.rstrip('/')}/{key.lstrip('/')}" if kind == "arrow" else path
    if hasattr(filesystem, "new_input") and hasattr(filesystem, "new_output"):
        if type(filesystem).__module__ in PLAIN_FILE_IO and (
            scheme == "file" or (not scheme and not filesystem.properties.get("DEFAULT_SCHEME"))
        ):
            return "local", None, key
        return "pyiceberg", filesystem, path
    arrow = sys.modules.get("pyarrow.fs")  # whoever holds one of its filesystems has imported it
    if arrow is not None and isinstance(filesystem, arrow.FileSystem):
        if scheme:
            path = key if scheme in ("file", "hdfs", "viewfs") else authority + key
        if isinstance(filesystem, arrow.LocalFileSystem):
            return "local", None, path
        base = getattr(filesystem, "base_fs", None)
        if isinstance(base, arrow.LocalFileSystem):
            return "local", None, filesystem.base_path + path.lstrip("/")
        return "arrow", filesystem, path
    if hasattr(filesystem, "cat_file") and hasattr(filesystem, "_strip_protocol"):
        key = filesystem._strip_protocol(path)  # fsspec's hook for this, on every filesystem
        if type(filesystem).__module__ == PLAIN_FSSPEC:
            return "local", None, key
        return "fsspec", filesystem, key
    raise InvalidInputError(
        f"filesystem: expected a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO, "
        f"found {type(filesystem).__name__}"
    )


def is_local(path: str, filesystem: Any) -> bool:
    """Whether a path is that of a local file, which is read without the filesystem."""
    return resolve(path, filesystem)[0] == "local"


@lru_cache(maxsize=64)
def _filesystem_of(scheme: str, authority: str) -> tuple[str, Any, str]:
    """The filesystem of a URI, pyarrow's or else fsspec's; cached, since finding one may ask a server."""
    import pyarrow as pa
    import pyarrow.fs

    uri = f"{ALIASES.get(scheme, scheme)}://{authority}"
    try:
        filesystem, root = pyarrow.fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as reason:
        try:
            import fsspec

            return "fsspec", fsspec.core.url_to_fs(uri)[0], ""
        except (ImportError, ValueError) as error:
            raise UnsupportedError(
                f"{uri}: pyarrow says {str(reason).splitlines()[0]!r}, fsspec {str(error)!r}; "
                "pass a filesystem with the path"
            ) from error
    return "arrow", filesystem, "" if scheme in ("hdfs", "viewfs") else root


def is_file_object(file: Location, filesystem: Any, method: str) -> TypeGuard[BinaryIO]:
    """Whether it is a file object that has `method`; text files and a stray filesystem are refused."""
    if isinstance(file, (str, os.PathLike)):
        return False
    if isinstance(file, io.TextIOBase):
        raise InvalidInputError(f"{name_of(file) or file!r}: opened as text, expected a binary file object")
    if not callable(getattr(file, method, None)):
        raise InvalidInputError(
            f"expected a path, a URI or a binary file object with .{method}(), found {type(file).__name__}"
        )
    if filesystem is not None:
        raise InvalidInputError("a filesystem goes with a path, not with an open file object")
    return True


def name_of(file: Any) -> str | None:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


def path_of(location: Location) -> str:
    path: Any = os.fspath(location)  # type: ignore[arg-type]  # a file object never comes here
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidInputError(f"expected a path or URI as text, found {path!r}")
    return path


@contextlib.contextmanager
def errors_of(path: str | None) -> Iterator[None]:
    """Turns what the caller can mend into our errors; a broken disk or network stays an OSError."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: there is no such file") from error
    except FileExistsError as error:
        raise InvalidInputError(f"{path}: exists already, and is not to be overwritten") from error
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP):
            raise
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
