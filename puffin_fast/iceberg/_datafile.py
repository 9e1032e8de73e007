"""Columns of one Parquet data file by field id, batch by batch, as the table's schema has them now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.transforms import IdentityTransform

from puffin_fast._io import split_location
from puffin_fast.errors import CorruptDataError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.iceberg.manifests import ManifestEntry

__all__ = ["Columns", "open_parquet"]

FIELD_ID = b"PARQUET:field_id"
BATCH_ROWS = 1 << 17


class _Source(NamedTuple):
    """Where a column comes from: a path of names in the file, or one value for all rows."""

    path: tuple[str, ...]
    constant: Any


def open_parquet(io: FileIO, location: str) -> pq.ParquetFile:
    """A Parquet file of a table.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is no Parquet file.
    """
    scheme, _, path = split_location(location)
    try:
        source = path if scheme in ("", "file") else io.new_input(location).open()
        return pq.ParquetFile(source, pre_buffer=False, coerce_int96_timestamp_unit="us")
    except FileNotFoundError as error:
        raise NotFoundError(f"{location}: no such file, but the table lists it") from error
    except pa.ArrowInvalid as error:
        raise CorruptDataError(f"Parquet file: {error}", path=location) from error


@dataclass(frozen=True)
class Columns:
    """Reads some columns of a table's data files.

    Attributes:
        metadata: the table's.
        schema: the schema that the columns are wanted in.
        field_ids: the columns, also leaves of structs.
    """

    metadata: TableMetadata
    schema: Schema
    field_ids: Sequence[int]

    def batches(
        self, io: FileIO, entry: ManifestEntry, *, use_threads: bool = False
    ) -> Iterator[tuple[int, int, dict[int, pa.Array]]]:
        """The file's batches in order: first position, number of rows, field id to values.

        Raises:
            UnsupportedError: a file that is not Parquet, or one without field ids and name mapping.
            CorruptDataError: the file holds other than `record_count` rows, or cannot be read.
            NotFoundError: there is no such file.
        """
        if entry.file_format != "PARQUET":
            raise UnsupportedError(f"{entry.file_path}: {entry.file_format}; expected PARQUET")
        file = open_parquet(io, entry.file_path)
        if file.metadata.num_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=entry.file_path,
                expected=f"{entry.record_count} (manifest)",
                found=file.metadata.num_rows,
            )
        sources = self._sources(file.schema_arrow, entry)
        names = sorted({".".join(source.path) for source in sources.values() if source.path})
        first = 0
        try:
            for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=use_threads):
                yield first, batch.num_rows, self._columns(batch, sources)
                first += batch.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptDataError(f"Parquet file: {error}", path=entry.file_path) from error
        if first != entry.record_count:
            raise CorruptDataError(
                "rows of a data file", path=entry.file_path, expected=entry.record_count, found=first
            )

    def _sources(self, file: pa.Schema, entry: ManifestEntry) -> dict[int, _Source]:
        known = _paths_by_id(file)
        if not known and len(file):
            known = self._by_name_mapping(file, entry)
        spec = self.metadata.specs()[entry.spec_id]
        constants = {
            field.source_id: value
            for field, value in zip(spec.fields, entry.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }
        result = {}
        for field_id in self.field_ids:
            field = self.schema.find_field(field_id)
            if field_id in known:
                result[field_id] = _Source(known[field_id], None)
            else:
                result[field_id] = _Source((), constants.get(field_id, field.initial_default))
        return result

    def _by_name_mapping(self, file: pa.Schema, entry: ManifestEntry) -> dict[int, tuple[str, ...]]:
        mapping = self.metadata.name_mapping()
        if mapping is None:
            raise UnsupportedError(
                f"{entry.file_path}: no field ids, and the table has no schema.name-mapping.default"
            )
        return {
            field.field_id: (name,)
            for field in mapping.root
            for name in field.names
            if field.field_id is not None and file.get_field_index(name) >= 0
        }

    def _columns(self, batch: pa.RecordBatch, sources: Mapping[int, _Source]) -> dict[int, pa.Array]:
        result = {}
        for field_id, source in sources.items():
            wanted = _arrow_type(self.schema.find_field(field_id))
            if source.path:
                column: Any = batch.column(source.path[0])
                for position in range(1, len(source.path)):
                    column = pc.struct_field(column, source.path[position])
                result[field_id] = column if column.type == wanted else column.cast(wanted)
            elif source.constant is None:
                result[field_id] = pa.nulls(batch.num_rows, wanted)
            else:
                result[field_id] = pa.repeat(_scalar(source.constant, wanted), batch.num_rows)
        return result


def _arrow_type(field: NestedField) -> pa.DataType:
    found = schema_to_pyarrow(field.field_type)
    return found.storage_type if isinstance(found, pa.BaseExtensionType) else found


def _scalar(value: Any, wanted: pa.DataType) -> pa.Scalar:
    """A raw value (days, microseconds, 16 bytes) or a Python one as an Arrow scalar."""
    if isinstance(value, int) and not pa.types.is_integer(wanted) and not pa.types.is_boolean(wanted):
        width = {32: pa.int32(), 64: pa.int64()}.get(getattr(wanted, "bit_width", 0), pa.int64())
        return pa.scalar(value, width).cast(wanted)
    return pa.scalar(getattr(value, "bytes", value), wanted)


def _paths_by_id(file: pa.Schema) -> dict[int, tuple[str, ...]]:
    """Field id to the names that lead to the column, through structs but not into lists and maps."""
    found: dict[int, tuple[str, ...]] = {}

    def walk(fields: Any, prefix: tuple[str, ...]) -> None:
        for field in fields:
            path = (*prefix, field.name)
            if field.metadata and FIELD_ID in field.metadata:
                found[int(field.metadata[FIELD_ID])] = path
            if pa.types.is_struct(field.type):
                walk(field.type.fields, path)

    walk(file, ())
    return found
