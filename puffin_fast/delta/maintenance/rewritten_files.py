"""Writes the live rows of groups of data files to new files; no row changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, Workers
from puffin_fast._io.run_folder import RunFolder
from puffin_fast._process.cached import cached_property
from puffin_fast.delta.dml.changes import remove_action
from puffin_fast.delta.dml.data_files import DataFileWriter, NamesIn, row_tracking_columns
from puffin_fast.delta.log.storage import canonical_path
from puffin_fast.delta.scans.plan import DeltaTable
from puffin_fast.delta.scans.schema import ROW_TRACKING
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.rewrite.file_groups import known_deleted, live_bytes
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.rows.rewrite.sorted_rows import SortedRows
from puffin_fast.rows.scan.located_rows import located_batches
from puffin_fast.rows.tasks import columns_of

_WRITING = "rewriting file groups"


@dataclass
class FileRewriter:
    """Rewrites groups of data files of one version.

    Attributes:
        table: the version.
        target_file_size: the target size of a new file in bytes.
        order: the sort order of the rows of a group; None: as they are.
        name: as in `DataFileWriter`.
        adds: the actions of the new files.
        written: the paths of the new files, below the table.
    """

    table: DeltaTable
    target_file_size: int
    order: RowOrder | None = None
    name: Callable[[], str] | None = None
    adds: list[dict[str, Any]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    @cached_property
    def _writer(self) -> DataFileWriter:
        return DataFileWriter(self.table, written=self.written, target_bytes=None, name=self.name)

    @property
    def keeps_row_ids(self) -> bool:
        """Whether the rows have their row ids, where the table tracks rows."""
        return row_tracking_columns(self.table.snapshot) is not None

    def write(self, groups: Sequence[Sequence[DeltaTask]], workers: Workers, run: str) -> None:
        """Writes the live rows of groups. After an error, no new file is left.

        Args:
            workers: who writes them.
            run: the name of the run.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as `scan`.
        """
        if not isinstance(workers, Threads):
            self._write_on(workers, groups, run)
            return
        n_threads = workers.n or pa.cpu_count()
        of_a_group = max(1, n_threads // max(len(groups), 1))
        try:
            for adds in Threads(n_threads).each(
                lambda group: self.write_group(group, of_a_group), groups, _live_bytes, _WRITING
            ):
                self.adds += adds
        except BaseException:
            self._writer.remove()
            raise

    def _write_on(self, workers: Workers, groups: Sequence[Sequence[DeltaTask]], run: str) -> None:
        """Has groups written by workers. Their files are in a folder that no other run uses."""
        storage = self.table.snapshot.storage
        folder = RunFolder(f"{storage.root}/{run}", run)
        there = replace(self, table=self.table.without_files(), name=NamesIn(folder))
        lean = [[*columns_of(tasks)] for tasks in groups]
        with folder.keeping(storage.filesystem) as kept:
            for adds in workers.each(there._written_group, lean, _live_bytes, _WRITING, run=run):
                self.adds += adds
            self.written += [canonical_path(add["add"]["path"]) for add in self.adds]
            kept += [f"{storage.root}/{path}" for path in self.written]

    def _written_group(self, group: Sequence[DeltaTask]) -> list[dict[str, Any]]:
        return self.write_group(group, 1)

    def write_group(self, group: Sequence[DeltaTask], threads: int) -> list[dict[str, Any]]:
        """Writes the live rows of a group; returns the actions of the new files."""
        n_files = max(1, -(-sum(map(live_bytes, group)) // self.target_file_size))
        expected = sum(task.data.record_count - known_deleted(task) for task in group)
        n_rows = max(1, -(-expected // n_files))
        live = self._live_rows(group, threads)
        adds: list[dict[str, Any]] = []
        for rows in _parts(live if self.order is None else SortedRows(live, self.order), n_rows):
            n_columns = len(self.table.schema.schema.fields)
            tracked = row_tracking_columns(self.table.snapshot, *rows.columns[n_columns:])
            adds += self._writer.write(rows.select(range(n_columns)), tracked, data_change=False)
        return adds

    def _live_rows(self, group: Sequence[DeltaTask], threads: int) -> Iterator[pa.RecordBatch]:
        """Yields the live rows with their row ids and row commit versions, whose columns have names of their own."""
        schema = self.table.schema.schema
        every_row = RowFilter.bind(AlwaysTrue(), schema)
        names: list[str] = []
        for _, batch in located_batches(
            self.table.reader_factory(every_row), schema.fields, group, ROW_TRACKING, threads=threads
        ):
            rows = batch.remove_column(len(schema.fields))
            names = names or [*(field.name for field in schema.fields), *_free_names(schema.column_names)]
            yield rows.rename_columns(names)


def _live_bytes(group: Sequence[DeltaTask]) -> int:
    return sum(live_bytes(task) + OPEN_BYTES for task in group)


def removes_of(
    table: DeltaTable, groups: Sequence[Sequence[DeltaTask]]
) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Returns the actions that remove the data files of groups, and their decoded paths."""
    olds = table.snapshot.adds([task.row for group in groups for task in group])
    removes = [remove_action(old, data_change=False) for old in olds]
    return removes, frozenset(canonical_path(old["path"]) for old in olds)


def _free_names(taken: Sequence[str]) -> list[str]:
    """Names of the row-tracking columns that no column of the table has."""
    found = []
    for name in ROW_TRACKING:
        while name in taken:
            name += "_"
        found.append(name)
    return found


def _parts(batches: Iterator[pa.RecordBatch] | SortedRows, n_rows: int) -> Iterator[pa.Table]:
    """Divides a stream to tables of some number of rows."""
    part: list[pa.RecordBatch] = []
    missing = n_rows
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, missing)
            part.append(piece)
            start += piece.num_rows
            missing -= piece.num_rows
            if not missing:
                yield pa.Table.from_batches(part)
                part, missing = [], n_rows
    if part:
        yield pa.Table.from_batches(part)
