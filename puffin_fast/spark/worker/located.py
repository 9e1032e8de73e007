"""On executors: rows of a table are read with all their columns, and passed on as they are stored.

Spark passes a binary value on, whatever types the rows have: `PACKED` has the rows of a batch in its first row, and
null in the others.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from puffin_fast.rows.files.conversion import arrow_type
from puffin_fast.rows.scan.located_rows import LocatedRows, joined, located_groups
from puffin_fast.spark.worker.column_types import converter
from puffin_fast.spark.worker.tasks import Target, items_of, unpack

if TYPE_CHECKING:
    from puffin_fast.rows.tasks import Task

Batches = Iterator[pa.RecordBatch]

PACKED = pa.schema([("packed", pa.binary())])
"""The column of `packed`."""

MOST_BYTES = 32 << 20
"""Largest size of the rows that a task sends to the driver."""


def numbered(batches: Batches, *, target: bytes, matcher: bytes, names: Sequence[str]) -> Batches:
    """Reads the rows that match, for Spark to compute values of.

    Args:
        batches: one binary column: a packed list of `FileTask`.
        target: packed `Target`.
        matcher: packed `RowFilter`.
        names: columns of the table, ``_file`` or ``_pos``.

    Yields:
        the number of the row in this task, the rows of the batch as in `PACKED`, and the columns in Spark's types.
    """
    part: Target = unpack(target)
    columns = [field.name for field in part.metadata.schema().fields]
    first = 0
    for tasks, file, batch in _groups(part, batches, matcher):
        found = dict(zip([*columns, "_pos"], batch.columns, strict=False))
        if "_file" in names:
            found["_file"] = pa.array([task.data.file_path for task in tasks], pa.string()).take(
                pa.array(file)
            )
        steps = [(found[name], converter(found[name].type)) for name in names]
        whole = pa.nulls(batch.num_rows - 1, pa.binary())
        arrays = [
            pa.array(range(first, first + batch.num_rows), pa.int64()),
            pa.concat_arrays([pa.array([_packed(tasks, file, batch)], pa.binary()), whole]),
            *(column if step is None else step(column) for column, step in steps),
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(map(str, range(len(arrays)))))
        first += batch.num_rows


def packed(batches: Batches, *, target: bytes, matcher: bytes) -> Batches:
    """Reads the rows that match, for the driver; arguments as `numbered`.

    Yields:
        rows of `PACKED`; a null at the end if there are more rows than the driver takes from one task.
    """
    n_bytes = 0
    for tasks, file, batch in _groups(unpack(target), batches, matcher):
        n_bytes += batch.nbytes
        rows = _packed(tasks, file, batch) if n_bytes <= MOST_BYTES else None
        yield pa.record_batch([pa.array([rows], pa.binary())], schema=PACKED)
        if rows is None:
            return


def _groups(
    part: Target, batches: Batches, matcher: bytes
) -> Iterator[tuple[list[Task], Any, pa.RecordBatch]]:
    """Yields data files, the index of each row's data file, and rows: the columns of the table, ``_pos``, lineage."""
    tasks = list(items_of(batches))
    reader = part.reader_factory(unpack(matcher))
    fields = part.metadata.schema().fields
    for group in located_groups(lambda one: [*joined(one)], reader, fields, tasks, part.lineage, threads=1):
        for file, batch in group:
            numbers, file = np.unique(file, return_inverse=True)
            if batch.num_rows:
                yield [tasks[number] for number in numbers], file, batch


def _packed(tasks: Sequence[Task], file: Any, batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pickle.dumps((tasks, file, sink.getvalue().to_pybytes()), protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(part: Target, rows: Iterable[bytes]) -> tuple[list[Task], LocatedRows]:
    """Returns data files, and the rows of some values of `PACKED`."""
    tasks: dict[str, Task] = {}
    numbers: dict[str, int] = {}
    found = []
    for one in rows:
        of_group, file, stream = pickle.loads(one)
        for task in of_group:
            tasks.setdefault(task.data.file_path, task)
            numbers.setdefault(task.data.file_path, len(numbers))
        own = np.array([numbers[task.data.file_path] for task in of_group], np.int64)
        found.append((own[file], pa.ipc.open_stream(stream).read_next_batch()))
    return [*tasks.values()], LocatedRows.of(found, part.metadata.schema().fields, part.lineage)


def column_schema(part: Target, names: Sequence[str]) -> pa.Schema:
    """The columns that `numbered` is asked for, before the conversion to Spark's types."""
    kinds = {field.name: arrow_type(field.field_type) for field in part.metadata.schema().fields}
    kinds |= {"_file": pa.string(), "_pos": pa.int64()}
    return pa.schema([(name, kinds[name]) for name in names])
