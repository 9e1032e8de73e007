"""Sinks: write the bytes of a file in order; the file becomes visible when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from puffin_fast._io.location import (
    Location,
    errors_of,
    is_file_object,
    name_of,
    path_of,
    resolve,
    takes,
)
from puffin_fast._io.rename import rename_new
from puffin_fast.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_NAME_BYTES = 232
"""Maximum bytes of a file's name in its temporary name, which has at most 254: ``.name.16-digits.tmp``."""

RENAME_S = 5.0
"""Maximum seconds that `wait_for_renames` waits."""

ABANDONED_S = 60.0
"""A temporary file that was not written for so many seconds belongs to a killed writer."""


class Sink:
    """Writes the bytes of a file in order. Before `commit`, no reader sees a complete file."""

    path: str | None

    def write(self, data: Buffer) -> None:
        """Appends all bytes of a buffer."""
        raise NotImplementedError

    def commit(self) -> None:
        """Completes the file, which becomes visible under its name."""
        raise NotImplementedError

    def abort(self) -> None:
        """Removes the incomplete file, as far as the filesystem allows."""
        raise NotImplementedError

    def write_file(self, data: Buffer) -> None:
        """Writes the whole file and completes it. On failure, the file is removed."""
        try:
            self.write(data)
            self.commit()
        except BaseException:
            self.abort()
            raise


class _StreamSink(Sink):
    """A stream: the upload to an object store, or the caller's file object.

    An object becomes visible when its stream is closed. The streams have no way to discard an upload, so `abort`
    closes the stream and then removes the object. With `overwrite=True` the previous object is lost then.
    """

    def __init__(self, path: str | None, stream: Any, remove: Callable[[], object] | None) -> None:
        self.path = path
        self._stream = stream
        self._remove = remove

    def write(self, data: Buffer) -> None:
        with errors_of(self.path):
            _write_all(self._stream, data)

    def commit(self) -> None:
        with errors_of(self.path):
            if self._remove is not None:
                self._stream.close()
            elif hasattr(self._stream, "flush"):
                self._stream.flush()

    def abort(self) -> None:
        if self._remove is None:
            return
        with contextlib.suppress(Exception):
            self._stream.close()
        with contextlib.suppress(FileNotFoundError):
            self._remove()


class _LocalSink(Sink):
    """A local file, written under a temporary dot name in the same folder and renamed when it is complete."""

    def __init__(self, path: str, overwrite: bool) -> None:
        self.path = path
        self._overwrite = overwrite
        folder, name = os.path.split(path)
        if not name:
            raise InvalidInputError(f"{path!r}: expected the path of a file, found a folder")
        # contains the file's name, so that files of a killed writer are recognised; shortened to the limit of names
        stem = os.fsdecode(os.fsencode(name)[:MAX_NAME_BYTES])
        self._temporary = os.path.join(folder, f".{stem}.{uuid.uuid4().hex[:16]}.tmp")
        with errors_of(path):
            if os.path.isdir(path) or (not overwrite and os.path.lexists(path)):
                raise FileExistsError(errno.EEXIST, "exists", path)
            if folder:
                os.makedirs(folder, exist_ok=True)
            self._stream: BinaryIO = open(self._temporary, "xb")  # noqa: SIM115

    def write(self, data: Buffer) -> None:
        self._stream.write(data)

    def commit(self) -> None:
        with errors_of(self.path):
            self._stream.close()
            if self._overwrite:
                os.replace(self._temporary, str(self.path))
                return
            try:
                os.link(self._temporary, str(self.path))  # unlike a rename, fails if the name exists
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                    raise
                if rename_new(self._temporary, str(self.path)):  # the filesystem has no hard links
                    return
                # of several writers, one creates the file, empty, and then replaces it
                os.close(os.open(str(self.path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                os.replace(self._temporary, str(self.path))
            else:
                os.unlink(self._temporary)

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def __del__(self) -> None:
        # an interrupt dropped the sink before its owner received it
        if hasattr(self, "_stream") and not self._stream.closed:
            self.abort()


def open_sink(sink: Location, *, filesystem: Any = None, overwrite: bool = False) -> Sink:
    """Opens a new file for writing. Missing folders of a local path are created.

    Args:
        sink: a local path, a URI, a path on `filesystem`, or an open binary file object (need not be seekable).
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        overwrite: whether to replace an existing file. If False, a local file that appears before `commit` is
            never replaced, because `commit` checks again atomically; object stores have no such check.

    Raises:
        InvalidInputError: the file exists, `sink` is of another type, or the permission to write is missing.
        UnsupportedError: the scheme of the URI is unknown.
    """
    if is_file_object(sink, filesystem, "write"):
        if hasattr(sink, "seekable") and sink.seekable() and sink.tell() != 0:
            raise InvalidInputError(
                f"{name_of(sink) or sink!r}: expected a file object at position 0, because offsets count "
                f"from the first byte; found position {sink.tell()}"
            )
        return _StreamSink(name_of(sink), sink, None)
    path = path_of(sink)
    kind, handle, key = resolve(path, filesystem)
    if kind == "local":
        return _LocalSink(key, overwrite)
    with errors_of(path):
        if kind == "pyiceberg":
            stream = handle.new_output(key).create(overwrite=overwrite)
            return _StreamSink(path, stream, lambda: handle.delete(key))
        if not overwrite and _exists(kind, handle, key):
            raise FileExistsError(errno.EEXIST, "exists", path)
        if kind == "arrow":
            return _StreamSink(path, handle.open_output_stream(key), lambda: handle.delete_file(key))
        return _StreamSink(path, handle.open(key, "wb"), lambda: handle.rm_file(key))


def put_if_absent(path: str, data: Buffer, *, filesystem: Any = None) -> bool:
    """Writes a small file unless it exists. Of several concurrent writers, exactly one succeeds.

    A complete local file gets its name by a hard link, or by a rename that replaces no file. A local filesystem that
    has neither shows an empty file first, which remains if the process is killed then. On object stores it is a
    conditional write (`If-None-Match: *`).

    Args:
        path: a local path, a URI or a path on `filesystem`.
        data: the content of the file.
        filesystem: a local filesystem, adlfs's, or an fsspec filesystem whose `pipe_file` accepts `mode="create"`.

    Returns:
        True if the file was written, False if it existed.

    Raises:
        UnsupportedError: the filesystem has no conditional writes.
        InvalidInputError: the permission to write is missing.
    """
    kind, handle, key = resolve(path_of(path), filesystem)
    try:
        if kind == "local":
            _LocalSink(key, overwrite=False).write_file(data)
            return True
        condition = _absent(handle) if kind == "fsspec" else None
        if condition is None:
            raise UnsupportedError(
                f"{path}: {type(handle).__name__} has no conditional writes; pass an fsspec "
                "filesystem that has them (s3fs, gcsfs, adlfs)"
            )
        with errors_of(path):
            handle.pipe_file(key, bytes(data), **condition)
    except InvalidInputError as error:
        if isinstance(error.__cause__, FileExistsError) and (kind != "local" or os.path.lexists(key)):
            return False
        raise
    return True


def _absent(filesystem: Any) -> dict[str, Any] | None:
    """The arguments of `pipe_file` that make a conditional write of it; None if there are none."""
    if takes(filesystem, "pipe_file", "mode"):
        return {"mode": "create"}
    is_azure = type(filesystem).__module__.partition(".")[0] == "adlfs"
    return {"overwrite": False} if is_azure and takes(filesystem, "pipe_file", "overwrite") else None


def wait_for_renames(path: str, *, theirs: re.Pattern[str] | None = None, filesystem: Any = None) -> None:
    """Waits until no other writer has a temporary file for a name on a local disk; elsewhere it returns at once.

    Delta for Spark, Paimon in Java and in Python, and Iceberg's catalogs of type ``hadoop`` check that a file does not
    exist, and then rename a temporary file to its name. A local rename replaces a file that was created in between.
    They write the temporary file before the check. So if there is no temporary file, all later checks find the existing
    file. A temporary file of a killed writer remains, so the function waits at most `RENAME_S` seconds, and not for
    files that are older than `ABANDONED_S`.

    Args:
        path: the existing file.
        theirs: names of temporary files; ``.<name>.<uuid>.tmp`` by default.
        filesystem: as for `put_if_absent`.
    """
    kind, _, key = resolve(path, filesystem)
    if kind != "local":
        return
    folder, name = os.path.split(key)
    theirs = theirs or re.compile(rf"\.{re.escape(name)}\.[0-9a-f-]{{36}}\.tmp")
    until = time.monotonic() + RENAME_S
    while _is_any_fresh(folder, theirs) and time.monotonic() < until:
        time.sleep(0.002)


def _is_any_fresh(folder: str, names: re.Pattern[str]) -> bool:
    for name in filter(names.fullmatch, os.listdir(folder)):
        with contextlib.suppress(FileNotFoundError):
            if os.stat(os.path.join(folder, name)).st_mtime > time.time() - ABANDONED_S:
                return True
    return False


def remove(path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
    """Deletes a file if it exists.

    Raises:
        InvalidInputError: the path is a directory, or the permission to remove it is missing.
    """
    name = path_of(path)
    kind, handle, key = resolve(name, filesystem)
    delete: Callable[[], object] = {
        "local": lambda: os.unlink(key),
        "arrow": lambda: handle.delete_file(key),
        "fsspec": lambda: handle.rm_file(key),
        "pyiceberg": lambda: handle.delete(key),
    }[kind]
    with errors_of(name), contextlib.suppress(FileNotFoundError):
        delete()


def _exists(kind: str, handle: Any, key: str) -> bool:
    if kind == "fsspec":
        return bool(handle.exists(key))
    return str(handle.get_file_info(key).type.name) != "NotFound"


def _write_all(stream: Any, data: Buffer) -> None:
    """Writes a whole buffer: one `write` of a raw file object may accept only a part."""
    view = memoryview(data).cast("B")
    while len(view):
        written = stream.write(view)
        if written is None or written == len(view):
            return
        view = view[written:]
