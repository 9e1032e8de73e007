"""Reads Parquet data and delete files with PyArrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast.iceberg.datafile.files import open_input, reading
from puffin_fast.iceberg.datafile.row_groups import row_groups_that_may_match

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from puffin_fast.iceberg.datafile.projection import FileSchema

__all__ = ["ParquetReader", "open_parquet"]


def open_parquet(
    io: FileIO, location: str, *, dictionaries: Sequence[str] = (), footer: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Opens a Parquet file of a table.

    Args:
        io: PyIceberg's file access.
        location: of the file.
        dictionaries: columns to read as dictionaries.
        footer: the file's footer, if it was read before.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is not a Parquet file.
    """
    with reading(location):
        return pq.ParquetFile(
            open_input(io, location),
            metadata=footer,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
        )


class ParquetReader:
    """An open Parquet file; see `FormatReader`."""

    def __init__(self, io: FileIO, location: str, footer: pq.FileMetaData | None = None) -> None:
        self._io, self._location = io, location
        self._file = open_parquet(io, location, footer=footer)
        footer = self._file.metadata
        self.schema: pa.Schema = self._file.schema_arrow
        self.n_rows: int = footer.num_rows
        n_groups = footer.num_row_groups
        self.group_rows: tuple[int, ...] = (
            (footer.num_rows,)
            if n_groups == 1
            else tuple(footer.row_group(number).num_rows for number in range(n_groups))
        )

    def groups_that_may_match(
        self, known: FileSchema, schema: Schema, field_ids: Iterable[int], may_match: Callable[[Any], bool]
    ) -> Iterable[int]:
        """Returns the numbers of the row groups whose statistics do not exclude a match."""
        return row_groups_that_may_match(self._file.metadata, known, schema, field_ids, may_match)

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a row group."""
        found: Iterator[pa.RecordBatch] = self._file.iter_batches(
            batch_rows, row_groups=[group], columns=list(columns), use_threads=use_threads
        )
        return found

    def reopen(self) -> ParquetReader:
        """Opens the same file again, for another thread; its footer is not read again."""
        return ParquetReader(self._io, self._location, self._file.metadata)
