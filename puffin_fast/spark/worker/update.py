"""On executors: rows of data files are updated; the deletes of the old rows and the new rows are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import PuffinFastError
from puffin_fast.rows.deletes.outcome import NewDeletes, merge_rows
from puffin_fast.rows.match.assignments import Assignments, NewColumn
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.located_rows import LocatedRows
from puffin_fast.rows.tasks import named
from puffin_fast.spark.session.executor_calls import Batches, items_of
from puffin_fast.spark.worker.located import unpacked
from puffin_fast.spark.worker.replaced_rows import by_places, rows_at, write_replaced
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Target

if TYPE_CHECKING:
    from puffin_fast.rows.filters.filters import RowFilter
    from puffin_fast.rows.tasks import Task


class ColumnNumber(NamedTuple):
    """A placeholder for a value that Spark computes: the number of its column."""

    number: int


PLACE = ("file_path", "pos")
"""The first two columns that `at_positions` reads."""


def by_filter(
    batches: Batches, target: Target, *, matcher: RowFilter, values: Assignments
) -> Iterator[Report]:
    """Updates the rows that match a filter.

    Args:
        batches: one binary column: a packed list of `FileTask`.
    """
    return updated([*items_of(batches)], target, matcher, values)


def updated(
    tasks: Sequence[Task], target: Target, matcher: RowFilter, values: Assignments
) -> Iterator[Report]:
    """`by_filter` for some data files."""
    fields, reads = target.metadata.schema().fields, Reads()
    found = LocatedRows.read(target.reader_factory(matcher, reads), fields, tasks, target.lineage, threads=1)
    yield from _replaced(target, values, tasks, found)
    yield Report(reads=reads)


def with_values(batches: Batches, target: Target, *, values: Assignments) -> Iterator[Report]:
    """Updates the rows that `puffin_fast.spark.worker.located` has read, with values that Spark has computed.

    Args:
        batches: the first two columns of `numbered`, and a column for each value that Spark has computed, in the order
            of the rows.
        values: as for `at_positions`.
    """
    given = [batch for batch in batches if batch.num_rows]
    if not given:
        return iter(())
    own = pa.Table.from_batches(given)
    packed = (one.as_py() for chunk in own.column(1).chunks for one in chunk.drop_null())
    tasks, found = unpacked(target, packed)
    if not np.array_equal(own.column(0).to_numpy(), np.arange(found.rows.num_rows)):
        raise PuffinFastError(
            f"values: expected one row for each of {found.rows.num_rows} rows, in their order, found {own.num_rows}"
        )
    return _replaced(target, _with_columns(values, own), tasks, found)


def _replaced(
    part: Target, assignments: Assignments, tasks: Sequence[Task], found: LocatedRows
) -> Iterator[Report]:
    """Writes updated rows and the deletes of the old ones."""
    rows = assignments.apply(found.rows)
    ids = found.metadata["_row_id"] if part.lineage else pa.nulls(rows.num_rows, pa.int64())
    deletes = merge_rows(tasks, found.file, found.position, part.loader(), 1)
    return write_replaced(part, deletes, rows, ids)


def at_positions(
    batches: Batches,
    target: Target,
    *,
    tasks: Sequence[Task],
    values: Assignments,
    nan: int | None = None,
) -> Iterator[Report]:
    """Updates the rows at given positions, with values that Spark has computed.

    Args:
        batches: file_path string, pos long, and a column for each value that Spark has computed. All rows of a data
            file are adjacent.
        tasks: the data files.
        values: the assignments; in place of a value that Spark has computed, the number of its column.
        nan: the number of the column that says whether a row has NaN in a column of the condition, if there is one.
    """
    deletes: list[NewDeletes] = []
    rows: list[pa.Table] = []
    ids: list[pa.Array] = []
    n_nan = 0
    loader = target.loader()
    places = [*by_places(batches)]
    for task, (_, own) in zip(named(tasks, [path for path, _ in places]), places, strict=True):
        positions = own[PLACE[1]].to_numpy()
        old, row_ids = rows_at(target, task, positions)
        rows.append(_with_columns(values, own).apply(old))
        ids.append(row_ids)
        deletes.append(NewDeletes.merge(task, PositionBitmap.from_positions(positions), loader))
        if nan is not None:
            n_nan += pc.sum(own[nan]).as_py() or 0
    if not deletes:
        return
    yield from write_replaced(target, deletes, pa.concat_tables(rows), pa.concat_arrays(ids))
    if n_nan:
        yield Report(n_nan=n_nan)


def _with_columns(assignments: Assignments, given: pa.Table) -> Assignments:
    """Returns assignments in which column numbers are replaced by the columns."""
    columns: Mapping[str, Any] = {
        name: NewColumn(given[value.number]) if isinstance(value, ColumnNumber) else value
        for name, value in assignments.values.items()
    }
    return replace(assignments, values=columns)
