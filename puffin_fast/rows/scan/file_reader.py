"""Reads data files for a scan: prunes row groups, applies deletes and the row filter, projects columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from puffin_fast._concurrency.groups import filled_groups
from puffin_fast._concurrency.streams import CAPACITY
from puffin_fast._concurrency.threads import thread_pool
from puffin_fast._concurrency.workers import on_workers
from puffin_fast._io import is_remote
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.columns.plain_types import is_view
from puffin_fast.columns.row_selection import LiveRows, mask_of
from puffin_fast.dv import iceberg as codec
from puffin_fast.rows.deletes.equality import DeletedKeys, EqualityDeletes, live_matches
from puffin_fast.rows.deletes.loader import Decode, DeleteLoader, ReadAhead
from puffin_fast.rows.files.conversion import Cast, stored
from puffin_fast.rows.files.files import BATCH_ROWS, reading, size_in_rows
from puffin_fast.rows.files.joined_groups import MOST_FILE_BYTES, MOST_FILES, MOST_TEXT_BYTES
from puffin_fast.rows.files.metadata_columns import Metadata, MetadataColumn
from puffin_fast.rows.files.projection import FileSchema, Projection
from puffin_fast.rows.files.reader import Batch, DataFiles, JoinedFiles, OpenedFile
from puffin_fast.rows.scan.splits import Split, data_bytes, threads_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.scan.explain import Reads
    from puffin_fast.rows.tasks import Task

ReaderFactory: TypeAlias = (
    "Callable[[Sequence[NestedField], Sequence[MetadataColumn], pa.Schema], FileReader]"
)
"""Makes the reader of a table's data files for columns, metadata columns and the Arrow schema of the result."""


PREFETCH_BYTES = 16 << 20
"""Maximum bytes of the deletion vectors that are read before the data files of an object store."""


@dataclass(frozen=True)
class _Output:
    """How the columns of the result are computed from files of one schema.

    Attributes:
        schema: the schema of the answer's batches.
        projection: the table's columns.
        metadata: each metadata column, and the column of the file that stores it, if any.
        columns: the columns of the file that both need.
    """

    schema: pa.Schema
    projection: Projection
    metadata: tuple[tuple[MetadataColumn, str | None], ...]
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        file: FileSchema,
        fields: Sequence[NestedField],
        extra: Sequence[MetadataColumn],
        schema: pa.Schema,
        *,
        file_types: bool,
    ) -> _Output:
        types = schema.types[: len(fields)]
        if file_types and (found := [*map(file.type_of, fields)]) != types:
            types = found
            typed = [out.with_type(kind) for out, kind in zip(schema, types, strict=False)]
            schema = pa.schema([*typed, *list(schema)[len(types) :]], schema.metadata)
        projection = Projection.of(file, fields, types)
        metadata = tuple((column, file.column_of(column.field_id)) for column in extra)
        columns = [*projection.columns, *(name for _, name in metadata if name is not None)]
        return cls(schema, projection, metadata, tuple(dict.fromkeys(columns)))


@dataclass(frozen=True)
class OpenedDataFile:
    """An opened data file.

    Attributes:
        file: its row groups that may contain a row of the result.
        output: how the columns of the result are computed.
        keys: the keys of the equality deletes that apply.
    """

    file: OpenedFile
    output: _Output
    keys: tuple[DeletedKeys, ...]


class _ReadGroup(NamedTuple):
    """What is read at once: rows of an opened data file, or of some that are read as one, of which it is the first.

    Attributes:
        use_threads: whether its columns may be read in parallel.
    """

    task: Task
    opened: OpenedDataFile
    rows: OpenedFile | JoinedFiles
    use_threads: bool


class FileReader:
    """Reads the data files of one scan. Safe to use from several threads; can be pickled.

    Attributes:
        io: PyIceberg's file access.
        reads: counts the data files that are opened in this process.

    Args:
        io: the same.
        metadata: the table's metadata.
        schema: the schema that the scan reads with.
        fields: the top-level fields of the result, in order.
        extra: the metadata columns of the result.
        row_filter: bound to `schema`.
        arrow_schema: the Arrow schema of the result: the fields, then the metadata columns. Text and bytes may have
            view types.
        file_types: give the fields the types of PyIceberg's `to_arrow`, which follow each file's Arrow schema.
        by_name: find columns by the name mapping even in files with field ids.
        cast: the conversion of primitive types to the schema's.
        decode: the codec of deletion vectors; Iceberg's by default.
        reads: the same.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        fields: Sequence[NestedField],
        extra: Sequence[MetadataColumn],
        row_filter: Matcher,
        arrow_schema: pa.Schema,
        *,
        file_types: bool = False,
        by_name: bool = False,
        cast: Cast = stored,
        decode: Decode = codec.decode,
        reads: Reads | None = None,
    ) -> None:
        self.io, self._decode, self.reads = io, decode, reads
        self._made_by: tuple[Any, ...] = (
            partial(FileReader, file_types=file_types, by_name=by_name, cast=cast, decode=decode),
            (io, metadata, schema, fields, extra, row_filter, arrow_schema),
        )
        self._fields, self._extra, self._row_filter = fields, extra, row_filter
        self._arrow_schema, self._file_types = arrow_schema, file_types
        self._deletes = DeleteLoader(io, decode)
        self._equality = EqualityDeletes(io, metadata)
        may_match = row_filter.may_match(schema)
        ids = () if row_filter.always_true else row_filter.field_ids
        pruner = row_filter.pruner(schema)
        self._files = DataFiles(
            io,
            metadata,
            schema,
            ids,
            may_match,
            row_filter.equalities,
            pruner,
            coded=row_filter.coded,
            by_name=by_name,
            cast=cast,
        )
        self._views = any(map(is_view, arrow_schema.types))
        self._outputs: dict[FileSchema, _Output] = {}
        self._vectors: ReadAhead | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        make, (io, metadata, *others) = self._made_by
        return make, (io, without_history(metadata), *others)

    @contextmanager
    def prepared(
        self, tasks: Sequence[Task], threads: int | None, *, is_limited: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Prefetches the deletion vectors of data files on an object store: a request takes longer than their bytes.

        They are read while data files are opened, until the end of the block. If they have more than `PREFETCH_BYTES`,
        or are local, this is left to `read_all`.

        Args:
            threads: how many of them are read at a time; None: as many as `threads_of` says.
            is_limited: whether only some rows are wanted; nothing is prefetched then, and few files are read at a time.

        Yields:
            How many data files to read at a time, and how many results to keep ready of each.
        """
        if is_limited:
            yield threads or pa.cpu_count(), CAPACITY
            return
        workers = threads_of(self.io, tasks, threads)
        found = workers, CAPACITY if threads or workers <= pa.cpu_count() else 1
        is_far = bool(tasks) and is_remote(tasks[0].data.file_path, self.io)
        vectors = [task.vector for task in tasks if task.vector] if is_far else []
        if not vectors or sum(vector.content_size_in_bytes or 0 for vector in vectors) > PREFETCH_BYTES:
            yield found
            return
        with thread_pool(workers, "puffin_fast-vectors") as pool:
            self._vectors = ReadAhead(self.io, vectors, counted=True, decode=self._decode, pool=pool)
            yield found

    def n_live(self, task: Task) -> int:
        """Returns the number of rows of a data file that are not deleted by position; the data file is not read."""
        if task.chosen is not None:
            return len(task.chosen)
        return task.data.record_count - len(self._deletes.of(task))

    def count_in(self, reads: Reads, task: Task) -> None:
        """Opens a data file as `read` does, and counts what would be read."""
        opened = self._open(task, None)
        if opened is None:
            reads.opened(task, None)
        else:
            reads.opened(task, opened.file, opened.output.columns)

    def inherited_positions(self, task: Task) -> PositionBitmap | None:
        """Returns the positions of the live rows of a data file that stores no metadata column; no row is read.

        None if it stores one, or if rows are deleted by equality.
        """
        if task.equality_deletes:
            return None
        output = self._output_of(self._files.open(task.data))
        if any(name is not None for _, name in output.metadata):
            return None
        rows = PositionBitmap.from_range(0, task.data.record_count)
        return rows - self._deletes.of(task, self._vectors) if task.vector or task.position_deletes else rows

    def read_all(self, splits: Sequence[Split]) -> Iterator[list[pa.RecordBatch]]:
        """Yields the batches of several splits, grouped to about `BATCH_ROWS` rows, fewer if they are wide.

        The deletion vectors of data files with a single split are prefetched, neighboring blobs in one read.
        """
        vectors = self._ahead_of(splits)
        batches = (batch for part in self._parts(splits, vectors) for batch in self._rows_of(part))
        return filled_groups(batches, BATCH_ROWS, size_in_rows)

    def count_all(self, splits: Sequence[Split]) -> Iterator[int]:
        """Yields the number of the selected rows of several splits; only columns that select rows are read."""
        vectors, n_rows = self._ahead_of(splits), 0
        for part in self._parts(splits, vectors):
            for batch in part.rows.batches():
                wanted = live_matches(self._row_filter, part.opened.keys, batch)
                n_rows += batch.n_rows if wanted is None else int(np.count_nonzero(wanted))
        yield n_rows

    def _parts(self, splits: Sequence[Split], vectors: ReadAhead | None) -> Iterator[_ReadGroup]:
        """Yields the opened splits; small data files that are alike as one, unless the result has metadata of them."""
        run: list[_ReadGroup] = []
        n_bytes, n_texts, common = 0, 0, None
        for split in splits:
            part = self._part(split, vectors)
            if part is None:
                continue
            opened = part.opened
            alike = None if split.count > 1 or opened.output.metadata else opened.file.alike
            size = 0 if alike is None else opened.file.n_bytes
            texts = 0 if alike is None else opened.file.text_bytes(opened.output.columns)
            is_full = n_bytes + size > MOST_FILE_BYTES or n_texts + texts > MOST_TEXT_BYTES
            if run and (alike != common or len(run) == MOST_FILES or is_full):
                yield _together(run)
                run, n_bytes, n_texts = [], 0, 0
            if alike is None:
                yield part
            else:
                run.append(part)
                n_bytes, n_texts, common = n_bytes + size, n_texts + texts, alike
        if run:
            yield _together(run)

    def _part(self, split: Split, vectors: ReadAhead | None, reads: Reads | None = None) -> _ReadGroup | None:
        opened = split.shared.opened(lambda task: self._open(task, vectors, reads))
        if opened is None:
            return None
        return _ReadGroup(split.task, opened, opened.file.part(split.number, split.count), split.alone)

    def _rows_of(self, part: _ReadGroup) -> Iterator[pa.RecordBatch]:
        """Yields the selected rows of an opened part; no batch is empty."""
        columns = part.opened.output.columns
        for batch in part.rows.batches(columns, use_threads=part.use_threads, views=self._views):
            selected = self._select(part, batch)
            if selected is not None:
                yield selected

    def _ahead_of(self, splits: Sequence[Split]) -> ReadAhead:
        tasks = [split.task for split in splits if split.count == 1]
        return self._vectors or ReadAhead(
            self.io,
            [task.vector for task in tasks if task.vector],
            counted=True,
            decode=self._decode,
        )

    def read_there(
        self, workers: Executor, tasks: Sequence[Task], label: str | None
    ) -> Iterator[list[pa.RecordBatch]]:
        """Yields the batches of data files that workers read, grouped as by `read_all`; `label` as in `progress`."""
        if len(self._arrow_schema):
            return (batches for _, batches in on_workers(workers, self._read, tasks, data_bytes, label=label))
        counts = self.count_there(workers, tasks, label)  # Arrow sends no rows of no columns
        return ([_record_batch([], self._arrow_schema, n_rows)] for n_rows in counts if n_rows)

    def count_there(self, workers: Executor, tasks: Sequence[Task], label: str | None) -> Iterator[int]:
        """Yields the numbers of the selected rows of data files, as `count_all` of workers finds them."""
        return (n_rows for _, n_rows in on_workers(workers, self._count, tasks, data_bytes, label=label))

    def _read(self, tasks: Sequence[Task]) -> list[pa.RecordBatch]:
        return [*chain.from_iterable(self.read_all([Split.of(task, 0, 1) for task in tasks]))]

    def _count(self, tasks: Sequence[Task]) -> int:
        return sum(self.count_all([Split.of(task, 0, 1) for task in tasks]))

    def read(
        self, split: Split, vectors: ReadAhead | None = None, reads: Reads | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the selected rows of a split, in the order of the file; no batch is empty.

        Args:
            vectors: prefetched deletion vectors.
            reads: counts what is read, instead of the reader's own.

        Raises:
            UnsupportedError: the format of a data or delete file is not supported.
            CorruptDataError: a file does not agree with the metadata.
            NotFoundError: a file does not exist.
        """
        part = self._part(split, vectors, reads)
        if part is not None:
            yield from self._rows_of(part)

    def _is_deleted(self, task: Task, vectors: ReadAhead | None) -> bool:
        """Whether the deletion vector deletes all rows; the vector is read, so that the data file is not."""
        vector = task.vector
        if vector is None or vector.record_count < task.data.record_count or not task.data.record_count:
            return False
        return len(self._deletes.of(task, vectors)) == task.data.record_count

    def _open(
        self, task: Task, vectors: ReadAhead | None, reads: Reads | None = None
    ) -> OpenedDataFile | None:
        data, reads = task.data, self.reads if reads is None else reads
        if self._is_deleted(task, vectors):
            if reads is not None:
                reads.opened(task, None)
            return None
        keys = tuple(self._equality.of(task.equality_deletes) if task.equality_deletes else ())
        fields = [field for key in keys for field in key.fields]
        file = self._files.open(data, fields, partial(self._live, task, vectors), task.candidate_pages)
        if reads is not None:
            reads.opened(task, file)
        output = self._output_of(file)
        return OpenedDataFile(file, output, keys)

    def _output_of(self, file: OpenedFile) -> _Output:
        with reading(file.path):
            output = self._outputs.get(file.schema)
            if output is None:
                output = self._outputs[file.schema] = _Output.of(
                    file.schema, self._fields, self._extra, self._arrow_schema, file_types=self._file_types
                )
            return output

    def _live(self, task: Task, vectors: ReadAhead | None) -> LiveRows | None:
        """The rows that are not deleted by position, or the chosen ones; None if these are all rows."""
        if task.chosen is not None:
            return LiveRows(task.chosen, task.data.record_count, chosen=True)
        n_rows, candidates = task.data.record_count, task.candidates
        if task.vector is None and not task.position_deletes:
            return None if candidates is None else LiveRows(candidates, n_rows, chosen=True)
        deleted = self._deletes.of(task, vectors)
        if candidates is not None:
            return LiveRows(candidates - deleted, n_rows, chosen=True)
        return LiveRows(deleted, n_rows) if deleted else None

    def _select(self, part: _ReadGroup, batch: Batch) -> pa.RecordBatch | None:
        """The selected rows of a batch in the schema of the result; None if there are none."""
        opened = part.opened
        output, wanted = opened.output, live_matches(self._row_filter, opened.keys, batch)
        rows = batch.select(None if wanted is None else mask_of(wanted))
        if rows is None:
            return None
        with reading(part.rows.path):
            arrays = output.projection.arrays(rows.columns, rows.n_rows, opened.file.constants)
        if output.metadata:
            needed = any(column.needs_positions for column, _ in output.metadata)
            about = Metadata(part.task.data, rows.n_rows, rows.positions() if needed else None)
            for column, name in output.metadata:
                arrays.append(column.array(about, None if name is None else rows.columns[name]))
        return _record_batch(arrays, output.schema, rows.n_rows)


def _together(parts: Sequence[_ReadGroup]) -> _ReadGroup:
    """Data files that are alike, read as one."""
    first, *others = parts
    return first._replace(rows=JoinedFiles([part.opened.file for part in parts])) if others else first


def reader_factory(table: Table, row_filter: Matcher, reads: Reads | None = None) -> ReaderFactory:
    """Returns what makes readers of a table's data files for one filter, which is bound to its current schema."""
    metadata = table.metadata
    return lambda fields, extra, arrow: FileReader(
        table.io, metadata, metadata.schema(), fields, extra, row_filter, arrow, reads=reads
    )


def _record_batch(arrays: list[pa.Array], schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # the only way to make a batch with rows and without columns
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), n_rows, [None]))
