"""Loads the deleted positions of data files, from deletion vectors and position-delete files, as bitmaps."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from puffin_fast import arrow, limits
from puffin_fast._runtime.threads import on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    LimitExceededError,
    PuffinFastError,
)
from puffin_fast.files import read_ranges, read_vector
from puffin_fast.rows.files.files import reading
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.files.projection import FIELD_ID
from puffin_fast.rows.files.reader import open_format
from puffin_fast.rows.shared_deletes import DeleteFiles, SharedDeletes
from puffin_fast.rows.tasks import FILE_PATH_ID

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from puffin_fast.rows.tasks import DataFile, DeleteFile, Task, Vector

__all__ = [
    "Decode",
    "DeleteLoader",
    "ReadAhead",
    "read_entry",
    "read_position_deletes",
    "within",
]

Decode: TypeAlias = Callable[..., PositionBitmap]
"""The `decode` of a codec in `dv`."""

BATCH_ROWS = 1 << 20
"""Maximum number of rows of a batch of a position-delete file."""

PATH_COLUMN = "file_path"
"""The name of the column of paths (table specification, "Position Delete Files")."""

POS_FIELD = 2147483545
"""Reserved field id of ``pos`` in position deletes."""


class DeleteLoader:
    """Loads the deleted positions of data files; a position-delete file shared by several data files is read once.

    Safe to use from several threads.
    """

    def __init__(self, io: FileIO, decode: Decode = codec.decode) -> None:
        self._io, self._decode = io, decode
        self._lock = threading.Lock()
        self._shared: dict[str, list[tuple[DeleteFile, PositionBitmap]]] = {}
        self._read: set[str] = set()
        self._read_from: weakref.WeakKeyDictionary[SharedDeletes, int] = weakref.WeakKeyDictionary()

    def of(self, task: Task, vectors: ReadAhead | None = None) -> PositionBitmap:
        """Returns the positions deleted by the deletion vector or the position-delete files of a data file.

        Args:
            task: the data file.
            vectors: prefetched deletion vectors.

        Raises:
            CorruptDataError: a deletion vector or delete file does not agree with its manifest entry, or a
                position is outside of the data file.
            NotFoundError: a delete file does not exist.
        """
        if task.vector is not None:
            read = partial(read_entry, self._io, decode=self._decode) if vectors is None else vectors.take
            return within(read(task.vector), task.data, task.vector)
        return PositionBitmap.union(
            within(positions, task.data, entry)
            for entry, positions in self.each(task.data.file_path, task.position_deletes)
        )

    def by_files(self, path: str, deletes: Iterable[DeleteFile]) -> PositionBitmap:
        """Returns the positions of a data file in some position-delete files.

        Args:
            path: of the data file.
            deletes: the position-delete files.
        """
        found = [positions for _, positions in self.each(path, deletes)]
        return found[0] if len(found) == 1 else PositionBitmap.union(found)

    def each(self, path: str, deletes: Iterable[DeleteFile]) -> Iterator[tuple[Any, PositionBitmap]]:
        """Yields those of some position-delete files that have positions of a data file, with the positions.

        The delete files that data files share are read by the first call that needs them, in parallel; a call takes
        time linear in the delete files that have positions of its data file.

        Args:
            path: of the data file.
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
        """Reads the delete files of a list from an index on, unless they were read before."""
        with self._lock:
            stop = self._read_from.get(shared, len(shared.entries))
            entries = [entry for entry in shared.entries[start:stop] if entry.file_path not in self._read]
            read = partial(_position_deletes, self._io)
            for entry, found in zip(entries, on_threads(read, entries, None), strict=True):
                self._read.add(entry.file_path)
                for path, positions in found.items():
                    self._shared.setdefault(path, []).append((entry, positions))
            self._read_from[shared] = min(start, stop)


def within(
    positions: PositionBitmap, data: DataFile, deletes: DeleteFile | Vector | Iterable[DeleteFile]
) -> PositionBitmap:
    """Checks that positions are inside of a data file, and returns them.

    Args:
        positions: the deleted positions.
        data: the data file.
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
        io: PyIceberg's file access.
        entry: of the deletion vector.
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
        entries: of the deletion vectors.
        counted: whether cardinalities must be the entries' record counts.
        decode: the codec; Iceberg's by default.
        threads: number of Puffin files read at a time.
    """

    def __init__(
        self,
        io: FileIO,
        entries: Iterable[Vector],
        *,
        counted: bool = False,
        decode: Decode = codec.decode,
        threads: int = 1,
    ) -> None:
        self._io, self._counted, self._decode = io, counted, decode
        self._found: dict[int, PositionBitmap] = {}
        by_file: dict[str, list[Vector]] = {}
        for entry in entries:
            if None not in (entry.content_offset, entry.content_size_in_bytes):
                by_file.setdefault(entry.file_path, []).append(entry)

        def read(file: tuple[str, list[Vector]]) -> None:
            path, known = file
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

        deque(on_threads(read, [*by_file.items()], threads), maxlen=0)

    def take(self, entry: Vector) -> PositionBitmap:
        """Returns the deletion vector of an entry, prefetched or not; a prefetched vector is returned once.

        Raises:
            As `read_entry` does.
        """
        found = self._found.pop(id(entry), None)
        if found is not None:
            return found
        return read_entry(self._io, entry, counted=self._counted, decode=self._decode)


def read_position_deletes(io: FileIO, entry: DeleteFile) -> Iterator[pa.RecordBatch]:
    """Reads a position-delete file in batches of at most `BATCH_ROWS` rows.

    Yields:
        Batches with the columns of `arrow.encode_grouped`: one blob per data file.

    Raises:
        CorruptDataError: the row count is not that of the manifest entry, or a row has a null or an invalid
            position; also as `open_format`.
        NotFoundError, UnsupportedError: as `open_format`.
    """
    with reading(entry.file_path, entry.file_format):
        file = open_format(io, entry)
        columns = _columns(file.schema, entry.file_path)
        if file.n_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a position-delete file",
                path=entry.file_path,
                expected=f"{entry.record_count} (manifest)",
                found=file.n_rows,
            )
        if isinstance(file, ParquetReader):
            batches = file.all_batches(columns, BATCH_ROWS, columns[:1])
        else:
            batches = file.batches(0, columns, BATCH_ROWS, use_threads=False)
        left = file.n_rows
        for rows in batches:
            left -= rows.num_rows
            try:
                grouped = arrow.encode_grouped(*(rows[name] for name in columns))
            except InvalidInputError as error:
                raise CorruptDataError(f"position deletes: {error}", path=entry.file_path) from error
            yield grouped
        if left:  # the header of an Avro file has no row count
            raise CorruptDataError(
                "rows of a position-delete file",
                path=entry.file_path,
                expected=file.n_rows,
                found=file.n_rows - left,
            )


def _position_deletes(io: FileIO, entry: DeleteFile) -> dict[str, PositionBitmap]:
    """The deleted positions in one position-delete file, by data file."""
    limit = limits.POSITION_DELETE_BYTES.of(io)
    bitmaps: dict[str, list[PositionBitmap]] = {}
    n_bytes = 0
    for grouped in read_position_deletes(io, entry):
        for path, blob in zip(grouped["file_path"].to_pylist(), grouped["blob"].to_pylist(), strict=True):
            bitmaps.setdefault(path, []).append(codec.decode(blob))
            n_bytes += len(path) + len(blob)
        if n_bytes > limit:
            bitmaps = {path: [PositionBitmap.union(parts)] for path, parts in bitmaps.items()}
            n_bytes = sum(len(path) + parts[0].n_bytes for path, parts in bitmaps.items())
        if n_bytes > limit:
            raise LimitExceededError(
                f"{entry.file_path}: bitmaps of its positions: expected at most {limit} bytes, found {n_bytes}"
            )
    return {
        path: parts[0] if len(parts) == 1 else PositionBitmap.union(parts) for path, parts in bitmaps.items()
    }


def _columns(schema: pa.Schema, path: str) -> list[str]:
    """The names of the columns of paths and positions."""
    names = {}
    for field in schema:
        if field.metadata and FIELD_ID in field.metadata:
            names[int(field.metadata[FIELD_ID])] = field.name
    columns = [names.get(FILE_PATH_ID, PATH_COLUMN), names.get(POS_FIELD, "pos")]
    if missing := [name for name in columns if name not in schema.names]:
        raise CorruptDataError(
            "columns of position deletes", path=path, expected=columns, found=f"no {missing}"
        )
    return columns
