"""The storage of a Delta table: reads and lists files, and writes files that do not exist yet."""

from __future__ import annotations

import io
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
from pyiceberg.io import FileIO

from puffin_fast._io import open_source, remove, split_location
from puffin_fast._io.folder import FileInfo, files_below, names_in
from puffin_fast._io.location import errors_of, folder_of, resolve
from puffin_fast._io.sink import put_if_absent, wait_for_renames
from puffin_fast.errors import InvalidInputError, NotFoundError, PuffinFastError
from puffin_fast.limits import check_metadata_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOG_FOLDER = "_delta_log"
INLINE = "inline:"
"""The scheme of the locations of inline vectors, which are in the log itself."""


class _Input:
    """A file to read, with the interface of PyIceberg's `InputFile`."""

    def __init__(self, storage: TableStorage, location: str) -> None:
        self._storage, self.location = storage, location

    def open(self, seekable: bool = True) -> Any:
        return self._storage.open(self.location)

    def exists(self) -> bool:
        try:
            self.open().close()
        except (FileNotFoundError, NotFoundError):
            return False
        return True

    def __len__(self) -> int:
        with self.open() as file:
            return int(file.size() if hasattr(file, "size") else file.seek(0, os.SEEK_END))


class TableStorage(FileIO):
    """The folder of a table, with the file access that the data-file reader needs.

    Attributes:
        root: the location of the table without a trailing slash; a local one is an absolute path.
        filesystem: a pyarrow.fs.FileSystem or an fsspec filesystem; with None, the location determines it.
    """

    def __init__(self, root: str, filesystem: Any = None) -> None:
        super().__init__({})
        self.root, self.filesystem = root, filesystem
        self._inline: dict[str, bytes] = {}

    @property
    def is_local(self) -> bool:
        """Whether the table is on a local disk."""
        return resolve(self.root, self.filesystem)[0] == "local"

    def location(self, path: str, folder: str = "") -> str:
        """Returns the location of a path in the log: percent-decoded, and relative to the table unless it is
        absolute.

        Args:
            folder: a folder of the table, with a slash at its end, that the path is relative to instead.
        """
        found = canonical_path(path)
        is_absolute = found[:1] == "/" or (":" in found and split_location(found)[0] != "")
        return found if is_absolute else f"{self.root}/{folder}{found}"

    def add_inline(self, name: str, record: bytes) -> str:
        """Makes the record of an inline vector readable; returns its location, which another record does not have."""
        location, number = f"{INLINE}{name}", 1
        while self._inline.setdefault(location, record) != record:
            location, number = f"{INLINE}{name}#{number}", number + 1
        return location

    def local_path(self, location: str) -> str | None:
        """Returns the path of a local file; None for a file elsewhere."""
        if location.startswith(INLINE):
            return None
        kind, _, key = resolve(location, self.filesystem)
        return key if kind == "local" else None

    def open(self, location: str) -> Any:
        """Opens a file for positional reads."""
        if location.startswith(INLINE):
            return pa.BufferReader(self._inline[location])
        kind, handle, key = resolve(location, self.filesystem)
        with errors_of(location):
            if kind == "local":
                return pa.OSFile(key)
            if kind == "arrow":
                return handle.open_input_file(key)
            return (
                handle.open(key, "rb", cache_type="none")
                if kind == "fsspec"
                else handle.new_input(key).open()
            )

    def unwrapped(self, location: str) -> tuple[str, Any, str]:
        """Resolves a location on an object store to its filesystem, which reads ranges without asking for the size of
        the file; see `_io.location.unwrapped`."""
        if not location.startswith(INLINE):
            kind, handle, key = resolve(location, self.filesystem)
            if kind in ("arrow", "fsspec"):
                return kind, handle, key
        return "pyiceberg", self, location

    def read(self, path: str) -> bytes:
        """Reads a whole file of the table; raises as `read_whole`."""
        return self.read_whole(f"{self.root}/{path}")

    def read_whole(self, location: str) -> bytes:
        """Reads a whole file.

        Raises:
            NotFoundError: there is no such file.
            LimitExceededError: it has more than `limits.MAX_METADATA_BYTES` bytes.
        """
        with open_source(location, filesystem=self.filesystem) as source:
            check_metadata_size(source.path, source.size, self.filesystem)
            return source.read_at(0, source.size)

    def holds(self, path: str, data: bytes) -> bool:
        """Returns whether a file of the table has these bytes, which are not empty. Cached listings are not used.

        Raises:
            NotFoundError: there is no such file.
            PuffinFastError: the storage answered only a part of these bytes.
        """
        kind, handle, key = resolve(f"{self.root}/{path}", self.filesystem)
        if kind != "fsspec":
            return self.read(path) == data
        with errors_of(f"{self.root}/{path}"):
            found = bytes(handle.cat_file(key, start=0, end=len(data) + 1))
        if (
            found and found != data and data.startswith(found)
        ):  # the version of another writer may be equal in part
            raise PuffinFastError(
                f"{self.root}/{path}: the storage returned only the first {len(found)} bytes; expected {len(data)}"
            )
        return found == data

    def read_location(self, location: str, offset: int, length: int) -> bytes:
        """Reads a range of a file."""
        with open_source(location, filesystem=self.filesystem) as source:
            return source.read_at(offset, length)

    def names(self, folder: str) -> list[str]:
        """Lists the sorted names of the files in a folder of the table, without a cache, also for what is read next."""
        kind, handle, _ = resolve(self.root, self.filesystem)
        if kind == "fsspec":
            handle.invalidate_cache()  # other processes write files in other folders, too
        return names_in(f"{self.root}/{folder}", "", filesystem=self.filesystem)

    def files(self) -> Iterator[FileInfo]:
        """Yields all files in the folder of the table."""
        return files_below(self.root, filesystem=self.filesystem)

    def log_files(self, paths: Iterable[str]) -> dict[str, FileInfo]:
        """Returns what the filesystem knows of files of the log that exist, by their paths relative to the table."""
        found = files_below(f"{self.root}/{LOG_FOLDER}", filesystem=self.filesystem)
        known = {f"{LOG_FOLDER}/{info.path}": info for info in found}
        return {path: known[path] for path in set(paths) & known.keys()}

    def modified(self, paths: Iterable[str]) -> dict[str, int]:
        """Returns the modification times of files of the log, in milliseconds since 1970."""
        times = {path: info.modified for path, info in self.log_files(paths).items()}
        return {path: int(time.timestamp() * 1000) for path, time in times.items() if time is not None}

    def put(self, path: str, data: bytes) -> bool:
        """Writes a file of the table unless it exists; returns whether it was written.

        Raises:
            UnsupportedError: the filesystem has no conditional writes.
        """
        return put_if_absent(f"{self.root}/{path}", data, filesystem=self.filesystem)

    def wait_for_renames(self, path: str) -> None:
        """Waits until no other writer has a temporary file for a name below the table; see `sink.wait_for_renames`."""
        wait_for_renames(f"{self.root}/{path}", filesystem=self.filesystem)

    def remove(self, path: str) -> None:
        """Removes a file of the table if it exists."""
        remove(f"{self.root}/{path}", filesystem=self.filesystem)

    # PyIceberg's FileIO ------------------------------------------------------------------------------------

    def new_input(self, location: str) -> Any:
        return _Input(self, location)

    def new_output(self, location: str) -> Any:
        raise io.UnsupportedOperation(f"{location}: this file access is read-only")

    def delete(self, location: Any) -> None:
        raise io.UnsupportedOperation(f"{location}: this file access is read-only")


_IN_PATHS = "/=!$&()+,;@~"
"""The characters besides letters, digits and ``_.-~`` that are not percent-encoded (RFC 2396); Polars 2.1 ignores
the deletion vectors of data files with percent-encoded paths."""


def encoded_path(path: str) -> str:
    """Percent-encodes a path for the log."""
    return quote(path, safe=_IN_PATHS)


_unquoted = lru_cache(maxsize=1 << 12)(unquote)


def decoded_path(path: str) -> str:
    """Decodes the percent-encoding of a path of the log; the result for a folder is cached."""
    if "%" not in path:
        return path
    folder, slash, name = path.rpartition("/")
    return _unquoted(folder) + slash + (unquote(name) if "%" in name else name)


def canonical_path(path: str) -> str:
    """Returns a path of the log without percent-encoding, and a local one without its scheme: ``file:/x``,
    ``file:///x`` and ``/x`` are the same file."""
    decoded = decoded_path(path)
    if ":" not in decoded and decoded[:1] != "/":
        return decoded
    scheme, authority, key = split_location(decoded)
    return key if scheme in ("", "file") and key.startswith("/") and not authority else decoded


def storage_of(table: Any, filesystem: Any = None) -> TableStorage:
    """Returns the storage of a table.

    Args:
        table: a path, a URI, deltalake's `DeltaTable`, or an object that has its storage.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path.

    Raises:
        InvalidInputError: the table is another object, or the path is empty.
    """
    own = getattr(table, "storage", table)
    if isinstance(own, TableStorage):
        return own
    uri = getattr(table, "table_uri", None)  # percent-encoded
    if not isinstance(table, (str, os.PathLike)) and not isinstance(uri, str):
        raise InvalidInputError(
            f"table: expected a path, a URI or a deltalake.DeltaTable, found {type(table).__name__}"
        )
    text = folder_of(table if uri is None else unquote(uri))
    scheme, _, key = split_location(text)
    if filesystem is None and scheme in ("", "file"):
        resolve(text, None)  # refuses a file of another machine
        text = os.path.abspath(key)
    return TableStorage(text, filesystem)
