"""Groups of data files whose live rows were written to new files, and the places of the rows before and after.

The rows of a group keep their order, unless they are sorted. A row that was live at position ``p`` of a file is
therefore in the new files at index ``first + p - d``: ``first`` is the number of live rows of the group's earlier
files, ``d`` the number of rows before ``p`` in its file that were not live. If rows are sorted, their new index is
looked up by this one. A delete that another commit adds to the old file while the group is written can so be moved to
the new file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.iceberg.dml.data_files import DataFileWriter
from puffin_fast.iceberg.manifest import key_of
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.rewrite.file_groups import known_deleted, live_bytes
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.rows.rewrite.sorted_rows import SortedRows
from puffin_fast.rows.scan.file_reader import reader_factory
from puffin_fast.rows.scan.located_rows import located_batches

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.rows.deletes.loader import DeleteLoader

LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""The columns of row lineage, which the new files store (specification, "Row Lineage")."""


@dataclass(frozen=True)
class OldFile:
    """A data file whose live rows were read.

    Attributes:
        task: the data file and its deletes when it was read.
        dead: the positions that were not live.
        deleted: those of them that were deleted by position. The files that said so may have expired since.
        first: index of its first live row in the group.
    """

    task: FileTask
    dead: PositionBitmap
    deleted: PositionBitmap
    first: int

    def deleted_since(self, now: FileTask, loader: DeleteLoader) -> PositionBitmap | None:
        """Returns the positions that were live and are deleted by position now.

        None if a delete that was applied no longer exists, as after a rollback: rows are live again.
        """
        if _keys(self.task) == _keys(now):
            return PositionBitmap()
        equal_before = {entry.file_path for entry in self.task.equality_deletes}
        equal_after = {entry.file_path for entry in now.equality_deletes}
        positions = loader.of(now)
        needed = self.deleted if equal_before <= equal_after else self.dead
        return positions - self.dead if needed <= positions else None


@dataclass(frozen=True)
class NewFile:
    """A new data file; `first` is the index of its first row in the group."""

    entry: ManifestEntry
    first: int


@dataclass(frozen=True)
class RewrittenGroup:
    """A group of data files, and the files in their place: none if no row was live."""

    old: tuple[OldFile, ...]
    new: tuple[NewFile, ...]
    sequence_number: int
    """The data sequence number of the new files: of the snapshot that was read."""
    places: npt.NDArray[Any] | None = None
    """Index in the new files of each row that was live, if the rows were sorted."""

    def deletes_since(self, tasks: Mapping[str, FileTask], loader: DeleteLoader) -> list[NewDeletes] | None:
        """Returns the deletes of the new files that other commits added to the old ones.

        Args:
            tasks: the data files of a later snapshot, by path.
            loader: reads their deletes.

        Returns:
            None if the group can no longer replace its data files: one was removed, deletes of one were undone, row
            ids were assigned, or all rows of a new file are deleted.
        """
        moved = []
        for old in self.old:
            now = tasks.get(old.task.data.file_path)
            if now is old.task:
                continue
            if now is None or not self._is_same(old.task, now):
                return None
            positions = old.deleted_since(now, loader)
            if positions is None:
                return None
            if positions:
                found = positions.to_numpy(np.int64)
                rank = np.searchsorted(old.dead.to_numpy(np.int64), found)
                moved.append(old.first + found - rank)
        if not moved:
            return []
        rows = np.concatenate(moved)
        if self.places is not None:
            rows = self.places[rows].astype(np.int64)
        numbers = np.searchsorted([new.first for new in self.new], rows, "right") - 1
        deletes = []
        for number in np.unique(numbers).tolist():
            new = self.new[number]
            positions = PositionBitmap.from_positions(rows[numbers == number] - new.first)
            deletes.append(NewDeletes(FileTask(new.entry), positions, len(positions)))
        return None if any(new.drops for new in deletes) else deletes

    def _is_same(self, before: FileTask, now: FileTask) -> bool:
        known = {entry.file_path for entry in before.equality_deletes}
        return (
            now.data.sequence_number == before.data.sequence_number
            and now.data.first_row_id == before.data.first_row_id
            and all(
                entry.file_path in known or (entry.sequence_number or 0) > self.sequence_number
                for entry in now.equality_deletes
            )
        )


def with_new_ids(
    groups: Iterable[RewrittenGroup], tasks: Iterable[FileTask]
) -> tuple[list[RewrittenGroup], list[list[FileTask]]]:
    """Finds groups whose rows got row ids since they were read.

    Args:
        groups: that were written.
        tasks: the data files of a later snapshot.

    Returns:
        The other groups, and the data files of each of these groups in the later snapshot.
    """
    known = {task.data.file_path: task for task in tasks}
    kept, again = [], []
    for group in groups:
        before = [old.task.data for old in group.old]
        now = [known[data.file_path] for data in before if data.file_path in known]
        had_none = any(data.first_row_id is None for data in before)
        if had_none and len(now) == len(before) and all(task.data.first_row_id is not None for task in now):
            again.append(now)
        else:
            kept.append(group)
    return kept, again


@dataclass(frozen=True)
class GroupWriter:
    """Writes the live rows of groups to new files. Safe to use from several threads.

    Attributes:
        table: the table of the job.
        sequence_number: the sequence number of the snapshot that is read; equality deletes of later commits apply to
            the new files.
        target_file_size: the target size of a new file in bytes.
        threads: number of threads that read a group.
        order: the sort order of the rows of a group; None: that of the table, or as they were read.
    """

    table: Table
    sequence_number: int
    target_file_size: int
    threads: int
    order: RowOrder | None = None

    def write(self, tasks: Sequence[FileTask]) -> RewrittenGroup:
        """Reads a group and writes it, a row group at a time.

        Raises:
            InvalidInputError, UnsupportedError, CorruptDataError, NotFoundError: as `append` and `scan`.
        """
        table, data = self.table, tasks[0].data
        live = _LiveRows(table, tasks, self.threads)
        order = self.order or RowOrder.of_table(table.metadata)
        writer = DataFileWriter(table, live.schema, table.specs()[data.spec_id], order)
        n_files = max(1, -(-sum(map(live_bytes, tasks)) // self.target_file_size))
        expected = sum(task.data.record_count - known_deleted(task) for task in tasks)
        new: list[NewFile] = []
        first = 0
        ordered = None if order is None else SortedRows(live, order)
        parts = _parts(live if ordered is None else ordered, max(1, -(-expected // n_files)))
        for number, part in groupby(parts, key=itemgetter(0)):
            entry = writer.write_rows(number, (batch for _, batch in part), data.partition)
            entry = replace(entry, sequence_number=self.sequence_number)
            new.append(NewFile(entry, first))
            first += entry.record_count
        places = None if ordered is None else ordered.places
        return RewrittenGroup(tuple(live.files()), tuple(new), self.sequence_number, places)


def _parts(batches: Iterable[pa.RecordBatch], n_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divides a stream to parts of some number of rows; yields the part's number with each batch."""
    at = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            count = min(batch.num_rows - start, n_rows - at % n_rows)
            yield at // n_rows, batch.slice(start, count)
            at, start = at + count, start + count


@dataclass
class _LiveRows:
    """The live rows of data files as a stream, which records their positions.

    Attributes:
        table, tasks, threads: as of `GroupWriter`.
        schema: the schema of the rows: the table's, with row lineage from format version 3 on.
        positions: the positions of the rows that were read, by index of the data file.
    """

    table: Table
    tasks: Sequence[FileTask]
    threads: int
    schema: Schema = field(init=False)
    positions: list[list[PositionBitmap]] = field(init=False)

    def __post_init__(self) -> None:
        metadata = self.table.metadata
        schema = metadata.schema()
        names = LINEAGE if metadata.format_version > 2 else ()
        reserved = [NestedField(METADATA_COLUMNS[name].field_id, name, LongType()) for name in names]
        self.schema = Schema(*schema.fields, *reserved, schema_id=schema.schema_id)
        self.positions = [[] for _ in self.tasks]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        fields = self.table.metadata.schema().fields
        names = [field.name for field in self.schema.fields[len(fields) :]]
        fitting: RowWriterSchema | None = None
        every_row = RowFilter.bind(AlwaysTrue(), self.table.metadata.schema())
        for number, batch in located_batches(
            reader_factory(self.table, every_row), fields, self.tasks, names, threads=self.threads
        ):
            self.positions[number].append(PositionBitmap.from_positions(batch.column(len(fields))))
            rows = batch.remove_column(len(fields))
            if names:  # null in a table that was upgraded, before its next snapshot assigns row ids
                updated = pc.fill_null(rows.column(names[-1]), self.tasks[number].data.file_sequence_number)
                rows = rows.set_column(rows.num_columns - 1, names[-1], updated)
            fitting = fitting or RowWriterSchema(self.schema, rows.schema)
            yield fitting.fit(rows, is_stored=True)

    def files(self) -> Iterator[OldFile]:
        """Yields the data files after all rows were read."""
        first, loader = 0, DeleteLoader(self.table.io)
        for task, parts in zip(self.tasks, self.positions, strict=True):
            live = PositionBitmap.union_all(parts)
            dead = PositionBitmap.from_range(0, task.data.record_count) - live
            yield OldFile(task, dead, loader.of(task) if task.equality_deletes else dead, first)
            first += len(live)


def _keys(task: FileTask) -> set[tuple[str, int | None]]:
    return {key_of(entry) for entry in task.deletes}
