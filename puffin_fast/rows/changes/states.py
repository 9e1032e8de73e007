"""The states of data files before and after a commit, and the rows that only one of them has.

```
all rows of a data file, less deleted ones, in the state before    1 1 1 0 1 1
the same in the state after                                        1 0 1 1 0 1
    deleted:  live before, not after                                 ^     ^
    inserted: live after, not before                                     ^
```
Memory: the bitmaps of one data file, and a bitmap of the changed rows of each data file that both states have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from puffin_fast._concurrency.threads import on_threads
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.row_selection import LiveRows
from puffin_fast.dv import iceberg as codec
from puffin_fast.rows.deletes.equality import DeletedKeys, EqualityDeletes
from puffin_fast.rows.deletes.loader import Decode, DeleteLoader, ReadAhead
from puffin_fast.rows.files.conversion import Cast, stored
from puffin_fast.rows.files.reader import DataFiles
from puffin_fast.rows.tasks import Task, TaskOf

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.rows.shared_deletes import DeleteFiles

_GROUP = 1000
"""Number of data files whose deletion vectors are read together."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit that made changes.

    Attributes:
        number: its snapshot id or version.
        timestamp_ms: its time, in milliseconds since 1970.
        ordinal: its place among the commits of the result, from 0.
    """

    number: int
    timestamp_ms: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class FileChange:
    """A data file that changed between two states.

    Attributes:
        before: the data file with its deletes in the state before; None if the state does not have it.
        after: the same in the state after.
    """

    before: Task | None
    after: Task | None


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows that changed, as tasks: all live rows of a data file, or its `chosen` rows.

    Attributes:
        deleted: rows of the state before.
        inserted: rows of the state after.
    """

    deleted: list[Task] = field(default_factory=list)
    inserted: list[Task] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """The changes of a commit, or the net changes between two states.

    Attributes:
        commit: that made them.
        files: the data files that changed.
        feed: instead of them, files of changed rows with their kinds of change, which the commit wrote itself.
    """

    commit: Commit
    files: Sequence[FileChange] = ()
    feed: Sequence[Task] = ()


class FileStates:
    """Compares the states of data files. Safe to use from several threads.

    Args:
        io: opens the files.
        metadata: the metadata of the table.
        by_name, cast: as `DataFiles`.
        decode: the codec of deletion vectors.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        *,
        by_name: bool = False,
        cast: Cast = stored,
        decode: Decode = codec.decode,
    ) -> None:
        self._io, self._decode = io, decode
        self._deletes = DeleteLoader(io, decode)
        self._equality = EqualityDeletes(io, metadata)
        self._files = DataFiles(io, metadata, metadata.schema(), by_name=by_name, cast=cast)

    def changed_rows(self, files: Iterable[FileChange], threads: int | None = None) -> ChangedRows:
        """Returns the rows that changed. Of data files only the key columns of equality deletes are read.

        Args:
            files: the data files that changed.
            threads: number of data files that are compared at a time.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as a scan of the data files in either state.
        """
        found = ChangedRows()
        both: list[tuple[Task, Task]] = []
        for change in files:
            if change.before is not None and change.after is not None:
                both.append((change.before, change.after))
            elif change.before is not None:
                found.deleted.append(change.before)
            elif change.after is not None:
                found.inserted.append(change.after)
        for start in range(0, len(both), _GROUP):
            for deleted, inserted in self._compared(both[start : start + _GROUP], threads):
                found.deleted.extend(deleted)
                found.inserted.extend(inserted)
        return found

    def _compared(
        self, pairs: Sequence[tuple[Task, Task]], threads: int | None
    ) -> Iterator[tuple[list[Task], list[Task]]]:
        entries = [task.vector for pair in pairs for task in pair if task.vector is not None]
        vectors = ReadAhead(self._io, entries, counted=True, decode=self._decode)
        compare: Callable[[tuple[Task, Task]], tuple[list[Task], list[Task]]]
        compare = lambda pair: self._compare(*pair, vectors)  # noqa: E731
        return on_threads(compare, list(pairs), threads)

    def _compare(self, before: Task, after: Task, vectors: ReadAhead) -> tuple[list[Task], list[Task]]:
        """The deleted and the inserted rows of a data file that both states have."""
        dead = [self._deletes.of(task, vectors) for task in (before, after)]
        if before.equality_deletes or after.equality_deletes:
            dead = self._with_equality(before, after, dead)
        # the file's entry in the newer state has its row ids, also if the file was written before the table had any
        data = after.data if after.data.first_row_id is not None else before.data
        deleted, inserted = dead[1] - dead[0], dead[0] - dead[1]
        return (
            [TaskOf(data, chosen=deleted)] if deleted else [],
            [TaskOf(data, chosen=inserted)] if inserted else [],
        )

    def _with_equality(
        self, before: Task, after: Task, dead: Sequence[PositionBitmap]
    ) -> list[PositionBitmap]:
        """Adds the rows that equality deletes delete, as far as they matter: rows that are live by position."""
        everywhere = PositionBitmap.from_range(0, before.data.record_count)
        same = before.equality_deletes == after.equality_deletes
        wanted = (dead[0] - dead[1]) | (dead[1] - dead[0]) if same else everywhere - (dead[0] & dead[1])
        if not wanted:
            return [*dead]
        states = [self._keys(task.equality_deletes) for task in (before, after)]
        fields = {field.field_id: field for keys in states for key in keys for field in key.fields}
        live = LiveRows(wanted, before.data.record_count, chosen=True)
        opened = self._files.open(before.data, fields.values(), live)
        found: tuple[list[np.ndarray], list[np.ndarray]] = [], []
        for batch in opened.batches():
            rows = batch.select()
            assert rows is not None
            positions = rows.positions().to_numpy()
            for keys, parts in zip(states, found, strict=True):
                for key in keys:
                    parts.append(positions[key.contains(batch.key_values)])
        return [
            before_ | PositionBitmap.from_positions(np.concatenate([np.empty(0, np.int64), *parts]))
            for before_, parts in zip(dead, found, strict=True)
        ]

    def _keys(self, deletes: DeleteFiles) -> list[DeletedKeys]:
        return self._equality.of(deletes) if deletes else []
