"""Locations: resolves a path or URI to a filesystem and a key on it.

As in Iceberg, ``file:/a``, ``file:///a`` and ``/a`` are the same local file; so is ``file://localhost/a`` (RFC 8089).
Other locations have the form ``scheme://authority/key``. Characters are taken literally, without percent-decoding.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import io
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, TypeAlias, TypeGuard

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError, NotFoundError, PuffinFastError, UnsupportedError

Location: TypeAlias = "str | os.PathLike[str] | BinaryIO"
"""A path or URI, or an open binary file object."""

PLAIN_FILE_IO = ("pyiceberg.io.pyarrow", "pyiceberg.io.fsspec")
PLAIN_FSSPEC = "fsspec.implementations.local"
"""Modules of the filesystem classes whose local files are opened directly. Other classes, also subclasses of these, may
encrypt or count, so their files are read and written through them."""

CLIENTS = ("aiohttp", "azure", "botocore", "gcsfs", "google")
"""Packages of clients that fsspec's filesystems use."""

ALIASES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes, and their usual names."""


def split_location(location: str) -> tuple[str, str, str]:
    """Splits a location into scheme, authority and key, without decoding. A local path has no scheme."""
    if location.startswith("file:"):
        rest = location[5:]
        if rest.startswith("//"):
            authority, slash, key = rest[2:].partition("/")
            return "file", "" if authority.lower() == "localhost" else authority, slash + key
        return "file", "", rest
    scheme, separator, rest = location.partition("://")
    if not separator or not scheme.replace("+", "").replace("-", "").replace(".", "").isalnum():
        return "", "", location
    authority, slash, key = rest.partition("/")
    return scheme.lower(), authority, slash + key


def resolve(path: str, filesystem: Any) -> tuple[str, Any, str]:
    """Resolves a path to ("local" | "arrow" | "fsspec" | "pyiceberg", filesystem, key).

    A FileIO with a method `local_path` says itself which path a local file has; None for other files.
    """
    scheme, authority, key = split_location(path)
    if scheme == "file" and authority:
        raise UnsupportedError(f"{path}: expected a file of this machine, found authority {authority}")
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
        local = filesystem.local_path(path) if hasattr(filesystem, "local_path") else None
        return ("pyiceberg", filesystem, path) if local is None else ("local", None, local)
    arrow = sys.modules.get("pyarrow.fs")  # without this import, `filesystem` cannot be of pyarrow.fs
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
        if scheme == "file":
            path = f"file://{key}"
        known = filesystem.protocol
        if scheme and path[: len(scheme)] not in ((known,) if isinstance(known, str) else known):  # s3n:, S3:
            path = ALIASES.get(scheme, scheme) + path[len(scheme) :]
        key = filesystem._strip_protocol(path)  # private, but each fsspec filesystem implements it
        if type(filesystem).__module__ == PLAIN_FSSPEC:
            return "local", None, key
        return "fsspec", filesystem, key
    raise InvalidInputError(
        f"filesystem: expected a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO, "
        f"found {type(filesystem).__name__}"
    )


def unwrapped(io: Any, path: str) -> tuple[str, Any, str]:
    """Resolves a path of a FileIO to ("arrow" | "fsspec", filesystem, key); with another FileIO than PyIceberg's own to
    ("pyiceberg", FileIO, path), unless the FileIO has a method `unwrapped` that says so itself."""
    if hasattr(io, "unwrapped"):
        found: tuple[str, Any, str] = io.unwrapped(path)
        return found
    if type(io).__module__ in PLAIN_FILE_IO:
        input = new_input(io, path)
        if hasattr(input, "_filesystem") and hasattr(
            input, "_path"
        ):  # private: PyIceberg has no names for these
            return "arrow", input._filesystem, input._path
        if hasattr(input, "_fs"):
            return "fsspec", input._fs, input.location
    return "pyiceberg", io, path


def takes(filesystem: Any, method: str, parameter: str) -> bool:
    """Whether a method of an fsspec filesystem has a parameter; asynchronous ones have it under another name."""
    function = getattr(filesystem, f"_{method}", None) or getattr(filesystem, method)
    return parameter in inspect.signature(function).parameters


def is_local(path: str, filesystem: Any) -> bool:
    """Whether a path is a local file, which is opened without the filesystem."""
    return resolve(path, filesystem)[0] == "local"


def new_input(io: Any, location: str) -> Any:
    """The input file of a FileIO.

    Raises:
        UnsupportedError: the FileIO does not know the scheme of the location.
    """
    try:
        return io.new_input(location)
    except ValueError as error:
        raise UnsupportedError(f"{location}: {error}") from error


def is_remote(path: str, filesystem: Any) -> bool:
    """Whether a read may take as long as a request to an object store: all but local files. A FileIO may say so itself,
    by an attribute `is_local`."""
    return not (getattr(filesystem, "is_local", False) or is_local(path, filesystem))


@lru_cache(maxsize=64)
def _filesystem_of(scheme: str, authority: str) -> tuple[str, Any, str]:
    """The filesystem of a URI: pyarrow's, else fsspec's. Cached, because finding it may need a request."""
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
    """Whether `file` is a binary file object with `method`, not a path.

    Raises:
        InvalidInputError: a text file, an object without `method`, or a file object with a filesystem.
    """
    if isinstance(file, (str, os.PathLike)):
        return False
    if isinstance(file, io.TextIOBase):
        raise InvalidInputError(f"{name_of(file) or file!r}: opened as text, expected a binary file object")
    if not callable(getattr(file, method, None)):
        raise InvalidInputError(
            f"expected a path, a URI or a binary file object with .{method}(), found {type(file).__name__}"
        )
    if filesystem is not None:
        raise InvalidInputError("filesystem: expected None for an open file object")
    return True


def name_of(file: Any) -> str | None:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


def path_of(location: Location) -> str:
    path: Any = os.fspath(location)  # type: ignore[arg-type]  # never a file object
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidInputError(f"expected a path or URI as text, found {shown_argument(path)}")
    return path


def folder_of(table: str | os.PathLike[str]) -> str:
    """The folder of a table as text without slashes at its end.

    Raises:
        InvalidInputError: it is empty, or has bytes that are not UTF-8: no log, manifest or catalog can name its files.
    """
    path = path_of(table)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"path of a table: expected UTF-8, found {path!r}") from error
    return path.rstrip("/")


@contextlib.contextmanager
def errors_of(path: str | None) -> Iterator[None]:
    """Converts errors that the caller can correct, and those of clients of object stores, to errors of this package.
    Other OSErrors are raised unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no such file") from None
    except FileExistsError as error:
        raise InvalidInputError(f"{path}: the file exists already, and overwrite is False") from error
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise PuffinFastError(
                f"{path}: no file descriptor is free ({error.strerror}): close files, or raise the limit of open files"
            ) from error
        if error.errno not in (errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP):
            raise
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except Exception as error:
        if not is_of_storage(error):
            raise
        raise PuffinFastError(f"{path}: the storage failed: {error}") from error


def is_of_storage(error: Exception) -> bool:
    """Whether a storage raised an error: an OSError, or an error of an object store's client."""
    is_one = isinstance(error, OSError) or type(error).__module__.partition(".")[0] in CLIENTS
    return is_one and not is_from_outside(error)
