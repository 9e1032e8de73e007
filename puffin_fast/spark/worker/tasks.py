"""On executors: rows of a table's data files are deleted, and the new deletion vectors are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.iceberg.delete_files.position_files import PositionFiles
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import FileDeleted, NewDeletes
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.spark.session.executor_calls import Batches, items_of
from puffin_fast.spark.worker.marked import Marked
from puffin_fast.spark.worker.pack import Place, write_files
from puffin_fast.spark.worker.reports import Report

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.delta.scans.plan import DeltaTable
    from puffin_fast.iceberg.maintenance.convert import SupersededPositions
    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.scan.file_reader import ReaderFactory
    from puffin_fast.rows.tasks import Task

SORTED = 16 << 20
"""Bytes of deletion vectors that are buffered to be sorted by partition spec, in tables with several specs."""

ITEM = 4 << 10
"""Approximate size of the `FileTask` of a data file in memory, bytes."""


class Share(NamedTuple):
    """One of `n_shares` parts of a data file with about equally many row groups."""

    task: Task
    number: int
    n_shares: int


class Numbered(NamedTuple):
    """A data file and its number."""

    number: int
    task: Task


@dataclass(frozen=True)
class Target:
    """The parts of a table that an executor needs.

    Attributes:
        io: opens the table's files.
        metadata: the metadata of the table, without its history.
        place: where tasks write.
        delta: a version of a Delta table without its files; None for an Iceberg table.
    """

    io: FileIO
    metadata: TableMetadata
    place: Place
    delta: DeltaTable | None = None

    @property
    def lineage(self) -> list[str]:
        """``_row_id`` if rows of the table have row ids, else nothing."""
        has_ids = self.metadata.format_version > 2 if self.delta is None else self.delta.tracks_rows
        return ["_row_id"] if has_ids else []

    def loader(self) -> DeleteLoader:
        """Returns a loader of the positions that are already deleted."""
        return DeleteLoader(self.io) if self.delta is None else self.delta.loader()

    def finder(self, matcher: Matcher) -> Finder:
        """Returns the object that finds the matching rows of data files."""
        if self.delta is not None:
            return self.delta.finder(matcher)
        return Finder(self.io, self.metadata, matcher)

    def reader_factory(self, matcher: Matcher, reads: Reads | None = None) -> ReaderFactory:
        """Returns a factory of readers of the data files for one filter; `reads` counts what they read."""
        if self.delta is not None:
            return self.delta.reader_factory(matcher, reads)
        io, metadata = self.io, self.metadata
        return lambda fields, extra, arrow: FileReader(
            io, metadata, metadata.schema(), fields, extra, matcher, arrow, reads=reads
        )


def search(batches: Batches, target: Target, *, matcher: Matcher) -> Iterator[Report]:
    """Finds the rows that match and writes the new deletes of their data files, earlier deletes included.

    Args:
        batches: one binary column: packed lists of `FileTask`.
    """
    finder, reads = target.finder(matcher), Reads()
    yield from deleted((finder.deletes(task, reads) for task in items_of(batches)), target)
    yield Report(reads=reads)


def extend(batches: Batches, target: Target, *, memory: int, common: bytes) -> Iterator[Report]:
    """Unites the partial vectors of each data file with its earlier deletes, and writes the result.

    Args:
        batches: rows of `MARKED`; all rows of a data file are adjacent.
        memory: limit of the buffer of partial vectors, in bytes.
        common: as `pickled_tasks` packs it.
    """
    current, marked = target.loader(), Marked(batches, common)
    united = by_spec(marked.united(memory), target)
    yield from deleted((NewDeletes.merge(task, positions, current) for task, positions in united), target)
    if marked.counts:
        yield marked.counts


def by_spec(
    united: Iterator[tuple[Any, PositionBitmap]], table: Target
) -> Iterator[tuple[Any, PositionBitmap]]:
    """Sorts the result of `Marked.united` by partition spec, in runs of `SORTED` bytes."""
    if len(table.metadata.specs()) == 1:
        yield from united
        return
    held: list[tuple[Any, PositionBitmap]] = []
    n_bytes = 0
    for item, positions in united:
        held.append((item, positions))
        n_bytes += positions.n_bytes + ITEM
        if n_bytes >= SORTED:
            yield from sorted(held, key=lambda pair: pair[0].data.spec_id)
            held, n_bytes = [], 0
    yield from sorted(held, key=lambda pair: pair[0].data.spec_id)


def deleted(deletes: Iterable[NewDeletes], table: Target) -> Iterator[Report]:
    """Writes the deletes of one task: deletion vectors, or position-delete files in format version 2."""
    if table.place.records or table.metadata.format_version > 2:
        yield from written(deletes, table)
        return
    limit, dry_run = table.place.target_file_size, table.place.dry_run
    name = table.place.folder.names()
    files = PositionFiles(
        table.io, table.metadata.properties, limit, lambda number: name(".parquet"), dry_run=dry_run
    )
    found = [
        FileDeleted(outcome.task.data.file_path, outcome.n_new, by_files=outcome.by_files)
        for outcome in files.write(deletes)
    ]
    if found:
        yield Report(found, files.entries)


def written(
    deletes: Iterable[NewDeletes | SupersededPositions], table: Target, *, only_new: bool = True
) -> Iterator[Report]:
    """Writes the deletion vectors of one task; data files without a vector are reported at the end.

    Args:
        deletes: the deletes, at most one item for each data file.
        only_new: whether data files without a newly deleted row are skipped.
    """
    new: dict[str, tuple[int, int]] = {}  # rows and spec
    others = Report()

    def vectors() -> Iterator[tuple[str, PositionBitmap]]:
        for found in deletes:
            if not isinstance(found, NewDeletes):
                others.superseded.append(found)
                continue
            path = found.task.data.file_path
            if only_new and found.n_new == 0:
                continue
            if found.drops:
                others.deleted.append(FileDeleted(path, found.n_new))
                continue
            assert found.positions is not None
            new[path] = found.n_new, found.task.data.spec_id
            yield path, found.positions

    for file in write_files(vectors(), table.place, filesystem=table.io, kind=lambda path: new[path][1]):
        yield Report([FileDeleted(one.data_file, new.pop(one.data_file)[0], one) for one in file])
    if others:
        yield others
