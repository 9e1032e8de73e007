"""On executors, before the shuffle: rows (file_path, pos) are encoded as partial vectors.

The memory of a task does not depend on the number of rows. Three quarters of ``memory`` hold rows (paths as a
dictionary, plus 12 bytes for each row), one quarter holds partial vectors. A full buffer is first compacted: the rows
get one common dictionary, the partial vectors of a data file are united. If it is still more than half full, its
contents are passed on. Compacting needs about the same amount of memory again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast import arrow
from puffin_fast.bitmap import MAX_POSITION
from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import InvalidInputError
from puffin_fast.spark.worker.merge import grouped_union, in_slices

PARTIALS = pa.schema([("file_path", pa.string()), ("blob", pa.binary())])
"""The rows that `combine` returns."""

PIECE = 16 << 10
"""Largest shuffled blob in bytes, as far as containers can be split. Spark splits the batches that it sends to
Python by rows (10,000 by default), not by bytes: with this limit they stay below 160 MB."""

RAW = 8 << 20
"""Rows are buffered as they arrive up to this many bytes; then their paths are dictionary-encoded."""


Screen = Callable[[pa.DictionaryArray, pa.Int64Array], tuple[pa.DictionaryArray, pa.Int64Array]]
"""Called with rows before they are encoded; removes some of them, or raises an error."""


class _Rows:
    """The row buffer of one task."""

    def __init__(self, limit: int, screen: Screen | None) -> None:
        self.limit = limit
        self._screen = screen
        self._raw: list[pa.RecordBatch] = []
        self._raw_bytes = 0
        self._paths: list[pa.Array] = []
        self._positions: list[pa.Array] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._raw.append(batch)
        self._raw_bytes += batch.nbytes
        if self._raw_bytes >= min(RAW, self.limit):
            self._compact()

    def _compact(self) -> None:
        if not self._raw:
            return
        table = pa.Table.from_batches(self._raw)
        self._paths.append(table.column(0).combine_chunks().dictionary_encode())
        self._positions.append(table.column(1).combine_chunks())
        self._bytes += self._paths[-1].nbytes + self._positions[-1].nbytes
        self._raw, self._raw_bytes = [], 0

    def full(self) -> bool:
        """Whether the buffer is full.

        At the limit, the dictionaries of the paths are unified first; the buffer counts as full when it is more
        than half full after that, so that unifying is not repeated after a few rows.
        """
        if self._bytes + self._raw_bytes < self.limit:
            return False
        paths, positions = self._take()
        self._paths, self._positions = [paths], [positions]
        self._bytes = paths.nbytes + positions.nbytes
        return self._bytes >= self.limit // 2

    def _take(self) -> tuple[pa.DictionaryArray, pa.Int64Array]:
        """All rows, the paths with one dictionary; empties the buffer while it copies."""
        self._compact()
        positions = pa.concat_arrays(self._positions)
        chunks = pa.chunked_array(self._paths).unify_dictionaries().chunks
        self._paths, self._positions, self._bytes = [], [], 0
        indices = pa.concat_arrays([chunk.indices for chunk in chunks])
        return pa.DictionaryArray.from_arrays(indices, chunks[0].dictionary), positions

    def drain(self) -> pa.RecordBatch | None:
        """Encodes all rows as (file_path, blob), one row per data file, and empties the buffer."""
        self._compact()
        if not self._paths:
            return None
        paths, positions = self._take()
        if self._screen is not None:
            paths, positions = self._screen(paths, positions)
        found = arrow.encode_grouped(paths, positions)
        return found.select(["file_path", "blob"])


class _Partials:
    """The buffer of partial vectors of one task."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch | None) -> None:
        if batch is not None:
            self._held.append(batch)
            self._bytes += batch.nbytes

    def full(self) -> bool:
        """Whether the buffer is more than half full after the partial vectors of each file were united."""
        if self._bytes < self.limit:
            return False
        folded = grouped_union(self._held)
        self._held, self._bytes = [folded], folded.nbytes
        return self._bytes >= self.limit // 2

    def drain(self) -> Iterator[pa.RecordBatch]:
        if self._held:
            yield grouped_union(self._held)
        self._held, self._bytes = [], 0


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Splits a batch (file_path, blob) for the shuffle: blobs larger than `PIECE` become several rows."""
    large = pc.greater(pc.binary_length(batch["blob"]), PIECE)
    if not pc.any(large).as_py():
        yield from in_slices(batch)
        return
    yield from in_slices(batch.filter(pc.invert(large)))
    for path, blob in zip(*batch.filter(large).columns, strict=True):
        parts = codec.decode(blob.as_py()).split(n_bytes=PIECE - codec.FRAME_BYTES, cardinality=MAX_POSITION)
        cut = pa.array(map(codec.encode, parts), pa.binary())
        yield from in_slices(
            pa.RecordBatch.from_arrays([pa.repeat(path, len(cut)), cut], ["file_path", "blob"])
        )


def _check(batch: pa.RecordBatch, names: tuple[str, str]) -> None:
    """Raises InvalidInputError for nulls and positions out of range; ``names`` are the caller's names."""
    paths, positions = batch.columns
    if paths.null_count:
        raise InvalidInputError(f"column {names[0]!r}: expected the path of a data file, found null")
    if positions.null_count:
        path = paths[pc.index(pc.is_null(positions), True).as_py()]
        raise InvalidInputError(f"column {names[1]!r}: expected a position, found null (data file {path})")
    range_ = pc.min_max(positions)
    for value in (range_["min"], range_["max"]):
        if value.is_valid and not 0 <= value.as_py() <= MAX_POSITION:
            path = paths[pc.index(positions, value).as_py()]
            raise InvalidInputError(
                f"column {names[1]!r}: expected a position from 0 to {MAX_POSITION}, "
                f"found {value} (data file {path})"
            )


def combine(
    batches: Iterator[pa.RecordBatch], *, names: tuple[str, str], memory: int, screen: Screen | None = None
) -> Iterator[pa.RecordBatch]:
    """Encodes the rows of one task as partial vectors.

    Args:
        batches: (file_path string, pos int64) in any order.
        names: the caller's names of these two columns, for error messages.
        memory: limit of the buffers, in bytes.
        screen: called with each chunk of rows before it is encoded; the paths have one dictionary.

    Yields:
        (file_path string, blob binary): partial vectors, several per data file.

    Raises:
        InvalidInputError: a null, a negative position, or one past `MAX_POSITION`.
    """
    rows, partials = _Rows(memory - memory // 4, screen), _Partials(memory // 4)
    for batch in batches:
        _check(batch, names)
        rows.add(batch)
        if rows.full():
            partials.add(rows.drain())
            if partials.full():
                for folded in partials.drain():
                    yield from pieces(folded)
    partials.add(rows.drain())
    for folded in partials.drain():
        yield from pieces(folded)
