"""The part of a scan that is the same for all formats of tables: columns in the table's schema, batches in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pyarrow as pa

from puffin_fast._api.arguments import check_flags, check_integer, check_texts
from puffin_fast._api.packages import import_optional
from puffin_fast._concurrency.streams import in_order
from puffin_fast._concurrency.threads import check_threads, on_threads
from puffin_fast._concurrency.workers import check_workers
from puffin_fast._display.html import html_fields
from puffin_fast._process.cached import cached_property
from puffin_fast._pyiceberg.metrics import proves_all_rows
from puffin_fast._text import no_column
from puffin_fast.errors import NotFoundError
from puffin_fast.rows.files.conversion import arrow_schema
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS, MetadataColumn
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.filters.rewriters import check_names
from puffin_fast.rows.filters.shown import filter_text
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.splits import Split, jobs_of
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import duckdb
    import pandas
    import polars
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

R = TypeVar("R")

_READING = "reading data files"
"""What `progress` shows."""


class RowScan:
    """A scan of one state of a table. Subclasses define the files that it reads.

    Libraries that read the Arrow C stream interface accept a scan directly:
    ``duckdb.from_arrow(scan.to_reader())``, ``polars.DataFrame(scan)``, ``pyarrow.table(scan)``.
    """

    _kind: ClassVar[str]
    """The name of the public class."""

    def __init__(
        self,
        schema: Schema,
        row_filter: Filter,
        selected_fields: Sequence[str],
        *,
        limit: int | None,
        case_sensitive: bool,
        threads: int | None,
        workers: Executor | None = None,
        metadata_columns: Mapping[str, MetadataColumn] = METADATA_COLUMNS,
        string_views: bool = False,
    ) -> None:
        check_threads(threads)
        check_workers(workers)
        check_integer("limit", limit, least=0)
        check_flags(case_sensitive=case_sensitive, string_views=string_views)
        self._limit, self._given_filter = limit, row_filter
        self._row_filter = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
        self._read_schema = schema
        self._extra, self._wanted = _selected(schema, selected_fields, case_sensitive, metadata_columns)
        self._fields = self._wanted.fields
        self._threads, self._workers = threads, workers
        self._string_views = string_views

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        arrow = arrow_schema(self._wanted)
        for column in self._extra:
            arrow = arrow.append(pa.field(column.name, column.type))
        return pa.schema(map(_with_views, arrow), arrow.metadata) if self._string_views else arrow

    def tasks(self) -> Sequence[Task]:
        """Returns the data files to read, each with its deletes."""
        raise NotImplementedError

    def file_reader(self) -> FileReader:
        """Returns the reader of the scan's data files."""
        raise NotImplementedError

    def reader_of(self, io: FileIO, metadata: TableMetadata, **options: Any) -> Callable[..., FileReader]:
        """Returns a picklable factory of readers of the scan's data files, for use here or in another process.

        Args:
            io: opens the files.
            metadata: the metadata of the table; its history may be removed.
            options: more arguments of `FileReader`, by name.
        """
        return partial(
            FileReader,
            io,
            metadata,
            self._read_schema,
            self._fields,
            self._extra,
            self._row_filter,
            self.schema,
            **options,
        )

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f", limit={self._limit}"
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"{self._kind}({self._text}{limit}, columns: {columns})"

    @property
    def _text(self) -> str:
        """What is read, and the filter."""
        row_filter = "" if self._row_filter.always_true else f", row_filter={filter_text(self._given_filter)}"
        return f"{self._source()}{row_filter}"

    def _source(self) -> str:
        """The table and its state, for the text of the scan."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        given = None if self._row_filter.always_true else filter_text(self._given_filter)
        settings = {"row_filter": given, "limit": self._limit, "threads": self._threads}
        fields = {name: value for name, value in settings.items() if value is not None}
        columns = [f"{field.name}: {field.type}" for field in self.schema]
        return html_fields(self._kind, fields | {"columns": columns})

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the result in batches; no batch is empty. Closing the iterator stops reading.

        Raises:
            CorruptDataError: a file does not agree with the metadata.
            NotFoundError: a file does not exist.
            UnsupportedError: the format of a file is not supported.
        """
        return self._batches(self.file_reader)

    def count(self) -> int:
        """Returns the number of rows.

        Data files whose rows all match the filter are not read: their live rows are the row count of the manifest
        entry less the deleted positions. Of other files only the columns of the filter and equality deletes are read.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as `to_batches`.
        """
        row_filter = self._row_filter
        proved = proves_all_rows(self._read_schema, row_filter.strict_expression, row_filter.case_sensitive)
        n_rows, by_positions, others = 0, [], []
        for task in self.tasks():
            if task.equality_deletes or not (row_filter.always_true or proved(task.data)):
                others.append(task)
            elif task.vector is None and task.position_deletes:
                by_positions.append(task)
            else:
                n_rows += task.data.record_count - (0 if task.vector is None else task.vector.record_count)
        if by_positions:
            n_rows += sum(on_threads(self.file_reader().n_live, by_positions, self._threads))
        if others:
            rows = copy(self)
            rows._fields, rows._extra, rows._limit, rows.schema = (), (), None, pa.schema([])
            n_rows += sum(rows._counts(others))
        return n_rows if self._limit is None else min(n_rows, self._limit)

    def _counts(self, tasks: list[Task]) -> Iterator[int]:
        reader = self.file_reader()
        if self._workers is not None:
            return reader.count_there(self._workers, tasks, _READING)
        return self._by_threads(reader, reader.count_all, tasks, _READING)

    def _batches(
        self, file_reader: Callable[[], FileReader], shown: bool = False
    ) -> Iterator[pa.RecordBatch]:
        left = self._limit
        if left == 0:
            return
        reader, label = file_reader(), _READING if shown else None
        if self._workers is not None:
            found = reader.read_there(self._workers, self.tasks(), label)
        else:
            found = self._by_threads(reader, reader.read_all, self.tasks(), label)
        try:
            yield from first_rows(chain.from_iterable(found), left)
        finally:
            found.close()  # type: ignore[attr-defined]

    def _by_threads(
        self,
        reader: FileReader,
        work: Callable[[Sequence[Split]], Iterable[R]],
        tasks: Sequence[Task],
        label: str | None,
    ) -> Iterator[R]:
        is_limited = self._limit is not None
        with reader.prepared(tasks, self._threads, is_limited=is_limited) as (threads, ahead):
            jobs = jobs_of(tasks, threads, together=not is_limited)
            yield from in_order(
                jobs if label is None else list(jobs), work, threads, capacity=ahead, label=label
            )

    def limit(self, n_rows: int) -> Self:
        """Returns a scan of at most some rows, in the order in which they are read.

        Args:
            n_rows: at least 0.

        Raises:
            InvalidInputError: it is negative or not an integer.
        """
        check_integer("n_rows", n_rows, least=0, optional=False)
        found = copy(self)
        found._limit = n_rows if self._limit is None else min(n_rows, self._limit)
        return found

    def head(self, n_rows: int = 5) -> pa.Table:
        """Returns the first rows that are read. Files that are not needed for them are not read.

        Args:
            n_rows: at most this many; at least 0.

        Raises:
            InvalidInputError: it is negative or not an integer.
        """
        return self.limit(n_rows).to_arrow()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the result as a stream, for DuckDB, Polars, pandas and other readers of Arrow streams."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Returns the result as a stream; the name that PyIceberg's scans have for `to_reader`."""
        return self.to_reader()

    def to_arrow(self) -> pa.Table:
        """Returns the whole result."""
        return pa.Table.from_batches(self._batches(self.file_reader, shown=True), self.schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Returns the whole result as a list of a dict for each row."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Returns the whole result as a DataFrame of pandas.

        Args:
            options: options of `pyarrow.Table.to_pandas`, by name.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        import_optional("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """Returns the whole result as a DataFrame of Polars.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        frame: polars.DataFrame = import_optional("polars").DataFrame(self.to_arrow())
        return frame

    def to_duckdb(
        self, table_name: str, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Registers the whole result as a view in DuckDB.

        Args:
            table_name: the name of the view.
            connection: a connection of DuckDB; by default a new one in memory.

        Returns:
            The connection.

        Raises:
            MissingExtraError: DuckDB is not installed.
        """
        found: duckdb.DuckDBPyConnection = connection or import_optional("duckdb").connect(":memory:")
        return found.register(table_name, self.to_arrow())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def __array__(self, *_: object, **__: object) -> Any:
        # pandas.DataFrame(scan) would make a column of the batches
        raise TypeError("a scan is no array: expected scan.to_pandas() or scan.to_arrow()")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


def first_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yields the first rows of batches.

    Args:
        batches: are not requested beyond the limit.
        limit: maximum number of rows, or None.
    """
    if limit == 0:
        return
    for batch in batches:
        if limit is not None:
            if batch.num_rows >= limit:
                yield batch.slice(0, limit)
                return
            limit -= batch.num_rows
        yield batch


def _with_views(field: pa.Field) -> pa.Field:
    """The field with texts or bytes as views."""
    if pa.types.is_large_string(field.type):
        return field.with_type(pa.string_view())
    return field.with_type(pa.binary_view()) if pa.types.is_large_binary(field.type) else field


def _selected(
    schema: Schema,
    names: Sequence[str],
    case_sensitive: bool,
    metadata_columns: Mapping[str, MetadataColumn],
) -> tuple[tuple[MetadataColumn, ...], Schema]:
    """Returns the selected metadata columns in the order of `names`, and the schema pruned to the other names."""
    names = check_texts("selected_fields", names)
    own = {field.name for field in schema.fields}
    extra = tuple(
        metadata_columns[name]
        for name in dict.fromkeys(names)
        if name in metadata_columns and name not in own
    )
    rest = [name for name in names if name in own or name not in metadata_columns]
    if "*" in rest:
        return extra, schema
    if not rest:
        return extra, type(schema)(schema_id=schema.schema_id)
    check_names(schema, rest, case_sensitive=case_sensitive)
    if case_sensitive and own.issuperset(rest):  # PyIceberg's select visits all columns
        chosen = set(rest)
        return extra, type(schema)(
            *(f for f in schema.fields if f.name in chosen), schema_id=schema.schema_id
        )
    try:
        return extra, schema.select(*rest, case_sensitive=case_sensitive)
    except ValueError as error:
        missing = next(name for name in rest if not _has(schema, name, case_sensitive))
        known = [*(field.name for field in schema.fields), *metadata_columns]
        raise NotFoundError(f"selected_fields: {no_column(missing, known)}") from error


def _has(schema: Schema, name: str, case_sensitive: bool) -> bool:
    try:
        schema.find_field(name, case_sensitive)
    except ValueError:
        return False
    return True
