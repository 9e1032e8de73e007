"""The positions that are deleted already: vectors and position-delete files of a data file, as one bitmap."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast import arrow
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.files import read_vector
from puffin_fast.iceberg._datafile import open_parquet
from puffin_fast.iceberg.plan import FILE_PATH_ID
from puffin_fast.iceberg.project import FIELD_ID

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from puffin_fast.iceberg.manifests import ManifestEntry
    from puffin_fast.iceberg.plan import FileTask

__all__ = ["CurrentDeletes"]

POS_FIELD = 2147483545
"""Reserved field id of ``pos`` in position deletes."""


class CurrentDeletes:
    """Reads the position deletes of data files; a position-delete file that several share is read once.

    Safe to use from several threads.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._lock = threading.Lock()
        self._shared: dict[str, dict[str, PositionBitmap]] = {}

    def of(self, task: FileTask) -> PositionBitmap:
        """All positions of a data file that its vector or its position-delete files hold.

        Raises:
            CorruptDataError: a vector or delete file that is not what the manifest says, or a position that
                the data file does not have.
            NotFoundError: a file that is gone.
        """
        path = task.data.file_path
        if task.vector is not None:
            found = read_entry(self._io, task.vector)
        else:
            parts = [self._file(entry).get(path) for entry in task.position_deletes]
            found = PositionBitmap.union([part for part in parts if part is not None])
        if found and found.max() >= task.data.record_count:
            raise CorruptDataError(
                "position of a deleted row",
                path=path,
                expected=f"less than {task.data.record_count} rows",
                found=found.max(),
            )
        return found

    def _file(self, entry: ManifestEntry) -> dict[str, PositionBitmap]:
        with self._lock:
            if entry.file_path not in self._shared:
                self._shared[entry.file_path] = _position_deletes(self._io, entry)
            return self._shared[entry.file_path]


def read_entry(io: FileIO, entry: ManifestEntry) -> PositionBitmap:
    """The vector that a manifest entry names.

    Raises:
        CorruptDataError: the entry lacks its range, or the blob is not what the entry says.
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
        cardinality=entry.record_count,
        filesystem=io,
    )


def _position_deletes(io: FileIO, entry: ManifestEntry) -> dict[str, PositionBitmap]:
    """Data file to deleted positions, of one Parquet position-delete file."""
    if entry.file_format != "PARQUET":
        raise UnsupportedError(f"{entry.file_path}: {entry.file_format} position deletes; expected PARQUET")
    file = open_parquet(io, entry.file_path)
    names = {}
    for field in file.schema_arrow:
        if field.metadata and FIELD_ID in field.metadata:
            names[int(field.metadata[FIELD_ID])] = field.name
    paths, positions = names.get(FILE_PATH_ID, "file_path"), names.get(POS_FIELD, "pos")
    try:
        rows = file.read(columns=[paths, positions], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptDataError(f"Parquet file: {error}", path=entry.file_path) from error
    grouped = arrow.encode_grouped(rows[paths], rows[positions])
    return {
        path: codec.decode(blob)
        for path, blob in zip(grouped["file_path"].to_pylist(), grouped["blob"].to_pylist(), strict=True)
    }
