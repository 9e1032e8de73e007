"""Rows of data files that several commits chose: the first commit reads them, and holds those of the later ones.

```
commit 1    file A: rows 3, 7    file B: row 1      reads A: 3, 5, 7 and B: 1; row 5 is held
commit 2    file A: row 5        file C: row 2      reads C: 2
```
A page is decompressed as a whole, whatever the number of rows that are read of it. Memory: the positions of these rows,
and the held rows, up to a limit; more are in temporary files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.rows.changes.copies import groups_of
from puffin_fast.rows.changes.spool import Spool
from puffin_fast.rows.files.metadata_columns import Metadata, MetadataColumn
from puffin_fast.rows.tasks import DataFile, Task, TaskOf

_READER = -1
"""The number of rows that are only of the side that reads them."""

_BOTH = 1 << 30
"""Added to the number of a side for rows that also belong to the side that reads them."""

HELD_BYTES = 256 << 20
"""Maximum bytes in memory of the rows of later commits."""

_ROW_BYTES = 64
"""Estimated bytes of a row in memory, besides four times its bytes in the data file."""

_File: TypeAlias = "tuple[str, int | None, int | None]"

_Places: TypeAlias = "tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]"
"""Ascending positions, and numbers."""

_Rows: TypeAlias = "slice | npt.NDArray[np.int64]"
"""All rows, or some."""


def _file_of(data: DataFile) -> _File:
    """What makes rows at the same position the same rows: a path can be added again."""
    return data.file_path, data.first_row_id, data.file_sequence_number


@dataclass
class Side:
    """The deleted or the inserted rows of a commit.

    Attributes:
        number: its place in the order in which sides are read.
        tasks: what it reads.
        places: the positions of rows that these also read for later sides, with the numbers of the sides.
    """

    number: int
    tasks: list[Task] = field(default_factory=list)
    places: dict[_File, _Places] = field(default_factory=dict)


class SharedRows:
    """Divides the rows of data files among sides.

    Attributes:
        column: what a reader returns as its last column: the numbers of the sides that rows belong to.
    """

    def __init__(self) -> None:
        self.column = MetadataColumn("_side", -1, pa.int32(), True, self._numbers)
        self._places: dict[_File, _Places] = {}

    def divide(self, sides: Iterable[Sequence[Task]]) -> list[Side]:
        """Returns what each side reads, when sides are read in this order. A row that several have is read by each."""
        readers: dict[_File, tuple[Side, int]] = {}
        shared: dict[_File, PositionBitmap] = {}
        parts: dict[_File, list[tuple[int, PositionBitmap]]] = {}
        repeated: set[_File] = set()
        found = []
        for number, tasks in enumerate(sides):
            side = Side(number)
            found.append(side)
            for task in tasks:
                file, chosen = _file_of(task.data), task.chosen
                reader = readers.get(file)
                if reader is None:
                    if chosen is not None or _is_undeleted(task):
                        readers[file] = side, len(side.tasks)
                        shared[file], parts[file] = PositionBitmap() if chosen is None else chosen, []
                elif reader[0] is side:
                    repeated.add(file)
                elif chosen is not None and file not in repeated and not shared[file] & chosen:
                    shared[file] |= chosen
                    parts[file].append((number, chosen))
                    continue
                side.tasks.append(task)
        for file, others in parts.items():
            if others:
                side, at = readers[file]
                task = side.tasks[at]
                side.places[file] = _merged(others, _BOTH if task.chosen is None else 0)
                if task.chosen is not None:
                    side.tasks[at] = TaskOf(task.data, chosen=shared[file])
        return found

    def begin(self, side: Side) -> None:
        """Sets the side whose tasks are read from now on."""
        self._places = side.places

    def _numbers(self, rows: Metadata) -> pa.Array:
        found = np.full(rows.n_rows, _READER, np.int32)
        if (known := self._places.get(_file_of(rows.data))) is not None and rows.positions is not None:
            places, numbers = known
            wanted = rows.positions.to_numpy()
            at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
            np.copyto(found, numbers[at], where=places[at] == wanted)
        return pa.array(found)


def _is_undeleted(task: Task) -> bool:
    return task.vector is None and not task.position_deletes and not task.equality_deletes


def _merged(parts: Sequence[tuple[int, PositionBitmap]], added: int) -> _Places:
    """The positions of sides, ascending, each with the number of its side."""
    places = np.concatenate([chosen.to_numpy().astype(np.int64) for _, chosen in parts])
    numbers = np.repeat([number + added for number, _ in parts], [len(chosen) for _, chosen in parts])
    order = np.argsort(places, kind="stable")
    return places[order], numbers[order].astype(np.int32)


class HeldRows:
    """The rows that were read for later sides. A context manager.

    Args:
        shared: divides rows.
        n_sides: number of sides.
        limit: bytes in memory; more are in temporary files.
    """

    def __init__(self, shared: SharedRows, n_sides: int, limit: int) -> None:
        self._shared, self._n_bytes = shared, max(limit // max(n_sides, 1), 1 << 20)
        self._spools: dict[int, Spool] = {}
        self._held = ExitStack()

    def __enter__(self) -> HeldRows:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def concern(self, side: Side) -> bool:
        """Whether rows of a side were read before, or it reads some for other sides."""
        return side.number in self._spools or bool(side.places)

    def own(self, side: Side, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a side without the last column, those that were held first; holds those of other sides.

        Args:
            side: one after the other.
            batches: its tasks, not yet read; the last column is that of `SharedRows`.
        """
        if side.number in self._spools:
            for table in self._spools.pop(side.number):
                yield from table.to_batches()
        self._shared.begin(side)
        for batch in batches:
            *columns, sides = batch.columns
            rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1])
            mine: list[_Rows] = []
            for code, chosen in groups_of(sides.to_numpy()):
                if code == _READER or code & _BOTH:
                    mine.append(chosen)
                if code != _READER:
                    self._hold(code & ~_BOTH, _taken(rows, chosen))
            if len(mine) > 1:
                mine = [np.sort(np.concatenate(mine))]  # type: ignore[arg-type]  # a slice is alone
            for chosen in mine:
                yield _taken(rows, chosen)

    def _hold(self, number: int, rows: pa.RecordBatch) -> None:
        if number not in self._spools:
            self._spools[number] = self._held.enter_context(Spool(self._n_bytes))
        self._spools[number].add(pa.Table.from_batches([rows]))


def _taken(rows: pa.RecordBatch, chosen: _Rows) -> pa.RecordBatch:
    return rows if isinstance(chosen, slice) else rows.take(pa.array(chosen))


def held_bytes(task: Task) -> int:
    """Estimates the memory of the chosen rows of a task, if they are held."""
    data = task.data
    return len(task.chosen or ()) * (_ROW_BYTES + 4 * data.file_size_in_bytes // max(data.record_count, 1))
