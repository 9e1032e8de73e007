"""Writes rows to Parquet data files, split by partition and size. The files are not committed here.

PyIceberg's writer writes the Parquet files and computes their metrics. Its conversion of rows to files is not
used: it stores a null in `list<struct>` and `map<_, struct>` as an empty list (apache/iceberg-python#3833),
drops the rows of a NaN partition, and reads a whole stream before it writes the first file.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import (
    bin_pack_arrow_table,
    bin_pack_record_batches,
    match_metrics_mode,
)
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import StructType, TimestampNanoType, TimestamptzNanoType, UnknownType

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._concurrency.progress import count_rows
from puffin_fast._concurrency.streams import in_order
from puffin_fast._io.location import is_of_storage
from puffin_fast._process.cached import cached_property
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._pyiceberg.v3_types import schema_to_arrow
from puffin_fast.columns.arrow_rows import renamed
from puffin_fast.errors import InvalidInputError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.compat.parquet_writer import check_bloom_properties, create_parquet
from puffin_fast.iceberg.compat.table_properties import choice_property, integer_property, target_file_size
from puffin_fast.iceberg.delete_files.position_files import CODECS
from puffin_fast.iceberg.manifest import ADDED, DATA, ManifestEntry, check_transforms
from puffin_fast.rows.keys.key_columns import column_of
from puffin_fast.rows.keys.transforms import partition_values
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.rows.rewrite.sorted_rows import SortedRows

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

STREAM_THREADS = 2
"""Number of writing threads for a stream: each file being written is held in memory."""

ROW_GROUP_BYTES = 128 << 20
"""Maximum size of a streamed row group in memory (the default of `write.parquet.row-group-size-bytes`)."""
METRICS_MODES = (TableProperties.DEFAULT_WRITE_METRICS_MODE, TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX)

WRITER_INTEGERS = (
    TableProperties.PARQUET_ROW_GROUP_LIMIT,
    TableProperties.PARQUET_PAGE_SIZE_BYTES,
    TableProperties.PARQUET_DICT_SIZE_BYTES,
    TableProperties.PARQUET_PAGE_ROW_LIMIT,
)
"""Properties that PyIceberg's writer reads as integers."""


def write_data_files(
    table: Table, rows: pa.Table | pa.RecordBatchReader, *, reserved: Sequence[NestedField] = ()
) -> list[ManifestEntry]:
    """Writes rows as data files of the table's current schema, partition spec and sort order.

    Args:
        table: its location provider names the files; a job's table object removes them if the job fails.
        rows: columns are matched by name (see `given_rows`). A reader is accepted for an unpartitioned table
            only.
        reserved: columns of `rows` that are in no schema of the table, with their reserved field ids.

    Returns:
        The manifest entries of the files, status added, in the order in which their rows were written.

    Raises:
        InvalidInputError: the rows do not fit the table's schema, or a property of the writer has a value that it
            does not take.
        UnsupportedError: property ``write.format.default`` is not Parquet.
        PuffinFastError: a file could not be written.
    """
    schema = table.metadata.schema()
    if reserved:
        schema = Schema(*schema.fields, *reserved, schema_id=schema.schema_id)
    check_transforms(table.metadata.spec(), schema)
    fitting = RowWriterSchema(schema, rows.schema)
    writer = DataFileWriter(table, schema, table.metadata.spec(), RowOrder.of_table(table.metadata))
    threads = pa.cpu_count() if isinstance(rows, pa.Table) else STREAM_THREADS
    try:
        files = writer.files(fitting, rows)
        return list(in_order(files, lambda file: [writer.write(file)], threads, label="writing data files"))
    except Exception as error:
        if not is_of_storage(error):
            raise
        raise PuffinFastError(
            f"{'.'.join(table.name())}: data files could not be written: {error}"
        ) from error


@dataclass(frozen=True)
class _File:
    """One data file to write: each part becomes at least one row group."""

    number: int
    parts: Iterable[list[pa.RecordBatch]]
    partition: PartitionKey | None


class DataFileWriter:
    """Writes data files of one job and partition spec.

    Args:
        table: its location provider names the files.
        schema: the schema of the rows: the table's, with reserved columns if there are any.
        spec: the partition spec of the files.
        order: the order of the rows in a file; None: as they are given.

    Raises:
        InvalidInputError: a property of the writer has a value that it does not take.
        UnsupportedError: property ``write.format.default`` is not Parquet, a column of type unknown cannot be omitted,
            the spec has an unknown transform, a struct has no fields, or two columns would have one name in data files.
    """

    @paused_gc()
    def __init__(
        self, table: Table, schema: Schema, spec: PartitionSpec, order: RowOrder | None = None
    ) -> None:
        metadata = table.metadata
        check_transforms(spec)
        self._io, self._spec, self._schema, self._order = table.io, spec, schema, order
        self._properties = _writer_properties(metadata.properties)
        shown = ".".join(table.name())
        stored, self._file_schema = file_schema(schema, shown)
        self._stored = None if len(stored) == len(schema.fields) else stored
        self._arrow_schema: pa.Schema = schema_to_arrow(self._file_schema, include_field_ids=True)
        self._locations = table.location_provider()
        self._id = uuid.uuid4()
        self._size = target_file_size(metadata.properties)
        format = metadata.properties.get(
            TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT
        )
        if format.lower() != "parquet":
            raise UnsupportedError(f"{shown}: {TableProperties.WRITE_FILE_FORMAT}={format}; expected parquet")

    def files(self, fitting: RowWriterSchema, rows: pa.Table | pa.RecordBatchReader) -> Iterator[_File]:
        """Yields the rows, in their order, grouped to files of about the table's target size."""
        numbers, order = itertools.count(), self._order
        if self._spec.is_unpartitioned():
            packed: Iterable[list[pa.RecordBatch]]
            if isinstance(rows, pa.Table):
                rows = fitting.table(rows)
                if order is not None and rows.num_rows:
                    rows = rows.take(order.indices(rows))
                packed = bin_pack_arrow_table(rows, self._size) if rows.num_rows else iter(())
            else:
                stream = fitting.batches(rows)
                ordered = stream if order is None else iter(SortedRows(stream, order))
                packed = bin_pack_record_batches(ordered, self._size)
            for batches in packed:
                yield _File(next(numbers), [batches], None)
            return
        assert isinstance(rows, pa.Table)
        for partition, part in self._partitions(fitting.table(rows)):
            for batches in bin_pack_arrow_table(part, self._size):
                yield _File(next(numbers), [batches], partition)

    def _partitions(self, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
        """Yields each partition and its rows, in the order of the files."""
        if not rows.num_rows:
            return
        rows = (
            rows.combine_chunks()
            if self._order is None
            else rows.take(self._order.indices(rows)).combine_chunks()
        )
        batch = rows.to_batches()[0]
        values, codes = [], np.zeros(len(batch), np.int64)
        for field in self._spec.fields:
            if isinstance(field.transform, VoidTransform):  # its column may have been dropped
                values.append(pa.nulls(len(batch)))
                continue
            kind = self._schema.find_type(field.source_id)
            name = self._schema.find_column_name(field.source_id) or ""
            found = partition_values(field.transform, kind, column_of(batch, name), name)
            encoded = pc.dictionary_encode(found, null_encoding="encode")
            values.append(encoded)
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(codes, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        rows = rows.take(pa.array(order))
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, stop in itertools.pairwise([*starts.tolist(), len(order)]):
            row = int(order[start])
            known = [
                PartitionFieldValue(field, encoded[row].as_py())
                for field, encoded in zip(self._spec.fields, values, strict=True)
            ]
            yield _Partition(known, self._spec, self._schema), rows.slice(start, stop - start)

    def write_rows(
        self, number: int, batches: Iterable[pa.RecordBatch], partition: tuple[Any, ...]
    ) -> ManifestEntry:
        """Writes a stream of rows of one partition to one file, a row group at a time.

        Args:
            number: the number of the file among those of this writer.
            batches: at least one row, in the types that `RowWriterSchema` returns, and in the order of the file.
            partition: the partition values as manifest entries have them.
        """
        limit = integer_property(
            self._properties,
            TableProperties.PARQUET_ROW_GROUP_LIMIT,
            TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT,
        )
        of_row = ROW_GROUP_BYTES // limit
        groups = split_by_size(
            batches, ROW_GROUP_BYTES, lambda batch: max(batch.nbytes, batch.num_rows * of_row)
        )
        entry = self.write(_File(number, map(list, groups), self._partition_key(partition)))
        return replace(entry, partition=partition)

    def _partition_key(self, partition: tuple[Any, ...]) -> PartitionKey | None:
        """The partition in a file's path; None if the schema no longer has a column that the spec refers to."""
        sources = {field.source_id for field in self._spec.fields}
        if not sources or not sources <= self._schema.field_ids:
            return None
        known = [
            PartitionFieldValue(field, value)
            for field, value in zip(self._spec.fields, partition, strict=True)
        ]
        return _Partition(known, self._spec, self._schema)

    def write(self, file: _File) -> ManifestEntry:
        """Writes one file."""
        name = f"00000-{file.number}-{self._id}.parquet"
        path = self._locations.new_data_location(name, file.partition)
        output = self._io.new_output(path)
        bounds = _NanosecondBounds.of(self._schema)
        with create_parquet(output, self._file_schema, self._properties) as writer:
            for part in file.parts:
                bounds.add(part)
                batches = part if self._stored is None else [batch.select(self._stored) for batch in part]
                batches = [renamed(batch, self._arrow_schema) for batch in batches]
                writer.write(pa.Table.from_batches(batches, self._arrow_schema))
                count_rows(written=sum(batch.num_rows for batch in batches))
        metrics = bounds.metrics(writer.result())
        record: Any = () if file.partition is None else file.partition.partition
        return ManifestEntry(
            status=ADDED,
            snapshot_id=None,
            sequence_number=None,
            file_sequence_number=None,
            content=DATA,
            file_path=path,
            file_format="PARQUET",
            spec_id=self._spec.spec_id,
            partition=tuple(record[at] for at in range(len(record))),
            file_size_in_bytes=len(output),
            sort_order_id=UNSORTED_SORT_ORDER_ID if self._order is None else self._order.order_id,
            **metrics,
        )


def _writer_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the table's properties, with the codec in the case in which PyIceberg's writer expects it.

    Invalid modes of metrics are left out, as Java's writer ignores them.

    Raises:
        InvalidInputError: the writer would not take a property.
    """
    for name in WRITER_INTEGERS:
        integer_property(properties, name, None)
    check_bloom_properties(properties)
    codec = choice_property(properties, TableProperties.PARQUET_COMPRESSION, CODECS)
    level = integer_property(properties, TableProperties.PARQUET_COMPRESSION_LEVEL, None, positive=False)
    if level is not None:
        try:
            pa.Codec(codec, compression_level=level)
        except (pa.ArrowException, ValueError, OverflowError, OSError) as error:
            if is_from_outside(error):
                raise
            raise InvalidInputError(
                f"property {TableProperties.PARQUET_COMPRESSION_LEVEL}: expected a level of {codec}, found {level}"
            ) from error
    known = {
        name: value
        for name, value in properties.items()
        if not name.startswith(METRICS_MODES) or _is_metrics_mode(value)
    }
    return {**known, TableProperties.PARQUET_COMPRESSION: codec}


def _is_metrics_mode(text: str) -> bool:
    try:
        match_metrics_mode(text)
    except ValueError as error:
        if is_from_outside(error):
            raise
        return False
    return True


def file_schema(schema: Schema, shown: str) -> tuple[list[int], Schema]:
    """The columns that data files have: their indexes, and their schema with the names that data files have.

    Raises:
        UnsupportedError: two columns would have one name, or as `_stored`.
    """
    stored = _stored(schema, shown)
    fields = [schema.fields[at] for at in stored]
    try:
        return stored, sanitize_column_names(Schema(*fields, schema_id=schema.schema_id))
    except ValueError as error:
        raise UnsupportedError(f"{shown}: names of columns that are equal in data files: {error}") from error


def _stored(schema: Schema, shown: str) -> list[int]:
    """The indexes of the columns that data files have: those of type unknown, which are null, are not stored.

    Raises:
        UnsupportedError: such a field is inside of another one, there is no other column, or a struct has no fields.
    """
    empty = [id for id in schema.field_ids if schema.find_type(id) == StructType()]
    if empty:
        names = ", ".join(str(schema.find_column_name(id)) for id in sorted(empty))
        raise UnsupportedError(f"{shown}: structs without fields, which Parquet does not have: {names}")
    unknown = {id for id in schema.field_ids if isinstance(schema.find_type(id), UnknownType)}
    found = [at for at, field in enumerate(schema.fields) if field.field_id not in unknown]
    inner = unknown - {field.field_id for field in schema.fields}
    if inner or (unknown and not found):
        names = ", ".join(str(schema.find_column_name(id)) for id in sorted(inner or unknown))
        raise UnsupportedError(
            f"{shown}: {names} of type unknown; expected such columns at the top level only, and others beside them"
        )
    return found


@dataclass(frozen=True)
class _NanosecondBounds:
    """Bounds of nanosecond timestamps. PyIceberg truncates them: no reader would find the last rows, and the first do
    not fit 64 bits.

    Attributes:
        fields: all nanosecond columns, at any depth.
        places: index of each that is a top-level column; the others get no bounds.
        found: least and greatest values so far.
    """

    fields: frozenset[int]
    places: dict[int, int]
    found: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, schema: Schema) -> _NanosecondBounds:
        kinds = TimestampNanoType | TimestamptzNanoType
        fields = frozenset(id for id in schema.field_ids if isinstance(schema.find_type(id), kinds))
        tops = {field.field_id: at for at, field in enumerate(schema.fields)}
        return cls(fields, {id: tops[id] for id in fields & tops.keys()})

    def add(self, batches: Sequence[pa.RecordBatch]) -> None:
        for id, at in self.places.items():
            column = pa.chunked_array([batch.column(at) for batch in batches])
            ends = pc.min_max(column.cast(pa.int64())).as_py()
            if ends["min"] is not None:
                low, high = self.found.get(id, (ends["min"], ends["max"]))
                self.found[id] = min(low, ends["min"]), max(high, ends["max"])

    def metrics(self, written: Any) -> dict[str, Any]:
        """Returns PyIceberg's statistics of a file as the attributes of an entry, with these bounds."""
        wanted = [id for id in self.fields if written.column_aggregates.pop(id, None) is not None]
        for column in written.column_aggregates.values():
            if isinstance(column.current_max, str):
                column.current_max = _upper_bound(column.current_max, column.trunc_length)
        metrics: dict[str, Any] = written.to_serialized_dict()
        for id in self.found.keys() & set(wanted):
            for name, bound in zip(("lower_bounds", "upper_bounds"), self.found[id], strict=True):
                metrics[name][id] = struct.pack("<q", bound)
        return metrics


def file_metrics(schema: Schema, written: Any) -> dict[str, Any]:
    """Returns PyIceberg's statistics of a data file, from its footer, as the attributes of a manifest entry."""
    return _NanosecondBounds.of(schema).metrics(written)


def _upper_bound(text: str, length: int | None) -> str | None:
    """Returns a text of at most some characters that is not below a text; None if there is none.

    The character after U+D7FF is U+E000: those between are surrogates. PyIceberg takes U+D800, and cannot encode it.
    """
    if length is None or len(text) <= length:
        return text
    cut = text[:length].rstrip(chr(sys.maxunicode))
    if not cut:
        return None
    return cut[:-1] + ("\ue000" if cut[-1] == "\ud7ff" else chr(ord(cut[-1]) + 1))


class _Partition(PartitionKey):
    """PyIceberg's, which refuses two fields of one column, such as its value and its bucket."""

    @cached_property
    def partition(self) -> Record:
        return Record(*(known.value for known in self.field_values))
