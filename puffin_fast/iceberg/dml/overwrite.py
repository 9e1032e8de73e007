"""Replaces the rows of a filter, or of partitions, by given rows: commits deletes and data files together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.transforms import IdentityTransform, VoidTransform

from puffin_fast._runtime.arguments import check_flags
from puffin_fast._runtime.html import HtmlFields
from puffin_fast._runtime.threads import check_threads
from puffin_fast.columns.arrow_rows import arrow_rows
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.dml.delete_job import (
    UPDATE_ISOLATION,
    DeleteJob,
    OnConflict,
    check_on_conflict,
    start,
)
from puffin_fast.iceberg.dml.replacement import Replaced, Replacement
from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.filters.filters import Filter, Matcher, RowFilter
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.scan.finder import Finder

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["OverwriteResult", "dynamic_partition_overwrite", "overwrite"]


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
        branch, case_sensitive, on_conflict, job_id, snapshot_properties, threads: as `delete`.
        dry_run: count rows and compare the columns with the table's schema, write nothing.

    Returns:
        The counts.

    Raises:
        InvalidInputError: the filter or the rows do not fit the table's schema.
        NotFoundError, UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`. Property
            ``write.update.isolation-level`` decides whether data files that a concurrent commit added conflict.
    """
    check_threads(threads)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run)
    request = Request(verb="overwrite", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    rows = arrow_rows(data, "data", streamed=False)
    job = start(table, request, oldest=2)
    schema = job.table.schema()
    matcher = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
    RowWriterSchema(schema, rows.schema)
    return _Overwrite(job, matcher, rows, case_sensitive, threads, dry_run).run(on_conflict)


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
    """
    check_threads(threads)
    check_on_conflict(on_conflict)
    check_flags(dry_run=dry_run)
    request = Request(
        verb="dynamic_partition_overwrite",
        branch=branch,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
    )
    rows = arrow_rows(data, "data", streamed=False)
    job = start(table, request, oldest=2)
    metadata = job.table.metadata
    columns = _partition_columns(metadata, job.table.shown)
    rows = RowWriterSchema(metadata.schema(), rows.schema).table(rows)
    keys = Keys.bind(metadata, rows, columns, null_safe=True)
    return _Overwrite(job, keys, rows, True, threads, dry_run).run(on_conflict)


def _partition_columns(metadata: TableMetadata, name: str) -> list[str]:
    """The columns of a table's partition spec."""
    fields = [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]
    if not fields:
        raise InvalidInputError(
            f"{name}: expected a partitioned table, found none; `overwrite` takes a row filter"
        )
    for field in fields:
        if not isinstance(field.transform, IdentityTransform):
            raise UnsupportedError(
                f"{name}: partition field {field.name}: expected an identity transform, found {field.transform}; "
                "`overwrite` takes a row filter"
            )
    found = (metadata.schema().find_column_name(field.source_id) for field in fields)
    return list(dict.fromkeys(column for column in found if column is not None))


@dataclass(frozen=True)
class _Overwrite:
    """An overwrite that can be planned on any head."""

    job: DeleteJob
    matcher: Matcher
    rows: pa.Table
    case_sensitive: bool
    threads: int | None
    dry_run: bool

    def run(self, on_conflict: OnConflict) -> OverwriteResult:
        """Plans and commits."""
        planned, committed = self.job.commit(self.on, on_conflict)
        replaced = planned or Replaced()
        result = self.job.result(replaced.written, committed)
        return OverwriteResult(
            rows_deleted=result.rows_deleted,
            rows_appended=0 if planned is None else self.rows.num_rows,
            data_files=result.data_files,
            data_files_dropped=result.data_files_dropped,
            **replaced.facts(result),
        )

    def on(self, base: Snapshot | None) -> Replaced:
        """Writes the deletes and the given rows of one commit."""
        table, sensitive = self.job.table, self.case_sensitive
        schema, tasks = table.schema(), []
        if base is not None:
            tasks = plan_snapshot(
                table, base, schema, self.matcher, case_sensitive=sensitive, metrics=True
            ).tasks
        finder = Finder(table.io, table.metadata, self.matcher, sensitive)
        replacement = Replacement(
            finder.search(tasks, self.threads),
            self.rows,
            pa.nulls(self.rows.num_rows, pa.int64()),
            conflict_filter=self.job.conflict_filter(
                self.matcher, case_sensitive=sensitive, isolation=UPDATE_ISOLATION
            ),
        )
        return replacement.write(table, dry_run=self.dry_run)
