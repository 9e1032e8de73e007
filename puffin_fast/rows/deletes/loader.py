"""Loads the deleted positions of data files, from deletion vectors and position-delete files, as bitmaps."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from puffin_fast import limits
from puffin_fast._concurrency.threads import REMOTE_THREADS, on_threads
from puffin_fast._io import is_remote
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import (
    CorruptDataError,
    LimitExceededError,
    PuffinFastError,
)
from puffin_fast.puffin.vectors import read_ranges, read_vector
from puffin_fast.rows.deletes.position_files import read_position_deletes
from puffin_fast.rows.shared_deletes import DeleteFiles, SharedDeletes

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from pyiceberg.io import FileIO

    from puffin_fast.rows.tasks import DataFile, DeleteFile, Task, Vector

MOST_AHEAD = 256
"""Maximum number of position-delete files that are read at once although only some of them are needed yet ..."""

AHEAD_BYTES = 16 << 20
"""... and the number of bytes after which no more are."""

Decode: TypeAlias = Callable[..., PositionBitmap]
"""The `decode` of a codec in `dv`."""


class DeleteLoader:
    """Loads the deleted positions of data files; a position-delete file shared by several data files is read once.

    Safe to use from several threads.

    Args:
        io: opens the files.
        decode: the codec; Iceberg's by default.
        only: the data files whose positions are kept of position-delete files; by default all.
    """

    def __init__(
        self, io: FileIO, decode: Decode = codec.decode, *, only: Collection[str] | None = None
    ) -> None:
        self._io, self._decode, self._only = io, decode, only
        self._lock = threading.Lock()
        self._shared: dict[str, list[tuple[DeleteFile, PositionBitmap]]] = {}
        self._read: set[str] = set()
        self._read_from: weakref.WeakKeyDictionary[SharedDeletes, int] = weakref.WeakKeyDictionary()
        self._needed: dict[int, Iterator[DeleteFile]] = {}

    def of(self, task: Task, vectors: ReadAhead | None = None) -> PositionBitmap:
        """Returns the positions deleted by the deletion vector or the position-delete files of a data file.

        Args:
            vectors: prefetched deletion vectors.

        Raises:
            CorruptDataError: a deletion vector or delete file does not agree with its manifest entry, or a
                position is outside of the data file.
            NotFoundError: a delete file does not exist.
        """
        if task.vector is not None:
            read = partial(read_entry, self._io, decode=self._decode) if vectors is None else vectors.take
            return within(read(task.vector), task.data, task.vector)
        return PositionBitmap.union_all(
            within(positions, task.data, entry)
            for entry, positions in self.each(task.data.file_path, task.position_deletes)
        )

    def by_files(self, path: str, deletes: Iterable[DeleteFile]) -> PositionBitmap:
        """Returns the positions of a data file in some position-delete files.

        Args:
            path: the path of the data file.
            deletes: the position-delete files.
        """
        found = [positions for _, positions in self.each(path, deletes)]
        return found[0] if len(found) == 1 else PositionBitmap.union_all(found)

    def each(self, path: str, deletes: Iterable[DeleteFile]) -> Iterator[tuple[Any, PositionBitmap]]:
        """Yields those of some position-delete files that have positions of a data file, with the positions.

        The delete files that data files share are read by the first call that needs them, in parallel; a call takes
        time linear in the delete files that have positions of its data file.

        Args:
            path: the path of the data file.
            deletes: the position-delete files.
        """
        if not isinstance(deletes, DeleteFiles):
            deletes = DeleteFiles.of(deletes)
        for shared, start in deletes.parts:
            if not shared.of_one:
                self._read_shared(shared, start)
                continue
            for entry in shared.entries[start:]:
                if (positions := _position_deletes(self._io, entry).get(path)) is not None:
                    yield entry, positions
        for entry, positions in self._shared.get(path, ()):
            if entry in deletes:
                yield entry, positions

    def _read_shared(self, shared: SharedDeletes, start: int) -> None:
        """Reads the delete files of a list from an index on, unless they were read before, and some others ahead."""
        if self._read_from.get(shared, len(shared.entries)) <= start:
            return
        with self._lock:
            stop = self._read_from.get(shared, len(shared.entries))
            entries = [entry for entry in shared.entries[start:stop] if entry.file_path not in self._read]
            if entries:
                self._read_files([*entries, *self._following(shared, entries)], len(entries))
            self._read_from[shared] = min(start, stop)

    def _following(self, shared: SharedDeletes, entries: Sequence[DeleteFile]) -> Iterator[DeleteFile]:
        """Yields delete files that other data files need, and that were not read: one request at a time takes long."""
        known = {entry.file_path for entry in entries}
        needed = self._needed.setdefault(id(shared.others), shared.needed())
        n_bytes = 0
        while len(known) < MOST_AHEAD and n_bytes < AHEAD_BYTES and (entry := next(needed, None)) is not None:
            if entry.file_path not in self._read and entry.file_path not in known:
                known.add(entry.file_path)
                n_bytes += entry.file_size_in_bytes
                yield entry

    def _read_files(self, entries: Sequence[DeleteFile], n_needed: int) -> None:
        """Reads delete files; an error of one that is not among the needed ones is raised when that one is needed."""

        def read(at: int) -> dict[str, PositionBitmap] | None:
            try:
                return _position_deletes(self._io, entries[at], self._only)
            except PuffinFastError:
                if at < n_needed:
                    raise
                return None

        threads = REMOTE_THREADS if is_remote(entries[0].file_path, self._io) else None
        found = on_threads(read, range(len(entries)), threads)
        for entry, by_path in zip(entries, found, strict=True):
            if by_path is not None:
                self._read.add(entry.file_path)
                for path, positions in by_path.items():
                    self._shared.setdefault(path, []).append((entry, positions))


def within(
    positions: PositionBitmap, data: DataFile, deletes: DeleteFile | Vector | Iterable[DeleteFile]
) -> PositionBitmap:
    """Checks that positions are inside of a data file, and returns them.

    Args:
        positions: the deleted positions.
        deletes: the delete file that contains the positions, or all of them, for the error.

    Raises:
        CorruptDataError: a position is not less than the row count of the data file.
    """
    if positions and positions.max() >= data.record_count:
        entries: list[Any] = [deletes] if not isinstance(deletes, Iterable) else [*deletes]
        raise CorruptDataError(
            f"deleted position of {data.file_path}",
            path=", ".join(entry.file_path for entry in entries) or None,
            offset=getattr(entries[0], "content_offset", None) if len(entries) == 1 else None,
            expected=f"less than {data.record_count} rows",
            found=positions.max(),
        )
    return positions


def read_entry(
    io: FileIO, entry: Vector, *, counted: bool = True, decode: Decode = codec.decode
) -> PositionBitmap:
    """Reads the deletion vector of a manifest entry.

    Args:
        entry: the manifest entry of the deletion vector.
        counted: whether the cardinality must be the entry's record count.
        decode: the codec; Iceberg's by default.

    Raises:
        CorruptDataError: the entry has no content offset or size, or the blob does not agree with the entry.
    """
    if entry.content_offset is None or entry.content_size_in_bytes is None:
        raise CorruptDataError(
            "entry of a deletion vector",
            path=entry.file_path,
            expected="content offset and size",
            found="none",
        )
    return read_vector(
        entry.file_path,
        entry.content_offset,
        entry.content_size_in_bytes,
        cardinality=entry.record_count if counted else None,
        filesystem=io,
        decode=decode,
    )


class ReadAhead:
    """Prefetches deletion vectors: opens each Puffin file once, and reads neighboring blobs together.

    Args:
        io: PyIceberg's file access.
        entries: the manifest entries of the deletion vectors.
        counted: whether cardinalities must be the entries' record counts.
        decode: the codec; Iceberg's by default.
        pool: reads the Puffin files, while the caller does something else; without it they are read here.
    """

    def __init__(
        self,
        io: FileIO,
        entries: Iterable[Vector],
        *,
        counted: bool = False,
        decode: Decode = codec.decode,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self._io, self._counted, self._decode = io, counted, decode
        self._found: dict[int, PositionBitmap] = {}
        self._reads: dict[int, Future[None]] = {}
        by_file: dict[str, list[Vector]] = {}
        for entry in entries:
            if None not in (entry.content_offset, entry.content_size_in_bytes):
                by_file.setdefault(entry.file_path, []).append(entry)

        def read(path: str, known: list[Vector]) -> None:
            ranges = [
                (
                    entry.content_offset or 0,
                    entry.content_size_in_bytes or 0,
                    entry.record_count if counted else None,
                )
                for entry in known
            ]
            try:
                for at, bitmap in read_ranges(path, ranges, filesystem=io, decode=decode):
                    self._found[id(known[at])] = bitmap
            except PuffinFastError:
                pass  # prefetch is best effort: `take` reads the vector again, and raises if it cannot be read

        for path, known in by_file.items():
            if pool is None:
                read(path, known)
            else:
                self._reads.update(dict.fromkeys(map(id, known), pool.submit(read, path, known)))

    def take(self, entry: Vector) -> PositionBitmap:
        """Returns the deletion vector of an entry, prefetched or not; a prefetched vector is returned once.

        Raises:
            As `read_entry` does.
        """
        if (reading := self._reads.get(id(entry))) is not None:
            reading.result()
        found = self._found.pop(id(entry), None)
        if found is not None:
            return found
        return read_entry(self._io, entry, counted=self._counted, decode=self._decode)


def _position_deletes(
    io: FileIO, entry: DeleteFile, only: Collection[str] | None = None
) -> dict[str, PositionBitmap]:
    """The deleted positions in one position-delete file, by data file; `only` of some."""
    limit = limits.POSITION_DELETE_BYTES.of(io)
    bitmaps: dict[str, list[PositionBitmap]] = {}
    n_bytes = 0
    for found in read_position_deletes(io, entry):
        for path, positions in found.items():
            if only is not None and path not in only:
                continue
            bitmaps.setdefault(path, []).append(positions)
            n_bytes += len(path) + positions.n_bytes
        if n_bytes > limit:
            bitmaps = {path: [PositionBitmap.union_all(parts)] for path, parts in bitmaps.items()}
            n_bytes = sum(len(path) + parts[0].n_bytes for path, parts in bitmaps.items())
        if n_bytes > limit:
            raise LimitExceededError(
                f"{entry.file_path}: bitmaps of its positions: expected at most {limit} bytes, found {n_bytes}"
            )
    return {
        path: parts[0] if len(parts) == 1 else PositionBitmap.union_all(parts)
        for path, parts in bitmaps.items()
    }
