"""Appends rows, and replaces the rows of a filter, or of partitions, by given rows, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._show.html import HtmlFields
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.delta.dml.attempt import DeltaAttempt
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.scan.explain import Explanation
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.overwrite import Append, DynamicPartitionOverwrite, Overwrite


@dataclass(frozen=True)
class AppendResult(HtmlFields):
    """The result of an append.

    Attributes:
        version: the new version; None if there were no rows, and nothing was committed.
        rows_appended: number of rows.
        data_files_written: number of data files with the rows.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
    """

    version: int | None
    rows_appended: int = 0
    data_files_written: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False


@dataclass(frozen=True)
class OverwriteResult(HtmlFields):
    """The result of an overwrite.

    Attributes:
        version: the new version; None if there was no row to delete or to append, and nothing was committed.
        rows_deleted: number of rows that were deleted.
        rows_appended: number of given rows.
        data_files: number of data files with deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        data_files_written: number of data files with the given rows.
        vectors_written: number of deletion vectors written.
        n_bytes: size of the files of vectors.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
        explanation: what was read, and what each step left out; None if no data file was searched.
    """

    version: int | None
    rows_deleted: int = 0
    rows_appended: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    data_files_written: int = 0
    vectors_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def append(
    table: Any,
    data: Any,
    *,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> AppendResult:
    """Appends Arrow rows in one commit; where the table tracks rows, they get row ids.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        data: rows as for `puffin_fast.iceberg.append`. Columns are matched by name, and cast to the table's types if
            all values can be represented exactly; missing columns are null. For a table without partitions a reader is
            streamed; otherwise it is held in memory.
        job_id, snapshot_properties, filesystem, storage_options: as `delete`.
        dry_run: check the table and the columns; read no row and write nothing.

    Returns:
        The counts; `version` is None if there were no rows, or in a dry run.

    Raises:
        InvalidInputError: the columns do not fit the table's schema, a value cannot be represented in its column's
            type, or a required column has a null.
        UnsupportedError: the table has CHECK constraints, generated or identity columns, a column that is not given
            has a default value, or as `delete`.
        NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.delta.append(path, pa.table({"id": [100], "state": ["new"]})).rows_appended
        1
        >>> pf.delta.scan(path).count()
        101
    """
    options = Options(verb="append", job_id=job_id, snapshot_properties=snapshot_properties, dry_run=dry_run)
    attempt = DeltaAttempt(table, options, filesystem, storage_options)
    rows = arrow_rows(data, "data", streamed=attempt.metadata.spec().is_unpartitioned())
    return attempt.run(Append(rows), AppendResult)


def overwrite(
    table: Any,
    data: Any,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    *,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
    log_predicate: bool = True,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> OverwriteResult:
    """Deletes the rows for which a filter is true, and appends rows, in one commit.

    Data files are not rewritten: they get deletion vectors, and those whose rows all match are removed from the table.
    The given rows need not match the filter.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        data: Arrow rows, as for `append`. Held in memory.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression; by default all rows are replaced.
        case_sensitive, on_conflict, job_id, snapshot_properties, threads, workers, filesystem, storage_options: as
            `delete`.
        dry_run: count rows and compare the columns with the table's schema, write nothing.
        log_predicate: as `delete`.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the filter or the rows do not fit the table's schema.
        UnsupportedError: as `append` and `delete`.
        NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> pf.delta.overwrite(path, pa.table({"id": [7], "state": ["sent"]}), "id < 10").rows_deleted
        10
        >>> pf.delta.scan(path).count()
        91
    """
    options = Options(
        verb="overwrite",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        workers=workers,
        dry_run=dry_run,
        log_predicate=log_predicate,
    )
    action = Overwrite(arrow_rows(data, "data", streamed=False), row_filter, case_sensitive)
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, OverwriteResult)


def dynamic_partition_overwrite(
    table: Any,
    data: Any,
    *,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> OverwriteResult:
    """Deletes all rows of the partitions that the given rows belong to, and appends these rows, in one commit.

    Null is a partition, NaN is one, and 0.0 and -0.0 are one.

    Args:
        table: as for `overwrite`; partitioned.
        data: Arrow rows, as for `append`. Held in memory. Without rows, nothing happens.
        on_conflict, job_id, snapshot_properties, threads, dry_run, filesystem, storage_options: as for `overwrite`.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the table is not partitioned, or the rows do not fit its schema.
        UnsupportedError, NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `overwrite`.

    Examples:
        >>> schema = pa.schema([("day", pa.int64()), ("n", pa.int64())])
        >>> days = f"{path}-days"
        >>> created = pf.delta.create_table(days, schema, partition_columns=["day"])
        >>> result = pf.delta.append(days, pa.table({"day": [1, 1, 2], "n": [5, 6, 7]}))
        >>> result = pf.delta.dynamic_partition_overwrite(days, pa.table({"day": [1], "n": [8]}))
        >>> sorted(pf.delta.scan(days).to_arrow()["n"].to_pylist())
        [7, 8]
    """
    options = Options(
        verb="dynamic_partition_overwrite",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
    )
    action = DynamicPartitionOverwrite(arrow_rows(data, "data", streamed=False))
    return DeltaAttempt(table, options, filesystem, storage_options).run(action, OverwriteResult)
