"""On the executors: a task's vectors go into Puffin files of a bounded size, named as no other attempt's are.

A file is ``{job}-{partition:05d}-{taskAttemptId}-{n:04d}.puffin``, or ``.parquet`` where it holds position deletes
of a table that has no vectors. A retried or speculative task has another attempt id, so it never touches what its
twin wrote; whose rows the driver gets decides which of them counts.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.files import write_vectors
from puffin_fast.spark.worker.merge import merge
from puffin_fast.spark.worker.rows import WRITTEN_SCHEMA

__all__ = ["Place", "pack", "write_files"]


@dataclass(frozen=True)
class Place:
    """Where a job's tasks write.

    Attributes:
        location: a folder.
        job: the first part of each file's name.
        target_file_size: bytes of blobs after which a task begins another file.
        dry_run: write into memory, one file after the other, and forget it.
    """

    location: str
    job: str
    target_file_size: int
    dry_run: bool = False

    def paths(self, suffix: str) -> Callable[[int], str]:
        """The paths of this attempt's files, by number."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "only tasks write"
        stem = f"{self.location}/{self.job}-{context.partitionId():05d}-{context.taskAttemptId()}"
        return lambda number: f"{stem}-{number:04d}{suffix}"


class _Bins:
    """Numbers the Puffin files of a task: the key of a `groupby` over (data file, vector)."""

    def __init__(self, target: int, kind: Callable[[str], object]) -> None:
        self._target, self._kind_of = target, kind
        self._filled = 0
        self._number = 0
        self._kind: object = None

    def __call__(self, item: tuple[str, PositionBitmap | bytes]) -> int:
        vector = item[1]
        n_bytes = len(vector) if isinstance(vector, bytes) else vector.n_bytes
        kind = self._kind_of(item[0])
        if self._filled and (self._filled + n_bytes > self._target or kind != self._kind):
            self._number += 1
            self._filled = 0
        self._filled += n_bytes
        self._kind = kind
        return self._number


def write_files(
    vectors: Iterable[tuple[str, PositionBitmap | bytes]],
    place: Place,
    *,
    filesystem: Any,
    kind: Callable[[str], object] = lambda data_file: None,
) -> Iterator[pa.RecordBatch]:
    """Writes vectors as they come; memory holds one at a time.

    Args:
        vectors: data file and vector.
        place: where to.
        filesystem: as `write_vectors` takes it.
        kind: of a data file; another kind begins another Puffin file.

    Yields:
        one batch per Puffin file, after it is complete: where each vector stands.
    """
    path_of = place.paths(".puffin")
    for number, run in groupby(vectors, key=_Bins(place.target_file_size, kind)):
        path = path_of(number)
        if place.dry_run:
            written = [replace(v, path=path) for v in write_vectors(io.BytesIO(), run)]
        else:
            written = write_vectors(path, run, filesystem=filesystem)
        columns = [[getattr(v, name) for v in written] for name in WRITTEN_SCHEMA.names]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, WRITTEN_SCHEMA, strict=True)],
            schema=WRITTEN_SCHEMA,
        )


def pack(
    batches: Iterator[pa.RecordBatch], *, memory: int, location: str, job: str, target: int, filesystem: Any
) -> Iterator[pa.RecordBatch]:
    """`merge`, into files: all partial vectors of a task's files become one vector each, and are written.

    Args:
        batches: (file_path, blob); all rows of a file stand together.
        memory: bytes of partial vectors that may be held.
        location, job, target: the `Place`.
        filesystem: as `write_vectors` takes it.

    Yields:
        rows of `WRITTEN`.
    """
    whole = (
        (path.as_py(), blob.as_py())
        for batch in merge(batches, memory=memory)
        for path, blob in zip(batch["file_path"], batch["blob"], strict=True)
    )
    return write_files(whole, Place(location, job, target), filesystem=filesystem)
