"""Updates rows by a filter: commits deletes of the old rows and data files of the new rows together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._runtime.arguments import check_flags
from puffin_fast._runtime.html import HtmlFields
from puffin_fast._runtime.threads import check_threads
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.dml.delete_job import UPDATE_ISOLATION, DeleteJob, OnConflict, start
from puffin_fast.iceberg.dml.replacement import Replaced, Replacement
from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import merge_rows, paths_of_rows
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.match.assignments import Assignments
from puffin_fast.rows.scan.file_reader import reader_factory
from puffin_fast.rows.scan.located_rows import LocatedRows

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["PlanUpdate", "UpdateResult", "run_update", "update"]


@dataclass(frozen=True)
class UpdateResult(HtmlFields):
    """The result of an update.

    Attributes:
        snapshot_id: the new snapshot; None when no row matched, and nothing was committed.
        rows_updated: number of rows that matched.
        data_files: number of data files with updated rows, removed ones included.
        data_files_written: number of data files with the new rows.
        delete_files_written: number of deletion vectors, or of position-delete files in a table of format
            version 2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
    """

    snapshot_id: int | None
    rows_updated: int = 0
    data_files: int = 0
    data_files_written: int = 0
    delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False


def update(
    table: Table,
    row_filter: Filter,
    values: Mapping[str, Any],
    *,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> UpdateResult:
    """Sets columns of the rows for which a filter is true, in one commit, without rewriting data files.

    The old rows are deleted by deletion vectors; the new rows are written to new data files, in the partitions of their
    new values.
    Updated rows keep their row ids, and have the commit's sequence number as their `_last_updated_sequence_number`
    (format version 3, specification, "Row Lineage"). The matching rows are held in memory.

    Args:
        table: a PyIceberg table of format version 3, or 2 (which gets position-delete files). It is refreshed first,
            and has the new metadata afterwards.
        row_filter: a PyIceberg expression, its text, or a PyArrow expression (see `RowFilter`).
        values: for each top-level column that is set, a value of Python or Arrow, or a PyArrow expression over the old
            row (``{"n": pc.field("n") + 1}``). Dates, times, decimals and UUIDs may be text. Expressions see the
            old values of all columns.
        branch, on_conflict, job_id, snapshot_properties, threads: as `delete`.
        case_sensitive: whether column names are compared with case, in the filter and in `values`.
        dry_run: count rows and compute their new values, write nothing.

    Returns:
        The counts; `snapshot_id` is None when no row matched.

    Raises:
        NotFoundError: a column or the branch does not exist.
        InvalidInputError: no value at all, a value that its column cannot hold, a null in a required column, or an
            identifier field: whether its new values are unique is not known.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`. Property
            ``write.update.isolation-level`` decides whether data files that a concurrent commit added conflict.
    """
    check_threads(threads)
    check_flags(case_sensitive=case_sensitive, dry_run=dry_run)
    request = Request(verb="update", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)

    def plan_of(job: DeleteJob, assignments: Assignments) -> PlanUpdate:
        matcher = RowFilter.bind(row_filter, job.table.schema(), case_sensitive=case_sensitive)
        return _Update(job, matcher, assignments, case_sensitive, threads, dry_run).on

    return run_update(table, values, request, plan_of, case_sensitive=case_sensitive, on_conflict=on_conflict)


PlanUpdate = Callable[["Snapshot"], Replaced]
"""Writes the deletes and the new rows of one commit on a head."""


def run_update(
    table: Table,
    values: Mapping[str, Any],
    request: Request,
    plan_of: Callable[[DeleteJob, Assignments], PlanUpdate],
    *,
    case_sensitive: bool,
    on_conflict: OnConflict,
) -> UpdateResult:
    """Checks the columns to set, plans and commits; the common part of one machine and Spark.

    Args:
        table, values, case_sensitive, on_conflict: as `update`.
        request: branch, job id and properties.
        plan_of: returns the plan of an opened job.

    Raises:
        PuffinFastError: as `update`.
    """
    job = start(table, request, oldest=2)
    schema = job.table.schema()
    assignments = Assignments.bind(values, schema, case_sensitive=case_sensitive)
    if unique := sorted(schema.identifier_field_names() & assignments.values.keys()):
        raise InvalidInputError(
            f"values: column {unique[0]} is an identifier field; expected other columns, because its new values "
            "may not be unique"
        )
    plan = plan_of(job, assignments)
    planned, committed = job.commit(lambda base: Replaced() if base is None else plan(base), on_conflict)
    planned = planned or Replaced()
    result = job.result(planned.written, committed)
    return UpdateResult(
        rows_updated=result.rows_deleted,
        data_files=result.data_files,
        **planned.facts(result),
    )


@dataclass(frozen=True)
class _Update:
    """An update that can be planned on any head."""

    job: DeleteJob
    matcher: RowFilter
    values: Assignments
    case_sensitive: bool
    threads: int | None
    dry_run: bool

    def on(self, base: Snapshot) -> Replaced:
        """Writes the deletes and the new rows of one commit."""
        table, schema, sensitive = self.job.table, self.job.table.schema(), self.case_sensitive
        tasks = plan_snapshot(table, base, schema, self.matcher, case_sensitive=sensitive, metrics=True).tasks
        is_tracked = table.metadata.format_version > 2
        found = LocatedRows.read(
            reader_factory(table, self.matcher, case_sensitive=sensitive),
            schema.fields,
            tasks,
            ["_row_id"] if is_tracked else [],
            threads=self.threads,
        )
        replacement = Replacement(
            merge_rows(tasks, found.file, found.position, DeleteLoader(table.io), self.threads),
            self.values.apply(found.rows),
            found.metadata["_row_id"] if is_tracked else pa.nulls(found.rows.num_rows, pa.int64()),
            paths_of_rows(tasks, found.file),
            self.job.conflict_filter(self.matcher, case_sensitive=sensitive, isolation=UPDATE_ISOLATION),
        )
        return replacement.write(table, dry_run=self.dry_run)
