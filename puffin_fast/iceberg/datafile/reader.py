"""The reader of data files: opens and checks them, finds columns by field id, prunes row groups, yields batches.

Scans, deletes, key searches, upserts and conversions all read data files through `DataFiles`. The caller
projects columns and selects rows of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform

from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.iceberg.datafile.files import BATCH_ROWS, FormatReader, reading
from puffin_fast.iceberg.datafile.parquet import ParquetReader
from puffin_fast.iceberg.datafile.plain_types import plain
from puffin_fast.iceberg.datafile.projection import FileSchema
from puffin_fast.iceberg.datafile.row_selection import LiveRows

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.iceberg.datafile.conversion import Convert
    from puffin_fast.iceberg.manifest import ManifestEntry

__all__ = ["Batch", "DataFiles", "OpenedFile", "open_format"]

FORMATS = ("PARQUET", "ORC", "AVRO")


def open_format(io: FileIO, entry: ManifestEntry) -> FormatReader:
    """Opens a data or delete file with the reader of its format.

    Raises:
        UnsupportedError: the format is not Parquet, ORC or Avro, or the file is encrypted.
        CorruptDataError: the file is not of that format.
        NotFoundError: there is no such file.
    """
    path, format = entry.file_path, entry.file_format
    if entry.key_metadata is not None:
        raise UnsupportedError(f"{path}: {format}, encrypted; expected an unencrypted file")
    if format == "PARQUET":
        return ParquetReader(io, path)
    if format == "ORC":
        from puffin_fast.iceberg.datafile.orc import OrcReader

        return OrcReader(io, path)
    if format == "AVRO":
        from puffin_fast.iceberg.datafile.avro import AvroReader

        return AvroReader(io, path, entry.record_count)
    raise UnsupportedError(f"{path}: {format}; expected one of {', '.join(FORMATS)}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive rows of a data file, deleted ones included.

    Attributes:
        first: the position of the first row in the file.
        n_rows: number of rows.
        columns: the columns requested by name, in plain types.
        filter_values: the fields of the filter, by field id, in the storage types of its schema.
        key_values: the `fields` of `DataFiles.open`, by field id, in their storage types.
    """

    first: int
    n_rows: int
    columns: Mapping[str, pa.Array]
    filter_values: Mapping[int, pa.Array]
    key_values: Mapping[int, pa.Array]


Leaves = Mapping[int, "tuple[str | None, Convert]"]


@dataclass(frozen=True)
class OpenedFile:
    """The row groups of one data file that may contain a selected row. Not safe for use by several threads at once.

    Attributes:
        path: of the file.
        schema: its columns by field id.
        constants: the values of its identity partition fields, by source field id.
        row_groups: number, first row and row count of each.
    """

    path: str
    schema: FileSchema
    constants: Mapping[int, Any]
    row_groups: tuple[tuple[int, int, int], ...]
    _reader: FormatReader
    _filter: Leaves
    _keys: Leaves

    def part(self, number: int, count: int) -> OpenedFile:
        """Returns one of `count` parts with about equally many row groups, to be read by another thread.

        Args:
            number: of the part, from 0.
            count: number of parts.
        """
        if count == 1:
            return self
        groups = self.row_groups
        start, stop = (len(groups) * at // count for at in (number, number + 1))
        reader = self._reader.reopen() if start < stop else self._reader
        return replace(self, row_groups=groups[start:stop], _reader=reader)

    def batches(
        self, columns: Sequence[str] = (), *, batch_rows: int = BATCH_ROWS, use_threads: bool = False
    ) -> Iterator[Batch]:
        """Yields the rows of the row groups, in the order of the file.

        Args:
            columns: top-level columns of the file to read, besides those that the fields need.
            batch_rows: maximum number of rows of a batch.
            use_threads: whether columns are decoded in parallel.

        Raises:
            CorruptDataError: the file cannot be read, or a row group has more or fewer rows than declared.
            UnsupportedError: Arrow cannot read the contents of the file.
        """
        tops = (top for top, _ in (*self._filter.values(), *self._keys.values()) if top is not None)
        names = list(dict.fromkeys([*columns, *tops]))
        for number, first, n_rows in self.row_groups:
            at = first
            with reading(self.path):
                if names:
                    stored = self._reader.batches(number, names, batch_rows, use_threads=use_threads)
                else:
                    stored = _no_columns(n_rows, batch_rows)
                for batch in stored:
                    yield self._batch(at, batch)
                    at += batch.num_rows
            if at != first + n_rows:
                raise CorruptDataError(
                    f"rows of row group {number}", path=self.path, expected=n_rows, found=at - first
                )

    def _batch(self, first: int, batch: pa.RecordBatch) -> Batch:
        columns = dict(zip(batch.schema.names, map(plain, batch.columns), strict=True))
        return Batch(
            first,
            batch.num_rows,
            columns,
            self._values(self._filter, columns, batch.num_rows),
            self._values(self._keys, columns, batch.num_rows),
        )

    def _values(self, leaves: Leaves, columns: Mapping[str, pa.Array], n_rows: int) -> dict[int, pa.Array]:
        length = pa.nulls(n_rows) if any(top is None for top, _ in leaves.values()) else None
        return {
            field_id: get(length if top is None else columns[top], self.constants)
            for field_id, (top, get) in leaves.items()
        }


class DataFiles:
    """Opens the data files of a table for one read. Safe to use from several threads.

    Args:
        io: PyIceberg's file access.
        metadata: of the table.
        schema: the schema that the filter is bound to.
        field_ids: the fields of the filter, also leaves of structs.
        may_match: an inclusive evaluator of metrics: row groups for which it is false are not read. With None
            all row groups are read.
        by_name: find columns by the table's name mapping even in files with field ids.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        field_ids: Iterable[int] = (),
        may_match: Callable[[Any], bool] | None = None,
        *,
        by_name: bool = False,
    ) -> None:
        self._io, self._schema, self._by_name = io, schema, by_name
        self._specs, self._mapping = metadata.specs(), metadata.name_mapping()
        self._fields = [schema.find_field(field_id) for field_id in field_ids]
        self._may_match = may_match if self._fields else None
        self._known: dict[bytes, tuple[FileSchema, Leaves]] = {}

    def open(
        self,
        entry: ManifestEntry,
        fields: Iterable[NestedField] = (),
        live: LiveRows | None = None,
    ) -> OpenedFile:
        """Opens and checks a data file.

        Args:
            entry: the data file.
            fields: the fields of equality deletes that apply to it.
            live: the live rows; row groups without one are not read. With None all rows are live.

        Raises:
            UnsupportedError: the format is not supported, the file is encrypted, or it has no field ids and
                the table no name mapping.
            CorruptDataError: the file's row count is not `record_count`, or a column's type does not fit.
            NotFoundError: there is no such file.
        """
        path = entry.file_path
        file = open_format(self._io, entry)
        if file.n_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=path,
                expected=f"{entry.record_count} (manifest)",
                found=file.n_rows,
            )
        with reading(path):
            known, filter = self._schema_of(file.schema, path)
            keys = {field.field_id: known.leaf(field) for field in fields}
            groups = tuple(self._row_groups(file, known, live))
        return OpenedFile(path, known, self._constants(entry), groups, file, filter, keys)

    def _schema_of(self, schema: pa.Schema, path: str) -> tuple[FileSchema, Leaves]:
        """The columns of files of one schema, and those of the filter; cached by schema."""
        key = schema.serialize().to_pybytes()
        found = self._known.get(key)
        if found is None:
            known = FileSchema(schema, self._mapping, path=path, by_name=self._by_name)
            leaves = {field.field_id: known.leaf(field) for field in self._fields}
            found = self._known[key] = known, leaves
        return found

    def _row_groups(
        self, file: FormatReader, known: FileSchema, live: LiveRows | None
    ) -> Iterator[tuple[int, int, int]]:
        wanted: Iterable[int] = range(len(file.group_rows))
        if len(file.group_rows) > 1 and self._may_match is not None:
            ids = [field.field_id for field in self._fields]
            wanted = set(file.groups_that_may_match(known, self._schema, ids, self._may_match))
        first = 0
        for number, n_rows in enumerate(file.group_rows):
            if n_rows and number in wanted and (live is None or live.count(first, n_rows)):
                yield number, first, n_rows
            first += n_rows

    def _constants(self, entry: ManifestEntry) -> dict[int, Any]:
        spec = self._specs[entry.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, entry.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }


def _no_columns(n_rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yields batches without columns: only their row counts are needed, nothing is read."""
    for first in range(0, n_rows, batch_rows):
        length = min(batch_rows, n_rows - first)
        # the only way to make a batch with rows and without columns
        yield pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), length, [None]))
