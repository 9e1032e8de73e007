"""On the executors: data files of a table lose rows, and their new vectors are written.

What a task needs of the table travels as bytes, read only after this package was found there: a missing
package is then reported by name, not as a failure to unpickle.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg as codec
from puffin_fast.iceberg.deletes.deletion_vectors import NewDeletes
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.position_files import PositionFiles
from puffin_fast.iceberg.dml.delete import Finder
from puffin_fast.spark.worker.known_files import dangling_rows
from puffin_fast.spark.worker.merge import merge
from puffin_fast.spark.worker.pack import WRITTEN, WRITTEN_SCHEMA, Place, write_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

__all__ = [
    "REPORT",
    "Marked",
    "Row",
    "Target",
    "by_spec",
    "extend",
    "items_of",
    "pack",
    "search",
    "unpack",
    "written",
]

REPORT = f"{WRITTEN}, n_new long, n_hidden long, entry binary"
"""A row per data file that changes, as Spark's DDL; without ``path`` when it lost all its rows. With ``n_hidden``
the data file stays as it is, because its vector hides so many positions that it does not hold. Without ``data_file``
it says how many rows named no data file of the table, or gives the pickled ``entry`` of a position-delete file in
a table that has no vectors; its data files that keep rows have an empty ``entry`` there."""

SORTED = 16 << 20
"""Bytes of vectors that are held to be sorted by partition spec, in tables that had several."""

ITEM = 4 << 10
"""Bytes of a data file's task in memory, about."""

REPORT_SCHEMA = pa.schema(
    [
        *WRITTEN_SCHEMA,
        pa.field("n_new", pa.int64()),
        pa.field("n_hidden", pa.int64()),
        pa.field("entry", pa.binary()),
    ]
)


def pack(value: Any) -> bytes:
    """A value for the executors, small: the paths of a table are all alike."""
    return zlib.compress(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), 1)


def unpack(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


@dataclass(frozen=True)
class Target:
    """The table, as far as an executor needs it."""

    io: FileIO
    metadata: TableMetadata
    place: Place


def search(
    batches: Iterator[pa.RecordBatch], *, target: bytes, matcher: bytes, case_sensitive: bool
) -> Iterator[pa.RecordBatch]:
    """Finds the rows that match, and writes the deletes of them and of all that was deleted before.

    Args:
        batches: one binary column: packed lists of `FileTask`.
        target: packed `Target`.
        matcher: packed `Matcher`.
        case_sensitive: as it was bound.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    finder = Finder(table.io, table.metadata, unpack(matcher), case_sensitive)
    return deleted(map(finder.deletes, items_of(batches)), table)


def extend(batches: Iterator[pa.RecordBatch], *, target: bytes, memory: int) -> Iterator[pa.RecordBatch]:
    """Unites partial vectors of a data file, and all that was deleted before, and writes them.

    Args:
        batches: rows of `MARKED`, all of a file together.
        target: packed `Target`.
        memory: bytes of partial vectors that may be held.

    Yields:
        rows of `REPORT`.
    """
    table: Target = unpack(target)
    current, marked = DeleteLoader(table.io), Marked(batches)
    united = by_spec(marked.united(memory), table)
    found = (NewDeletes.merge(task, positions, current) for task, positions in united)
    yield from deleted(found, table)
    if marked.dangling:
        yield _report([Row(n_new=marked.dangling)])


def items_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """What one binary column of packed lists holds."""
    return (item for batch in batches for packed in batch.column(0) for item in unpack(packed.as_py()))


class Marked:
    """Rows of `MARKED`, all of a file together.

    Attributes:
        dangling: rows of files that the table does not have, when all came.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self._extra: dict[str, bytes] = {}
        self.dangling = 0

    def _partials(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            marked = batch["extra"].is_valid()
            rows = batch.filter(marked)
            for path, extra in zip(rows["file_path"].to_pylist(), rows["extra"].to_pylist(), strict=True):
                if path is None:
                    self.dangling += dangling_rows(extra)
                else:
                    self._extra[path] = extra
            if rows.num_rows < batch.num_rows:
                yield batch.filter(batch["extra"].is_null()).select(["file_path", "blob"])

    def united(self, memory: int) -> Iterator[tuple[Any, PositionBitmap]]:
        """What the file's own row carries and its positions, of each file that has positions.

        Args:
            memory: bytes of partial vectors that may be held.
        """
        for batch in merge(self._partials(), memory=memory):
            for path, blob in zip(batch["file_path"].to_pylist(), batch["blob"], strict=True):
                yield pickle.loads(self._extra.pop(path)), codec.decode(blob.as_py())


def by_spec(
    united: Iterator[tuple[Any, PositionBitmap]], table: Target
) -> Iterator[tuple[Any, PositionBitmap]]:
    """What `Marked.united` gives, data files of one partition spec together, as far as `SORTED` bytes reach."""
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


class Row(NamedTuple):
    """A row of `REPORT` without a vector."""

    data_file: str | None = None
    path: str | None = None
    offset: int | None = None
    length: int | None = None
    cardinality: int | None = None
    file_size: int | None = None
    n_new: int | None = None
    n_hidden: int | None = None
    entry: bytes | None = None


def _report(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, REPORT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=REPORT_SCHEMA)


def deleted(deletes: Iterable[NewDeletes], table: Target) -> Iterator[pa.RecordBatch]:
    """Writes the deletes of one task as the table's format version has them; at most one per data file."""
    if table.metadata.format_version > 2:
        yield from written(deletes, table)
        return
    limit, dry_run = table.place.target_file_size, table.place.dry_run
    path_of = table.place.paths(".parquet")
    files = PositionFiles(table.io, table.metadata.properties, limit, path_of, dry_run=dry_run)
    rows = [
        Row(outcome.task.data.file_path, n_new=outcome.n_new, entry=b"" if outcome.by_files else None)
        for outcome in files.write(deletes)
    ]
    rows += [Row(path=entry.file_path, entry=pickle.dumps(entry)) for entry in files.entries]
    if rows:
        yield _report(rows)


def written(
    deletes: Iterable[NewDeletes | Row], table: Target, *, only_new: bool = True
) -> Iterator[pa.RecordBatch]:
    """Writes the vectors of one task as they are found; rows without a vector are reported at the end.

    Args:
        deletes: at most one per data file.
        table: where to.
        only_new: pass over those without a new position.
    """
    new: dict[str, tuple[int, int]] = {}  # rows and spec
    others: list[Row] = []

    def vectors() -> Iterator[tuple[str, PositionBitmap]]:
        for found in deletes:
            if isinstance(found, Row):
                others.append(found)
                continue
            path = found.task.data.file_path
            if only_new and found.n_new == 0:
                continue
            if found.drops:
                others.append(Row(path, n_new=found.n_new))
                continue
            assert found.positions is not None
            new[path] = found.n_new, found.task.data.spec_id
            yield path, found.positions

    for batch in write_files(vectors(), table.place, filesystem=table.io, kind=lambda path: new[path][1]):
        counts = pa.array([new.pop(path)[0] for path in batch["data_file"].to_pylist()], pa.int64())
        columns = [
            *batch.columns,
            counts,
            pa.nulls(len(counts), pa.int64()),
            pa.nulls(len(counts), pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=REPORT_SCHEMA)
    if others:
        yield _report(others)
