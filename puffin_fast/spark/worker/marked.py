"""The rows that executors exchange: partial vectors of data files, and what is known about the files and the rows.

=========  ======================================================================================
columns    meaning
=========  ======================================================================================
file_path  a data file; null in a row with counts
blob       a partial vector of the data file; null in other rows
extra      the pickled task of the data file, once per data file; or counts, a `Report`
=========  ======================================================================================
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.objects import Objects
from puffin_fast.dv import iceberg as codec
from puffin_fast.rows.shared_deletes import SharedDeletes
from puffin_fast.spark.session.executor_calls import pack, unpack
from puffin_fast.spark.worker.merge import merge
from puffin_fast.spark.worker.reports import Report

MARKED = pa.schema([("file_path", pa.string()), ("blob", pa.binary()), ("extra", pa.binary())])
"""The rows that are shuffled."""


def partial_rows(partials: pa.RecordBatch) -> pa.RecordBatch:
    """Partial vectors (file_path, blob) as rows of `MARKED`."""
    return pa.RecordBatch.from_arrays(
        [*partials.columns, pa.nulls(partials.num_rows, pa.binary())], schema=MARKED
    )


def report_row(report: Report) -> pa.RecordBatch:
    """Counts as a row of `MARKED`."""
    return pa.RecordBatch.from_pylist([{"extra": pickle.dumps(report)}], schema=MARKED)


class _TaskPickler(pickle.Pickler):
    """Pickles values of a task; lists of delete files that data files share are replaced by their numbers."""

    def __init__(self, file: Any, numbers: dict[SharedDeletes, int]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not SharedDeletes or value.of_one:
            return None
        return self._numbers.setdefault(value, len(self._numbers))


class _TaskUnpickler(pickle.Unpickler):
    """Unpickles what `_TaskPickler` pickled."""

    def __init__(self, file: Any, lists: Sequence[SharedDeletes]) -> None:
        super().__init__(file)
        self._lists = lists

    def persistent_load(self, number: int) -> SharedDeletes:
        return self._lists[number]


def pickled_tasks(tasks: Objects[Any]) -> tuple[list[bytes], bytes]:
    """Pickles the values in which tasks differ one by one, for rows of `MARKED`; Spark compresses these.

    Returns:
        The pickled values, and packed for `Marked` what the tasks have in common: the values that all have, and the
        lists of delete files that data files share.
    """
    columns = [*tasks.lists()]
    rows: Iterable[Any] = zip(*columns, strict=True) if columns else repeat((), len(tasks))
    numbers: dict[SharedDeletes, int] = {}
    found = []
    for values in rows:
        file = BytesIO()
        _TaskPickler(file, numbers).dump(values)
        found.append(file.getvalue())
    return found, pack((tasks[:0], [*numbers]))


class Marked:
    """Reads rows of `MARKED`; all rows of a data file are adjacent.

    Args:
        batches: the rows.
        common: as `pickled_tasks` packs it.

    Attributes:
        counts: the sum of the counts; complete when all batches were read.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], common: bytes) -> None:
        self._batches, self._common = batches, common
        self._tasks: dict[str, bytes] = {}
        self.counts = Report()

    def _partials(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            is_partial = batch["blob"].is_valid()
            others = batch.filter(pc.invert(is_partial))
            for path, extra in zip(others["file_path"].to_pylist(), others["extra"].to_pylist(), strict=True):
                if path is None:
                    self.counts += pickle.loads(extra)
                else:
                    self._tasks[path] = extra
            if others.num_rows < batch.num_rows:
                yield batch.filter(is_partial).select(["file_path", "blob"])

    def united(self, memory: int) -> Iterator[tuple[Any, PositionBitmap]]:
        """The task of each data file with deletes, and the union of its partial vectors.

        Args:
            memory: limit of the buffer of partial vectors, in bytes.
        """
        none, lists = unpack(self._common)
        for batch in merge(self._partials(), memory=memory):
            for path, blob in zip(batch["file_path"].to_pylist(), batch["blob"], strict=True):
                values = _TaskUnpickler(BytesIO(self._tasks.pop(path)), lists).load()
                (task,) = none.with_lists(([value] for value in values), 1)
                yield task, codec.decode(blob.as_py())
