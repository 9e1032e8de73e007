"""Reads Parquet data and delete files: schema, statistics, filters and columns of row groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast._io import is_remote, open_source
from puffin_fast._io.location import resolve
from puffin_fast._io.source import LocalSource
from puffin_fast._process.cached import cached_property
from puffin_fast._process.interrupt import suppressed
from puffin_fast.columns.plain_types import null_mask
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.parquet.arrow_file import ArrowFile
from puffin_fast.parquet.bloom_filters import BloomFilter
from puffin_fast.parquet.column_chunks import ColumnChunks
from puffin_fast.parquet.column_layout import Layout
from puffin_fast.parquet.column_pages import ColumnPages
from puffin_fast.parquet.dictionary_pages import DictionaryHashes
from puffin_fast.parquet.footer import Chunk, ChunkPlaces, FileLayout, Footer, check_status, footer_bytes
from puffin_fast.parquet.page_codecs import PageError
from puffin_fast.parquet.page_index import Bounds, PagePlaces, Pages, RequestedPages, Spans
from puffin_fast.rows.files.files import BatchColumns, open_input, reading
from puffin_fast.rows.files.page_bounds import GroupParts, PageParts
from puffin_fast.rows.files.row_groups import (
    RowGroupMetrics,
    bound_form,
    row_group_metrics,
)
from puffin_fast.rows.filters.pruning import BoundsPruner

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    from puffin_fast._io import Source
    from puffin_fast.parquet.column_pages import Rows
    from puffin_fast.parquet.list_pages import ListPages
    from puffin_fast.rows.files.projection import FileSchema
    from puffin_fast.rows.filters.pruning import Pruner

FEW_ROWS = 4
"""Number of rows for each wanted one from which on lists are decoded by `list_pages`: for more PyArrow is faster."""

TAIL_BYTES = 1 << 16
"""Bytes at the end of a file on an object store that are read first: the footer, if it is not longer."""

LOCAL_TAIL_BYTES = 1 << 13
"""The same of a local file."""

PLAIN_ROWS = 1 << 16
"""Maximum number of rows of a batch of repeated texts that PyArrow reads."""

DECODED_BYTES = 16 << 20
"""Bytes of columns that PyArrow decodes at once, if these are more than `LEAST_ROWS` rows."""

LEAST_ROWS = 1 << 10
"""Number of rows that PyArrow decodes at once at least: each call takes some time."""


SMALL_DICTIONARY = 2
"""A dictionary page is read first if the column chunk has at least so many times its bytes."""


def open_parquet(
    io: FileIO,
    location: str,
    *,
    dictionaries: Sequence[str] = (),
    footer: pq.FileMetaData | None = None,
    source: Any = None,
    is_remote: bool = False,
    places: ChunkPlaces | None = None,
) -> ArrowFile:
    """Opens a Parquet file of a table.

    Args:
        location: the location of the file.
        dictionaries: columns to read as dictionaries.
        footer: the file's footer, if it was read before.
        source: the file, if it is open.
        is_remote, places: as for `ArrowFile`.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is not a Parquet file.
        UnsupportedError: it is encrypted.
    """
    with reading(location):
        return ArrowFile(
            open_input(io, location) if source is None else source,
            location,
            metadata=footer,
            is_remote=is_remote,
            places=places,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
        )


_WITH_DICTIONARY = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""Encodings of byte arrays, and of levels, that PyArrow decodes to a dictionary."""


def dictionary_columns(footer: pq.FileMetaData, names: Collection[str]) -> list[str]:
    """Returns those of some leaf columns that PyArrow can read as dictionaries, in all row groups.

    These are byte arrays in pages with or without dictionary; PyArrow decodes the encodings DELTA_BYTE_ARRAY and
    DELTA_LENGTH_BYTE_ARRAY to plain arrays only.

    Args:
        footer: the footer of the file; its column chunks must agree with the schema (see `footer`).
        names: paths of the columns.
    """
    leaves = [at for at in range(footer.num_columns) if footer.schema.column(at).path in names]
    for number in range(footer.num_row_groups if leaves else 0):
        group = footer.row_group(number)
        leaves = [at for at in leaves if _has_dictionary_encodings(group.column(at))]
    return [footer.schema.column(at).path for at in leaves]


def _has_dictionary_encodings(chunk: pq.ColumnChunkMetaData) -> bool:
    return chunk.physical_type == "BYTE_ARRAY" and _WITH_DICTIONARY.issuperset(chunk.encodings)


class ParquetReader:
    """An open Parquet file; see `FormatReader`. PyArrow opens it only where it is needed.

    Attributes:
        chunks: its column chunks.
        is_remote: whether it is on an object store.

    Args:
        io: PyIceberg's file access.
        location: the location of the file.
        footer: the file's footer, if it was read before.
        size: the size in bytes that a manifest states. On an object store it saves a request; if there is no footer at
            that size, the store is asked.
    """

    def __init__(
        self, io: FileIO, location: str, footer: Footer | None = None, *, size: int | None = None
    ) -> None:
        self._io, self.location = io, location
        self.is_remote = is_remote(location, io)
        with reading(location):
            self._source, data = _open(io, location, footer, size, is_local=not self.is_remote)
            try:
                footer = footer or self._read_footer(data)
                if sum(footer.group_rows) != footer.n_rows:
                    raise CorruptDataError(
                        "rows of all row groups",
                        path=location,
                        expected=footer.n_rows,
                        found=sum(footer.group_rows),
                    )
            except BaseException:
                self._source.close()  # the error may live longer than the names that hold the file
                raise
        self._footer = footer
        self.chunks = ColumnChunks(self._source, footer, location, is_remote=self.is_remote)
        self.schema = footer.layout.schema
        self.schema_bytes = footer.layout.schema_bytes
        self.n_rows = footer.n_rows
        self.group_rows = footer.group_rows

    def _read_footer(self, data: bytes) -> Footer:
        """The footer, from its bytes in `data` if they are there."""
        footer = Footer.known(data) if data else None
        if footer is None:
            self._file = self._open_with_arrow()
            footer = Footer.of(self._file, data)
            self._file.places = footer.places
        return footer

    @cached_property
    def _file(self) -> ArrowFile:
        return self._open_with_arrow(self._footer)

    def _open_with_arrow(self, footer: Footer | None = None) -> ArrowFile:
        return open_parquet(
            self._io,
            self.location,
            footer=None if footer is None else footer.metadata,
            source=self._source,
            is_remote=self.is_remote,
            places=None if footer is None else footer.places,
        )

    def groups_that_may_match(
        self,
        known: FileSchema,
        schema: Schema,
        field_ids: Iterable[int],
        may_match: Callable[[Any], bool],
        pruner: Pruner | None = None,
    ) -> Iterable[int]:
        """Returns the numbers of the row groups whose statistics do not exclude a match.

        The bounds of all are compared at once; each row group that they do not decide is looked at.
        """
        check_status(self._footer.status, self.location)
        flags = np.array(self.group_rows) > 0
        left = flags
        if isinstance(pruner, BoundsPruner):
            parts = GroupParts(self._footer, self._bounded_columns(known, schema, field_ids))
            found, is_decided = pruner.decide(parts)
            flags = flags & found
            left = flags & ~is_decided
        if left.any():
            numbers = np.flatnonzero(left).tolist()
            metrics = row_group_metrics(self._checked_footer(), known, schema, field_ids, numbers)
            flags[numbers] = [may_match(one) for one in metrics]
        return np.flatnonzero(flags).tolist()

    def _bounded_columns(
        self, known: FileSchema, schema: Schema, field_ids: Iterable[int]
    ) -> dict[int, tuple[int, str]]:
        """The leaves of columns outside of lists and maps, and the form of their bounds, by field id."""
        layout, found = self._footer.layout, {}
        for field_id in field_ids:
            path = known.dotted(field_id) or ""
            leaves = layout.leaves_of(path)  # a column with a dot in its name may have the path of a field
            column = layout.stored.column(leaves[0]) if len(leaves) == 1 else None
            if column is not None and column.path == path and column.max_repetition_level == 0:
                form = bound_form(schema.find_type(field_id), column)
                if form is not None:
                    found[field_id] = leaves[0], form
        return found

    def metrics(
        self, known: FileSchema, schema: Schema, field_ids: Iterable[int]
    ) -> Iterator[RowGroupMetrics]:
        """Yields the statistics of each row group; see `row_group_metrics`."""
        return row_group_metrics(self._checked_footer(), known, schema, field_ids)

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return self._source.size

    @property
    def layout(self) -> FileLayout:
        """What the file has in common with others."""
        return self._footer.layout

    @property
    def has_bloom_filters(self) -> bool:
        """Whether a column chunk has a Bloom filter."""
        return self._footer.has_bloom_filters

    def layout_of(self, name: str) -> Layout | None:
        """Returns how a column is stored that Bloom filters and dictionaries can be asked for; None for others."""
        column = None if self._footer.status else self._footer.layout.column(name, views=False)
        return None if column is None else column[1]

    def bloom_filter(self, group: int, name: str) -> BloomFilter | None:
        """Returns the Bloom filter of a column chunk that has a layout; None if there is none that can be asked."""
        return BloomFilter.of(self._source, self.chunk(group, name), is_remote=self.is_remote)

    @cached_property
    def has_dictionaries(self) -> bool:
        """Whether a column chunk may have a dictionary page that is asked."""
        return self._footer.has_dictionaries(self.chunks.least_picked)

    def dictionary(self, group: int, name: str) -> DictionaryHashes | None:
        """Returns the hashes of a column chunk's values if all are in a small dictionary; it must have a layout."""
        chunk = self.chunk(group, name)
        is_small = chunk.dictionary_bytes * SMALL_DICTIONARY <= chunk.n_bytes
        if chunk.dictionary_bytes == 0 or not is_small or chunk.n_bytes < self.chunks.least_picked:
            return None
        layout, is_whole = self.layout_of(name), chunk.is_in_dictionary
        if is_whole is None and not self.is_remote:
            is_whole = DictionaryHashes.are_all(self._source, chunk)
        if layout is None or not is_whole:
            return None
        return DictionaryHashes.of(self._source, chunk, layout, path=self.location, name=name)

    def chunk(self, group: int, name: str) -> Chunk:
        """Returns a column chunk that has a layout."""
        column = self._footer.layout.column(name, views=False)
        assert column is not None
        return self._footer.chunk(group, column[0])

    def _checked_footer(self) -> pq.FileMetaData:
        """The footer; PyArrow can make objects of its column chunks."""
        check_status(self._footer.status, self.location)
        return self._file.metadata

    def bytes_of(
        self, group: int, names: Collection[str] | None = None, wanted: Spans | None = None
    ) -> int | None:
        """Returns the bytes of the column chunks of some top-level columns, by default all; None if not known.

        Args:
            group: the number of the row group.
            names: the columns.
            wanted: the only rows whose pages count, where these are known; by default all.
        """
        leaves = None
        if names is not None:
            leaves = [leaf for name in names for leaf in self._footer.layout.leaves_of(name)]
        n_bytes = self._footer.n_bytes(group, leaves)
        if wanted is None or n_bytes is None:
            return n_bytes
        chunks = self.chunks.of(group, names or ())
        places = self.chunks.places_of(chunks, self.group_rows[group])
        for name, _, chunk in chunks:
            if name in places:
                n_bytes -= chunk.n_bytes - places[name].bytes_of(places[name].touched(wanted))
        return n_bytes

    def raw_bytes(self, groups: Sequence[int], names: Collection[str]) -> list[int]:
        """Returns the bytes of some columns without compression in each of some row groups; 0 if they are not known."""
        if self._footer.status:
            return [0] * len(groups)
        return self._footer.raw_bytes(groups, self._leaves_of(names))

    def most_bytes(self, groups: Sequence[int], names: Collection[str]) -> list[int]:
        """Returns the most bytes that texts of some columns may have as arrays; see `raw_bytes`."""
        if self._footer.status:
            return [0] * len(groups)
        return self._footer.most_bytes(groups, self._leaves_of(names))

    def _leaves_of(self, names: Iterable[str]) -> set[int]:
        return {leaf for name in names for leaf in self._footer.layout.leaves_of(name)}

    def batches(
        self, group: int, columns: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a row group."""
        found: Iterator[pa.RecordBatch] = self._file.iter_batches(
            self._rows_at_once(group, columns, batch_rows),
            row_groups=[group],
            columns=list(columns),
            use_threads=use_threads,
        )
        tops = self._footer.layout.columns
        if all(name in tops for name in columns):
            return found
        paths = [[name] if name in tops else name.split(".") for name in columns]
        return (
            pa.RecordBatch.from_arrays(
                [_only(batch.column(top), rest) for top, *rest in paths], list(columns)
            )
            for batch in found
        )

    def _rows_at_once(self, group: int, columns: Sequence[str], batch_rows: int) -> int:
        """The number of rows that PyArrow decodes at once: fewer if those of lists and maps are wide."""
        footer = self._footer
        leaves = {leaf for name in columns for leaf in footer.layout.leaves_of(name)}
        if footer.status or not leaves:
            return batch_rows
        n_bytes = sum(footer.chunk(group, leaf).raw_bytes for leaf in leaves)
        least = min(batch_rows, LEAST_ROWS)
        return max(least, min(batch_rows, DECODED_BYTES * self.group_rows[group] // max(n_bytes, 1)))

    def columns(
        self,
        group: int,
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
        views: bool = False,
        wanted: Spans | None = None,
        is_late: bool = False,
        ahead: Sequence[str] = (),
        codes: Collection[str] = (),
    ) -> GroupColumns:
        """Returns the columns of a row group; see `FormatReader`."""
        return GroupColumns(
            self,
            group,
            names,
            batch_rows,
            use_threads=use_threads,
            views=views,
            wanted=wanted,
            is_late=is_late,
            ahead=ahead,
            codes=codes,
        )

    def spans_that_may_match(
        self, group: int, columns: Sequence[tuple[str, NestedField]], pruner: Pruner
    ) -> Spans | None:
        """Returns the rows of those pages of a row group whose bounds do not exclude a match; None: all rows.

        Args:
            group: the number of the row group.
            columns: the path in the file of each column of the filter, and its field.
            pruner: the filter.
        """
        n_rows = self.group_rows[group]
        names = dict(columns)
        chunks = [
            item
            for item in self.chunks.of(group, names)
            if item[2].n_bytes >= self.chunks.least_picked and item[2].bounds > 0 and item[2].bounds_bytes > 0
        ]
        if not chunks:
            return None
        pages = self.chunks.places_of(chunks, n_rows)
        chunks = [item for item in chunks if item[0] in pages]
        indexes = self.chunks.indexes((chunk.bounds, chunk.bounds_bytes) for _, _, chunk in chunks)
        found: dict[int, tuple[Pages, Bounds, str]] = {}
        for (name, *_), data in zip(chunks, indexes, strict=True):
            bounds = None if data is None else Bounds.of(data, pages[name])
            leaf = self._footer.layout.column(name, views=False)
            if bounds is None or leaf is None:
                continue
            form = bound_form(names[name].field_type, self._footer.layout.stored.column(leaf[0]))
            if form is not None:
                found[names[name].field_id] = pages[name], bounds, form
        if not found:
            return None
        parts = PageParts(found)
        flags = pruner.may_match(parts)
        return None if flags.all() else Spans.of_flags(parts.firsts, n_rows, flags)

    def rows_at_once(self, first: int, n_rows: int) -> int:
        """Returns how many of some rows are read at once: all."""
        return n_rows

    def reopen(self) -> ParquetReader:
        """Opens the same file again, for another thread; its footer is not read again."""
        size = self._source.size if self.is_remote else None
        opened = ParquetReader(self._io, self.location, self._footer, size=size)
        opened.chunks.places = self.chunks.places
        return opened


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
        wanted: Spans | None = None,
        is_late: bool = False,
        ahead: Sequence[str] = (),
        codes: Collection[str] = (),
    ) -> None:
        self._reader, self._group, self._names = reader, group, names
        self._batch_rows, self._use_threads, self._views = batch_rows, use_threads, views
        self._wanted, self._is_late, self._ahead, self._codes = wanted, is_late, ahead, codes
        self._opened: set[str] = set()
        self._pages: dict[str, ColumnPages | ListPages] = {}
        self._requested: list[RequestedPages] = []
        self._arrow: list[BatchColumns] = []

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column; see `Columns`."""
        found: dict[str, pa.Array] = {}
        if not self._opened and n_rows == self._reader.group_rows[self._group]:
            found = self._reader.chunks.read_small(self._group, self._names, rows)
        names = [name for name in self._names if name not in found]
        pages = self._open(names, most=rows is None or len(rows) * FEW_ROWS > n_rows)
        if self._requested:
            some = Spans(np.array([first]), np.array([first + n_rows]))
            if rows is not None:
                some = Spans.of_rows(first + rows.astype(np.int64))
            for requested in self._requested:
                requested.request(some, first + n_rows)
        for name in [name for name in names if name in pages]:
            try:
                found[name] = pages[name].read(first, n_rows, rows)
            except PageError:
                del pages[name]
                self._read_with_arrow([name])
        for columns in self._arrow:
            found |= columns.read(first, n_rows, rows)
        return found

    def places(self) -> list[PagePlaces]:
        """Returns where the pages of the columns are that `column_pages` decoded, after all rows were read."""
        known = (pages.places() for pages in self._pages.values() if isinstance(pages, ColumnPages))
        return [places for places in known if places is not None]

    def are_decoded(self) -> bool:
        """Whether `column_pages` decodes all of them."""
        return len(self._open(self._names)) == len(self._names)

    def _open(self, names: Sequence[str], *, most: bool = True) -> dict[str, ColumnPages | ListPages]:
        names = [name for name in names if name not in self._opened]
        if names:
            n_rows, wanted = self._reader.group_rows[self._group], self._wanted
            is_few = wanted is not None and wanted.n_rows * FEW_ROWS <= n_rows
            found = self._reader.chunks.pages_of(
                self._group,
                names,
                views=self._views,
                wanted=self._wanted,
                is_late=self._is_late,
                most=most and not is_few,
                ahead=self._ahead,
                codes=self._codes,
            )
            self._opened.update(names)
            self._pages.update(found)
            some = (pages.requested for pages in found.values() if pages.requested is not None)
            self._requested += dict.fromkeys(some)
            self._read_with_arrow([name for name in names if name not in found])
        return self._pages

    def _read_with_arrow(self, names: Sequence[str]) -> None:
        if names:
            batches = self._reader.batches(
                self._group, names, self._batch_rows, use_threads=self._use_threads
            )
            n_rows = self._reader.group_rows[self._group]
            self._arrow.append(BatchColumns(batches, self._group, n_rows, self._reader.location))


def _only(array: pa.Array, names: Sequence[str]) -> pa.Array:
    """A struct with the only field at a path, at every depth."""
    if not names:
        return array
    field = array.type.field(names[0])
    inner = _only(array.field(names[0]), names[1:])
    return pa.StructArray.from_arrays([inner], fields=[field.with_type(inner.type)], mask=null_mask(array))


def _open(
    io: FileIO, location: str, footer: Footer | None, size: int | None, *, is_local: bool
) -> tuple[Source, bytes]:
    """Opens a file, and reads the bytes of its footer unless it is known; no bytes if it does not end like Parquet.

    Args:
        io, location, footer, size: as for `ParquetReader`.
        is_local: whether the file is on no object store; its size is then not needed.
    """
    first = LOCAL_TAIL_BYTES if is_local else TAIL_BYTES
    if size is not None and size > 0 and not is_local:
        source = open_source(location, filesystem=io, size=size)
        if footer is not None:
            return source, b""
        with suppressed(OSError, ValueError, PuffinFastError):
            return source, footer_bytes(source, first)
    source = _local_source(io, location) if is_local else open_source(location, filesystem=io)
    try:
        return source, b"" if footer is not None else footer_bytes(source, first)
    except CorruptDataError:
        source.close()
        raise
    except ValueError:
        return source, b""


def _local_source(io: FileIO, location: str) -> Source:
    """Opens a file that is on no object store; raises what the operating system does."""
    kind, _, path = resolve(location, io)
    return LocalSource(path) if kind == "local" else open_source(open_input(io, location))
