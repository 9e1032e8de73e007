"""The live rows of one state of a table, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import named_attributes, named_methods
from puffin_fast._concurrency.threads import on_threads
from puffin_fast._process.cached import cached_property
from puffin_fast.columns.plain_types import plain
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS, MetadataColumn
from puffin_fast.rows.filters.filters import Filter, RowFilter, both_filters
from puffin_fast.rows.scan.explain import Explanation, Reads, ScanStep
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.row_scan import RowScan
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

FILES = pa.schema(
    [
        ("file_path", pa.string()),
        ("size", pa.int64()),
        ("n_rows", pa.int64()),
        ("vector_path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)
"""The schema of `Scan.files`."""


class ScanPlan(NamedTuple):
    """The data files that a scan reads.

    Attributes:
        tasks: the data files, each with its deletes.
        whole: all data files of the state.
        notes: indexes that could not be used, and why.
    """

    tasks: Sequence[Task]
    whole: ScanStep
    notes: Sequence[str] = ()


class State(ABC):
    """A state of a table that a scan reads: a snapshot of Iceberg, or a version of Delta.

    Attributes:
        metadata_columns: the metadata columns that it has, by name.
        file_types: whether `Scan.to_arrow` has the types of the files.
    """

    metadata_columns: ClassVar[Mapping[str, MetadataColumn]] = METADATA_COLUMNS
    file_types: ClassVar[bool] = False

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema that its rows are read with."""

    @property
    @abstractmethod
    def io(self) -> FileIO:
        """Opens its files."""

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The metadata that readers of its data files need."""

    @property
    def reading(self) -> Mapping[str, Any]:
        """More arguments of `FileReader`, by name."""
        return {}

    @abstractmethod
    def plan(self, row_filter: RowFilter) -> ScanPlan:
        """Plans the data files in which a row may match."""

    @abstractmethod
    def tasks_without_index(self, row_filter: RowFilter, plan: ScanPlan) -> Sequence[Task]:
        """Returns the data files that partitions and bounds leave; `plan` is that of the filter."""

    def reading_only(self, row_filter: Filter, selected_fields: Sequence[str]) -> State:
        """Returns the state with at least the columns that a scan names; names are compared with case."""
        return self

    @abstractmethod
    def at(self, reference: str) -> State:
        """Returns the state of a branch or tag; raises as `Scan.use_ref`."""

    def count(self, plan: ScanPlan) -> int | None:
        """Returns the number of live rows of planned data files; None if deletes must be read for it."""
        return None

    def files(self, plan: ScanPlan) -> pa.Table:
        """Returns the planned data files, with the columns of `FILES`."""
        rows = []
        for task in plan.tasks:
            data, vector = task.data, task.vector
            row: tuple[Any, ...] = (data.file_path, data.file_size_in_bytes, data.record_count)
            if vector is None:
                row += (None,) * 4
            else:
                row += (vector.file_path, vector.content_offset, vector.content_size_in_bytes)
                row += (vector.record_count,)
            rows.append(dict(zip(FILES.names, row, strict=True)))
        return pa.Table.from_pylist(rows, FILES)


_NAMES = {
    **dict.fromkeys(
        (
            "collect",
            "arrow",
            "read_all",
            "toArrow",
            "to_arrow_table",
            "to_pyarrow_table",
            "fetch_arrow_table",
        ),
        "to_arrow()",
    ),
    **dict.fromkeys(("df", "fetchdf", "toPandas", "to_df", "pandas"), "to_pandas()"),
    **dict.fromkeys(("pl", "polars", "to_polars_df"), "to_polars()"),
    **dict.fromkeys(("lazy", "to_lazy"), "to_polars().lazy()"),
    **dict.fromkeys(("fetchall", "to_dicts", "rows", "to_pydict", "to_list"), "to_pylist()"),
    **dict.fromkeys(("show", "take", "sample", "first", "display", "fetch"), "head(10)"),
    **dict.fromkeys(("num_rows", "n_rows", "shape", "count_rows", "size"), "count()"),
    **dict.fromkeys(("columns", "column_names", "names"), "scan.schema.names"),
    **dict.fromkeys(("dtypes", "fields"), "schema"),
    **dict.fromkeys(("where", "query"), "filter('id < 5')"),
    **dict.fromkeys(("to_ray", "to_dask"), "to_arrow() or to_batches()"),
    **dict.fromkeys(("plan_files", "execute"), "explain() or to_arrow()"),
    **dict.fromkeys(
        ("to_parquet", "write_parquet", "to_csv", "write_csv", "to_json"),
        "pyarrow.dataset.write_dataset(scan.to_reader(), ...)",
    ),
    **dict.fromkeys(
        ("drop", "sort", "sort_by", "order_by", "group_by", "groupby", "join", "with_columns", "agg", "sum"),
        "to_polars() or to_duckdb() before it",
    ),
}
"""Names that other libraries have, and what a scan has instead."""


@named_methods("count", "to_arrow", "to_polars")
@named_attributes({name: f"write {text}" for name, text in _NAMES.items()})
class Scan(RowScan):
    """The live rows of one state of a table, created by `scan`."""

    _kind = "Scan"

    def __init__(
        self,
        state: State,
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        selected_fields: Sequence[str] = ("*",),
        *,
        limit: int | None = None,
        case_sensitive: bool = True,
        threads: int | None = None,
        workers: Executor | None = None,
        string_views: bool = False,
    ) -> None:
        self._given_state = state
        self._arguments: dict[str, Any] = {
            "row_filter": row_filter,
            "selected_fields": selected_fields,
            "case_sensitive": case_sensitive,
            "threads": threads,
            "workers": workers,
            "string_views": string_views,
        }
        if case_sensitive is True:  # else a name may mean any column
            state = state.reading_only(row_filter, selected_fields)
        self._state = state
        super().__init__(
            state.schema, limit=limit, metadata_columns=state.metadata_columns, **self._arguments
        )

    def _with(self, state: State | None = None, **changes: Any) -> Self:
        given = self._given_state if state is None else state
        return type(self)(given, **(self._arguments | {"limit": self._limit} | changes))

    def _source(self) -> str:
        return str(self._state)

    def __getstate__(self) -> dict[str, Any]:
        """The scan without its plan, which is made again from the same state."""
        return {name: value for name, value in self.__dict__.items() if name != "_plan"}

    @cached_property
    def _plan(self) -> ScanPlan:
        return self._state.plan(self._row_filter)

    def select(self, *field_names: str | Sequence[str]) -> Self:
        """Returns a scan of some columns, as PyIceberg's `select`.

        Args:
            field_names: columns, dotted for fields of structs, or metadata columns; or one list of them.

        Raises:
            NotFoundError: there is no such column.
        """
        is_list = len(field_names) == 1 and not isinstance(field_names[0], str)
        return self._with(selected_fields=field_names[0] if is_list else field_names)

    def filter(self, row_filter: Filter) -> Self:
        """Returns a scan of the rows for which the filter of this scan and another one are true.

        Args:
            row_filter: as for `scan`.

        Raises:
            NotFoundError: a column of the filter does not exist.
            InvalidInputError: the filter cannot be parsed, or one of the filters is a PyArrow expression and the other
                one is not.
        """
        self._with(row_filter=row_filter)  # a text is checked as text
        return self._with(row_filter=both_filters(self._given_filter, row_filter))

    def use_ref(self, name: str) -> Self:
        """Returns a scan of the head of a branch, or of the snapshot of a tag, of an Iceberg table.

        Args:
            name: the name of the branch or tag.

        Raises:
            NotFoundError: there is no such branch or tag.
            InvalidInputError: this scan reads a snapshot, branch, tag or time already.
            UnsupportedError: the table is not one of Iceberg.
        """
        return self._with(self._given_state.at(name))

    def explain(self) -> Explanation:
        """Returns what the scan reads, and what each step of it leaves out and why.

        The scan is planned, and its data files are opened, as if their rows were read; of Parquet files only the
        footers are read. A limit is not considered.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as `to_batches`.

        Examples:
            >>> found = pf.scan(table, "id = 5").explain()
            >>> found.table.rows, found.read.data_files
            (100, 1)
        """
        plan, reads, reader = self._plan, Reads(), self.file_reader()
        reads.plan(plan.whole, plan.tasks, self._state.tasks_without_index(self._row_filter, plan))
        for _ in on_threads(partial(reader.count_in, reads), plan.tasks, self._threads):
            pass
        found = reads.explanation(self._text, plan.notes)
        assert found is not None
        return found

    def files(self) -> pa.Table:
        """Returns the data files to read; none of them is opened.

        Returns:
            A row for each data file, in the order of the metadata:

            - ``file_path`` string, ``size`` int64 (bytes).
            - ``n_rows`` int64: rows of the file, deleted ones included.
            - ``vector_path`` string, ``offset`` and ``length`` int64: where its deletion vector is; null without one.
            - ``cardinality`` int64: the number of deleted rows; null without a vector.

            The path of a vector that is stored in Delta's log begins with ``inline:``.

        Raises:
            CorruptDataError: the metadata or the log is damaged.
            NotFoundError: a file does not exist that must be opened, because Delta's log lacks a number of rows or an
                offset.
        """
        return self._state.files(self._plan)

    def tasks(self) -> Sequence[Task]:
        """Returns the data files to read, each with its deletes; the objects are made when requested."""
        return self._plan.tasks

    def reader(self, metadata: TableMetadata | None = None) -> Callable[..., FileReader]:
        """Returns a picklable factory of readers of the scan's data files, for use here or in another process.

        Args:
            metadata: the metadata of the table instead of the state's, such as without history.
        """
        state = self._state
        return self.reader_of(state.io, state.metadata if metadata is None else metadata, **state.reading)

    def file_reader(self) -> FileReader:
        """Returns the reader of the scan's data files."""
        return self.reader()()

    def count(self) -> int:
        known = self._state.count(self._plan) if self._row_filter.always_true else None
        if known is None:
            return super().count()
        return known if self._limit is None else min(known, self._limit)

    count.__doc__ = RowScan.count.__doc__

    def to_arrow(self) -> pa.Table:
        """Returns all rows.

        Of Iceberg tables they have the types of PyIceberg's `to_arrow`, so that `pyarrow.concat_tables` accepts both:
        text, bytes and lists have the layout of the files (``string`` or ``large_string``); where files differ, Arrow
        promotes them (``large_string``). With `string_views` text and bytes are views. A table without rows has the
        types of `schema`, as streams and Delta tables always have. Unsigned columns of files have the types of
        `schema`, too.
        """
        if not self._state.file_types:
            return super().to_arrow()
        batches = self._batches(partial(self.reader(), file_types=not self._string_views))
        tables = [
            pa.Table.from_batches(group, schema)
            for schema, group in groupby(batches, lambda batch: batch.schema)
        ]
        if len(tables) <= 1:
            return tables[0] if tables else pa.Table.from_batches([], self.schema)
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):  # text as views in one file only; PyIceberg raises this
            return pa.concat_tables([_in_schema(table, self.schema) for table in tables])


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        column
        if column.type == kind
        else pa.chunked_array([plain(chunk).cast(kind) for chunk in column.chunks], kind)
        for column, kind in zip(table.columns, schema.types, strict=True)
    ]
    return pa.table(columns, schema)
