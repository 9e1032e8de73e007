"""Looks up keys in the index of a table, so that only data files and rows that may have one are read.

An index is advice: a data file counts as covered only if its location, size and row count are those of the manifest,
and each row that a hash finds is read before it counts. An exact entry counts as a position of a deletion vector
does. Data files that no segment covers, or whose segment cannot be read, are read as without an index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast._run.interrupt import is_from_outside
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.index.stored import StoredSegment, indexed, opened
from puffin_fast.key_index import Read, Segment, from_integers, kind_of

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.statistics import StatisticsFile

    from puffin_fast.iceberg.plan.delete_index import FileTask

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
        io: PyIceberg's file access.
        metadata: the metadata of the table.
        snapshot: the head of the plan; its statistics files and those of its ancestors are used.
        equalities: the equalities of the matcher that the plan was made for; see `RowFilter.equalities`.
        tasks: the plan.
        exact: whether a row matches if, and only if, it has the values of one of these rows.
        notes: why a part of an index was not used is added to these.
    """
    if snapshot is None or not tasks:
        return tasks
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
                    return _narrowed(found[fields], columns, tasks, whole, notes)
    return tasks


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
        covered: the locations of the data files.
    """

    io: FileIO
    statistics: StatisticsFile
    columns: tuple[tuple[int, pa.DataType], ...]
    exact: bool
    covered: frozenset[str]
    _fields: tuple[int, ...]
    _paths: Mapping[int, Sequence[str | None]]

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
                usable, covering = _usable(found[fields], [kind_of(keys[id]) for id in fields], tasks)
                paths: dict[int, list[str | None]] = {
                    stored.blob.offset: [None] * len(stored.segment.files) for stored in usable
                }
                for task, place in zip(tasks, covering, strict=True):
                    if place is not None:
                        paths[place[0].blob.offset][place[1]] = task.data.file_path
                covered = [path for known in paths.values() for path in known if path is not None]
                if not covered:
                    return None
                exact = len(fields) == len(ids) and all(stored.segment.exact for stored in usable)
                columns = tuple((ids.index(id), keys[id]) for id in fields)
                return cls(io, statistics, columns, exact, frozenset(covered), fields, paths)
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


def _narrowed(
    segments: Sequence[StoredSegment],
    columns: Sequence[pa.Array],
    tasks: Sequence[FileTask],
    exact: bool,
    notes: list[str],
) -> list[FileTask]:
    usable, covering = _usable(segments, [kind_of(column.type) for column in columns], tasks)
    found = {}
    for stored in usable:
        if any(place is not None and place[0] is stored for place in covering):
            found[id(stored)] = _find(stored, columns, notes)
    result: list[FileTask] = []
    for task, place in zip(tasks, covering, strict=True):
        rows = None if place is None else found[id(place[0])]
        if place is None or rows is None:
            result.append(task)
            continue
        if place[1] in rows:
            positions, numbers = rows[place[1]]
            segment = place[0].segment
            match = exact and segment.exact
            few = len(positions) * ROWS_PER_CANDIDATE <= task.data.record_count
            if few or match:
                candidates, keys = PositionBitmap.from_positions(positions), None
                if match and numbers is not None and place[1] not in segment.stored_row_ids:
                    keys = from_integers(numbers, columns[0].type)
                task = replace(task, candidates=candidates, candidates_match=match, candidate_keys=keys)
            result.append(task)
    return result


def _usable(
    segments: Sequence[StoredSegment], kinds: Sequence[str], tasks: Sequence[FileTask]
) -> tuple[list[StoredSegment], list[tuple[StoredSegment, int] | None]]:
    """The segments that may have keys of some forms, and for each data file the one that covers it, with the file's
    number there."""
    usable = [stored for stored in segments if stored.segment.may_hold(kinds)]
    places: dict[str, tuple[StoredSegment, int]] = {}
    for stored in reversed(usable):
        places |= {path: (stored, number) for path, number in stored.segment.numbers.items()}
    return usable, [_covering(places, task) for task in tasks]


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


def _find(
    stored: StoredSegment, columns: Sequence[pa.Array], notes: list[str]
) -> Mapping[int, tuple[np.ndarray, np.ndarray | None]] | None:
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
