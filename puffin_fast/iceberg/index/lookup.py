"""Looks up keys in the index of a table, so that only data files and rows that may have one are read.

An index is advice: a data file counts as covered only if its location, size and row count are those of the manifest,
and each row that a hash finds is read before it counts. An exact entry counts as a position of a deletion vector
does. Data files that no segment covers, or whose segment cannot be read, are read as without an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast._run.interrupt import is_from_outside
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.index.stored import StoredSegment, indexed, opened
from puffin_fast.key_index import from_integers, kind_of

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

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
        metadata: of the table.
        snapshot: the head of the plan; its statistics files and those of its ancestors are used.
        equalities: of the matcher that the plan was made for; see `RowFilter.equalities`.
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
                usable = [fields for fields in found if keys.keys() >= set(fields)]
                if usable:
                    fields = max(usable, key=lambda fields: (len(fields), found[fields][0].segment.exact))
                    columns = [plain(keys[field_id]) for field_id in fields]
                    whole = exact and len(fields) == len(keys)
                    return _narrowed(found[fields], columns, tasks, whole, notes)
    return tasks


def _narrowed(
    segments: Sequence[StoredSegment],
    columns: Sequence[pa.Array],
    tasks: Sequence[FileTask],
    exact: bool,
    notes: list[str],
) -> list[FileTask]:
    kinds = [kind_of(column.type) for column in columns]
    usable = [stored for stored in segments if stored.segment.may_hold(kinds)]
    places: dict[str, tuple[StoredSegment, int]] = {}
    for stored in reversed(usable):
        places |= {path: (stored, number) for path, number in stored.segment.numbers.items()}
    covering = [_covering(places, task) for task in tasks]
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
