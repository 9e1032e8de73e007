"""On executors: the delete files of a task's data files are converted, or their deletion vectors rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.iceberg.maintenance.compact import read_puffin_vectors
from puffin_fast.iceberg.maintenance.convert import EqualityConverter, convert_positions
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.position_files import read_position_deletes
from puffin_fast.spark.session.executor_calls import Batches, items_of
from puffin_fast.spark.worker.combine import pieces
from puffin_fast.spark.worker.marked import Marked, partial_rows
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Target, by_spec, written

if TYPE_CHECKING:
    from puffin_fast.iceberg.plan.inventory import FileDeletes


def positions(batches: Batches, target: Target) -> Iterator[Report]:
    """Converts the position deletes of data files that share no position-delete file.

    Args:
        batches: one binary column: packed lists of `FileDeletes`.
    """
    current = DeleteLoader(target.io)
    found = (
        (file, current.by_files(file.data.file_path, file.position_deletes)) for file in items_of(batches)
    )
    return _converted(found, current, target)


def _converted(
    found: Iterable[tuple[FileDeletes, PositionBitmap]], current: DeleteLoader, target: Target
) -> Iterator[Report]:
    every = (convert_positions(file, deleted, current) for file, deleted in found)
    return written((new for new in every if new is not None), target, only_new=False)


def read(batches: Batches, target: Target, *, files: Mapping[str, Mapping[int, int]]) -> Batches:
    """Reads position-delete files that apply to several data files, each of them once.

    Args:
        batches: one binary column: packed lists of a position-delete file's entry and its places: the numbers of the
            lists that contain it, and its index in each list.
        files: by path of a data file, the numbers of the lists of delete files that apply to it,
            and in each list the index of the first one that does.

    Yields:
        rows of `MARKED`: partial vectors.
    """
    for entry, places in items_of(batches):
        for found in read_position_deletes(target.io, entry):
            applies = {
                path: positions
                for path, positions in found.items()
                if any(number in files.get(path, ()) and at >= files[path][number] for number, at in places)
            }
            blobs = pa.array(map(codec.encode, applies.values()), pa.binary())
            columns = [pa.array([*applies], pa.string()), blobs]
            for part in pieces(pa.record_batch(columns, names=["file_path", "blob"])):
                yield partial_rows(part)


def unite(batches: Batches, target: Target, *, memory: int, common: bytes) -> Iterator[Report]:
    """Converts the partial vectors that `read` returned.

    Args:
        batches: rows of `MARKED`; all rows of a data file are adjacent, its task is a `FileDeletes`.
        memory: limit of the buffer of partial vectors, in bytes.
        common: as `pickled_tasks` packs it.
    """
    united = by_spec(Marked(batches, common).united(memory), target)
    return _converted(united, DeleteLoader(target.io), target)


def equality(batches: Batches, target: Target) -> Iterator[Report]:
    """Converts the equality deletes of data files.

    Args:
        batches: one binary column: packed lists of pairs of `FileDeletes` and its `Candidates`, or None.
    """
    converter = EqualityConverter(target.io, target.metadata)
    return written(starmap(converter.deletes, items_of(batches)), target)


def move(batches: Batches, target: Target) -> Iterator[Report]:
    """Rewrites deletion vectors into new Puffin files.

    Args:
        batches: one binary column: packed lists of lists of `FileTask`; the vectors of an inner list
            are in one Puffin file.
    """
    moved = (new for tasks in items_of(batches) for new in read_puffin_vectors(target.io, tasks))
    return written(moved, target, only_new=False)
