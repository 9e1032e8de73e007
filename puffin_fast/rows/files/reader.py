"""The reader of data files: opens and checks them, finds columns by field id, prunes row groups, yields batches.

Scans, deletes, key searches, upserts and conversions all read data files through `DataFiles`. The caller
projects columns and selects rows of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.transforms import IdentityTransform

from puffin_fast._concurrency.progress import count_rows
from puffin_fast._io.location import is_remote, resolve
from puffin_fast._process.cached import cached_property
from puffin_fast._process.fork import lock_across_fork
from puffin_fast.columns.plain_types import array_of, decoded, plain
from puffin_fast.columns.row_selection import LiveRows, RowSelection, flags_of, mask_of, select_rows
from puffin_fast.errors import CorruptDataError, UnsupportedError
from puffin_fast.parquet.page_index import Spans
from puffin_fast.rows.files.conversion import stored
from puffin_fast.rows.files.equal_values import EqualValues
from puffin_fast.rows.files.files import BATCH_ROWS, Columns, FormatReader, reading
from puffin_fast.rows.files.joined_groups import (
    SMALL_ROWS,
    ColumnsOfFiles,
    ColumnsOfGroups,
    RowGroup,
    joined_groups,
    spans_of,
)
from puffin_fast.rows.files.parquet import PLAIN_ROWS, GroupColumns, ParquetReader
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.filters.struct_path import newest_schema, structs_around

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from puffin_fast._kernels.parquet.bloom import FileQuestion
    from puffin_fast.parquet.column_pages import Rows
    from puffin_fast.parquet.footer import FileLayout
    from puffin_fast.parquet.page_index import Integers, PagePlaces
    from puffin_fast.rows.files.conversion import Cast, Convert
    from puffin_fast.rows.filters.pruning import Pruner
    from puffin_fast.rows.tasks import DataFile, StoredFile

FORMATS = ("PARQUET", "ORC", "AVRO")

MOST_IN_VAIN, ASKED_OF = 16, 8
"""If so many row groups one after another have no page to leave out, only one of some is asked for its page index."""

_MAKING = lock_across_fork()


def open_format(io: FileIO, entry: StoredFile) -> FormatReader:
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
        return ParquetReader(io, path, size=entry.file_size_in_bytes)
    if format == "ORC":
        from puffin_fast.rows.files.orc import OrcReader

        return OrcReader(io, path)
    if format == "AVRO":
        from puffin_fast.rows.files.avro import AvroReader

        return AvroReader(io, path, entry.record_count)
    raise UnsupportedError(f"{path}: {format}; expected one of {', '.join(FORMATS)}")


def columns_of(
    file: FormatReader, names: Sequence[str], batch_rows: int, *, views: bool = False
) -> Iterator[Mapping[str, pa.Array]]:
    """Yields columns of all row groups of a file in batches, in plain types.

    Args:
        file: an open file.
        names: names of top-level columns, at least one.
        batch_rows: maximum number of rows of a batch.
        views: whether texts and bytes may be views, where that is faster; PyArrow's are then read in small batches.
    """
    for group, n_rows in enumerate(file.group_rows):
        if not isinstance(file, ParquetReader):  # the header of an Avro file has no row count
            for batch in file.batches(group, names, batch_rows, use_threads=False):
                yield {name: plain(batch[name]) for name in names}
            continue
        columns = file.columns(group, names, PLAIN_ROWS, use_threads=False, views=views)
        step = min(batch_rows, PLAIN_ROWS) if views and not columns.are_decoded() else batch_rows
        for first in range(0, n_rows, step):
            yield columns.read(first, min(step, n_rows - first), None)


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Selected rows of a batch.

    Attributes:
        n_rows: their number.
        columns: the columns requested by name, in plain types.
    """

    n_rows: int
    columns: Mapping[str, pa.Array]
    _first: int
    _rows: Rows | None

    def positions(self) -> pa.Array:
        """Returns their positions in the file, int64."""
        if self._rows is None:
            return array_of(np.arange(self._first, self._first + self.n_rows, dtype=np.int64), pa.int64())
        positions = self._rows.astype(np.int64)
        positions += self._first
        return array_of(positions, pa.int64())


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a data file in order: the live ones of consecutive rows.

    Attributes:
        first: the position of the first of the consecutive rows in the file.
        n_rows: number of rows, without deleted ones if the file was opened with its live rows, and without those of
            pages that are left out.
        filter_values: the fields of the filter, by field id, in the storage types of its schema, or as dictionary
            arrays of these (see `DataFiles`).
        key_values: the `fields` of `DataFiles.open`, by field id, in their storage types.
    """

    first: int
    n_rows: int
    filter_values: Mapping[int, pa.Array]
    key_values: Mapping[int, pa.Array]
    _rows: Rows | None
    _columns: Mapping[str, pa.Array]
    _late: Callable[[Rows | None], Mapping[str, pa.Array]]

    def select(self, mask: pa.BooleanArray | None = None) -> SelectedRows | None:
        """Reads the requested columns of selected rows; other rows are not decoded, where the format allows it.

        Args:
            mask: true for the selected ones of the `n_rows` rows; nulls count as false. None: all.

        Returns:
            The rows; None if there are none.
        """
        n_rows, rows, columns = self.n_rows, self._rows, self._columns
        if mask is not None and mask.true_count < n_rows:
            selection = RowSelection(mask)
            n_rows = selection.n_rows
            if n_rows:
                indexes = selection.indexes
                rows = indexes if rows is None else rows[indexes]
                columns = dict(zip(columns, selection.of([*columns.values()]), strict=True))
        if not n_rows:
            return None
        columns = {name: decoded(array) for name, array in columns.items()}
        return SelectedRows(n_rows, {**columns, **self._late(rows)}, self.first, rows)

    @property
    def is_whole(self) -> bool:
        """Whether the rows are consecutive."""
        return self._rows is None


def windows(
    n_rows: int, at_once: Callable[[int, int], int], batch_rows: int, spans: Spans | None
) -> Iterator[tuple[int, int, Spans | None]]:
    """Yields consecutive rows of a row group, that are decoded at once.

    Args:
        n_rows: number of rows of the row group.
        at_once: returns how many rows are decoded at once, by the first one and the maximum.
        batch_rows: maximum number of consecutive rows.
        spans: the rows that are read; None: all.

    Yields:
        The first row, the number of rows, and those of them that are read, as indexes from the first; None: all.
    """
    start = 0
    if spans is None:
        while start < n_rows:
            some = at_once(start, min(batch_rows, n_rows - start))
            yield start, some, None
            start += some
        return
    last = int(spans.stops[-1])
    while start < last:
        at = int(np.searchsorted(spans.stops, start, "right"))
        start = max(start, int(spans.starts[at]))
        here = spans.within(start, batch_rows)
        stop = int(here.stops[-1])
        yield start, stop - start, None if len(here.starts) == 1 else here.less(start)
        start = stop


Leaves = Mapping[int, "tuple[str | None, Convert]"]


@dataclass(frozen=True)
class OpenedFile:
    """The row groups of one data file that may contain a live, matching row. Not safe for use by several threads.

    Attributes:
        path, format: the path and format of the file.
        schema: its columns by field id.
        constants: the values of its identity partition fields, by source field id.
        row_groups: number, first row and row count of each.
        excluded: the numbers of row groups whose statistics exclude a match.
        without: the numbers of those whose Bloom filters or dictionaries do, and whether a dictionary was needed.
        spans: the rows of those pages whose bounds do not exclude a match, for row groups where not all pages are read.
        sizes: the number of rows and the bytes of each row group, if the file was excluded without opening it.
    """

    path: str
    format: str
    schema: FileSchema
    constants: Mapping[int, Any]
    row_groups: tuple[tuple[int, int, int], ...]
    _open: Callable[[], FormatReader]
    _filter: Leaves
    _keys: Leaves
    _live: LiveRows | None
    _coded: Collection[str] = ()
    excluded: frozenset[int] = frozenset()
    without: Mapping[int, bool] = field(default_factory=dict)
    spans: Mapping[int, Spans] = field(default_factory=dict)
    sizes: Sequence[tuple[int, int]] | None = None

    @cached_property
    def _reader(self) -> FormatReader:
        return self._open()

    def groups_of(self, columns: Sequence[str]) -> Iterator[tuple[int, int, int | None, int | None]]:
        """Yields all row groups of the file: what of each is read, if it is.

        Args:
            columns: as for `batches`.

        Yields:
            Its number, its live rows, the bytes of the columns, and those of all columns; None if not known.
        """
        first = 0
        for number, (n_rows, needed, whole) in enumerate(self._sizes(columns)):
            yield number, n_rows if self._live is None else self._live.count(first, n_rows), needed, whole
            first += n_rows

    def _sizes(self, columns: Sequence[str]) -> Iterator[tuple[int, int | None, int | None]]:
        if self.sizes is not None:
            yield from ((n_rows, None, n_bytes) for n_rows, n_bytes in self.sizes)
            return
        reader, names = self._reader, self._names_of(columns)
        for number, n_rows in enumerate(reader.group_rows):
            if isinstance(reader, ParquetReader):
                yield n_rows, reader.bytes_of(number, names), reader.bytes_of(number)
            else:
                yield n_rows, None, None

    def _names_of(self, columns: Sequence[str]) -> set[str]:
        return {*columns, *(top for top, _ in (*self._filter.values(), *self._keys.values()) if top)}

    def of_pages(self, number: int, columns: Sequence[str]) -> tuple[int, int | None]:
        """Returns the live rows of the pages of a row group that are read, and their bytes at most; None: not known.

        Args:
            number: the number of a row group in `spans`.
            columns: as for `batches`.
        """
        spans, first = self.spans[number], sum(self._reader.group_rows[:number])
        n_rows = spans.n_rows
        if self._live is not None:
            ranges = zip(spans.starts.tolist(), spans.stops.tolist(), strict=True)
            n_rows = sum(self._live.count(first + start, stop - start) for start, stop in ranges)
        if not isinstance(self._reader, ParquetReader):
            return n_rows, None
        return n_rows, self._reader.bytes_of(number, self._names_of(columns), spans)

    def part(self, number: int, count: int) -> OpenedFile:
        """Returns one of `count` parts with about equally many row groups, to be read by another thread.

        Args:
            number: the number of the part, from 0.
            count: number of parts.
        """
        if count == 1:
            return self
        groups = self.row_groups
        start, stop = (len(groups) * at // count for at in (number, number + 1))
        return replace(
            self, row_groups=groups[start:stop], _open=self._reader.reopen if start < stop else self._open
        )

    def batches(
        self,
        columns: Sequence[str] = (),
        *,
        batch_rows: int = BATCH_ROWS,
        use_threads: bool = False,
        views: bool = False,
        places: list[PagePlaces] | None = None,
    ) -> Iterator[Batch]:
        """Yields the live rows of the row groups, in the order of the file.

        The columns of the fields are read first. The others are read by `Batch.select`, which must be called
        before the next batch is requested.

        Args:
            columns: top-level columns of the file, and paths of fields of structs, that `Batch.select` returns.
            batch_rows: maximum number of rows of a batch.
            use_threads: whether columns are decoded in parallel.
            views: whether texts and bytes of `columns` may be views, where that is faster.
            places: where the pages of the fields are, as far as this is known, is added to these.

        Raises:
            CorruptDataError: the file cannot be read, or a row group has more or fewer rows than declared.
            UnsupportedError: Arrow cannot read the contents of the file.
        """
        early, late, requested = self._order_of(columns)
        codes = {*self._coded} - {top for top, _ in self._keys.values()}
        for run in self._runs([*early, *late], batch_rows) if places is None else zip(self.row_groups):
            number, first, n_rows = run[0]
            with self._reading():
                if len(run) > 1:
                    n_rows, spans = run[-1][1] + run[-1][2] - first, spans_of(run)
                    deciding, others = (
                        self._joined(run, names, batch_rows, use_threads=use_threads)
                        for names in ([*early], late)
                    )
                else:
                    picked = spans = self.spans.get(number)
                    if self._live is not None and (few := self._live.few(first, n_rows)) is not None:
                        picked = Spans.of_rows(few)
                    columns_of = partial(
                        self._columns_of,
                        number,
                        batch_rows=batch_rows,
                        use_threads=use_threads,
                        wanted=picked,
                    )
                    deciding = columns_of([*early], ahead=late, codes=codes)
                    others = columns_of(late, views=views, is_late=bool(early))
            for start, some, gaps in windows(n_rows, self._reader.rows_at_once, batch_rows, spans):
                rows, n_live = self._live_rows(first + start, some, gaps)
                if not n_live:
                    continue
                with self._reading():
                    found = {} if deciding is None else deciding.read(start, some, rows)
                    count_rows(read=n_live)
                    yield Batch(
                        first + start,
                        n_live,
                        self._values(self._filter, found, n_live),
                        self._values(self._keys, found, n_live),
                        rows,
                        {name: found[name] for name in requested},
                        partial(self._read, others, start, some),
                    )
            if places is not None and isinstance(deciding, GroupColumns):
                places += deciding.places()

    def _order_of(self, columns: Sequence[str]) -> tuple[dict[str, None], list[str], list[str]]:
        """The columns that are read first, those that are read later, and the requested ones of the first."""
        tops = (top for top, _ in (*self._filter.values(), *self._keys.values()) if top is not None)
        early, wanted = dict.fromkeys(tops), dict.fromkeys(columns)
        late = [name for name in wanted if name not in early]
        return early, late, [name for name in early if name in wanted]

    @property
    def alike(self) -> tuple[Any, ...] | None:
        """What small files have in common that are read as one; None if this one is read alone."""
        if len(self.row_groups) != 1 or self.row_groups[0][2] > SMALL_ROWS or self.spans or self._keys:
            return None
        reader = self._reader
        if not isinstance(reader, ParquetReader) or len(reader.group_rows) > 1 or reader.is_remote:
            return None
        if self._live is not None and self._live.chosen:
            return None
        return id(reader.layout), id(self.schema), repr(self.constants)  # 0.0 equals -0.0

    @property
    def n_bytes(self) -> int:
        """The size of a file that has something in common with others."""
        assert isinstance(self._reader, ParquetReader)
        return self._reader.n_bytes

    def text_bytes(self, columns: Sequence[str]) -> int:
        """The most bytes that texts of such a file may have as arrays; `columns` as for `batches`."""
        assert isinstance(self._reader, ParquetReader)
        return self._reader.most_bytes([0], self._names_of(columns))[0]

    def _runs(self, names: Sequence[str], batch_rows: int) -> Iterable[Sequence[RowGroup]]:
        """The row groups in order; those that are read as one together."""
        groups, reader = self.row_groups, self._reader
        if len(groups) < 2 or self.spans or not isinstance(reader, ParquetReader):
            return zip(groups)
        numbers = [number for number, *_ in groups]
        n_bytes, texts = reader.raw_bytes(numbers, names), reader.most_bytes(numbers, names)
        return joined_groups(groups, n_bytes, texts, batch_rows)

    def _joined(
        self, run: Sequence[RowGroup], names: Sequence[str], batch_rows: int, *, use_threads: bool
    ) -> Columns | None:
        assert isinstance(self._reader, ParquetReader)
        return (
            ColumnsOfGroups(self._reader, run, names, batch_rows, use_threads=use_threads) if names else None
        )

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.path, self.format)

    def _columns_of(self, group: int, names: Sequence[str], **options: Any) -> Columns | None:
        return self._reader.columns(group, names, **options) if names else None

    def _live_rows(self, first: int, n_rows: int, spans: Spans | None) -> tuple[Rows | None, int]:
        """The live ones of consecutive rows, in spans of them, as indexes, None if all are; and their number."""
        if self._live is None:
            if spans is None:
                return None, n_rows
            rows = spans.rows().astype(np.int32)
            return rows, len(rows)
        mask = self._live.slice(first, n_rows)
        if spans is not None:
            flags = np.zeros(n_rows, np.bool_)
            flags[spans.rows()] = True
            mask = mask_of(flags & flags_of(mask))
        n_live = mask.true_count
        return (None if n_live in (0, n_rows) else select_rows(mask)), n_live

    def _read(
        self, columns: Columns | None, first: int, n_rows: int, rows: Rows | None
    ) -> Mapping[str, pa.Array]:
        with self._reading():
            return {} if columns is None else columns.read(first, n_rows, rows)

    def _values(self, leaves: Leaves, columns: Mapping[str, pa.Array], n_rows: int) -> dict[int, pa.Array]:
        length = pa.nulls(n_rows) if any(top is None for top, _ in leaves.values()) else None
        return {
            field_id: get(length if top is None else columns[top], self.constants)
            for field_id, (top, get) in leaves.items()
        }


class JoinedFiles:
    """Small data files that are read as one; see `OpenedFile`. Their rows have no positions.

    Args:
        files: opened files that are `alike`.

    Attributes:
        path: the first one and how many follow, for messages.
        constants: as of each file.
    """

    def __init__(self, files: Sequence[OpenedFile]) -> None:
        self._files, self.constants = files, files[0].constants
        self.path = f"{files[0].path}, or one of {len(files) - 1} data files after it"

    def batches(
        self,
        columns: Sequence[str] = (),
        *,
        batch_rows: int = BATCH_ROWS,
        use_threads: bool = False,
        views: bool = False,
    ) -> Iterator[Batch]:
        """Yields the live rows of the files in one batch; arguments as for `OpenedFile.batches`."""
        of = self._files[0]
        readers = [file._reader for file in self._files if isinstance(file._reader, ParquetReader)]
        n_rows = np.array([file.row_groups[0][2] for file in self._files], np.int64)
        total = int(n_rows.sum())
        early, late, requested = of._order_of(columns)
        rows = self._rows(n_rows)
        n_live = total if rows is None else len(rows)
        with self._reading():
            found = ColumnsOfFiles(readers, n_rows, [*early], batch_rows).read(0, total, rows)
            yield Batch(
                0,
                n_live,
                of._values(of._filter, found, n_live),
                {},
                rows,
                {name: found[name] for name in requested},
                partial(self._read, ColumnsOfFiles(readers, n_rows, late, batch_rows), total),
            )

    def _rows(self, n_rows: Integers) -> Rows | None:
        """The live rows; None: all."""
        if all(file._live is None for file in self._files):
            return None
        parts, first = [], 0
        for file, n in zip(self._files, n_rows.tolist(), strict=True):
            rows, _ = file._live_rows(0, n, None)
            parts.append(first + (np.arange(n, dtype=np.int32) if rows is None else rows))
            first += n
        return np.concatenate(parts, dtype=np.int32)

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.path)

    def _read(self, columns: Columns, n_rows: int, rows: Rows | None) -> Mapping[str, pa.Array]:
        with self._reading():
            return columns.read(0, n_rows, rows)


class _Excluding(NamedTuple):
    """Files of one layout: what asks their Bloom filters, their columns by field id, and those of the filter."""

    question: FileQuestion
    known: FileSchema
    filter: Leaves


class DataFiles:
    """Opens the data files of a table for one read. Safe to use from several threads.

    Args:
        io: PyIceberg's file access.
        metadata: the metadata of the table.
        schema: the schema that the filter is bound to.
        field_ids: the fields of the filter, also leaves of structs.
        may_match: an inclusive evaluator of metrics: row groups for which it is false are not read. With None
            all row groups are read.
        equalities: as `Matcher.equalities`: row groups that have none of the values are not read.
        pruner: as `Matcher.pruner`: pages that it leaves out are not read.
        coded: as `Matcher.coded`: fields of the filter that may be dictionary arrays.
        by_name: find columns by the table's name mapping even in files with field ids.
        cast: the conversion of primitive types to the table's.
    """

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        schema: Schema,
        field_ids: Iterable[int] = (),
        may_match: Callable[[Any], bool] | None = None,
        equalities: Callable[[], Iterable[Mapping[int, pa.Array]]] | None = None,
        pruner: Pruner | None = None,
        *,
        coded: Collection[int] = (),
        by_name: bool = False,
        cast: Cast = stored,
    ) -> None:
        self._io, self._schema, self._by_name, self._cast = io, schema, by_name, cast
        self._coded = coded
        self._metadata, self._specs, self._mapping = metadata, metadata.specs(), metadata.name_mapping()
        self._fields = [schema.find_field(field_id) for field_id in field_ids]
        self._may_match = may_match if self._fields else None
        self._pruner = pruner if self._fields else None
        self._in_vain = (
            0  # row groups one after another whose page indexes left out nothing; about, among threads
        )
        self._equal = EqualValues(equalities) if equalities is not None and self._fields else None
        self._known: dict[tuple[bytes, bool], tuple[FileSchema, Leaves]] = {}
        self._questions: dict[FileLayout, _Excluding | None] = {}
        self._excluding: _Excluding | None = None

    def open(
        self,
        entry: DataFile,
        fields: Iterable[NestedField] = (),
        live: LiveRows | Callable[[], LiveRows | None] | None = None,
        places: Iterable[PagePlaces] = (),
    ) -> OpenedFile:
        """Opens and checks a data file.

        Args:
            fields: the fields of equality deletes that apply to it.
            live: the live rows; only they are read. With None all rows are live. A function is called after the footer
                of a file on an object store was read: deletion vectors may be requested meanwhile.
            places: where the pages of some column chunks are.

        Raises:
            UnsupportedError: the format is not supported, the file is encrypted, or it has no field ids and
                the table no name mapping.
            CorruptDataError: the file's row count is not `record_count`, or a column's type does not fit.
            NotFoundError: there is no such file.
        """
        path = entry.file_path
        if callable(live) and not is_remote(path, self._io):
            live = live()
        excluded_file = None if callable(live) else self._excluded(entry, fields, live)
        if excluded_file is not None:
            return excluded_file
        file = open_format(self._io, entry)
        if file.n_rows != entry.record_count:
            raise CorruptDataError(
                "rows of a data file",
                path=path,
                expected=f"{entry.record_count} (manifest)",
                found=file.n_rows,
            )
        if callable(live):
            live = live()
        if isinstance(file, ParquetReader):
            file.chunks.places = {chunk[0]: chunk for chunk in places}
        with reading(path, entry.file_format):
            known, filter = self._schema_of(file, path)
            keys = {field.field_id: self._leaf(known, field) for field in fields}
            groups, excluded, without = self._row_groups(file, known, live)
            if without and not groups and not excluded and not any(without.values()):
                self._learn(file, known, filter)
            spans = {} if live is not None and live.chosen else self._spans(file, known, groups)
            texts = (known.text_column(field) for field in self._fields if field.field_id in self._coded)
            coded = [name for name in texts if name is not None]
        constants = self._constants(entry)
        left = tuple(group for group in groups if group[0] not in spans or len(spans[group[0]].starts))
        return OpenedFile(
            path,
            entry.file_format,
            known,
            constants,
            left,
            lambda: file,
            filter,
            keys,
            live,
            coded,
            excluded,
            without,
            spans,
        )

    def _spans(
        self, file: FormatReader, known: FileSchema, groups: Iterable[tuple[int, int, int]]
    ) -> dict[int, Spans]:
        """The rows of pages that may match, of those row groups where not all pages are read."""
        if self._pruner is None or not isinstance(file, ParquetReader):
            return {}
        paths = [(known.dotted(field.field_id), field) for field in self._fields]
        columns = [(path, field) for path, field in paths if path is not None]
        if not columns:
            return {}
        found: dict[int, Spans] = {}
        for number, *_ in groups:
            if self._in_vain >= MOST_IN_VAIN and self._in_vain % ASKED_OF:
                self._in_vain += 1
                continue
            spans = file.spans_that_may_match(number, columns, self._pruner)
            self._in_vain = self._in_vain + 1 if spans is None else 0
            if spans is not None:
                found[number] = spans
        return found

    def _schema_of(self, file: FormatReader, path: str) -> tuple[FileSchema, Leaves]:
        """The columns of files of one schema, and those of the filter; cached by schema."""
        key = file.schema_bytes, isinstance(file, ParquetReader)
        with _MAKING:  # threads that open files of one schema would each make it
            found = self._known.get(key)
            if found is None:
                known = FileSchema(
                    file.schema,
                    self._mapping,
                    path=path,
                    by_name=self._by_name,
                    cast=self._cast,
                    parts=isinstance(file, ParquetReader),
                )
                leaves = {field.field_id: self._leaf(known, field) for field in self._fields}
                found = self._known[key] = known, leaves
            return found

    def _leaf(self, known: FileSchema, field: NestedField) -> tuple[str | None, Convert]:
        """How to compute a field of the filter, or of equality deletes, which may have been dropped since."""
        number = field.field_id
        if number in known:
            return known.leaf(field)
        schema = self._schema if number in self._schema.field_ids else newest_schema(self._metadata, number)
        return known.leaf(field, (schema and structs_around(schema, number)) or ())

    def _row_groups(
        self, file: FormatReader, known: FileSchema, live: LiveRows | None
    ) -> tuple[tuple[tuple[int, int, int], ...], frozenset[int], Mapping[int, bool]]:
        """The row groups to read; the numbers of those that statistics exclude; `without` of `OpenedFile`."""
        excluded: frozenset[int] = frozenset()
        if len(file.group_rows) > 1 and self._may_match is not None:
            ids = [field.field_id for field in self._fields]
            wanted = file.groups_that_may_match(known, self._schema, ids, self._may_match, self._pruner)
            excluded = frozenset(range(len(file.group_rows))).difference(wanted)
        found, first = [], 0
        for number, n_rows in enumerate(file.group_rows):
            if n_rows and number not in excluded and (live is None or live.count(first, n_rows)):
                found.append((number, first, n_rows))
            first += n_rows
        if live is not None and live.chosen:  # an index has found them: these would exclude next to none
            return tuple(found), excluded, {}
        without: Mapping[int, bool] = {}
        if self._equal is not None and isinstance(file, ParquetReader):
            without = dict(self._equal.groups_without(file, known, [number for number, *_ in found]))
        return tuple(group for group in found if group[0] not in without), excluded, without

    def _excluded(
        self, entry: DataFile, fields: Iterable[NestedField], live: LiveRows | None
    ) -> OpenedFile | None:
        """A local file without a match by its Bloom filters, which are asked as those of the last one like it were."""
        last, path = self._excluding, entry.file_path
        is_plain = entry.file_format == "PARQUET" and entry.key_metadata is None
        if last is None or not is_plain or (live is not None and live.chosen):
            return None
        kind, _, local = resolve(path, self._io)
        sizes = last.question.excludes(local, entry.record_count) if kind == "local" else None
        if sizes is None:
            self._excluding = None
            return None
        firsts = accumulate((n_rows for n_rows, _ in sizes), initial=0)
        groups = enumerate(zip(firsts, sizes, strict=False))
        with reading(path, entry.file_format):
            keys = {field.field_id: self._leaf(last.known, field) for field in fields}
        return OpenedFile(
            path,
            entry.file_format,
            last.known,
            self._constants(entry),
            (),
            partial(open_format, self._io, entry),
            last.filter,
            keys,
            live,
            without={
                number: False
                for number, (first, (n, _)) in groups
                if n and (live is None or live.count(first, n))
            },
            sizes=sizes,
        )

    def _learn(self, file: FormatReader, known: FileSchema, filter: Leaves) -> None:
        """After a file without a match by its Bloom filters, the next one is asked in one call."""
        if self._equal is None or not isinstance(file, ParquetReader):
            return
        if file.layout not in self._questions:
            question = self._equal.question(file.layout, known)
            self._questions[file.layout] = None if question is None else _Excluding(question, known, filter)
        self._excluding = self._questions[file.layout]

    def _constants(self, entry: DataFile) -> dict[int, Any]:
        spec = self._specs[entry.spec_id]
        return {
            field.source_id: value
            for field, value in zip(spec.fields, entry.partition, strict=True)
            if isinstance(field.transform, IdentityTransform)
        }
