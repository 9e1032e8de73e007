"""On executors: segments of key indexes are made from data files, and keys are looked up in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, NotFoundError, PuffinFastError
from puffin_fast.spark.session.executor_calls import Batches
from puffin_fast.spark.worker.combine import pieces
from puffin_fast.spark.worker.keys import candidates_of, from_spark
from puffin_fast.spark.worker.marked import Marked, partial_rows
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from puffin_fast.iceberg.index.lookup import KeyLookup
    from puffin_fast.key_index import KeyMatches, Read, Segment
    from puffin_fast.rows.keys.keys import KeyBounds

PART = "part"
"""The column that says in which range of hashes a key is."""

LOOKUP_BYTES = 32 << 20
"""Bytes of keys that are looked up at a time."""


def with_parts(batches: Batches, *, lookup: KeyLookup) -> Batches:
    """Adds the column `PART` to keys.

    Args:
        batches: the columns of `spark_schema`.
        lookup: the index.
    """
    with lookup.segments() as segments:
        first = max((segment for segment, *_ in segments), key=lambda segment: segment.n_entries)
        for batch in batches:
            parts = first.parts_of(_columns(batch, lookup))
            yield batch.append_column(PART, pa.array(parts, pa.int32()))


def named(batches: Batches, *, lookup: KeyLookup) -> Batches:
    """Looks up keys.

    Args:
        batches: the columns of `spark_schema`, and `PART`, by which the keys are sorted.
        lookup: the index.

    Yields:
        rows of `MARKED`: the rows of data files that may have a key, as partial vectors.

    Raises:
        CorruptDataError: a segment is damaged or cannot be read.
        NotFoundError: the file with the segments does not exist.
    """
    with lookup.segments() as segments:
        for group in split_by_size(batches, LOOKUP_BYTES, lambda batch: batch.nbytes):
            columns = _columns(pa.Table.from_batches(group).combine_chunks(), lookup)
            for segment, read, paths in segments:
                found = segment.by_file(_found(lookup, segment, read, columns))
                rows = {
                    path: codec.encode(PositionBitmap.from_positions(positions))
                    for number, (positions, _) in found.items()
                    if (path := paths[number]) is not None
                }
                arrays = [pa.array([*rows], pa.string()), pa.array(rows.values(), pa.binary())]
                for piece in pieces(pa.record_batch(arrays, names=["file_path", "blob"])):
                    yield partial_rows(piece)


def _found(index: KeyLookup, segment: Segment, read: Read, columns: Sequence[pa.Array]) -> KeyMatches:
    try:
        return segment.find(read, columns)
    except (PuffinFastError, OSError) as error:
        if is_from_outside(error) or isinstance(error, CorruptDataError | NotFoundError):
            raise
        raise CorruptDataError(f"key index: it could not be read: {error}", path=index.path) from error


def _columns(rows: pa.RecordBatch | pa.Table, index: KeyLookup) -> list[pa.Array]:
    """The columns of keys that an index has, in its order and the types of data files."""
    found = []
    for at, kind in index.columns:
        column = rows.column(at)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        found.append(from_spark(column, kind))
    return found


def candidates(
    batches: Batches,
    target: Target,
    *,
    bounds: KeyBounds,
    null_safe: bool,
    live: bool,
    memory: int,
    common: bytes,
) -> Batches:
    """Reads the rows that `named` found; arguments and rows as for `keys.candidates`.

    Args:
        batches: rows of `MARKED`, with the tasks as pairs of the number of a data file and its `FileTask`; all rows of
            a data file are adjacent.
        memory: limit of the buffer of partial vectors, in bytes.
        common: as `pickled_tasks` packs it.
    """
    items = (
        (number, replace(task, candidates=positions))
        for (number, task), positions in Marked(batches, common).united(memory)
    )
    return candidates_of(items, target, bounds, null_safe=null_safe, live=live)
