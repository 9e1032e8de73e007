"""Reads the live rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import public
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.scan.scan import Scan
from puffin_fast.tables.opening import open_table

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from puffin_fast.tables.opening import TableLike


@public
def scan(
    table: TableLike,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
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
    """Reads the live rows of a table: all deletion vectors, position deletes and equality deletes are applied.

    Args:
        table: what `open_table` takes, or a version of `pf.delta.snapshot`. An Iceberg table has format version 1 to 3;
            of a folder or metadata file, the newest metadata is read (the table's catalog may know another one).
        row_filter: text (docs/filters.md), a PyIceberg expression or a PyArrow expression. Rows for which it is not
            true (false, or unknown for a null) are not selected, as in SQL.
        selected_fields: column names, dotted for fields of structs; ``"*"`` selects all columns. Metadata columns are
            ``_file`` (path of the data file), ``_pos`` (position in it), and in Iceberg tables ``_row_id`` and
            ``_last_updated_sequence_number`` (row lineage).
        snapshot_id: a snapshot, or the number of a version of Delta, instead of the newest.
        branch: read the head of this branch of an Iceberg table.
        tag: read the snapshot of this tag of an Iceberg table.
        as_of: read the snapshot or version that was the newest at this time: milliseconds since 1970, or a datetime or
            ISO 8601 text with a time zone.
        limit: maximum number of rows; no more files are read after them.
        case_sensitive: whether column names are compared with case.
        threads: number of reading threads; `pyarrow.cpu_count()` by default.
        workers: an executor of ``concurrent.futures`` that reads the data files instead of threads, such as a
            ``ProcessPoolExecutor`` or Dask's ``client.get_executor()``.
        string_views: return columns of text and bytes as Arrow's views (`string_view`, `binary_view`), which takes less
            time. Polars, DuckDB and DataFusion accept them; many of PyArrow's functions do not.

    Returns:
        A `Scan`. Files are read when its rows are requested. Of Delta tables, bytes and shorts come as 32-bit integers,
        strings as large strings.

    Raises:
        NotFoundError: the table, a column, snapshot, version or reference does not exist.
        InvalidInputError: the filter cannot be parsed or does not fit its columns, or the limit is negative.
        UnsupportedError: the format or its version, a reader feature, or the type of a column is not supported.
        CorruptDataError: the metadata or the log is damaged.

    Examples:
        >>> pf.scan(table, "customer = 7 and id > 50", ["id"]).to_arrow()["id"].to_pylist()  # Iceberg
        [57, 67, 77, 87, 97]
        >>> pf.scan(path, "id >= 98", ["id"]).to_pylist()  # Delta
        [{'id': 98}, {'id': 99}]
    """
    found = open_table(table)
    found.need("scan", branch=branch, tag=tag)
    return Scan(
        found.state(snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of),
        row_filter,
        selected_fields,
        limit=limit,
        case_sensitive=case_sensitive,
        threads=threads,
        workers=workers,
        string_views=string_views,
    )
