"""Reads the live rows of a table as Arrow: columns in the table's schema, batches streamed in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import SnapshotRefType

from puffin_fast._api.keywords import named_methods
from puffin_fast._process.cached import cached_property
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.catalogs.path_table import as_table
from puffin_fast.iceberg.index.lookup import planned
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import Plan, plan_snapshot, resolve
from puffin_fast.rows.scan.explain import Explanation
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.row_scan import TableScan

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow.compute as pc
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from puffin_fast.iceberg.manifest.columns import Select


@named_methods("count", "to_arrow")
class Scan(TableScan):
    """A scan of one snapshot, created by `scan`."""

    def __init__(
        self,
        table: Table | str | os.PathLike[str],
        row_filter: str | BooleanExpression | pc.Expression,
        selected_fields: Sequence[str],
        *,
        snapshot_id: int | None,
        branch: str | None,
        tag: str | None,
        as_of: int | str | datetime | None,
        limit: int | None,
        case_sensitive: bool,
        threads: int | None,
        workers: Executor | None = None,
        string_views: bool,
    ) -> None:
        self._table = table = as_table(table)
        self._arguments: dict[str, Any] = {
            "row_filter": row_filter,
            "selected_fields": selected_fields,
            "snapshot_id": snapshot_id,
            "branch": branch,
            "tag": tag,
            "as_of": as_of,
            "limit": limit,
            "case_sensitive": case_sensitive,
            "threads": threads,
            "workers": workers,
            "string_views": string_views,
        }
        self._snapshot, schema = resolve(table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of)
        super().__init__(
            schema,
            row_filter,
            selected_fields,
            limit=limit,
            case_sensitive=case_sensitive,
            threads=threads,
            workers=workers,
            string_views=string_views,
        )

    def _state(self) -> str:
        name, snapshot = ".".join(self._table.name()), self._snapshot
        return f"{name}, no snapshot" if snapshot is None else f"{name}, snapshot {snapshot.snapshot_id}"

    def _with(self, **changes: Any) -> Self:
        return type(self)(self._table, **(self._arguments | {"limit": self._limit} | changes))

    def use_ref(self, name: str) -> Scan:
        """Returns a scan of the head of a branch, or of the snapshot of a tag.

        Args:
            name: the name of the branch or tag.

        Raises:
            NotFoundError: there is no such branch or tag.
            InvalidInputError: this scan reads a snapshot, branch, tag or time already.
        """
        reference = self._table.metadata.refs.get(name)
        is_tag = reference is not None and reference.snapshot_ref_type == SnapshotRefType.TAG
        selected = {at: self._arguments[at] for at in ("snapshot_id", "branch", "tag", "as_of")}
        if given := [at for at, value in selected.items() if value is not None]:
            raise InvalidInputError(
                f"use_ref: expected a scan of the current snapshot, found one with {given[0]}"
            )
        return self._with(**{"tag" if is_tag else "branch": name})

    @cached_property
    def plan(self) -> Plan:
        """The data files to read, each with its deletes; planned on first access."""
        made: list[Plan] = []
        self._notes: list[str] = []

        def plan(select: Select | None) -> Sequence[FileTask]:
            made.append(self._plan_of(select))
            return made[0].tasks

        tasks = planned(
            self._table.io,
            self._table.metadata,
            self._snapshot,
            self._row_filter.equalities(),
            plan,
            notes=self._notes,
        )
        made[0].tasks = tasks
        return made[0]

    def _plan_of(self, select: Select | None) -> Plan:
        return plan_snapshot(
            self._table,
            self._snapshot,
            self._read_schema,
            self._row_filter,
            select=select,
        )

    def explain(self) -> Explanation:
        """Returns what the scan reads, and what each step of it leaves out and why.

        The scan is planned, and its data files are opened, as if their rows were read; of Parquet files only the
        footers are read. A limit is not considered.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as `to_batches`.

        Examples:
            >>> found = pf.iceberg.scan(table, "id = 5").explain()
            >>> found.table.rows, found.read.data_files
            (100, 1)
        """
        return self._explained(self.plan.whole, self._plan_of(None).tasks, self._notes)

    def reader(self, metadata: TableMetadata) -> Callable[..., FileReader]:
        """`reader_of` with the table's FileIO."""
        return self.reader_of(self._table.io, metadata)

    def tasks(self) -> Sequence[FileTask]:
        """Returns the data files to read, each with its deletes."""
        return self.plan.tasks

    def file_reader(self) -> FileReader:
        """Returns the reader of the scan's data files."""
        return self.reader(self._table.metadata)()

    def to_arrow(self) -> pa.Table:
        """Returns all rows, in the types of PyIceberg's `to_arrow`, so that `pyarrow.concat_tables` accepts both.

        Text, bytes and lists have the layout of the files (``string`` or ``large_string``); where files differ, Arrow
        promotes them (``large_string``). With `string_views` text and bytes are views. A table without rows has the
        types of `schema`, as streams always have. Unsigned columns of files have the types of `schema`, too.
        """
        batches = self._batches(partial(self.reader(self._table.metadata), file_types=not self._string_views))
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


def scan(
    table: Table | str | os.PathLike[str],
    row_filter: str | BooleanExpression | pc.Expression = AlwaysTrue(),  # noqa: B008
    selected_fields: Sequence[str] = ("*",),
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    limit: int | None = None,
    case_sensitive: bool = True,
    threads: int | None = None,
    workers: Executor | None = None,
    string_views: bool = False,
) -> Scan:
    """Scans a table of format version 1 to 3 with deletion vectors, position and equality deletes applied.

    Args:
        table: a PyIceberg table; or the path or URI of a metadata file, or of the folder of a table, which is read
            by its newest metadata file (the table's catalog may know another one).
        row_filter: text (docs/filters.md), a PyIceberg expression or a PyArrow expression. Rows for
            which it is not true (false, or unknown for a null) are not selected, as in SQL.
        selected_fields: column names, dotted for fields of structs; ``"*"`` selects all columns. Metadata
            columns are ``_file`` (path of the data file), ``_pos`` (position in it), ``_row_id`` and
            ``_last_updated_sequence_number`` (row lineage).
        snapshot_id: a snapshot, instead of the current one.
        branch: read the head of this branch.
        tag: read the snapshot of this tag.
        as_of: read the snapshot that was current at this time: milliseconds since 1970, or a datetime or ISO
            8601 text with a time zone.
        limit: maximum number of rows.
        case_sensitive: whether column names are compared with case.
        threads: number of reading threads; `pyarrow.cpu_count()` by default.
        workers: an executor of ``concurrent.futures`` that reads the data files instead of threads, such as a
            ``ProcessPoolExecutor`` or Dask's ``client.get_executor()``.
        string_views: return columns of text and bytes as Arrow's views (`string_view`, `binary_view`), which takes less
            time. Polars, DuckDB and DataFusion accept them; many of PyArrow's functions do not.

    Returns:
        A `Scan`. Files are read when its rows are requested.

    Raises:
        NotFoundError: a column, snapshot or reference does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns, or the limit is negative.
        UnsupportedError: the format version is above 3.

    Examples:
        >>> pf.iceberg.scan(table, "customer = 7 and id > 50", ["id"]).to_arrow()["id"].to_pylist()
        [57, 67, 77, 87, 97]
        >>> pf.iceberg.scan(table).count()
        100
    """
    return Scan(
        table,
        row_filter,
        selected_fields,
        snapshot_id=snapshot_id,
        branch=branch,
        tag=tag,
        as_of=as_of,
        limit=limit,
        case_sensitive=case_sensitive,
        threads=threads,
        workers=workers,
        string_views=string_views,
    )
