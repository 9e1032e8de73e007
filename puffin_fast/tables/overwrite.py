"""Appends rows, and replaces the rows of a filter, or of partitions, by given rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.keywords import public
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.tables.opening import open_table
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.overwrite import Append, DynamicPartitionOverwrite, Overwrite
from puffin_fast.verbs.results import AppendResult, OverwriteResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from puffin_fast.tables.opening import TableLike


@public
def append(
    table: TableLike,
    data: Any,
    *,
    branch: str = "main",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> AppendResult:
    """Appends rows in one commit; in tables with row lineage they get row ids.

    If an Iceberg table has a sort order, the rows of each data file are sorted by it.

    Args:
        table: as `delete`.
        data: an Arrow table, batches, reader, dataset, or an object with the Arrow C stream interface (pandas,
            Polars, DuckDB, arro3), a LazyFrame, a list of dicts, or a dict of columns. A named index of pandas is a
            column. Columns are matched by name, and cast to the table's types if all values
            can be represented exactly. For an unpartitioned table a reader is streamed, through temporary files if
            the table has a sort order; otherwise it is held in memory.
        branch, job_id, snapshot_properties: as `delete`.
        dry_run: check the branch, the table's properties and the columns; read no row and write nothing.

    Returns:
        The counts; `commit` has no id if there were no rows, or in a dry run.

    Raises:
        InvalidInputError: the columns do not fit the table's schema, a value cannot be represented in its
            column's type, a required column has a null, or a property of the table has a value that is not allowed.
        NotFoundError: the table or the branch does not exist.
        UnsupportedError: property ``write.format.default`` is not Parquet; a Delta table has CHECK constraints,
            generated or identity columns, or a column that is not given has a default value there.
        ConflictError: other commits came first in all attempts; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.

    Examples:
        >>> pf.append(table, pa.table({"id": [100], "customer": [1], "price": [9.5]})).rows_appended  # Iceberg
        1
        >>> pf.append(path, pa.table({"id": [100], "state": ["new"]})).commit.id  # Delta
        2
    """
    options = Options(
        verb="append",
        branch=branch,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        dry_run=dry_run,
    )
    return open_table(table).run(Append(data), options, AppendResult)


@public
def overwrite(
    table: TableLike,
    data: Any,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    *,
    branch: str = "main",
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
) -> OverwriteResult:
    """Deletes the rows for which a filter is true, and appends rows, in one commit.

    Data files are not rewritten: they get deletion vectors, and those whose rows all match are removed from the table.
    The given rows need not match the filter.

    Args:
        table: as `delete`.
        data: rows as for `append`. Held in memory.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression; by default all rows are replaced.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties, threads, workers, log_predicate: as `delete`.
        dry_run: count rows and compare the columns with the table's schema, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the filter or the rows do not fit the table's schema.
        NotFoundError, UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `append` and `delete`.
            Iceberg's property ``write.update.isolation-level`` decides whether data files that a concurrent commit
            added conflict.

    Examples:
        >>> rows = pa.table({"id": [7], "customer": [1], "price": [2.5]})
        >>> pf.overwrite(table, rows, "id < 10").rows_deleted  # Iceberg
        10
        >>> pf.overwrite(path, pa.table({"id": [7], "state": ["sent"]}), "id < 10").rows_deleted  # Delta
        10
    """
    options = Options(
        verb="overwrite",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
        log_predicate=log_predicate,
    )
    action = Overwrite(arrow_rows(data, "data", streamed=False), row_filter, case_sensitive)
    return open_table(table).run(action, options, OverwriteResult)


@public
def dynamic_partition_overwrite(
    table: TableLike,
    data: Any,
    *,
    branch: str = "main",
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> OverwriteResult:
    """Deletes all rows of the partitions that the given rows belong to, and appends these rows, in one commit.

    Partitions are those of the table's current partition spec, also for rows in data files of earlier specs. Null is a
    partition, NaN is one, and 0.0 and -0.0 are one.

    Args:
        table: as `delete`; partitioned, an Iceberg table by identity transforms only, as PyIceberg expects, too.
        data: rows as for `append`. Held in memory. Without rows, nothing happens.
        branch, on_conflict, job_id, snapshot_properties, threads, dry_run: as `overwrite`.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the table is not partitioned, or the rows do not fit its schema.
        UnsupportedError: a partition field has another transform; or as `overwrite`.
        NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `overwrite`.

    Examples:
        >>> schema = pa.schema([("day", pa.int64()), ("n", pa.int64())])
        >>> days = pf.iceberg.create_table(catalog, "shop.days", schema, partition_spec=["day"])
        >>> result = pf.append(days, pa.table({"day": [1, 1, 2], "n": [5, 6, 7]}))
        >>> result = pf.dynamic_partition_overwrite(days, pa.table({"day": [1], "n": [8]}))
        >>> sorted(pf.scan(days).to_arrow()["n"].to_pylist())
        [7, 8]
    """
    options = Options(
        verb="dynamic_partition_overwrite",
        branch=branch,
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
    )
    action = DynamicPartitionOverwrite(arrow_rows(data, "data", streamed=False))
    return open_table(table).run(action, options, OverwriteResult)
