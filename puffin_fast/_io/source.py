"""Sources: read byte ranges of a file on any filesystem."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from io import RawIOBase
from typing import Any

from puffin_fast._concurrency.streams import in_order
from puffin_fast._concurrency.threads import thread_pool
from puffin_fast._io.location import (
    Location,
    errors_of,
    is_file_object,
    name_of,
    new_input,
    path_of,
    resolve,
    unwrapped,
)
from puffin_fast._process.interrupt import suppressed
from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError

MAX_RANGE = 2**31 - 1
"""Maximum bytes of one range: the size of a Java array, which limits each blob that Java reads."""

MAX_SPAN = 16 << 20
"""Neighbouring ranges are joined into reads of at most this many bytes."""

LOCAL_SPAN = 1 << 20
"""The same for a local file: what is read stays in a cache of the processor."""

REMOTE_GAP = 64 << 10
"""On an object store, ranges are joined if at most this many bytes lie between them: it saves a request."""

REMOTE_REQUESTS = 4
"""Number of simultaneous reads from an object store, where a request of any size takes 10 to 100 ms.

Small ones are up to `SMALL_REQUESTS`, if they have at most `MAX_SPAN` bytes together.

The threads serve each kind of filesystem. fsspec's `cat_ranges` serves only some of fsspec's.
"""

SMALL_REQUESTS = 16
"""Number of simultaneous small reads from an object store."""

HEAD_BYTES = 1 << 18
"""Bytes that are requested while the size of a file is, if all of the file is read next."""

LOCAL_GAP = 4 << 10
"""The same for a local file, where it saves a system call."""


class Source:
    """Reads byte ranges of one file.

    Attributes:
        path: the path for error messages, None for a file object without name.
        is_local: whether a small read is cheap.
        descriptor: the descriptor of an open local file, None for other files.
        gap: ranges are joined if at most this many bytes lie between them.
        span: and if their read has at most this many.
        n_requests: the number of reads that run at the same time.
    """

    path: str | None
    is_local = False
    descriptor: int | None = None
    gap = REMOTE_GAP
    span = MAX_SPAN
    n_requests = 1

    def __init__(self, path: str | None, size: int | None = None) -> None:
        self.path = path
        self._size = size
        self._is_closed = False
        self._cached: tuple[int, bytes] = (0, b"")

    @property
    def size(self) -> int:
        """The size of the file in bytes: given by the caller, or read once."""
        if self._size is None:
            with errors_of(self.path):
                self._size = self._read_size()
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Reads one range.

        Raises:
            CorruptDataError: the file ends before the range does.
            LimitExceededError: the range has more than 2^31 - 1 bytes.
            InvalidInputError: offset or length is negative.
        """
        if offset < 0 or length < 0:
            raise InvalidInputError(
                f"{self.path}: expected a range of offset and length >= 0, found ({offset}, {length})"
            )
        if length > MAX_RANGE:
            raise LimitExceededError(f"{self.path}: a range of {length} bytes, the limit is {MAX_RANGE}")
        if self._size is not None and offset + length > self._size:
            raise self._beyond_end(offset, length, max(self._size - offset, 0))
        start, cached = self._cached
        if start <= offset and offset + length <= start + len(cached):
            return cached[offset - start : offset - start + length]
        if length == 0:
            return b""
        with errors_of(self.path):
            try:
                data = self._fetch(offset, length)
            except (OSError, ValueError) as error:
                if self._is_closed:
                    raise InvalidInputError(f"{self.path}: closed by another thread") from error
                if type(error) is not OSError or (size := self._size_now()) is None or offset < size:
                    raise
                raise self._beyond_end(
                    offset, length, 0
                ) from error  # clients of object stores refuse the range
        if len(data) != length:
            raise self._beyond_end(offset, length, len(data))
        return data

    def _size_now(self) -> int | None:
        """The file's size, whatever was said of it; None if it cannot be read."""
        with suppressed(Exception):
            return self._read_size()
        return None

    def read_head(self, length: int) -> bytes:
        """Reads at most the first `length` bytes of the file, without asking for its size."""
        with errors_of(self.path):
            return self._fetch(0, length)

    def expect_whole(self) -> None:
        """Says that all is read next: the first bytes are requested along with the size, if that is not known."""

    def read_tail(self, length: int) -> bytes:
        """Reads at most the last `length` bytes of the file. Later reads of these bytes use the copy in memory."""
        length = min(length, self.size)
        data = self.read_at(self.size - length, length)
        self._cached = (self.size - length, data)
        return data

    def in_memory(self, offset: int, length: int) -> memoryview | None:
        """Returns a range of the bytes that `read_tail` has read; None if they do not have it."""
        start, cached = self._cached
        at = offset - start
        return memoryview(cached)[at : at + length] if 0 <= at <= len(cached) - length else None

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        """Reads many ranges; near ranges are joined to one read, and `n_requests` reads run at the same time.

        Args:
            ranges: (offset, length) pairs, in any order; they may repeat and overlap.

        Yields:
            (index of the range, its bytes), in the order of the file. Memory holds at most `2 * n_requests` reads
            (one for a local file), each of at most `span` bytes or one larger range.
        """
        ranges = list(ranges)
        reads = list(self._joined(ranges))

        def fetch(read: tuple[int, int, list[int]]) -> Iterator[list[tuple[int, bytes]]]:
            start, end, members = read
            span = self.read_at(start, end - start)
            yield [(i, span[ranges[i][0] - start : sum(ranges[i]) - start]) for i in members]

        n_requests = self.n_requests
        if n_requests > 1 and sum(end - start for start, end, _ in reads) <= MAX_SPAN:
            n_requests = SMALL_REQUESTS
        for found in in_order(reads, fetch, min(n_requests, len(reads))):
            yield from found

    def _joined(self, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, list[int]]]:
        """Yields reads as (start, end, indexes of the ranges in it), in the order of the file."""
        order = sorted(range(len(ranges)), key=ranges.__getitem__)
        first = 0
        while first < len(order):
            start, length = ranges[order[first]]
            end = start + length
            last = first + 1
            while last < len(order):
                offset, length = ranges[order[last]]
                far = max(end, offset + length)
                if offset - end > self.gap or far - start > max(self.span, end - start):
                    break
                end = far
                last += 1
            yield start, end, order[first:last]
            first = last

    def for_arrow(self) -> Any:
        """Returns a random access file for functions of PyArrow; of a file that is in memory, the bytes there."""
        import pyarrow as pa

        start, cached = self._cached
        if cached and (start, len(cached)) == (0, self._size):
            return pa.BufferReader(cached)
        return self._for_arrow()

    def _for_arrow(self) -> Any:
        import pyarrow as pa

        return pa.PythonFile(_File(self), mode="r")

    def close(self) -> None:
        """Closes the file. A file object of the caller stays open."""
        self._is_closed = True
        self._close()

    def _close(self) -> None:
        """Closes a file that was opened here."""

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _beyond_end(self, offset: int, length: int, found: int) -> CorruptDataError:
        return CorruptDataError(
            "range beyond the end of the file",
            path=self.path,
            offset=offset,
            expected=f"{length} bytes",
            found=found,
        )

    def _read_size(self) -> int:
        raise NotImplementedError

    def _fetch(self, offset: int, length: int) -> bytes:
        """Reads a range; the result is shorter only if the file ends in the range."""
        raise NotImplementedError


def stat_of(path: str) -> os.stat_result:
    """Checks that a local path is a regular file. It comes before opening: to open a pipe waits for its writer.

    Raises:
        InvalidInputError: it is another kind of file.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInputError(f"{path}: expected a regular file")
    return found


class LocalSource(Source):
    """A local file, read with positional reads, so that threads may share it."""

    is_local = True
    gap = LOCAL_GAP
    span = LOCAL_SPAN

    def __init__(self, path: str, size: int | None = None) -> None:
        found = stat_of(path)
        if size not in (None, found.st_size):
            raise CorruptDataError("file size", path=path, expected=size, found=found.st_size)
        self.descriptor: int = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._arrow: Any = None
        super().__init__(path, found.st_size)

    def _fetch(self, offset: int, length: int) -> bytes:
        data = os.pread(self.descriptor, length, offset)
        if not data or len(data) == length:
            return data
        # a read may be short: Linux returns at most 2^31 - 4096 bytes, network filesystems fewer
        parts = [data]
        have = len(data)
        while have < length and (data := os.pread(self.descriptor, length - have, offset + have)):
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def _for_arrow(self) -> Any:
        if self._arrow is None:
            import pyarrow as pa

            self._arrow = pa.OSFile(f"/dev/fd/{self.descriptor}")
        return self._arrow

    def _close(self) -> None:
        if self._arrow is not None:
            self._arrow.close()
        self.__del__()

    def __del__(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor is not None and descriptor >= 0:
            os.close(descriptor)


class _ArrowSource(Source):
    """A pyarrow NativeFile, which has positional reads."""

    n_requests = REMOTE_REQUESTS

    def __init__(self, path: str | None, size: int | None, file: Any, *, owned: bool) -> None:
        super().__init__(path, size)
        self._file = file
        self._owned = owned

    def _read_size(self) -> int:
        return int(self._file.size())

    def _fetch(self, offset: int, length: int) -> bytes:
        data: bytes = self._file.read_at(length, offset)
        return data

    def _for_arrow(self) -> Any:
        return self._file

    def _close(self) -> None:
        if self._owned:
            self._file.close()


class _FsspecSource(Source):
    """A path on an fsspec filesystem, read with range requests instead of its read-ahead caches."""

    n_requests = REMOTE_REQUESTS

    def __init__(self, path: str, size: int | None, filesystem: Any, key: str) -> None:
        super().__init__(path, size)
        self._filesystem = filesystem
        self._key = key

    def expect_whole(self) -> None:
        def read() -> None:
            with suppressed(Exception):  # reading by the size says what is wrong
                self._cached = (0, self._fetch(0, HEAD_BYTES))

        if self._size is None:
            with thread_pool(1, "puffin_fast") as pool:
                pool.submit(read)
                self.size  # noqa: B018

    def _read_size(self) -> int:
        return int(self._filesystem.size(self._key))

    def _fetch(self, offset: int, length: int) -> bytes:
        data: bytes = self._filesystem.cat_file(self._key, start=offset, end=offset + length)
        return data


class _ObjectSource(Source):
    """An open, seekable binary file object."""

    def __init__(self, path: str | None, size: int | None, file: Any, *, owned: bool) -> None:
        super().__init__(path, size)
        self._file = file
        self._owned = owned
        self._lock = threading.Lock()

    def _read_size(self) -> int:
        with self._lock:
            return int(self._file.seek(0, os.SEEK_END))

    def _fetch(self, offset: int, length: int) -> bytes:
        parts = []
        with self._lock:
            self._file.seek(offset)
            while length and (data := self._file.read(length)):
                parts.append(data)
                length -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _close(self) -> None:
        if self._owned:
            self._file.close()


class _File(RawIOBase):
    """A source as a file object; PyArrow calls it from one thread at a time."""

    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET:
            offset += self._source.size if whence == os.SEEK_END else self._at
        self._at = offset
        return offset

    def read(self, n: int | None = -1) -> bytes:
        left = max(self._source.size - self._at, 0)
        data = self._source.read_at(self._at, left if n is None or n < 0 else min(n, left))
        self._at += len(data)
        return data


def unbuffered(file: Any) -> Any:
    """Turns off the read-ahead of an fsspec file (up to 50 MB by default); returns the same file."""
    cache: Any = getattr(file, "cache", None)
    if hasattr(cache, "fetcher"):
        from fsspec.caching import BaseCache

        file.cache = BaseCache(cache.blocksize, cache.fetcher, cache.size)
    return file


def open_source(source: Location, *, filesystem: Any = None, size: int | None = None) -> Source:
    """Opens a file for reading ranges.

    Args:
        source: a local path, a URI, a path on `filesystem`, or an open, seekable binary file object.
        filesystem: a pyarrow.fs.FileSystem, an fsspec filesystem or a PyIceberg FileIO.
        size: the size of the file in bytes, if known; saves a request.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: `source` is of another type, is not a regular file, or the permission to read is missing.
        UnsupportedError: the scheme of the URI is unknown.
    """
    if size is not None and size < 0:
        raise InvalidInputError(f"file size: expected 0 or more, found {size}")
    if is_file_object(source, filesystem, "read"):
        name = name_of(source)
        if hasattr(source, "read_at"):
            return _ArrowSource(name, size, source, owned=False)
        if hasattr(source, "seekable") and not source.seekable():
            raise InvalidInputError(f"{name or source!r}: expected a seekable file object")
        return _ObjectSource(name, size, source, owned=False)
    path = path_of(source)
    kind, handle, key = resolve(path, filesystem)
    if kind == "local":
        with errors_of(key if os.path.isabs(key) else f"{key} (in {os.getcwd()})"):
            return LocalSource(key, size)
    if kind == "pyiceberg":
        kind, handle, key = unwrapped(handle, key)
    with errors_of(path):
        if kind == "arrow":
            return _ArrowSource(path, size, handle.open_input_file(key), owned=True)
        if kind == "fsspec":
            return _FsspecSource(path, size, handle, key)
        file = unbuffered(new_input(handle, key).open())
        source_type = _ArrowSource if hasattr(file, "read_at") else _ObjectSource
        return source_type(path, size, file, owned=True)
