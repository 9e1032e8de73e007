"""Sorts a stream of rows of any length in bounded memory: sorted runs in temporary files, which are merged.

```
rows -> run of at most RUN_BYTES, sorted -> Arrow IPC file     (nothing is written if one run has all rows)
the next rows of each run, sorted -> rows up to the least of the runs' last ones
```
A run's last row that is in memory bounds what may be written: rows after it may be less than others that are not read
yet. Equal rows keep their order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast.columns.temporary_rows import read_rows, rows_writer

if TYPE_CHECKING:
    from puffin_fast.rows.rewrite.row_order import RowOrder

RUN_BYTES = 128 << 20
"""Bytes of the rows of a run, and about those of all rows that are merged at a time."""

BATCH_ROWS = 1 << 17
"""Rows of a batch of the result."""

MAPPED = 1 << 22
"""Number of rows from which on their places are in a temporary file that is mapped to memory."""

_INDEX = "index in the stream"
"""The last column of runs: the index of each row in the stream."""


@dataclass
class SortedRows:
    """The rows of a stream in order, once.

    Attributes:
        rows: batches of one schema.
        order: the sort order of the rows.
        places: index in the result of each row of the stream, after all rows were read.
    """

    rows: Iterable[pa.RecordBatch]
    order: RowOrder
    places: npt.NDArray[Any] = field(init=False, default_factory=lambda: np.empty(0, np.uint32))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryDirectory(prefix="puffin_fast-sort-") as folder:
            runs: list[_Run] = []
            count = 0
            last: pa.Table | None = None
            for rows in _collected(self.rows):
                if last is not None:
                    runs.append(_Run.write(Path(folder) / str(len(runs)), last))
                numbered = rows.append_column(_INDEX, [_numbers(count, rows.num_rows)])
                last = numbered.take(self._indices(numbered)).combine_chunks()
                del numbered
                count += rows.num_rows
            if last is None:
                return
            self.places = _places(count)
            if runs:
                runs.append(_Run.write(Path(folder) / str(len(runs)), last))
                last = None
            merged = [last] if last is not None else self._merged(runs)
            done = 0
            for rows in merged:
                indexes = rows.column(rows.num_columns - 1).to_numpy()
                self.places[indexes] = np.arange(done, done + len(indexes), dtype=self.places.dtype)
                done += len(indexes)
                yield from _without_index(rows).to_batches(max_chunksize=BATCH_ROWS)

    def _indices(self, rows: pa.Table) -> pa.Array:
        return self.order.indices(_without_index(rows))

    def _merged(self, runs: list[_Run]) -> Iterator[pa.Table]:
        limit = max(1, RUN_BYTES // len(runs))
        while True:
            for run in runs:
                run.fill(limit)
            left = [run for run in runs if run.rows.num_rows]
            if not left:
                return
            counts = np.array([run.rows.num_rows for run in left])
            rows = pa.concat_tables([run.rows for run in left])
            indexes = self._indices(rows).to_numpy()
            unfinished = np.array([not run.is_read for run in left])
            n_rows = len(indexes)
            if unfinished.any():
                where = np.empty(n_rows, np.int64)
                where[indexes] = np.arange(n_rows)
                n_rows = int(where[(np.cumsum(counts) - 1)[unfinished]].min()) + 1
            chosen = indexes[:n_rows]
            yield rows.take(pa.array(chosen)).combine_chunks()
            owners = np.searchsorted(np.cumsum(counts), chosen, "right")
            for run, taken in zip(left, np.bincount(owners, minlength=len(left)).tolist(), strict=True):
                run.rows = run.rows.slice(taken)


@dataclass
class _Run:
    """A sorted run in a file.

    Attributes:
        batches: those that were not read yet.
        rows: those that were read and not merged yet.
        is_read: whether all were read.
    """

    batches: Iterator[pa.RecordBatch]
    rows: pa.Table
    is_read: bool = False

    @classmethod
    def write(cls, path: Path, rows: pa.Table) -> _Run:
        row_bytes = max(1, rows.nbytes // max(rows.num_rows, 1))
        n_rows = max(1, min(BATCH_ROWS, (RUN_BYTES >> 7) // row_bytes))
        with rows_writer(path, rows.schema) as out:
            out.write_table(rows, max_chunksize=n_rows)
        # not a slice, which would keep all rows in memory
        return cls(read_rows(path), pa.Table.from_batches([], rows.schema))

    def fill(self, limit: int) -> None:
        """Reads on until there are some bytes of rows, or at least one."""
        if self.is_read or (self.rows.num_rows and self.rows.nbytes >= limit // 2):
            return
        found = [self.rows]
        n_bytes = self.rows.nbytes
        while n_bytes < limit:
            batch = next(self.batches, None)
            if batch is None:
                self.is_read = True
                break
            found.append(pa.Table.from_batches([batch]))
            n_bytes += max(1, batch.nbytes)
        self.rows = pa.concat_tables(found)


def _collected(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields tables of at most `RUN_BYTES`, or of a single batch."""
    found: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in batches:
        if found and n_bytes + batch.nbytes > RUN_BYTES:
            rows, found, n_bytes = pa.Table.from_batches(found), [], 0
            yield rows
            del rows
        if batch.num_rows:
            found.append(batch)
            n_bytes += batch.nbytes
    if found:
        yield pa.Table.from_batches(found)


def _without_index(rows: pa.Table) -> pa.Table:
    return rows.remove_column(rows.num_columns - 1)


def _numbers(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count, dtype=np.int64))


def _places(count: int) -> npt.NDArray[Any]:
    kind = np.uint32 if count < 1 << 32 else np.int64
    if count < MAPPED:
        return np.zeros(count, kind)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, kind, "w+", shape=(count,))
