"""Looks up keys in the index of a table, so that only data files and rows that may have one are read.

An index is advice: a data file counts as covered only if its location, size and row count are those of the manifest,
and each row that a hash finds is read before it counts. An exact entry counts as a position of a deletion vector
does. Data files that no segment covers, or whose segment cannot be read, are read as without an index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.index.stored import StoredSegment, indexed, opened
from puffin_fast.iceberg.manifest.columns import Select
from puffin_fast.key_index import ChunkPages, Read, Segment, from_integers, kind_of

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile

    from puffin_fast.avro.integers import Mask
    from puffin_fast.iceberg.manifest.columns import FileColumns
    from puffin_fast.iceberg.plan.delete_index import FileTask

Rows: TypeAlias = "Mapping[int, tuple[np.ndarray, np.ndarray | None]]"
"""The positions of rows and their keys, by the number of their data file in a segment."""

FEW_KEYS = 10_000
"""So many keys are looked up before data files are planned: this takes less time than comparing them with bounds."""

ROWS_PER_CANDIDATE = 16
"""A data file is read whole if it has fewer rows for each one that may match: their pages would all be read."""


def narrowed(
    io: FileIO,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    equalities: Iterable[Mapping[int, pa.Array]],
    tasks: Sequence[FileTask],
    *,
    exact: bool = False,
    notes: list[str] | None = None,
) -> Sequence[FileTask]:
    """Returns the data files that may have one of the keys, with the rows that may have one.

    Args:
        snapshot: the head of the plan; its statistics files and those of its ancestors are used.
        equalities: the equalities of the matcher that the plan was made for; see `RowFilter.equalities`.
        tasks: the plan.
        exact: whether a row matches if, and only if, it has the values of one of these rows.
        notes: why a part of an index was not used is added to these.
    """
    if not tasks:
        return tasks
    return planned(io, metadata, snapshot, equalities, lambda _: tasks, exact=exact, notes=notes)


def planned(
    io: FileIO,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    equalities: Iterable[Mapping[int, pa.Array]],
    plan: Callable[[Select | None], Sequence[FileTask]],
    *,
    exact: bool = False,
    notes: list[str] | None = None,
) -> Sequence[FileTask]:
    """Plans the data files that may have one of the keys, with the rows that may have one.

    Few keys are looked up before the plan is made, so that only data files with a row that may have one are planned.

    Args:
        plan: makes the plan; with a function, of the data files that it selects only.
        io, metadata, snapshot, equalities, exact, notes: as for `narrowed`.
    """
    if snapshot is None:
        return plan(None)
    files, given = list(indexed(metadata, snapshot)), None
    notes = [] if notes is None else notes
    for _, statistics in files:
        given = list(equalities) if given is None else given
        if not given:
            break
        with opened(io, statistics, notes) as found:
            for keys in given:
                if (fields := _best(found, keys)) is not None:
                    columns = [plain(keys[field_id]) for field_id in fields]
                    whole = exact and len(fields) == len(keys)
                    return _Lookup(found[fields], columns, whole, notes).run(plan)
    return plan(None)


def _best(
    found: Mapping[tuple[int, ...], Sequence[StoredSegment]], keys: Collection[int]
) -> tuple[int, ...] | None:
    """The field ids of the index that says most of keys; None if there is none."""
    usable = [fields for fields in found if set(keys) >= set(fields)]
    return max(usable, key=lambda fields: (len(fields), found[fields][0].segment.exact), default=None)


@dataclass(frozen=True)
class KeyLookup:
    """The segments that cover data files of a snapshot, for lookups elsewhere; may be pickled.

    Attributes:
        io: PyIceberg's file access.
        statistics: the file that has the segments.
        columns: for each column of the index, its number among those of the keys, and its type.
        exact: whether each row that is found has one of the keys.
        covered: the locations of the data files, each with the places of the pages of its key columns. It is not
            pickled.
    """

    io: FileIO
    statistics: StatisticsFile
    columns: tuple[tuple[int, pa.DataType], ...]
    exact: bool
    covered: Mapping[str, Sequence[ChunkPages]]
    _fields: tuple[int, ...]
    _paths: Mapping[int, Sequence[str | None]]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"covered": {}}

    @property
    def path(self) -> str:
        """The location of the file that has the segments."""
        return self.statistics.statistics_path

    @classmethod
    def of(
        cls,
        io: FileIO,
        metadata: TableMetadata,
        snapshot: Snapshot | None,
        keys: Mapping[int, pa.DataType],
        tasks: Sequence[FileTask],
    ) -> KeyLookup | None:
        """Returns the segments to look keys up in; None if none covers a data file.

        Args:
            io, metadata, snapshot, tasks: as for `narrowed`.
            keys: the types of the keys' columns by field id.
        """
        if snapshot is None or not tasks:
            return None
        ids = [*keys]
        for _, statistics in indexed(metadata, snapshot):
            with opened(io, statistics, []) as found:
                fields = _best(found, ids)
                if fields is None:
                    continue
                usable = _usable(found[fields], [kind_of(keys[id]) for id in fields])
                paths: dict[int, list[str | None]] = {
                    stored.blob.offset: [None] * len(stored.segment.files) for stored in usable
                }
                covered: dict[str, Sequence[ChunkPages]] = {}
                for task, place in zip(tasks, _places(usable, tasks), strict=True):
                    if place is not None:
                        stored, number = place
                        paths[stored.blob.offset][number] = task.data.file_path
                        covered[task.data.file_path] = stored.segment.pages[number]
                if not covered:
                    return None
                exact = len(fields) == len(ids) and all(stored.segment.exact for stored in usable)
                columns = tuple((ids.index(id), keys[id]) for id in fields)
                return cls(io, statistics, columns, exact, covered, fields, paths)
        return None

    @contextmanager
    def segments(self) -> Iterator[list[tuple[Segment, Read, Sequence[str | None]]]]:
        """Opens the segments; yields each with its reader and the locations of its data files, None for one that is
        not covered.

        Raises:
            CorruptDataError: a segment cannot be read, although it could be when this object was made.
        """
        notes: list[str] = []
        with opened(self.io, self.statistics, notes) as found:
            known = {stored.blob.offset: stored for stored in found.get(self._fields, ())}
            if not known.keys() >= self._paths.keys():
                raise CorruptDataError(f"key index: {'; '.join(notes) or 'another file'}", path=self.path)
            yield [
                (known[offset].segment, known[offset].read, paths)
                for offset, paths in self._paths.items()
                if any(path is not None for path in paths)
            ]


class _Lookup:
    """Keys that are looked up in the segments of an open index."""

    def __init__(
        self, segments: Sequence[StoredSegment], columns: Sequence[pa.Array], exact: bool, notes: list[str]
    ) -> None:
        self._segments = _usable(segments, [kind_of(column.type) for column in columns])
        self._columns, self._exact, self._notes = columns, exact, notes
        self._found: dict[int, Rows | None] = {}

    def run(self, plan: Callable[[Select | None], Sequence[FileTask]]) -> Sequence[FileTask]:
        select = (
            Select(self._select, ("file_path",))
            if len(self._columns[0]) <= FEW_KEYS and self._segments
            else None
        )
        return self._narrowed(plan(select))

    def _rows(self, stored: StoredSegment) -> Rows | None:
        """The rows that a segment finds; it is read when they are first requested."""
        if id(stored) not in self._found:
            self._found[id(stored)] = _find(stored, self._columns, self._notes)
        return self._found[id(stored)]

    def _select(self, files: FileColumns) -> Mask:
        """Marks the data files that have a row which may have a key, or that no segment covers."""
        selected, numbers = np.ones(len(files), np.bool_), np.empty(len(files), np.int64)
        for stored in self._segments:
            rows, segment = self._rows(stored), stored.segment
            if rows is None:
                continue
            segment.texts.find(*files.texts("file_path"), numbers)
            at = np.flatnonzero(numbers >= 0)
            sizes, counts = segment.sizes
            same = sizes[numbers[at]] == files.integers("file_size_in_bytes").values[at]
            same &= counts[numbers[at]] == files.integers("record_count").values[at]
            has_rows = np.zeros(len(sizes), np.bool_)
            has_rows[list(rows)] = True
            selected[at[same & ~has_rows[numbers[at]]]] = False
        return selected

    def _narrowed(self, tasks: Sequence[FileTask]) -> list[FileTask]:
        result: list[FileTask] = []
        for task, place in zip(tasks, _places(self._segments, tasks), strict=True):
            rows = None if place is None else self._rows(place[0])
            if place is None or rows is None:
                result.append(task)
                continue
            if place[1] in rows:
                positions, numbers = rows[place[1]]
                segment = place[0].segment
                match = self._exact and segment.exact
                few = len(positions) * ROWS_PER_CANDIDATE <= task.data.record_count
                if few or match:
                    candidates, keys = PositionBitmap.from_positions(positions), None
                    if match and numbers is not None and place[1] not in segment.stored_row_ids:
                        keys = from_integers(numbers, self._columns[0].type)
                    task = replace(
                        task,
                        candidates=candidates,
                        candidates_match=match,
                        candidate_keys=keys,
                        candidate_pages=segment.pages[place[1]],
                    )
                result.append(task)
        return result


def _usable(segments: Sequence[StoredSegment], kinds: Sequence[str]) -> list[StoredSegment]:
    """The segments that may have keys of some forms."""
    return [stored for stored in segments if stored.segment.may_hold(kinds)]


def _places(
    segments: Sequence[StoredSegment], tasks: Sequence[FileTask]
) -> list[tuple[StoredSegment, int] | None]:
    """For each data file the segment that covers it, with the file's number there."""
    places: dict[str, tuple[StoredSegment, int]] = {}
    for stored in reversed(segments):
        places |= {path: (stored, number) for path, number in stored.segment.numbers.items()}
    return [_covering(places, task) for task in tasks]


def _covering(
    places: Mapping[str, tuple[StoredSegment, int]], task: FileTask
) -> tuple[StoredSegment, int] | None:
    """The segment that covers a data file, and the file's number there."""
    data = task.data
    place = places.get(data.file_path)
    if place is None:
        return None
    file = place[0].segment.files[place[1]]
    same = (file.n_bytes, file.n_rows) == (data.file_size_in_bytes, data.record_count)
    return place if same else None


def _find(stored: StoredSegment, columns: Sequence[pa.Array], notes: list[str]) -> Rows | None:
    """The positions that may have a key, and their keys, by the number of their data file; None if the segment cannot
    be read."""
    try:
        found = stored.segment.find(stored.read, columns)
    except (PuffinFastError, OSError) as error:
        if is_from_outside(error):
            raise
        notes.append(str(error))
        return None
    return stored.segment.by_file(found)
