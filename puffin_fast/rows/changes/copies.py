"""Finds the rows that a commit only copied, by their lineage: before any other column of them is read.

```
data files removed   row id | sequence number  \
                                                both have the pair: the row was copied, and is neither deleted nor
data files added     row id | sequence number  /  inserted
```
An updated row keeps its row id, and has the sequence number of its update (Iceberg specification, "Row Lineage"; Delta
protocol, "Row Tracking"). Memory: a bitmap of row ids for each sequence number, of each side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._run.threads import on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.rows.changes.states import ChangedRows
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.tasks import Task, TaskOf

LINEAGE = tuple(METADATA_COLUMNS[name] for name in ("_row_id", "_last_updated_sequence_number", "_pos"))
"""The columns that `without_copies` needs."""

Read: TypeAlias = Callable[[Sequence[Task], "int | None"], Iterator[pa.RecordBatch]]
"""Reads the columns `LINEAGE` of all live rows of data files, with a number of threads."""

_Numbers: TypeAlias = "npt.NDArray[np.int64]"

_Ids: TypeAlias = dict[int, PositionBitmap]
"""Row ids by sequence number."""


def without_copies(read: Read, rows: ChangedRows, threads: int | None = None) -> ChangedRows:
    """Returns the changed rows less those that whole data files have before and after, unchanged.

    Args:
        read: reads lineage.
        rows: of a commit.
        threads: number of data files that are read at a time.

    Raises:
        As a scan of the data files.
    """
    sides = [[task for task in side if _is_whole(task)] for side in (rows.deleted, rows.inserted)]
    if not all(sides):
        return rows
    before, after = (_ids_of(read, side, threads) for side in sides)
    if before is None or after is None:
        return rows
    copied = {number: ids & after[number] for number, ids in before.items() if number in after}
    copied = {number: ids for number, ids in copied.items() if ids}
    if not copied:
        return rows
    return ChangedRows(
        *(
            [task for one in on_threads(lambda one: _left(read, one, copied), side, threads) for task in one]
            for side in (rows.deleted, rows.inserted)
        )
    )


def _is_whole(task: Task) -> bool:
    """Whether all live rows of a data file changed, and have a lineage."""
    data = task.data
    return task.chosen is None and data.first_row_id is not None and data.file_sequence_number is not None


def _ids_of(read: Read, tasks: Sequence[Task], threads: int | None) -> _Ids | None:
    """The row ids of data files; None if a row id occurs twice, which the specifications do not allow."""
    found: dict[int, list[PositionBitmap]] = {}
    n_rows = 0
    for ids, numbers, _ in _lineage(read, tasks, threads):
        n_rows += len(ids)
        for number, own in groups_of(numbers):
            found.setdefault(number, []).append(PositionBitmap.from_positions(ids[own]))
    united = {number: PositionBitmap.union(parts) for number, parts in found.items()}
    return united if sum(map(len, united.values())) == n_rows else None


def _left(read: Read, task: Task, copied: _Ids) -> list[Task]:
    """The rows of a data file that were not copied, as at most one task."""
    if not _is_whole(task):
        return [task]
    n_rows, parts = 0, [np.empty(0, np.int64)]
    for ids, numbers, positions in _lineage(read, [task], 1):
        is_left = np.ones(len(ids), np.bool_)
        for number, own in groups_of(numbers):
            if number in copied:
                is_left[own] = ~copied[number].contains(ids[own])
        n_rows += len(ids)
        parts.append(positions[is_left])
    chosen = np.concatenate(parts)
    if len(chosen) == n_rows:
        return [task]
    return [TaskOf(task.data, chosen=PositionBitmap.from_positions(chosen))] if len(chosen) else []


def groups_of(numbers: _Numbers) -> Iterator[tuple[int, slice | _Numbers]]:
    """Yields the different numbers of an array that is not empty, each with its rows, ascending."""
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), slice(None)
        return
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    for own in np.split(order, starts):
        yield int(numbers[own[0]]), own


def _lineage(
    read: Read, tasks: Sequence[Task], threads: int | None
) -> Iterator[tuple[_Numbers, _Numbers, _Numbers]]:
    """Yields the row ids, sequence numbers and positions of live rows."""
    for batch in read(tasks, threads):
        ids, numbers, positions = (column.to_numpy() for column in batch.columns)
        yield ids, numbers, positions
