"""On executors: rows of a table are read with all their columns, and passed on as they are stored.

Spark passes a binary value on, whatever types the rows have.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from puffin_fast.rows.files.conversion import arrow_type
from puffin_fast.rows.match.matching import find_matches
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.located_rows import LocatedRows, joined, located_groups
from puffin_fast.spark.session.executor_calls import Batches, items_of
from puffin_fast.spark.worker.column_types import converter
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.match.matching import Source
    from puffin_fast.rows.tasks import Task

MOST_BYTES = 32 << 20
"""Largest size of the rows that a task sends to the driver."""

MOST = 1 << 20
"""A task sends the places of this number of rows, and more if there are more given rows."""


def numbered(batches: Batches, target: Target, *, matcher: Matcher, names: Sequence[str]) -> Batches:
    """Reads the rows that match, for Spark to compute values of.

    Args:
        batches: one binary column: a packed list of `FileTask`.
        matcher: the filter.
        names: columns of the table, ``_file`` or ``_pos``.

    Yields:
        the number of the row in this task, the rows of the batch as in `_packed` in the first row (null in the others),
        and the columns in Spark's types.
    """
    columns = [field.name for field in target.metadata.schema().fields]
    first = 0
    for tasks, file, batch in _groups(target, batches, matcher):
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


def located(batches: Batches, target: Target, *, matcher: Matcher) -> Iterator[bytes | Reads | None]:
    """Reads the rows that match, for the driver; arguments as `numbered`.

    Yields:
        the rows of a batch as in `_packed`, and what was read; None at the end if there are more rows than the driver
        takes from one task.
    """
    n_bytes, reads = 0, Reads()
    for tasks, file, batch in _groups(target, batches, matcher, reads):
        n_bytes += batch.nbytes
        if n_bytes > MOST_BYTES:
            yield None
            return
        yield _packed(tasks, file, batch)
    yield reads


def matches(
    batches: Batches, target: Target, *, source: Source, compared: bool
) -> Iterator[tuple[list[np.ndarray], Reads] | None]:
    """Finds the rows of data files that have a given key, for the driver.

    Args:
        batches: one binary column: packed lists of the number of a data file and its task.
        source: the given rows.
        compared: as for `find_matches`.

    Yields:
        the number of each row's data file and the other arrays of `Matches`, and what was read; None if the rows would
        be too many for the driver.
    """
    numbers, tasks = zip(*items_of(batches), strict=True)
    reads = Reads()
    found = find_matches(
        tasks,
        source,
        target.metadata.schema().fields,
        target.reader_factory(source.keys, reads),
        compared=compared,
        row_ids=bool(target.lineage),
        threads=1,
        current=target.loader(),
    )
    if len(found.file) > max(MOST, 2 * source.n_keys):
        yield None
        return
    file = np.array(numbers, np.int32)[found.file]
    yield [file, found.position, found.source, found.same, found.row_id], reads


def _groups(
    part: Target, batches: Batches, matcher: Matcher, reads: Reads | None = None
) -> Iterator[tuple[list[Task], Any, pa.RecordBatch]]:
    """Yields data files, the index of each row's data file, and rows: the columns of the table, ``_pos``, lineage."""
    tasks = list(items_of(batches))
    reader = part.reader_factory(matcher, reads)
    fields = part.metadata.schema().fields
    for group in located_groups(lambda one: [*joined(one)], reader, fields, tasks, part.lineage, threads=1):
        for file, batch in group:
            numbers, file = np.unique(file, return_inverse=True)
            if batch.num_rows:
                yield [tasks[number] for number in numbers], file, batch


def _packed(tasks: Sequence[Task], file: Any, batch: pa.RecordBatch) -> bytes:
    """Pickles data files, the index of each row's data file, and rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pickle.dumps((tasks, file, sink.getvalue().to_pybytes()), protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(part: Target, rows: Iterable[bytes]) -> tuple[list[Task], LocatedRows]:
    """Returns data files, and the rows of some results of `_packed`."""
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
