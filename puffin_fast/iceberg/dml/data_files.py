"""Writes rows to Parquet data files, split by partition and size. The files are not committed here.

PyIceberg's writer writes the Parquet files and computes their metrics. Its conversion of rows to files is not
used: it stores a null in `list<struct>` and `map<_, struct>` as an empty list (apache/iceberg-python#3833),
drops the rows of a NaN partition, and reads a whole stream before it writes the first file.
"""

from __future__ import annotations

import itertools
import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import bin_pack_arrow_table, bin_pack_record_batches, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Record
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType
from pyiceberg.utils.properties import property_as_int

from puffin_fast._runtime.streams import in_order
from puffin_fast.errors import PuffinFastError, UnsupportedError
from puffin_fast.iceberg.datafile.arrow_rows import renamed
from puffin_fast.iceberg.dml.given_rows import RowWriterSchema
from puffin_fast.iceberg.dml.partition_spec import partition_values
from puffin_fast.iceberg.manifest import ADDED, DATA, ManifestEntry
from puffin_fast.iceberg.predicate.key_columns import column_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

__all__ = ["write_data_files"]

STREAM_THREADS = 2
"""Number of writing threads for a stream: each file being written is held in memory."""


def write_data_files(
    table: Table, rows: pa.Table | pa.RecordBatchReader, *, reserved: Sequence[NestedField] = ()
) -> list[ManifestEntry]:
    """Writes rows as data files of the table's current schema and partition spec.

    Args:
        table: its location provider names the files; a job's table object removes them if the job fails.
        rows: columns are matched by name (see `given_rows`). A reader is accepted for an unpartitioned table
            only.
        reserved: columns of `rows` that are in no schema of the table, with their reserved field ids.

    Returns:
        The manifest entries of the files, status added, in the order of the rows.

    Raises:
        InvalidInputError: the rows do not fit the table's schema.
        UnsupportedError: property ``write.format.default`` is not Parquet.
        PuffinFastError: a file could not be written.
    """
    schema = table.metadata.schema()
    if reserved:
        schema = Schema(*schema.fields, *reserved, schema_id=schema.schema_id)
    fitting = RowWriterSchema(schema, rows.schema)
    writer = _Writer(table, schema)
    threads = pa.cpu_count() if isinstance(rows, pa.Table) else STREAM_THREADS
    try:
        return list(in_order(writer.files(fitting, rows), lambda file: [writer.write(file)], threads))
    except OSError as error:
        raise PuffinFastError(
            f"{'.'.join(table.name())}: data files could not be written: {error}"
        ) from error


@dataclass(frozen=True)
class _File:
    """One data file to write."""

    number: int
    batches: list[pa.RecordBatch]
    partition: PartitionKey | None


class _Writer:
    """Writes the data files of one job."""

    def __init__(self, table: Table, schema: Schema) -> None:
        metadata = table.metadata
        self._io, self._spec, self._schema = table.io, metadata.spec(), schema
        self._properties = metadata.properties
        self._file_schema = sanitize_column_names(schema)
        self._arrow_schema: pa.Schema = schema_to_pyarrow(self._file_schema, include_field_ids=True)
        self._locations = table.location_provider()
        self._id = uuid.uuid4()
        self._size: Any = property_as_int(
            metadata.properties,
            TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
            TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
        )
        format = metadata.properties.get(
            TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT
        )
        if format.lower() != "parquet":
            raise UnsupportedError(
                f"{'.'.join(table.name())}: {TableProperties.WRITE_FILE_FORMAT}={format}; expected parquet"
            )
        self._format = FileFormatFactory.get(FileFormat.PARQUET)

    def files(self, fitting: RowWriterSchema, rows: pa.Table | pa.RecordBatchReader) -> Iterator[_File]:
        """Yields the rows grouped to files of about the table's target size."""
        numbers = itertools.count()
        if self._spec.is_unpartitioned():
            if isinstance(rows, pa.Table):
                rows = fitting.table(rows)
                packed = bin_pack_arrow_table(rows, self._size) if rows.num_rows else iter(())
            else:
                packed = bin_pack_record_batches(fitting.batches(rows), self._size)
            for batches in packed:
                yield _File(next(numbers), batches, None)
            return
        assert isinstance(rows, pa.Table)
        for partition, part in self._partitions(fitting.table(rows)):
            for batches in bin_pack_arrow_table(part, self._size):
                yield _File(next(numbers), batches, partition)

    def _partitions(self, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
        """Yields each partition and its rows, in their order."""
        if not rows.num_rows:
            return
        rows = rows.combine_chunks()
        batch = rows.to_batches()[0]
        values, codes = [], np.zeros(len(batch), np.int64)
        for field in self._spec.fields:
            kind = self._schema.find_type(field.source_id)
            source = column_of(batch, self._schema.find_column_name(field.source_id) or "")
            encoded = pc.dictionary_encode(
                partition_values(field.transform, kind, source), null_encoding="encode"
            )
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

    def write(self, file: _File) -> ManifestEntry:
        """Writes one file."""
        name = f"00000-{file.number}-{self._id}.{self._format.file_extension()}"
        path = self._locations.new_data_location(name, file.partition)
        output = self._io.new_output(path)
        batches = [renamed(batch, self._arrow_schema) for batch in file.batches]
        with self._format.create_writer(output, self._file_schema, self._properties) as writer:
            writer.write(pa.Table.from_batches(batches, self._arrow_schema))
        metrics: dict[str, Any] = writer.result().to_serialized_dict()
        self._set_nanosecond_bounds(metrics, file.batches)
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
            **metrics,
        )

    def _set_nanosecond_bounds(self, metrics: dict[str, Any], batches: list[pa.RecordBatch]) -> None:
        """Replaces bounds of nanosecond timestamps, which PyIceberg truncates: no reader would find the last rows."""
        lower, upper = metrics["lower_bounds"], metrics["upper_bounds"]
        tops = {field.field_id: at for at, field in enumerate(self._schema.fields)}
        for field_id in list(upper):
            if not isinstance(self._schema.find_type(field_id), TimestampNanoType | TimestamptzNanoType):
                continue
            del lower[field_id], upper[field_id]
            if field_id in tops:
                column = pa.chunked_array([batch.column(tops[field_id]) for batch in batches])
                ends = pc.min_max(column.cast(pa.int64()))
                lower[field_id], upper[field_id] = (
                    struct.pack("<q", ends[end].as_py()) for end in ("min", "max")
                )


class _Partition(PartitionKey):
    """PyIceberg's, which refuses two fields of one column, such as its value and its bucket."""

    @cached_property
    def partition(self) -> Record:
        return Record(*(known.value for known in self.field_values))
