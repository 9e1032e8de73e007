"""Reads the live rows of a Delta table as Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.arguments import check_texts
from puffin_fast._api.keywords import named_methods
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._process.cached import cached_property
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTasks
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS
from puffin_fast.rows.filters.filters import column_names
from puffin_fast.rows.filters.shown import filter_text
from puffin_fast.rows.scan.explain import Explanation
from puffin_fast.rows.scan.file_reader import FileReader
from puffin_fast.rows.scan.row_scan import TableScan
from puffin_fast.rows.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.expressions import BooleanExpression

_COLUMNS = {name: METADATA_COLUMNS[name] for name in ("_file", "_pos")}


@named_methods("count", "to_arrow")
class DeltaScan(TableScan):
    """A scan of one version. Made by `scan`.

    Attributes:
        snapshot: the version.
        schema: the Arrow schema of the result.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        row_filter: str | BooleanExpression | pc.Expression,
        selected_fields: Sequence[str],
        *,
        limit: int | None,
        case_sensitive: bool,
        threads: int | None,
        workers: Executor | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "row_filter": row_filter,
            "selected_fields": selected_fields,
            "case_sensitive": case_sensitive,
            "threads": threads,
            "workers": workers,
        }
        columns = None
        if case_sensitive is True:  # else a name may mean any column
            columns = _named(snapshot.delta_schema["fields"], row_filter, selected_fields)
        self.snapshot, self._table = snapshot, DeltaTable.of(snapshot, columns)
        super().__init__(
            self._table.schema.schema,
            row_filter,
            selected_fields,
            limit=limit,
            case_sensitive=case_sensitive,
            threads=threads,
            workers=workers,
            metadata_columns=_COLUMNS,
        )

    def _with(self, **changes: Any) -> Self:
        return type(self)(self.snapshot, **(self._arguments | {"limit": self._limit} | changes))

    def _state(self) -> str:
        return repr(self.snapshot)

    def __repr__(self) -> str:
        row_filter = "" if self._row_filter.always_true else f", row_filter={filter_text(self._given_filter)}"
        limit = "" if self._limit is None else f", limit={self._limit}"
        return f"DeltaScan({self.snapshot!r}{row_filter}{limit})"

    def __getstate__(self) -> dict[str, Any]:
        """The scan without its plan, which cannot be pickled and is made again from the same version."""
        return {name: value for name, value in self.__dict__.items() if name != "_tasks"}

    @cached_property
    def _tasks(self) -> DeltaTasks:
        return plan_files(self._table, self._row_filter)

    def tasks(self) -> Sequence[Task]:
        """Returns the data files to read, each with its deletion vector; the objects are made when requested."""
        return self._tasks

    def files(self) -> pa.Table:
        """Returns the data files to read, from the log alone.

        Returns:
            A row for each data file, in the order of the log:

            - ``file_path`` string, ``size`` int64 (bytes).
            - ``n_rows`` int64: rows of the file, deleted ones included.
            - ``vector_path`` string, ``offset`` and ``length`` int64: where its deletion vector is; null without one.
            - ``cardinality`` int64: the number of deleted rows; null without a vector.

            The path of a vector that is stored in the log begins with ``inline:``.

        Raises:
            CorruptDataError: the log is damaged.
            NotFoundError: a file does not exist that must be opened, because the log lacks a number of rows or an
                offset.
        """
        return self._tasks.to_arrow()

    def explain(self) -> Explanation:
        """Returns what the scan reads, and what each step of it leaves out and why.

        As `puffin_fast.iceberg.Scan.explain`.

        Raises:
            CorruptDataError, NotFoundError, UnsupportedError: as `to_batches`.
        """
        return self._explained(self._tasks.whole, self._tasks)

    def count(self) -> int:
        """Returns the number of rows; as `puffin_fast.iceberg.Scan.count`."""
        if not self._row_filter.always_true:
            return super().count()
        tasks = self._tasks
        n_rows = int(tasks.n_rows.sum() - tasks.vectors.cardinality.sum())
        return n_rows if self._limit is None else min(n_rows, self._limit)

    def file_reader(self) -> FileReader:
        """Returns the reader of these files."""
        return self._table.reader(self._fields, self._extra, self._row_filter, self.schema)


def _named(
    fields: Iterable[Mapping[str, Any]], row_filter: object, selected_fields: Sequence[str]
) -> set[str] | None:
    """Returns the columns that a scan names; None if it may need others, or names one that does not exist."""
    named = column_names(row_filter)
    if named is None:
        return None
    named |= {*check_texts("selected_fields", selected_fields)}
    own = {field["name"] for field in fields}
    return named & own if own.issuperset(named - _COLUMNS.keys()) else None


def scan(
    table: Any,
    row_filter: str | BooleanExpression | pc.Expression = AlwaysTrue(),  # noqa: B008
    selected_fields: Sequence[str] = ("*",),
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    limit: int | None = None,
    case_sensitive: bool = True,
    threads: int | None = None,
    workers: Executor | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeltaScan:
    """Reads a version of a Delta table with its deletion vectors applied.

    Args:
        table: a path, a URI, deltalake's `DeltaTable`, or a `Snapshot`.
        row_filter: as for `puffin_fast.iceberg.scan`.
        selected_fields: column names, dotted for fields of structs; ``"*"`` selects all columns. Metadata columns are
            ``_file`` (location of the data file) and ``_pos`` (position in it).
        version: its number; the newest by default.
        as_of: selects the version that was the newest at this time: milliseconds since 1970, or a datetime or ISO 8601
            text with a time zone.
        limit: maximum number of rows; no more files are read after them.
        case_sensitive: whether column names are compared with case.
        threads: number of reading threads; as many as PyArrow's (`pyarrow.cpu_count()`) when None.
        workers: an executor of ``concurrent.futures`` that reads the data files instead of threads, such as a
            ``ProcessPoolExecutor`` or Dask's ``client.get_executor()``.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path.
        storage_options: instead of it, the options that deltalake takes, such as ``AWS_ACCESS_KEY_ID``. By
            default, those of a given `DeltaTable`.

    Returns:
        A scan: `to_arrow`, `to_batches`, `to_reader`, and the Arrow C stream interface. Bytes and shorts come as 32-bit
        integers, strings as large strings.

    Raises:
        NotFoundError: the table, the version or a column does not exist.
        CorruptDataError: the log or a file is damaged.
        UnsupportedError: a reader feature or the type of a column is unknown.
        InvalidInputError: the filter cannot be parsed or does not fit its columns, or the limit is negative.

    Examples:
        >>> pf.delta.scan(path, "id >= 98", ["id"]).to_arrow()["id"].to_pylist()
        [98, 99]
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    if isinstance(table, Snapshot):
        if version is not None or as_of is not None:
            raise InvalidInputError(
                "version and as_of: expected neither with a Snapshot, which has a version"
            )
        base = table
    else:
        base = snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    return DeltaScan(
        base,
        row_filter,
        selected_fields,
        limit=limit,
        case_sensitive=case_sensitive,
        threads=threads,
        workers=workers,
    )
