"""Finds the rows that a commit only copied, by their lineage: before any other column of them is read.

```
data files removed   row id | sequence number  \
                                                both have the pair: the row was copied, and is neither deleted nor
data files added     row id | sequence number  /  inserted
```
An updated row keeps its row id, and has the sequence number of its update (Iceberg specification, "Row Lineage"; Delta
protocol, "Row Tracking"). No row is read of data files that do not store these columns: row ids follow from positions.
Memory: a bitmap of row ids for each sequence number of each data file; of files that store them, also the row ids as
integers, up to a limit. Beyond it they are read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin_fast._concurrency.threads import on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.rows.changes.states import ChangedRows
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.splits import jobs_of
from puffin_fast.rows.tasks import Task, TaskOf

LINEAGE = tuple(METADATA_COLUMNS[name] for name in ("_row_id", "_last_updated_sequence_number", "_pos"))
"""The columns that `without_copies` needs."""

_ROWS_PER_RUN = 64
"""Rows per run of equal sequence numbers from which on runs are not ordered."""

HELD_BYTES = 256 << 20
"""Maximum bytes of the row ids and positions of a side that are held."""

_Numbers: TypeAlias = "npt.NDArray[np.int64]"

_Ids: TypeAlias = dict[int, PositionBitmap]
"""Row ids by sequence number."""


@dataclass(frozen=True)
class _Lineage:
    """The live rows of a data file.

    Attributes:
        ids: their row ids.
        n_rows: their number.
        first: the row id of position 0, if row ids follow from positions.
        rows: else the row ids, as they are stored, with the positions; None if they are not held.
    """

    ids: _Ids
    n_rows: int
    first: int | None = None
    rows: tuple[_Numbers, _Numbers] | None = None


def without_copies(
    make: Callable[[], FileReader], rows: ChangedRows, threads: int | None = None
) -> ChangedRows:
    """Returns the changed rows less those that whole data files have before and after, unchanged.

    Args:
        make: makes the reader of the columns `LINEAGE`.
        rows: the rows of a commit.
        threads: number of data files that are read at a time.

    Raises:
        As a scan of the data files.
    """
    sides = [[task for task in side if _is_whole(task)] for side in (rows.deleted, rows.inserted)]
    if not all(sides):
        return rows
    reader = make()
    found = [_lineages(reader, side, threads) for side in sides]
    before, after = map(_united, found)
    if before is None or after is None:
        return rows
    copied = {number: ids & after[number] for number, ids in before.items() if number in after}
    copied = {number: ids for number, ids in copied.items() if ids}
    if not copied:
        return rows
    left: list[list[Task]] = []
    for side, tasks, lineages in zip((rows.deleted, rows.inserted), sides, found, strict=True):
        some = zip(tasks, lineages, strict=True)
        parts = on_threads(lambda one: _left(reader, *one, copied), [*some], threads)
        left.append([*(task for task in side if not _is_whole(task)), *chain.from_iterable(parts)])
    return ChangedRows(*left)


def _is_whole(task: Task) -> bool:
    """Whether all live rows of a data file changed, and have a lineage."""
    data = task.data
    return task.chosen is None and data.first_row_id is not None and data.file_sequence_number is not None


def _lineages(reader: FileReader, tasks: Sequence[Task], threads: int | None) -> list[_Lineage]:
    held = 0

    def lineage(task: Task) -> _Lineage:
        nonlocal held
        first, number = task.data.first_row_id, task.data.file_sequence_number
        live = reader.inherited_positions(task)
        if live is not None and first is not None and number is not None:
            return _Lineage({number: _moved(live, first)}, len(live), first)
        n_rows, by_number, parts = 0, defaultdict(list), []
        for ids, numbers, positions in _stored(reader, task):
            n_rows += len(ids)
            for number, own in _runs(numbers):
                by_number[number].append(PositionBitmap.from_positions(ids[own]))
            if held < HELD_BYTES:
                held += ids.nbytes + positions.nbytes
                parts.append((ids, positions))
        found = {number: PositionBitmap.union_all(some) for number, some in by_number.items()}
        if not parts or sum(len(ids) for ids, _ in parts) < n_rows:
            return _Lineage(found, n_rows)
        ids, positions = map(np.concatenate, zip(*parts, strict=True))
        return _Lineage(found, n_rows, rows=(ids, positions))

    with reader.prepared(tasks, threads) as (workers, _):
        return [*on_threads(lineage, tasks, workers)]


def _moved(positions: PositionBitmap, by: int) -> PositionBitmap:
    """The positions, each increased by a number."""
    if positions and positions.max() - positions.min() + 1 == len(positions):
        return PositionBitmap.from_range(positions.min() + by, positions.max() + by + 1)
    return PositionBitmap.from_positions(positions.to_numpy(np.int64) + by)


def _united(lineages: Sequence[_Lineage]) -> _Ids | None:
    """The row ids of data files; None if a row id occurs twice, which the specifications do not allow."""
    found: dict[int, list[PositionBitmap]] = defaultdict(list)
    for lineage in lineages:
        for number, ids in lineage.ids.items():
            found[number].append(ids)
    united = {number: PositionBitmap.union_all(parts) for number, parts in found.items()}
    every = PositionBitmap.union_all(united.values())
    return united if len(every) == sum(lineage.n_rows for lineage in lineages) else None


def _left(reader: FileReader, task: Task, lineage: _Lineage, copied: _Ids) -> list[Task]:
    """The rows of a data file that were not copied, as at most one task."""
    left = PositionBitmap.union_all(
        ids - copied[number] if number in copied else ids for number, ids in lineage.ids.items()
    )
    if len(left) == lineage.n_rows:
        return [task]
    if not left:
        return []
    if lineage.first is not None:
        return [TaskOf(task.data, chosen=_moved(left, -lineage.first))]
    rows = [lineage.rows] if lineage.rows else ((ids, at) for ids, _, at in _stored(reader, task))
    chosen = np.concatenate([at[left.contains(ids)] for ids, at in rows])
    return [TaskOf(task.data, chosen=PositionBitmap.from_positions(chosen))]


def _runs(numbers: _Numbers) -> Iterator[tuple[int, slice | _Numbers]]:
    """Yields numbers with their rows; a number may come several times, if there are few runs."""
    starts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    if len(starts) * _ROWS_PER_RUN > len(numbers):
        yield from groups_of(numbers)
        return
    for start, stop in pairwise([0, *starts.tolist(), len(numbers)]):
        yield int(numbers[start]), slice(start, stop)


def groups_of(numbers: _Numbers) -> Iterator[tuple[int, slice | _Numbers]]:
    """Yields the different numbers of an array that is not empty, each with its rows, ascending."""
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), slice(None)
        return
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    for own in np.split(order, starts):
        yield int(numbers[own[0]]), own


def _stored(reader: FileReader, task: Task) -> Iterator[tuple[_Numbers, _Numbers, _Numbers]]:
    """Yields the row ids, sequence numbers and positions of live rows."""
    for batches in chain.from_iterable(map(reader.read_all, jobs_of([task], 1))):
        for batch in batches:
            ids, numbers, positions = (column.to_numpy() for column in batch.columns)
            yield ids, numbers, positions
