"""On executors: the deletion vectors of a task are written to files of a target size, which `RunFolder` names.

Spark may run the two sides of a union in one task, and both write. Only the files that are named in rows that the
driver received are committed. A Delta table names its files by UUIDs, ``deletion_vector_{uuid}.bin``.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._io import open_sink
from puffin_fast._io.run_folder import RunFolder
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import delta
from puffin_fast.iceberg.delete_files.deletion_vectors import size_of
from puffin_fast.puffin.vectors import DeletionVectorLocation, write_vectors
from puffin_fast.rows.deletes.outcome import FileDeleted
from puffin_fast.spark.worker.merge import merge
from puffin_fast.spark.worker.reports import Report


@dataclass(frozen=True)
class Place:
    """Where and how the tasks of a job write vectors.

    Attributes:
        folder: the folder of the run.
        target_file_size: bytes of blobs above which a task begins another file.
        dry_run: write each file to memory and discard it.
        records: write files of records, as Delta has them, in place of Puffin files.
        most: the largest number of vectors of a file; by default there is none.
    """

    folder: RunFolder
    target_file_size: int
    dry_run: bool = False
    records: bool = False
    most: int | None = None


def write_files(
    vectors: Iterable[tuple[str, PositionBitmap | bytes]],
    place: Place,
    *,
    filesystem: Any,
    kind: Callable[[str], object] = lambda data_file: None,
) -> Iterator[list[DeletionVectorLocation]]:
    """Writes deletion vectors to files of the target size. The vectors of a Puffin file are in memory at a time: the
    shortest is its first, see `write_deletion_vectors`. Records are written one after another.

    Args:
        vectors: data file and vector.
        place: where to write.
        filesystem: as for `write_vectors`.
        kind: returns the kind of a data file; vectors of different kinds are not written to one Puffin file.

    Yields:
        the locations in one file, when the file is complete.
    """
    name = place.folder.names()
    write = _write_records if place.records else write_vectors
    groups = split_by_size(
        vectors,
        place.target_file_size,
        lambda item: size_of(item[1]),
        kind=lambda item: kind(item[0]),
        most=place.most,
    )
    for group in groups:
        run = group if place.records else sorted(group, key=lambda item: size_of(item[1]))
        path = (
            f"{place.folder.location}/deletion_vector_{uuid.uuid4()}.bin"
            if place.records
            else name(".puffin")
        )
        if place.dry_run:
            yield [replace(vector, path=path) for vector in write(io.BytesIO(), run)]
        else:
            yield write(path, run, filesystem=filesystem)


def _write_records(
    path: Any, vectors: Iterable[tuple[str, PositionBitmap | bytes]], *, filesystem: Any = None
) -> list[DeletionVectorLocation]:
    """`write_vectors` for a file of records: its version, and one record after the other."""
    handle = getattr(filesystem, "filesystem", filesystem)  # a FileIO only reads
    sink, at = open_sink(path, filesystem=handle), 1
    written = []
    try:
        sink.write(bytes([delta.FILE_VERSION]))
        for data_file, vector in vectors:
            assert isinstance(vector, PositionBitmap)
            record = delta.encode(vector)
            sink.write(record)
            written.append((data_file, at, len(record), len(vector)))
            at += len(record)
        sink.commit()
    except BaseException:
        sink.abort()
        raise
    name = path if isinstance(path, str) else ""
    return [
        DeletionVectorLocation(data_file, name, offset, length, cardinality, at)
        for data_file, offset, length, cardinality in written
    ]


def pack(
    batches: Iterator[pa.RecordBatch], *, memory: int, place: Place, filesystem: Any
) -> Iterator[Report]:
    """Unites the partial vectors of each data file of one task and writes the deletion vectors.

    Args:
        batches: (file_path, blob); all rows of a data file are adjacent.
        memory: limit of the buffer of partial vectors, in bytes.
        place: where to write.
        filesystem: as for `write_vectors`.
    """
    whole = (
        (path.as_py(), blob.as_py())
        for batch in merge(batches, memory=memory)
        for path, blob in zip(batch["file_path"], batch["blob"], strict=True)
    )
    for file in write_files(whole, place, filesystem=filesystem):
        yield Report([FileDeleted(vector.data_file, vector.cardinality, vector) for vector in file])
