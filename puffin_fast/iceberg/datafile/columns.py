"""Single columns of a Parquet data file by field id, batch by batch, as the table's schema has them now."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.transforms import IdentityTransform

from puffin_fast._runtime import unbuffered
from puffin_fast._runtime.location import resolve
from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.datafile.conversion import ProjectionError
from puffin_fast.iceberg.datafile.plain_types import plain, plain_schema
from puffin_fast.iceberg.datafile.projection import FileSchema
from puffin_fast.iceberg.datafile.row_groups import row_groups_that_may_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast.iceberg.datafile.conversion import Convert
    from puffin_fast.iceberg.manifest import ManifestEntry

__all__ = ["Columns", "OpenedFile", "open_parquet", "reading"]

BATCH_ROWS = 1 << 17


def open_parquet(
    io: FileIO, location: str, *, dictionaries: Sequence[str] = (), footer: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """A Parquet file of a table.

    Args:
        io: PyIceberg's file access.
        location: of the file.
        dictionaries: columns to read as dictionaries.
        footer: where it was read before.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: it is not a regular file.
        CorruptDataError: it is no Parquet file.
    """
    with reading(location):
        return pq.ParquetFile(
            _opened(io, location),
            metadata=footer,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
        )


def _opened(io: FileIO, location: str) -> Any:
    kind, _, path = resolve(location, io)
    try:
        if kind != "local":
            return unbuffered(io.new_input(location).open())
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for its writer
            raise InvalidInputError(f"{location}: is not a regular file")
        return pa.OSFile(path)
    except FileNotFoundError as error:
        raise NotFoundError(f"{location}: no such file, but the table lists it") from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns errors while a data or delete file is read into those of this package.

    Args:
        path: of the file.

    Raises:
        CorruptDataError: the file's bytes are not what its format or the table's schema says.
        UnsupportedError: Arrow cannot read what the file holds.
        PuffinFastError: the operating system refused.
    """
    try:
        yield
    except PuffinFastError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{path}: PyArrow {pa.__version__} cannot read this: {error}") from error
    except pa.ArrowInvalid as error:
        raise CorruptDataError(f"Parquet file: {error}", path=path) from error
    except ProjectionError as error:
        raise CorruptDataError(str(error), path=path) from error
    except OSError as error:
        if error.errno is not None:
            raise PuffinFastError(f"{path}: could not be read: {error}") from error
        raise CorruptDataError(f"Parquet file: {error}", path=path) from error
    except (pa.ArrowException, LookupError, ValueError, ArithmeticError, struct.error) as error:
        raise CorruptDataError(f"Parquet file: {error!r}", path=path) from error


class Columns:
    """Reads the columns of a filter from a table's data files.

    Args:
        io: PyIceberg's file access.
        metadata: the table's.
        schema: the schema that the filter is bound to.
        field_ids: the filter's columns, also leaves of structs.
        may_match: an inclusive evaluator of metrics: row groups for which it is false are not read.
        by_name: as `FileSchema` takes it.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        field_ids: Iterable[int],
        may_match: Callable[[Any], bool],
        *,
        by_name: bool = False,
    ) -> None:
        self._io, self._by_name = io, by_name
        self._metadata = metadata
        self._schema = schema
        self._fields = [schema.find_field(field_id) for field_id in field_ids]
        self._may_match = may_match

    def open(self, entry: ManifestEntry, more: Iterable[NestedField] = ()) -> OpenedFile:
        """A data file ready to be read.

        Args:
            entry: the data file.
            more: columns that are wanted besides the filter's.

        Raises:
            UnsupportedError: a file that is not Parquet or encrypted, or one without field ids and name mapping.
            CorruptDataError: the file holds other than `record_count` rows.
            NotFoundError: there is no such file.
        """
        path = entry.file_path
        if entry.file_format != "PARQUET" or entry.key_metadata is not None:
            kind = "an encrypted file" if entry.key_metadata is not None else entry.file_format
            raise UnsupportedError(f"{path}: {kind}; expected PARQUET that is not encrypted")
        file = open_parquet(self._io, path)
        with reading(path):
            return self._opened(entry, file, more)

    def _opened(self, entry: ManifestEntry, file: pq.ParquetFile, more: Iterable[NestedField]) -> OpenedFile:
        path, footer = entry.file_path, file.metadata
        if footer.num_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=path,
                expected=f"{entry.record_count} (manifest)",
                found=footer.num_rows,
            )
        mapping = self._metadata.name_mapping()
        known = FileSchema(plain_schema(file.schema_arrow), mapping, path=path, by_name=self._by_name)
        leaves = {field.field_id: known.leaf(field) for field in (*self._fields, *more)}
        row_groups = tuple(self._row_groups(footer, known))
        return OpenedFile(self._io, path, file, row_groups, leaves, self._constants(entry))

    def _row_groups(self, footer: pq.FileMetaData, known: FileSchema) -> Iterator[tuple[int, int, int]]:
        wanted: Iterable[int] = range(footer.num_row_groups)
        if footer.num_row_groups > 1:
            ids = [field.field_id for field in self._fields]
            wanted = row_groups_that_may_match(footer, known, self._schema, ids, self._may_match)
        chosen, first = set(wanted), 0
        for number in range(footer.num_row_groups):
            n_rows = footer.row_group(number).num_rows
            if number in chosen and n_rows:
                yield number, first, n_rows
            first += n_rows

    def _constants(self, entry: ManifestEntry) -> dict[int, Any]:
        spec = self._metadata.specs()[entry.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, entry.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }


@dataclass(frozen=True)
class OpenedFile:
    """The wanted columns and row groups of one data file.

    Attributes:
        row_groups: number, first row and row count of those that may hold a match.
    """

    _io: FileIO
    _path: str
    _file: pq.ParquetFile
    row_groups: tuple[tuple[int, int, int], ...]
    _leaves: Mapping[int, tuple[str | None, Convert]]
    _constants: Mapping[int, Any]

    def batches(
        self, part: int = 0, n_parts: int = 1, *, batch_rows: int = 1
    ) -> Iterator[tuple[int, int, dict[int, pa.Array]]]:
        """The batches of a share of the row groups: first position, number of rows, field id to values.

        Args:
            part: which share, from 0; each share may be read by a thread of its own.
            n_parts: of how many, with about equally many row groups each.
            batch_rows: at least so many rows in a batch, where a row group has them.

        Raises:
            CorruptDataError: the file cannot be read.
        """
        groups = self.row_groups
        start, stop = (len(groups) * number // n_parts for number in (part, part + 1))
        if start == stop:
            return
        file = self._file
        if n_parts > 1:
            file = open_parquet(self._io, self._path, footer=file.metadata)
        names = list(dict.fromkeys(name for name, _ in self._leaves.values() if name is not None))
        with reading(self._path):
            for number, first, n_rows in groups[start:stop]:
                at = first
                for batch in file.iter_batches(
                    max(BATCH_ROWS, batch_rows), row_groups=[number], columns=names, use_threads=False
                ):
                    yield at, batch.num_rows, self._values(batch)
                    at += batch.num_rows
                if at != first + n_rows:
                    raise CorruptDataError(
                        f"rows of row group {number}", path=self._path, expected=n_rows, found=at - first
                    )

    def _values(self, batch: pa.RecordBatch) -> dict[int, pa.Array]:
        lengths = pa.nulls(batch.num_rows)
        columns = dict(zip(batch.schema.names, map(plain, batch.columns), strict=True))
        return {
            field_id: get(lengths if name is None else columns[name], self._constants)
            for field_id, (name, get) in self._leaves.items()
        }
