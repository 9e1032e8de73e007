"""On executors: rows of data files are updated; the deletes of the old rows and the new rows are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.outcome import NewDeletes, merge_rows
from puffin_fast.iceberg.dml.assignments import Assignments, NewColumn
from puffin_fast.iceberg.dml.replacement import write_new_rows
from puffin_fast.iceberg.predicate.filters import RowFilter
from puffin_fast.iceberg.scan.file_reader import reader_factory
from puffin_fast.iceberg.scan.located_rows import LocatedRows, located_batches
from puffin_fast.spark.worker.data_files import TaskTable, data_file_rows
from puffin_fast.spark.worker.tasks import Target, deleted, items_of, unpack

if TYPE_CHECKING:
    from puffin_fast.iceberg.plan.files import FileTask

__all__ = ["PLACE", "ColumnNumber", "at_positions", "by_filter"]

Batches = Iterator[pa.RecordBatch]


class ColumnNumber(NamedTuple):
    """Stands for a value that Spark computes: the number of its column."""

    number: int


PLACE = ("file_path", "pos")
"""The first two columns that `at_positions` reads."""


def by_filter(
    batches: Batches, *, target: bytes, matcher: bytes, values: bytes, case_sensitive: bool
) -> Batches:
    """Updates the rows that match a filter.

    Args:
        batches: one binary column: a packed list of `FileTask`.
        target: packed `Target`.
        matcher: packed `RowFilter`.
        values: packed `Assignments`.
        case_sensitive: how the matcher was bound.

    Yields:
        rows of `REPORT`.
    """
    part: Target = unpack(target)
    table, tasks = TaskTable(part), list(items_of(batches))
    is_tracked = part.metadata.format_version > 2
    found = LocatedRows.read(
        reader_factory(table, unpack(matcher), case_sensitive=case_sensitive),
        part.metadata.schema().fields,
        tasks,
        ["_row_id"] if is_tracked else [],
        threads=1,
    )
    assignments: Assignments = unpack(values)
    rows = assignments.apply(found.rows)
    ids = found.metadata["_row_id"] if is_tracked else pa.nulls(rows.num_rows, pa.int64())
    deletes = merge_rows(tasks, found.file, found.position, DeleteLoader(part.io), 1)
    return _replaced(part, table, deletes, rows, ids)


def at_positions(batches: Batches, *, target: bytes, tasks: bytes, values: bytes) -> Batches:
    """Updates the rows at given positions, with values that Spark has computed.

    Args:
        batches: file_path string, pos long, and a column for each value that Spark has computed. All rows of a data
            file are adjacent.
        target: packed `Target`.
        tasks: packed `FileTask` of each data file, by path.
        values: packed `Assignments`; in place of a value that Spark has computed, the number of its column.

    Yields:
        rows of `REPORT`.
    """
    part: Target = unpack(target)
    table, known = TaskTable(part), unpack(tasks)
    assignments: Assignments = unpack(values)
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return iter(())
    changes = pa.Table.from_batches(given).sort_by([(name, "ascending") for name in PLACE])
    paths = changes[PLACE[0]].to_numpy()
    starts = np.flatnonzero(np.r_[True, paths[1:] != paths[:-1]]).tolist()
    deletes: list[NewDeletes] = []
    rows: list[pa.Table] = []
    ids: list[pa.Array] = []
    loader = DeleteLoader(part.io)
    for start, stop in zip(starts, [*starts[1:], len(paths)], strict=True):
        task, own = known[paths[start]], changes.slice(start, stop - start)
        positions = own[PLACE[1]].to_numpy()
        old, row_ids = _rows_at(table, task, positions)
        rows.append(_with_columns(assignments, own).apply(old))
        ids.append(row_ids)
        deletes.append(NewDeletes.merge(task, PositionBitmap.from_positions(positions), loader))
    return _replaced(part, table, deletes, pa.concat_tables(rows), pa.concat_arrays(ids))


def _with_columns(assignments: Assignments, given: pa.Table) -> Assignments:
    """Assignments with the columns in place of their numbers."""
    columns: Mapping[str, Any] = {
        name: NewColumn(given[value.number]) if isinstance(value, ColumnNumber) else value
        for name, value in assignments.values.items()
    }
    return replace(assignments, values=columns)


def _rows_at(table: TaskTable, task: FileTask, positions: np.ndarray) -> tuple[pa.Table, pa.Array]:
    """Returns the live rows of a data file at some positions, which ascend, and their row ids.

    Raises:
        PuffinFastError: a row is not live.
    """
    metadata = table.metadata
    fields = metadata.schema().fields
    names = ["_row_id"] if metadata.format_version > 2 else []
    every = RowFilter.bind(AlwaysTrue(), metadata.schema())
    found = [
        batch.filter(pc.is_in(batch.column(len(fields)), pa.array(positions)))
        for _, batch in located_batches(reader_factory(table, every), fields, [task], names, threads=1)
    ]
    rows = pa.Table.from_batches(found)
    if rows.num_rows != len(positions):
        raise PuffinFastError(
            f"{task.data.file_path}: expected {len(positions)} live rows to update, found {rows.num_rows}"
        )
    ids = rows.column(len(fields) + 1) if names else pa.chunked_array([pa.nulls(rows.num_rows, pa.int64())])
    return rows.select(list(range(len(fields)))), pa.concat_arrays(ids.chunks)


def _replaced(
    part: Target, table: TaskTable, deletes: Iterable[NewDeletes], rows: pa.Table, row_ids: Any
) -> Batches:
    yield from deleted(deletes, part)
    if not part.place.dry_run:
        yield from data_file_rows(write_new_rows(table, rows, row_ids))
