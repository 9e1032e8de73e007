"""Replaces the rows of a filter, or of partitions, by given rows: commits deletes and data files together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._show.html import HtmlFields
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.iceberg.dml.attempt import IcebergAttempt
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.overwrite import DynamicPartitionOverwrite, Overwrite

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyiceberg.table import Table

    from puffin_fast.rows.scan.explain import Explanation


@dataclass(frozen=True)
class OverwriteResult(HtmlFields):
    """The result of an overwrite.

    Attributes:
        snapshot_id: the new snapshot; None when there was no row to delete or to append, and nothing was committed.
        rows_deleted: number of rows that were deleted; as for `DeleteResult`.
        rows_appended: number of given rows.
        data_files: number of data files with deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        data_files_written: number of data files with the given rows.
        delete_files_written: number of deletion vectors, or of position-delete files in a table of format version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
        explanation: what was read, and what each step left out; None if no data file was searched.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    rows_appended: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    data_files_written: int = 0
    delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    explanation: Explanation | None = field(default=None, repr=False, compare=False)


def overwrite(
    table: Table,
    data: Any,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    *,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | None = None,
    dry_run: bool = False,
) -> OverwriteResult:
    """Deletes the rows for which a filter is true, and appends rows, in one commit.

    Data files are not rewritten: they get deletion vectors, and those whose rows all match are removed from the table.
    The given rows need not match the filter.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files). It is refreshed first,
            and has the new metadata afterwards.
        data: Arrow rows, as for `append`. Held in memory.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression; by default all rows are replaced.
        branch, case_sensitive, on_conflict, job_id, snapshot_properties, threads, workers: as `delete`.
        dry_run: count rows and compare the columns with the table's schema, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the filter or the rows do not fit the table's schema.
        NotFoundError, UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`. Property
            ``write.update.isolation-level`` decides whether data files that a concurrent commit added conflict.

    Examples:
        >>> rows = pa.table({"id": [7], "customer": [1], "price": [2.5]})
        >>> pf.iceberg.overwrite(table, rows, "id < 10").rows_deleted
        10
        >>> pf.iceberg.scan(table).count()
        91
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
    )
    action = Overwrite(arrow_rows(data, "data", streamed=False), row_filter, case_sensitive)
    return IcebergAttempt(table, options).run(action, OverwriteResult)


def dynamic_partition_overwrite(
    table: Table,
    data: Any,
    *,
    branch: str = MAIN_BRANCH,
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
        table: as for `overwrite`; partitioned by identity transforms only, as PyIceberg expects, too.
        data: Arrow rows, as for `append`. Held in memory. Without rows, nothing happens.
        branch, on_conflict, job_id, snapshot_properties, threads, dry_run: as for `overwrite`.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the table is not partitioned, or the rows do not fit its schema.
        UnsupportedError: a partition field has another transform; or as `overwrite`.
        NotFoundError, CorruptDataError, ConflictError, CommitUnknownError: as `overwrite`.

    Examples:
        >>> from pyiceberg.partitioning import PartitionField, PartitionSpec
        >>> from pyiceberg.transforms import IdentityTransform
        >>> spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
        >>> schema = pa.schema([("day", pa.int64()), ("n", pa.int64())])
        >>> days = pf.iceberg.create_table(catalog, "shop.days", schema, partition_spec=spec)
        >>> result = pf.iceberg.append(days, pa.table({"day": [1, 1, 2], "n": [5, 6, 7]}))
        >>> result = pf.iceberg.dynamic_partition_overwrite(days, pa.table({"day": [1], "n": [8]}))
        >>> sorted(pf.iceberg.scan(days).to_arrow()["n"].to_pylist())
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
    return IcebergAttempt(table, options).run(action, OverwriteResult)
