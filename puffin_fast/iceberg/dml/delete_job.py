"""The common part of all delete jobs: opens the table, plans, commits with retries, returns the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from puffin_fast._runtime.html import HtmlFields
from puffin_fast._text import shown_argument
from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.commit.job import Plan, open_table, run_job
from puffin_fast.iceberg.commit.request import Committed, Request
from puffin_fast.iceberg.compat.table_properties import choice_property
from puffin_fast.iceberg.compat.working_table import WorkingTable
from puffin_fast.iceberg.deletes.writer import ChangeTerms, WrittenDeletes, write_deletes
from puffin_fast.iceberg.plan.files import FileTask, plan_snapshot
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.filters.filters import Filter, Matcher, RowFilter
from puffin_fast.rows.scan.finder import Finder

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.manifest import ManifestEntry

__all__ = [
    "UPDATE_ISOLATION",
    "ConflictFilter",
    "DeleteJob",
    "DeleteResult",
    "OnConflict",
    "Work",
    "check_on_conflict",
    "start",
]

DELETE_ISOLATION = "write.delete.isolation-level"
UPDATE_ISOLATION = "write.update.isolation-level"
"""The table property of updates and, as in PyIceberg, of overwrites."""

OnConflict = Literal["refuse", "merge"]


def check_on_conflict(on_conflict: object) -> None:
    """Checks the argument `on_conflict`.

    Raises:
        InvalidInputError: it has another value.
    """
    if not isinstance(on_conflict, str) or on_conflict not in ("refuse", "merge"):
        raise InvalidInputError(
            f"on_conflict: expected 'refuse' or 'merge', found {shown_argument(on_conflict)}"
        )


ConflictFilter: TypeAlias = "Callable[[ManifestEntry], bool] | None"
"""As in `Changes`."""

Work: TypeAlias = "Callable[[list[FileTask], Finder, ConflictFilter], WrittenDeletes]"
"""Searches data files for the rows to delete, and writes the deletes."""


@dataclass(frozen=True)
class DeleteResult(HtmlFields):
    """The result of a delete.

    Attributes:
        snapshot_id: the new snapshot; None when there was no row to delete, and nothing was committed.
        rows_deleted: number of newly deleted rows. May include rows already removed by equality deletes if
            the
            data file was not read: for positions given by the caller, and for data files removed unread.
        data_files: number of data files with newly deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        vectors_written: number of deletion vectors written.
        vectors_merged: number of data files whose new deletes include earlier ones.
        position_delete_files_written: number of position-delete files written, in a table of format version
            2.
        n_bytes: size of the new delete files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the branch's history already, and nothing was done.
        rows_dangling: number of given rows whose path is not a data file of the branch, if the job skips
            them.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    position_delete_files_written: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    rows_dangling: int = 0


@dataclass
class DeleteJob:
    """A delete in progress.

    Attributes:
        table: the job's own table object, used to plan and write.
        request: branch, job id and properties.
        started: the start time, by `time.perf_counter`.
    """

    table: WorkingTable
    request: Request
    started: float

    def run(
        self,
        plan: Callable[[Snapshot | None], WrittenDeletes],
        on_conflict: OnConflict,
    ) -> DeleteResult:
        """Plans and commits; returns the result."""
        planned, committed = self.commit(plan, on_conflict)
        return self.result(planned or WrittenDeletes(), committed)

    def commit(
        self, plan: Callable[[Snapshot | None], Plan], on_conflict: OnConflict
    ) -> tuple[Plan | None, Committed | None]:
        """Plans and commits; returns the last plan and the commit, as `run_job`."""
        check_on_conflict(on_conflict)
        return run_job(self.table, plan, self.request, merge=on_conflict == "merge")

    def run_filter(
        self,
        row_filter: Filter,
        work: Work,
        on_conflict: OnConflict,
        *,
        case_sensitive: bool,
    ) -> DeleteResult:
        """Runs a delete by a row filter; `work` searches the data files that pruning leaves, and writes the deletes."""
        bound = RowFilter.bind(row_filter, self.table.schema(), case_sensitive=case_sensitive)

        def search(tasks: list[FileTask], conflict_filter: ConflictFilter) -> WrittenDeletes:
            return work(tasks, self.finder(bound, case_sensitive=case_sensitive), conflict_filter)

        return self.run_pruned(bound, search, on_conflict, case_sensitive=case_sensitive)

    def finder(self, matcher: Matcher, *, case_sensitive: bool = True) -> Finder:
        """Returns the finder of the rows that match."""
        return Finder(self.table.io, self.table.metadata, matcher, case_sensitive)

    def run_pruned(
        self,
        bound: Matcher,
        work: Callable[[list[FileTask], ConflictFilter], WrittenDeletes],
        on_conflict: OnConflict,
        *,
        case_sensitive: bool = True,
    ) -> DeleteResult:
        """Runs a delete of rows of the data files that a matcher, bound to the table's schema, does not exclude."""
        table = self.table
        schema = table.schema()
        conflict_filter = self.conflict_filter(bound, case_sensitive=case_sensitive)

        def plan(base: Snapshot | None) -> WrittenDeletes:
            if base is None:
                return WrittenDeletes()
            files = plan_snapshot(table, base, schema, bound, case_sensitive=case_sensitive, metrics=True)
            return work(files.tasks, conflict_filter)

        return self.run(plan, on_conflict)

    def write(
        self, found: Iterable[NewDeletes], conflict_filter: ConflictFilter = None, *, dry_run: bool = False
    ) -> WrittenDeletes:
        """Writes deletes and returns the changes to commit; in a dry run only counts the deletes."""
        if dry_run:
            return WrittenDeletes.counted(found)
        files = write_deletes(self.table, found)
        return WrittenDeletes.of(self.table, files, ChangeTerms(conflict_filter=conflict_filter))

    def conflict_filter(
        self, bound: Matcher, *, case_sensitive: bool = True, isolation: str = DELETE_ISOLATION
    ) -> ConflictFilter:
        """Returns which data files added by a concurrent commit conflict with this job.

        The table property `isolation` decides: with ``serializable`` those that may contain a match; with
        ``snapshot`` none (None).

        Raises:
            InvalidInputError: the property has another value.
        """
        if choice_property(self.table.properties, isolation, ("serializable", "snapshot")) == "snapshot":
            return None
        return bound.may_match(self.table.schema(), case_sensitive=case_sensitive)

    def result(self, planned: WrittenDeletes, committed: Committed | None) -> DeleteResult:
        return DeleteResult(
            snapshot_id=None if committed is None else committed.snapshot_id,
            rows_deleted=planned.rows,
            data_files=planned.vectors + planned.by_files + planned.dropped,
            data_files_dropped=planned.dropped,
            vectors_written=planned.vectors,
            vectors_merged=planned.merged,
            position_delete_files_written=planned.position_files,
            n_bytes=planned.n_bytes,
            seconds=time.perf_counter() - self.started,
            attempts=0 if committed is None else committed.attempts,
            repeated=committed is not None and committed.repeated,
            rows_dangling=planned.rows_dangling,
        )


def start(table: Table, request: Request, *, oldest: int = 3) -> DeleteJob:
    """Opens a table for a delete job, and refreshes it.

    Args:
        table: a PyIceberg table.
        request: branch, job id and properties.
        oldest: the oldest format version accepted: 2 if position-delete files can be written.
    """
    started = time.perf_counter()
    return DeleteJob(open_table(table, oldest=oldest), request, started)
