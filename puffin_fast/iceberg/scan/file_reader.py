"""One data file read for a scan: row groups chosen, deletes and filter applied, columns projected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.transforms import IdentityTransform

from puffin_fast.dv import iceberg as codec
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.datafile.columns import open_parquet, reading
from puffin_fast.iceberg.datafile.conversion import Convert
from puffin_fast.iceberg.datafile.metadata_columns import Metadata, MetadataColumn
from puffin_fast.iceberg.datafile.plain_types import plain, plain_schema
from puffin_fast.iceberg.datafile.projection import FileSchema, Projection
from puffin_fast.iceberg.datafile.row_groups import row_groups_that_may_match
from puffin_fast.iceberg.datafile.row_selection import LiveRows, RowSelection
from puffin_fast.iceberg.deletes.equality import EqualityDeletes, KeySet, field_of
from puffin_fast.iceberg.deletes.loader import Decode, DeleteLoader, ReadAhead

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.iceberg.plan.files import FileTask
    from puffin_fast.iceberg.predicate.filters import Matcher
    from puffin_fast.iceberg.scan.splits import Split

__all__ = ["FileReader"]

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class _Opened:
    """A data file ready to be read.

    Attributes:
        file: for one thread; where there are several splits each opens it again.
        row_groups: number, first row and row count of those to read.
        keep: the rows that no position delete is about; None: all of them.
        keys: equality deletes that apply.
        constants: values of the identity partition by field id.
    """

    file: pq.ParquetFile
    steps: _FileSteps
    row_groups: tuple[tuple[int, int, int], ...]
    keep: LiveRows | None
    keys: tuple[KeySet, ...]
    constants: Mapping[int, Any]


@dataclass(frozen=True)
class _FileSteps:
    """What all files of one Parquet schema have in common."""

    file: FileSchema
    projection: Projection
    output: tuple[str, ...]
    columns: tuple[str, ...]
    filters: Mapping[int, tuple[str | None, Convert]]
    keys: Mapping[int, tuple[str | None, Convert]]
    metadata: tuple[tuple[MetadataColumn, str | None], ...]


class FileReader:
    """Reads data files of one scan. Safe to use from several threads.

    Args:
        io: PyIceberg's file access.
        metadata: the table's metadata.
        schema: the schema that the scan reads with.
        fields: the top-level fields of the answer, as they are wanted.
        extra: the metadata columns of the answer.
        row_filter: bound to `schema`.
        case_sensitive: as the filter was bound.
        by_name: find columns by the name mapping even in files with field ids.
        decode: of vectors of another format than Iceberg's.
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
        case_sensitive: bool = True,
        *,
        by_name: bool = False,
        decode: Decode = codec.decode,
    ) -> None:
        self._by_name, self._decode = by_name, decode
        self._io, self._metadata, self._schema = io, metadata, schema
        self._fields, self._extra, self._filter = fields, extra, row_filter
        self._arrow_schema = arrow_schema
        self._specs = metadata.specs()
        self._mapping = metadata.name_mapping()
        self._deletes = DeleteLoader(io, decode)
        self._equality = EqualityDeletes(io, metadata)
        self._may_match = row_filter.may_match(schema, case_sensitive=case_sensitive)
        self._steps: dict[tuple[bytes, tuple[int, ...]], _FileSteps] = {}

    def read_all(self, splits: Sequence[Split]) -> Iterator[list[pa.RecordBatch]]:
        """What `read` yields for several splits, small batches together: at most `BATCH_ROWS` rows, or one batch.

        The vectors of data files that are no one else's are read before them, neighbours in one read.
        """
        tasks = [split.task for split in splits if split.count == 1]
        vectors = ReadAhead(
            self._io,
            [task.vector for task in tasks if task.vector],
            counted=True,
            decode=self._decode,
        )
        found: list[pa.RecordBatch] = []
        n_rows = 0
        for split in splits:
            for batch in self.read(split, vectors):
                if found and n_rows + batch.num_rows > BATCH_ROWS:
                    yield found
                    found, n_rows = [], 0
                found.append(batch)
                n_rows += batch.num_rows
        if found:
            yield found

    def read(self, split: Split, vectors: ReadAhead | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a split that the answer has, in the order of the file; no empty batches.

        Args:
            split: what to read.
            vectors: where its vector may have been read before.

        Raises:
            UnsupportedError: a data or delete file of another format than Parquet.
            CorruptDataError: a file that is not what the metadata says.
            NotFoundError: a file that is gone.
        """
        task = split.task
        opened = split.shared.opened(lambda task: self._open(task, vectors))
        if opened is None:
            return
        groups = opened.row_groups
        first, last = (len(groups) * number // split.count for number in (split.number, split.number + 1))
        if first == last:
            return
        file = opened.file
        if split.count > 1:
            file = open_parquet(self._io, task.data.file_path, footer=file.metadata)
        with reading(task.data.file_path):
            yield from self._read(task, opened, file, groups[first:last], use_threads=split.alone)

    def _is_gone(self, task: FileTask, vectors: ReadAhead | None) -> bool:
        """Every row is deleted: by its vector, which is read to be sure, so that the file need not be."""
        vector = task.vector
        if vector is None or vector.record_count < task.data.record_count or not task.data.record_count:
            return False
        return len(self._deletes.of(task, vectors)) == task.data.record_count

    def _open(self, task: FileTask, vectors: ReadAhead | None) -> _Opened | None:
        data = task.data
        if self._is_gone(task, vectors):
            return None
        if data.file_format != "PARQUET":
            raise UnsupportedError(f"{data.file_path}: {data.file_format}; only PARQUET data files are read")
        if data.key_metadata is not None:
            raise UnsupportedError(f"{data.file_path}: an encrypted data file")
        file = open_parquet(self._io, data.file_path)
        with reading(data.file_path):
            return self._prepared(task, file, vectors)

    def _prepared(self, task: FileTask, file: pq.ParquetFile, vectors: ReadAhead | None) -> _Opened:
        data, footer = task.data, file.metadata
        if footer.num_rows != data.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=data.file_path,
                expected=f"{data.record_count} (manifest)",
                found=footer.num_rows,
            )
        keys = self._equality.of(task.equality_deletes) if task.equality_deletes else []
        ids = tuple(sorted({field.field_id for key in keys for field in key.fields}))
        steps = self._steps_of(file.schema_arrow, ids, data.file_path)
        keep = self._keep(task, vectors)
        groups = tuple(self._row_groups(footer, steps, keep))
        return _Opened(file, steps, groups, keep, tuple(keys), self._constants(data))

    def _keep(self, task: FileTask, vectors: ReadAhead | None) -> LiveRows | None:
        """The rows that are not deleted by position; None when no row is deleted."""
        if task.vector is None and not task.position_deletes:
            return None
        deleted = self._deletes.of(task, vectors)
        if not deleted:
            return None
        return LiveRows(deleted, task.data.record_count)

    def _row_groups(
        self, footer: pq.FileMetaData, steps: _FileSteps, keep: LiveRows | None
    ) -> Iterator[tuple[int, int, int]]:
        """Number, first row and row count of the row groups that may hold a row of the answer."""
        wanted: set[int] | range = range(footer.num_row_groups)
        if footer.num_row_groups > 1 and self._filter.field_ids and not self._filter.everything:
            wanted = set(
                row_groups_that_may_match(
                    footer, steps.file, self._schema, self._filter.field_ids, self._may_match
                )
            )
        first = 0
        for number in range(footer.num_row_groups):
            n_rows = footer.num_rows if footer.num_row_groups == 1 else footer.row_group(number).num_rows
            if n_rows and number in wanted and (keep is None or keep.count(first, n_rows)):
                yield number, first, n_rows
            first += n_rows

    def _constants(self, data: ManifestEntry) -> dict[int, Any]:
        spec = self._specs[data.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, data.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }

    def _steps_of(self, schema: pa.Schema, key_ids: tuple[int, ...], path: str) -> _FileSteps:
        key = (schema.serialize().to_pybytes(), key_ids)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._make_steps(schema, key_ids, path)
        return found

    def _make_steps(self, schema: pa.Schema, key_ids: tuple[int, ...], path: str) -> _FileSteps:
        file = FileSchema(plain_schema(schema), self._mapping, path=path, by_name=self._by_name)
        projection = Projection.of(file, self._fields)
        filters = {id: file.leaf(self._schema.find_field(id)) for id in self._filter.field_ids}
        keys = {id: file.leaf(field_of(self._metadata, id)) for id in key_ids}
        metadata = tuple((column, file.column_of(column.field_id)) for column in self._extra)
        output = [*projection.columns, *(name for _, name in metadata if name is not None)]
        tests = [name for name, _ in (*filters.values(), *keys.values()) if name is not None]
        return _FileSteps(
            file,
            projection,
            tuple(dict.fromkeys(output)),
            tuple(dict.fromkeys([*output, *tests])),
            filters,
            keys,
            metadata,
        )

    def _read(
        self,
        task: FileTask,
        opened: _Opened,
        file: pq.ParquetFile,
        groups: Sequence[tuple[int, int, int]],
        *,
        use_threads: bool,
    ) -> Iterator[pa.RecordBatch]:
        columns = list(opened.steps.columns)
        for number, first, n_rows in groups:
            if columns:
                batches = file.iter_batches(
                    BATCH_ROWS, row_groups=[number], columns=columns, use_threads=use_threads
                )
            else:
                batches = _empty_batches(n_rows)
            at = first
            for batch in batches:
                answer = self._apply(task, opened, batch, at)
                at += batch.num_rows
                if answer is not None:
                    yield answer
            if at != first + n_rows:
                raise CorruptDataError(
                    f"rows of row group {number}", path=task.data.file_path, expected=n_rows, found=at - first
                )

    def _apply(
        self, task: FileTask, opened: _Opened, batch: pa.RecordBatch, first: int
    ) -> pa.RecordBatch | None:
        """The rows of one batch that stay, in the answer's schema."""
        steps, n_rows = opened.steps, batch.num_rows
        keep = None if opened.keep is None else opened.keep.slice(first, n_rows)
        if keep is not None and keep.true_count == n_rows:
            keep = None
        columns = dict(zip(batch.schema.names, map(plain, batch.columns), strict=True))
        for keys in opened.keys:
            found = keys.contains(self._leaves(steps.keys, columns, n_rows, opened.constants))
            keep = pc.invert(found) if keep is None else pc.and_not(keep, found)
        if not self._filter.everything:
            values = self._leaves(steps.filters, columns, n_rows, opened.constants)
            matches = pa.array(self._filter.mask(values, n_rows))
            keep = matches if keep is None else pc.and_(keep, matches)
        positions = None
        if any(column.needs_positions for column, _ in steps.metadata):
            positions = pa.array(np.arange(first, first + n_rows, dtype=np.int64))
        columns = {name: columns[name] for name in steps.output}
        if keep is not None:
            kept = RowSelection(keep)
            if kept.n_rows == 0:
                return None
            if kept.n_rows < n_rows:
                n_rows = kept.n_rows
                if positions is not None:
                    (positions,) = kept.of([positions])
                columns = dict(zip(columns, kept.of(list(columns.values())), strict=True))
        arrays = steps.projection.arrays(columns, n_rows, opened.constants)
        for column, name in steps.metadata:
            stored = None if name is None else columns[name]
            arrays.append(column.array(Metadata(task.data, n_rows, positions), stored))
        return _record_batch(arrays, self._arrow_schema, n_rows)

    def _leaves(
        self,
        steps: Mapping[int, tuple[str | None, Convert]],
        columns: Mapping[str, pa.Array],
        n_rows: int,
        constants: Mapping[int, Any],
    ) -> dict[int, pa.Array]:
        length = pa.nulls(n_rows) if any(name is None for name, _ in steps.values()) else None
        return {
            id: get(length if name is None else columns[name], constants) for id, (name, get) in steps.items()
        }


def _empty_batches(n_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns: nothing needs to be read to know how many rows there are."""
    for first in range(0, n_rows, BATCH_ROWS):
        yield _record_batch([], pa.schema([]), min(BATCH_ROWS, n_rows - first))


def _record_batch(arrays: list[pa.Array], schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # the only way to a number of rows without a column
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), n_rows, [None]))
