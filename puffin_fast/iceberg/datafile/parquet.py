"""Reads Parquet data and delete files: flat columns by `column_pages` where it can, everything else with PyArrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast._runtime import is_remote, open_source
from puffin_fast.errors import PuffinFastError
from puffin_fast.iceberg.datafile.column_layout import Layout, layout_of
from puffin_fast.iceberg.datafile.column_pages import ColumnPages, Rows
from puffin_fast.iceberg.datafile.files import BatchColumns, open_input, reading
from puffin_fast.iceberg.datafile.footer_check import AFTER_FOOTER, MAGIC_BYTES, check_footer
from puffin_fast.iceberg.datafile.page_codecs import PageError
from puffin_fast.iceberg.datafile.plain_types import plain_type
from puffin_fast.iceberg.datafile.row_groups import (
    RowGroupMetrics,
    row_group_metrics,
    row_groups_that_may_match,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from puffin_fast._runtime import Source
    from puffin_fast.iceberg.datafile.projection import FileSchema

__all__ = ["GroupColumns", "ParquetReader", "open_parquet"]

TAIL_BYTES = 1 << 16
"""Bytes at the end of a file on an object store that are read first: the footer, if it is not longer."""

GAP = 1 << 16
"""Bytes between column chunks that are read along with them: a request costs more."""

READ_BYTES = 32 << 20
"""Maximum bytes of neighboring column chunks that are read at once; a larger column chunk is read alone."""

MIN_CELLS = 1 << 17
"""Rows times columns of a row group from which `column_pages` is used; PyArrow is faster for fewer. An eighth is enough
if few rows are wanted: at most one of `ROWS_PER_WANTED`."""

ROWS_PER_WANTED = 32


def open_parquet(
    io: FileIO,
    location: str,
    *,
    dictionaries: Sequence[str] = (),
    footer: pq.FileMetaData | None = None,
    checksums: bool = False,
    source: Any = None,
    pre_buffer: bool = False,
) -> pq.ParquetFile:
    """Opens a Parquet file of a table.

    Args:
        io: PyIceberg's file access.
        location: of the file.
        dictionaries: columns to read as dictionaries.
        footer: the file's footer, if it was read before.
        checksums: whether to compare pages with their CRC-32, where a page has one.
        source: the file, if it is open.
        pre_buffer: whether the column chunks of a row group are read at once, near ones together.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is not a Parquet file.
    """
    with reading(location):
        return pq.ParquetFile(
            open_input(io, location) if source is None else source,
            metadata=footer,
            pre_buffer=pre_buffer,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
            page_checksum_verification=checksums,
        )


class ParquetReader:
    """An open Parquet file; see `FormatReader`.

    Args:
        io: PyIceberg's file access.
        location: of the file.
        footer: the file's footer, if it was read before.
        size: the size in bytes that a manifest states. On an object store it saves a request; if there is no footer at
            that size, the store is asked.
    """

    def __init__(
        self, io: FileIO, location: str, footer: pq.FileMetaData | None = None, *, size: int | None = None
    ) -> None:
        self._io, self.location, self._size = io, location, size
        self._is_remote = is_remote(location, io)
        with reading(location):
            if self._is_remote:
                self._source, footer = _open_remote(io, location, footer, size)
                self._size, file = self._source.size, self._source.for_arrow()
            else:
                file = open_input(io, location)
                self._source = open_source(file)
        self._file = open_parquet(io, location, footer=footer, source=file, pre_buffer=self._is_remote)
        self._leaves: dict[str, int] | None = None
        self._is_checked = False
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
        return row_groups_that_may_match(self._checked_footer(), known, schema, field_ids, may_match)

    def metrics(
        self, known: FileSchema, schema: Schema, field_ids: Iterable[int]
    ) -> Iterator[RowGroupMetrics]:
        """Yields the statistics of each row group; see `row_group_metrics`."""
        return row_group_metrics(self._checked_footer(), known, schema, field_ids)

    def _checked_footer(self) -> pq.FileMetaData:
        """The footer, whose column chunks PyArrow can make objects of."""
        if not self._is_checked:
            check_footer(self._file.metadata, self._source, self.location)
            self._is_checked = True
        return self._file.metadata

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a row group."""
        found: Iterator[pa.RecordBatch] = self._file.iter_batches(
            batch_rows, row_groups=[group], columns=list(columns), use_threads=use_threads
        )
        return found

    def columns(
        self, group: int, names: Sequence[str], batch_rows: int, *, use_threads: bool, views: bool = False
    ) -> GroupColumns:
        """Returns the columns of a row group; see `FormatReader`."""
        return GroupColumns(self, group, names, batch_rows, use_threads=use_threads, views=views)

    def pages_of(self, group: int, names: Sequence[str], *, views: bool = False) -> dict[str, ColumnPages]:
        """Reads the column chunks of those columns that `column_pages` decodes; neighboring chunks in one read."""
        footer = self._checked_footer()
        if self._leaves is None:
            self._leaves = _flat_leaves(self.schema, footer.schema)
        row_group = footer.row_group(group)
        found: list[tuple[int, int, str, Layout, pq.ColumnChunkMetaData]] = []
        for name in names:
            if name not in self._leaves:
                continue
            leaf = self._leaves[name]
            chunk = row_group.column(leaf)
            kind = plain_type(self.schema.field(name).type)
            layout = layout_of(footer.schema.column(leaf), chunk, kind, views=views)
            if layout is None or chunk.num_values != row_group.num_rows:
                continue
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                start = min(start, chunk.dictionary_page_offset)
            if start >= 4 and chunk.total_compressed_size > 0:
                found.append((start, start + chunk.total_compressed_size, name, layout, chunk))
        found.sort(key=lambda item: item[:2])
        spans: list[list[int]] = []  # start, stop, and the index of the first column chunk after
        for at, (start, stop, *_) in enumerate(found):
            if spans and start - spans[-1][1] <= GAP and stop - spans[-1][0] <= READ_BYTES:
                spans[-1][1:] = max(spans[-1][1], stop), at + 1
            else:
                spans.append([start, stop, at + 1])
        result: dict[str, ColumnPages] = {}
        first = 0
        for (begin, _, after), data in zip(spans, self._read(spans), strict=True):
            for start, stop, name, layout, chunk in found[first:after]:
                if stop - begin <= len(data):
                    part = data.slice(start - begin, stop - start)
                    result[name] = ColumnPages(layout, chunk, part, row_group.num_rows)
            first = after
        return result

    def _read(self, spans: Sequence[Sequence[int]]) -> Iterator[pa.Buffer]:
        """The bytes of each span; none of one that ends after the file, and PyArrow says what is wrong with it."""
        size = self._source.size
        ranges = [(start, stop - start if stop <= size else 0) for start, stop, *_ in spans]
        if self._is_remote:
            found = dict(self._source.read_ranges(ranges))
            yield from (pa.py_buffer(found[at]) for at in range(len(ranges)))
            return
        file = self._source.for_arrow()
        for start, n_bytes in ranges:
            file.seek(start)
            yield file.read_buffer(n_bytes)

    def reopen(self) -> ParquetReader:
        """Opens the same file again, for another thread; its footer is not read again."""
        return ParquetReader(self._io, self.location, self._file.metadata, size=self._size)


def _open_remote(
    io: FileIO, location: str, footer: pq.FileMetaData | None, size: int | None
) -> tuple[Source, pq.FileMetaData]:
    """Opens a file of an object store and reads its footer, unless it is known."""
    if size is not None and size > 0:
        source = open_source(location, filesystem=io, size=size)
        if footer is not None:
            return source, footer
        with suppress(OSError, ValueError, PuffinFastError):
            return source, _footer_of(source)
    source = open_source(location, filesystem=io)
    return source, _footer_of(source) if footer is None else footer


def _footer_of(source: Source) -> pq.FileMetaData:
    """The footer of a file, in one read if it is not long."""
    tail = source.read_tail(TAIL_BYTES)
    n_bytes = int.from_bytes(tail[-AFTER_FOOTER:-MAGIC_BYTES], "little") + AFTER_FOOTER
    if len(tail) < n_bytes <= source.size:
        tail = source.read_tail(n_bytes)
    return pq.read_metadata(pa.BufferReader(tail))


class GroupColumns:
    """Some columns of a row group, read in order: those that `column_pages` decodes, and the others with PyArrow.

    Nothing is read before the first row is wanted.
    """

    def __init__(
        self,
        reader: ParquetReader,
        group: int,
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
        views: bool,
    ) -> None:
        self._reader, self._group, self._names = reader, group, names
        self._batch_rows, self._use_threads, self._views = batch_rows, use_threads, views
        self._pages: dict[str, ColumnPages] | None = None
        self._arrow: list[BatchColumns] = []

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column; see `Columns`."""
        if self._pages is None:
            self._pages = {}
            few = rows is not None and len(rows) * ROWS_PER_WANTED <= n_rows
            n_cells = self._reader.group_rows[self._group] * len(self._names)
            if n_cells >= (MIN_CELLS // 8 if few else MIN_CELLS):
                self._pages = self._reader.pages_of(self._group, self._names, views=self._views)
            self._read_with_arrow([name for name in self._names if name not in self._pages])
        found = {}
        for name, pages in [*self._pages.items()]:
            try:
                found[name] = pages.read(first, n_rows, rows)
            except PageError:
                del self._pages[name]
                self._read_with_arrow([name])
        for columns in self._arrow:
            found |= columns.read(first, n_rows, rows)
        return found

    def _read_with_arrow(self, names: Sequence[str]) -> None:
        if names:
            batches = self._reader.batches(
                self._group, names, self._batch_rows, use_threads=self._use_threads
            )
            n_rows = self._reader.group_rows[self._group]
            self._arrow.append(BatchColumns(batches, self._group, n_rows, self._reader.location))


def _flat_leaves(schema: pa.Schema, stored: pq.ParquetSchema) -> dict[str, int]:
    """The leaf of each column that is not nested, by name; without columns whose name is not unique."""
    names = schema.names
    paths = [stored.column(at).path for at in range(len(stored.names))]
    return {
        name: paths.index(name)
        for name, kind in zip(names, schema.types, strict=True)
        if not pa.types.is_nested(kind) and names.count(name) == 1 and paths.count(name) == 1
    }
