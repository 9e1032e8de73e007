"""On executors: rows of a table's data files are deleted, and the new deletion vectors are written.

Tasks receive their part of the table as bytes, and unpickle it only after they imported this package. So a missing
package is reported by its name, not as an error of pickle.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.iceberg.delete_files.position_files import PositionFiles
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.rows.shared_deletes import SharedDeletes
from puffin_fast.spark.worker.merge import merge
from puffin_fast.spark.worker.pack import Place, write_files
from puffin_fast.spark.worker.rows import (
    BY_FILES,
    DANGLING,
    DELETE_FILE,
    EMPTIED,
    NAN,
    NAN_ROWS,
    PARTIAL,
    TASK,
    UNKNOWN_ROWS,
    ReportRow,
    report_rows,
    vector_rows,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.delta.scans.plan import DeltaTable
    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.scan.file_reader import ReaderFactory

SORTED = 16 << 20
"""Bytes of deletion vectors that are buffered to be sorted by partition spec, in tables with several specs."""

ITEM = 4 << 10
"""Approximate size of the `FileTask` of a data file in memory, bytes."""


def pack(value: Any) -> bytes:
    """Pickles and compresses a value for the executors."""
    return zlib.compress(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), 1)


def unpack(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


class _TaskPickler(pickle.Pickler):
    """Pickles a task; lists of delete files that data files share are replaced by their numbers."""

    def __init__(self, file: Any, numbers: dict[SharedDeletes, int]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not SharedDeletes or value.of_one:
            return None
        return self._numbers.setdefault(value, len(self._numbers))


class _TaskUnpickler(pickle.Unpickler):
    """Unpickles what `_TaskPickler` pickled."""

    def __init__(self, file: Any, lists: Sequence[SharedDeletes]) -> None:
        super().__init__(file)
        self._lists = lists

    def persistent_load(self, number: int) -> SharedDeletes:
        return self._lists[number]


def pickled_tasks(tasks: Iterable[Any]) -> tuple[list[bytes], bytes]:
    """Pickles tasks one by one, for rows of `MARKED`; Spark compresses these when it shuffles them.

    Returns:
        The pickled tasks, and packed for `Marked` the lists of delete files that their data files share.
    """
    numbers: dict[SharedDeletes, int] = {}
    found = []
    for task in tasks:
        file = BytesIO()
        _TaskPickler(file, numbers).dump(task)
        found.append(file.getvalue())
    return found, pack([*numbers])


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

    def reader_factory(self, matcher: Matcher) -> ReaderFactory:
        """Returns a factory of readers of the data files for one filter."""
        if self.delta is not None:
            return self.delta.reader_factory(matcher)
        io, metadata = self.io, self.metadata
        return lambda fields, extra, arrow: FileReader(
            io, metadata, metadata.schema(), fields, extra, matcher, arrow
        )


def search(batches: Iterator[pa.RecordBatch], *, target: bytes, matcher: bytes) -> Iterator[pa.RecordBatch]:
    """Finds the rows that match and writes the new deletes of their data files, earlier deletes included.

    Args:
        batches: one binary column: packed lists of `FileTask`.
        target: packed `Target`.
        matcher: packed `Matcher`.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    finder = table.finder(unpack(matcher))
    return deleted(map(finder.deletes, items_of(batches)), table)


def extend(
    batches: Iterator[pa.RecordBatch], *, target: bytes, memory: int, lists: bytes
) -> Iterator[pa.RecordBatch]:
    """Unites the partial vectors of each data file with its earlier deletes, and writes the result.

    Args:
        batches: rows of `MARKED`; all rows of a data file are adjacent.
        target: packed `Target`.
        memory: limit of the buffer of partial vectors, in bytes.
        lists: as `pickled_tasks` packs them.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    current, marked = table.loader(), Marked(batches, lists)
    united = by_spec(marked.united(memory), table)
    found = (NewDeletes.merge(task, positions, current) for task, positions in united)
    yield from deleted(found, table)
    if marked.dangling:
        yield from report_rows([ReportRow(UNKNOWN_ROWS, n_rows=marked.dangling)])
    if marked.n_nan:
        yield from report_rows([ReportRow(NAN_ROWS, n_rows=marked.n_nan)])


def packed(items: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """A list of items as `items_of` reads it."""
    yield pa.record_batch({"tasks": pa.array([pack(items)], pa.binary())})


def items_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The items of the packed lists in one binary column."""
    return (item for batch in batches for packed in batch.column(0) for item in unpack(packed.as_py()))


class Marked:
    """Reads rows of `MARKED`; all rows of a data file are adjacent.

    Args:
        batches: the rows.
        lists: as `pickled_tasks` packs them.

    Attributes:
        dangling: number of rows that name no data file of the table; complete when all batches were read.
        n_nan: number of rows with NaN in a column of the condition, likewise.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], lists: bytes) -> None:
        self._batches, self._lists = batches, lists
        self._extra: dict[str, bytes] = {}
        self.dangling = self.n_nan = 0

    def _partials(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            partial = pc.equal(batch["kind"], PARTIAL)
            others = batch.filter(pc.invert(partial)).select(["kind", "file_path", "extra"])
            for kind, path, extra in zip(*(column.to_pylist() for column in others.columns), strict=True):
                if kind == DANGLING:
                    self.dangling += int.from_bytes(extra, "little")
                elif kind == NAN:
                    self.n_nan += int.from_bytes(extra, "little")
                else:
                    assert kind == TASK, f"unknown kind {kind}"
                    self._extra[path] = extra
            if others.num_rows < batch.num_rows:
                yield batch.filter(partial).select(["file_path", "blob"])

    def united(self, memory: int) -> Iterator[tuple[Any, PositionBitmap]]:
        """The task of each data file with deletes, and the union of its partial vectors.

        Args:
            memory: limit of the buffer of partial vectors, in bytes.
        """
        lists = unpack(self._lists)
        for batch in merge(self._partials(), memory=memory):
            for path, blob in zip(batch["file_path"].to_pylist(), batch["blob"], strict=True):
                task = _TaskUnpickler(BytesIO(self._extra.pop(path)), lists).load()
                yield task, codec.decode(blob.as_py())


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


def deleted(deletes: Iterable[NewDeletes], table: Target) -> Iterator[pa.RecordBatch]:
    """Writes the deletes of one task: deletion vectors, or position-delete files in format version 2."""
    if table.place.records or table.metadata.format_version > 2:
        yield from written(deletes, table)
        return
    limit, dry_run = table.place.target_file_size, table.place.dry_run
    path_of = table.place.paths(".parquet")
    files = PositionFiles(table.io, table.metadata.properties, limit, path_of, dry_run=dry_run)
    rows = [
        ReportRow(
            BY_FILES if outcome.by_files else EMPTIED, outcome.task.data.file_path, n_rows=outcome.n_new
        )
        for outcome in files.write(deletes)
    ]
    rows += [ReportRow(DELETE_FILE, path=e.file_path, entry=pickle.dumps(e)) for e in files.entries]
    yield from report_rows(rows)


def written(
    deletes: Iterable[NewDeletes | ReportRow], table: Target, *, only_new: bool = True
) -> Iterator[pa.RecordBatch]:
    """Writes the deletion vectors of one task; rows without a vector are reported at the end.

    Args:
        deletes: the deletes, at most one item for each data file.
        table: the table.
        only_new: whether data files without a newly deleted row are skipped.
    """
    new: dict[str, tuple[int, int]] = {}  # rows and spec
    others: list[ReportRow] = []

    def vectors() -> Iterator[tuple[str, PositionBitmap]]:
        for found in deletes:
            if isinstance(found, ReportRow):
                others.append(found)
                continue
            path = found.task.data.file_path
            if only_new and found.n_new == 0:
                continue
            if found.drops:
                others.append(ReportRow(EMPTIED, path, n_rows=found.n_new))
                continue
            assert found.positions is not None
            new[path] = found.n_new, found.task.data.spec_id
            yield path, found.positions

    for batch in write_files(vectors(), table.place, filesystem=table.io, kind=lambda path: new[path][1]):
        yield vector_rows(batch, [new.pop(path)[0] for path in batch["data_file"].to_pylist()])
    yield from report_rows(others)
