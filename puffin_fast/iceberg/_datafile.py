"""Single columns of a Parquet data file by field id, batch by batch, as the table's schema has them now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.transforms import IdentityTransform

from puffin_fast._io import split_location
from puffin_fast.errors import CorruptDataError, NotFoundError, UnsupportedError
from puffin_fast.iceberg._row_groups import row_groups_that_may_match
from puffin_fast.iceberg.project import FileSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.iceberg.manifests import ManifestEntry

__all__ = ["Columns", "open_parquet"]

BATCH_ROWS = 1 << 17


def open_parquet(io: FileIO, location: str, *, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file of a table.

    Args:
        io: PyIceberg's file access.
        location: of the file.
        dictionaries: columns to read as dictionaries.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is no Parquet file.
    """
    scheme, _, path = split_location(location)
    try:
        source = path if scheme in ("", "file") else io.new_input(location).open()
        return pq.ParquetFile(
            source,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
        )
    except FileNotFoundError as error:
        raise NotFoundError(f"{location}: no such file, but the table lists it") from error
    except pa.ArrowInvalid as error:
        raise CorruptDataError(f"Parquet file: {error}", path=location) from error


class Columns:
    """Reads the columns of a filter from a table's data files.

    Args:
        io: PyIceberg's file access.
        metadata: the table's.
        schema: the schema that the filter is bound to.
        field_ids: the filter's columns, also leaves of structs.
        may_match: an inclusive evaluator of metrics: row groups for which it is false are not read.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        field_ids: Iterable[int],
        may_match: Callable[[Any], bool],
    ) -> None:
        self._io = io
        self._metadata = metadata
        self._schema = schema
        self._fields = [schema.find_field(field_id) for field_id in field_ids]
        self._may_match = may_match

    def batches(
        self, entry: ManifestEntry, more: Iterable[NestedField] = ()
    ) -> Iterator[tuple[int, int, dict[int, pa.Array]]]:
        """The file's batches in order: first position, number of rows, field id to values.

        Args:
            entry: the data file.
            more: columns that are wanted besides the filter's.

        Raises:
            UnsupportedError: a file that is not Parquet or encrypted, or one without field ids and name mapping.
            CorruptDataError: the file holds other than `record_count` rows, or cannot be read.
            NotFoundError: there is no such file.
        """
        path = entry.file_path
        if entry.file_format != "PARQUET" or entry.key_metadata is not None:
            kind = "an encrypted file" if entry.key_metadata is not None else entry.file_format
            raise UnsupportedError(f"{path}: {kind}; expected PARQUET that is not encrypted")
        file = open_parquet(self._io, path)
        footer = file.metadata
        if footer.num_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=path,
                expected=f"{entry.record_count} (manifest)",
                found=footer.num_rows,
            )
        known = FileSchema(file.schema_arrow, self._metadata.name_mapping(), path=path)
        leaves = {field.field_id: known.leaf(field) for field in (*self._fields, *more)}
        names = list(dict.fromkeys(name for name, _ in leaves.values() if name is not None))
        constants = self._constants(entry)
        try:
            for first, batch in self._batches(file, known, names, path):
                lengths = pa.nulls(batch.num_rows)
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield (
                    first,
                    batch.num_rows,
                    {
                        field_id: get(lengths if name is None else columns[name], constants)
                        for field_id, (name, get) in leaves.items()
                    },
                )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise CorruptDataError(f"Parquet file: {error}", path=path) from error

    def _batches(
        self, file: pq.ParquetFile, known: FileSchema, names: list[str], path: str
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        footer = file.metadata
        wanted = set(range(footer.num_row_groups))
        if len(wanted) > 1:
            ids = [field.field_id for field in self._fields]
            wanted = set(row_groups_that_may_match(footer, known, self._schema, ids, self._may_match))
        first = 0
        for number in range(footer.num_row_groups):
            end = first + footer.row_group(number).num_rows
            if number in wanted:
                for batch in file.iter_batches(
                    BATCH_ROWS, row_groups=[number], columns=names, use_threads=False
                ):
                    yield first, batch
                    first += batch.num_rows
                if first != end:
                    raise CorruptDataError(
                        f"rows of row group {number}", path=path, expected=end, found=first
                    )
            first = end

    def _constants(self, entry: ManifestEntry) -> dict[int, Any]:
        spec = self._metadata.specs()[entry.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, entry.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }
