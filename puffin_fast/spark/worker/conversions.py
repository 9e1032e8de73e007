"""On executors: the delete files of a task's data files are converted, or their deletion vectors rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.iceberg.maintenance.compact import read_puffin_vectors
from puffin_fast.iceberg.maintenance.convert import EqualityConverter, SupersededPositions, convert_positions
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.position_files import read_position_deletes
from puffin_fast.spark.worker.combine import pieces
from puffin_fast.spark.worker.rows import SUPERSEDED, ReportRow, partial_rows
from puffin_fast.spark.worker.tasks import Marked, Target, by_spec, items_of, unpack, written

if TYPE_CHECKING:
    from puffin_fast.iceberg.plan.inventory import FileDeletes
    from puffin_fast.rows.deletes.outcome import NewDeletes

Batches = Iterator[pa.RecordBatch]


def positions(batches: Batches, *, target: bytes) -> Batches:
    """Converts the position deletes of data files that share no position-delete file.

    Args:
        batches: one binary column: packed lists of `FileDeletes`.
        target: packed `Target`.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    current = DeleteLoader(table.io)

    def found() -> Iterator[NewDeletes | ReportRow]:
        for file in items_of(batches):
            deleted = current.by_files(file.data.file_path, file.position_deletes)
            yield from _converted(file, deleted, current)

    return written(found(), table, only_new=False)


def _converted(
    file: FileDeletes, deleted: PositionBitmap, current: DeleteLoader
) -> Iterator[NewDeletes | ReportRow]:
    new = convert_positions(file, deleted, current)
    if isinstance(new, SupersededPositions):
        yield ReportRow(SUPERSEDED, new.path, n_rows=new.n_positions)
    elif new is not None:
        yield new


def read(batches: Batches, *, target: bytes, files: bytes) -> Batches:
    """Reads position-delete files that apply to several data files, each of them once.

    Args:
        batches: one binary column: packed lists of a position-delete file's entry and its places: the numbers of the
            lists that contain it, and its index in each list.
        target: packed `Target`.
        files: packed dictionary: by path of a data file, the numbers of the lists of delete files that apply to it,
            and in each list the index of the first one that does.

    Yields:
        rows of `MARKED`: partial vectors.
    """
    table: Target = unpack(target)
    starts: dict[str, dict[int, int]] = unpack(files)
    for entry, places in items_of(batches):
        for found in read_position_deletes(table.io, entry):
            applies = {
                path: positions
                for path, positions in found.items()
                if any(number in starts.get(path, ()) and at >= starts[path][number] for number, at in places)
            }
            blobs = pa.array(map(codec.encode, applies.values()), pa.binary())
            columns = [pa.array([*applies], pa.string()), blobs]
            for part in pieces(pa.record_batch(columns, names=["file_path", "blob"])):
                yield partial_rows(part)


def unite(batches: Batches, *, target: bytes, memory: int, lists: bytes) -> Batches:
    """Converts the partial vectors that `read` returned.

    Args:
        batches: rows of `MARKED`; all rows of a data file are adjacent, its task is a `FileDeletes`.
        target: packed `Target`.
        memory: limit of the buffer of partial vectors, in bytes.
        lists: as `pickled_tasks` packs them.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    current = DeleteLoader(table.io)
    united = by_spec(Marked(batches, lists).united(memory), table)
    found = (new for file, deleted in united for new in _converted(file, deleted, current))
    return written(found, table, only_new=False)


def equality(batches: Batches, *, target: bytes) -> Batches:
    """Converts the equality deletes of data files; arguments and rows as for `positions`.

    Args:
        batches: one binary column: packed lists of pairs of `FileDeletes` and its `Candidates`, or None.
        target: packed `Target`.
    """
    table: Target = unpack(target)
    converter = EqualityConverter(table.io, table.metadata)
    return written(starmap(converter.deletes, items_of(batches)), table)


def move(batches: Batches, *, target: bytes) -> Batches:
    """Rewrites deletion vectors into new Puffin files.

    Args:
        batches: one binary column: packed lists of lists of `FileTask`; the vectors of an inner list
            are in one Puffin file.
        target: packed `Target`.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    some: Iterator[Any] = items_of(batches)
    return written(
        (new for tasks in some for new in read_puffin_vectors(table.io, tasks)), table, only_new=False
    )
