"""Writes rows to Parquet data files, split by partition and size. The files are not committed here.

PyIceberg's writer writes the Parquet files and computes their metrics. Its conversion of rows to files is not
used: it stores a null in `list<struct>` and `map<_, struct>` as an empty list (apache/iceberg-python#3833),
drops the rows of a NaN partition, and reads a whole stream before it writes the first file.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from pyiceberg.utils.properties import property_as_int

from puffin_fast._runtime.streams import in_order
from puffin_fast.errors import PuffinFastError, UnsupportedError
from puffin_fast.iceberg.dml.given_rows import RowWriterSchema
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
                field.transform.pyarrow_transform(kind)(source), null_encoding="encode"
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
            yield PartitionKey(known, self._spec, self._schema), rows.slice(start, stop - start)

    def write(self, file: _File) -> ManifestEntry:
        """Writes one file."""
        name = f"00000-{file.number}-{self._id}.{self._format.file_extension()}"
        path = self._locations.new_data_location(name, file.partition)
        output = self._io.new_output(path)
        batches = [pa.record_batch(_Renamed(batch, self._arrow_schema)) for batch in file.batches]
        with self._format.create_writer(output, self._file_schema, self._properties) as writer:
            writer.write(pa.Table.from_batches(batches, self._arrow_schema))
        metrics: dict[str, Any] = writer.result().to_serialized_dict()
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


class _Renamed:
    """A batch exported with a schema of other names, at all depths. (Arrow's cast matches by name, and drops renamed
    fields.)"""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch, self._schema = batch, schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]
