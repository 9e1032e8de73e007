"""A sink: bytes in order into a file that becomes visible when it is whole."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from puffin_fast._runtime.location import Location, errors_of, is_file_object, name_of, path_of, resolve
from puffin_fast.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Sink", "open_sink", "put_if_absent", "remove"]

LONGEST_STEM = 232
"""Bytes of a file's name that its temporary name repeats: with ``.``, ``.``, 16 digits and ``.tmp`` at most 254."""


class Sink:
    """Bytes in order into a file that nobody sees, or may take for whole, before `commit`."""

    path: str | None

    def write(self, data: Buffer) -> None:
        """Appends all bytes of a buffer."""
        raise NotImplementedError

    def commit(self) -> None:
        """Makes the file visible under its name."""
        raise NotImplementedError

    def abort(self) -> None:
        """Leaves no file behind, as far as the filesystem allows."""
        raise NotImplementedError


class _StreamSink(Sink):
    """A stream that somebody else opened: an object store's upload, or the caller's file object.

    Object stores show a file only once it is closed, but their streams cannot be told to drop what they have:
    `abort` closes and then removes it. What was there before an `overwrite=True` is gone then.
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
    """A local file, written under a hidden temporary name in the same folder and renamed when it is whole."""

    def __init__(self, path: str, overwrite: bool) -> None:
        self.path = path
        self._overwrite = overwrite
        folder, name = os.path.split(path)
        if not name:
            raise InvalidInputError(f"{path!r}: a file to write needs a name")
        # the file's name in it tells whose it is when its writer was killed; cut, so that it fits where that fits
        whose = os.fsdecode(os.fsencode(name)[:LONGEST_STEM])
        self._temporary = os.path.join(folder, f".{whose}.{uuid.uuid4().hex[:16]}.tmp")
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
                os.link(self._temporary, str(self.path))  # unlike a rename, fails where a name exists
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                    raise
                if os.path.lexists(str(self.path)):
                    raise FileExistsError(errno.EEXIST, "exists", self.path) from error
                os.rename(self._temporary, str(self.path))  # a filesystem without hard links
            else:
                os.unlink(self._temporary)

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def __del__(self) -> None:
        # dropped by an interrupt before its owner had it
        if hasattr(self, "_stream") and not self._stream.closed:
            self.abort()


def open_sink(sink: Location, *, filesystem: Any = None, overwrite: bool = False) -> Sink:
    """A file to write from its first byte; folders on the way are made, as object stores need none.

    Args:
        sink: a local path, a URI, a path on `filesystem`, or an open binary file object (need not seek).
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        overwrite: replace a file of that name; without it, a name that exists is refused. Local files are
            checked again, atomically, when they become visible; object stores offer no such promise.

    Raises:
        InvalidInputError: the name exists, the sink is of no kind above, or may not be written.
        UnsupportedError: a URI of a scheme that nobody here knows.
    """
    if is_file_object(sink, filesystem, "write"):
        if hasattr(sink, "seekable") and sink.seekable() and sink.tell() != 0:
            raise InvalidInputError(
                f"{name_of(sink) or sink!r}: offsets count from the first byte of a file, and this file "
                f"object stands at {sink.tell()}"
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
    """Writes a small file unless one of that name exists; of several writers at once exactly one does.

    Local files appear whole under their name by a hard link, object stores are asked for a conditional write
    (`If-None-Match: *`).

    Args:
        path: a local path, a URI or a path on `filesystem`.
        data: what to write.
        filesystem: a local one, or an fsspec filesystem whose `pipe_file` takes `mode="create"`.

    Returns:
        Whether it was written; False where a file of that name exists.

    Raises:
        UnsupportedError: a filesystem without conditional writes.
        InvalidInputError: the file may not be written.
    """
    kind, handle, key = resolve(path_of(path), filesystem)
    try:
        if kind == "local":
            _write_new(key, data)
            return True
        if kind != "fsspec" or "mode" not in inspect.signature(_plain_pipe(handle)).parameters:
            raise UnsupportedError(
                f"{path}: {type(handle).__name__} cannot write a file only where there is none; pass an fsspec "
                "filesystem that can (s3fs, gcsfs, adlfs)"
            )
        with errors_of(path):
            handle.pipe_file(key, bytes(data), mode="create")
    except InvalidInputError as error:
        if isinstance(error.__cause__, FileExistsError) and (kind != "local" or os.path.lexists(key)):
            return False
        raise
    return True


def _write_new(path: str, data: Buffer) -> None:
    sink = _LocalSink(path, overwrite=False)
    try:
        sink.write(data)
        sink.commit()
    except BaseException:
        sink.abort()
        raise


def _plain_pipe(handle: Any) -> Any:
    """What an fsspec filesystem writes whole files with; asynchronous ones have it under another name."""
    return getattr(handle, "_pipe_file", None) or handle.pipe_file


def remove(path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
    """Deletes one file; one that is not there is fine.

    Raises:
        InvalidInputError: it is a directory, or may not be removed.
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
    """Raw file objects may take less than they are given."""
    view = memoryview(data).cast("B")
    while len(view):
        written = stream.write(view)
        if written is None or written == len(view):
            return
        view = view[written:]
