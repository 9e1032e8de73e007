"""The delete jobs of Iceberg tables on executors: opens the table, plans, commits with retries, returns the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import Plan, run_job
from puffin_fast.iceberg.commit.request import Committed, Request
from puffin_fast.iceberg.compat.working_table import WorkingTable
from puffin_fast.iceberg.delete_files.writer import WrittenDeletes
from puffin_fast.iceberg.dml.attempt import conflict_filter_of
from puffin_fast.iceberg.dml.delete import DeleteResult
from puffin_fast.iceberg.index.lookup import narrowed
from puffin_fast.iceberg.index.stored import indexed
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import plan_snapshot
from puffin_fast.rows.filters.filters import Filter, Matcher, RowFilter
from puffin_fast.rows.keys.keys import Keys
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.verbs.options import OnConflict, Options

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.manifest import ManifestEntry

ConflictFilter: TypeAlias = "Callable[[ManifestEntry], bool] | None"
"""A predicate on the data files of concurrent commits, as in `Changes`."""

Work: TypeAlias = "Callable[[Sequence[FileTask], Finder, ConflictFilter], WrittenDeletes]"
"""Searches data files for the rows to delete, and writes the deletes."""


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
        merge = Options(verb=self.request.verb, on_conflict=on_conflict).merges
        return run_job(self.table, plan, self.request, merge=merge)

    def run_filter(
        self,
        row_filter: Filter,
        work: Work,
        on_conflict: OnConflict,
        *,
        case_sensitive: bool,
    ) -> DeleteResult:
        """Runs a delete by a row filter; `work` searches the data files that pruning leaves, and writes deletes."""
        bound = RowFilter.bind(row_filter, self.table.schema(), case_sensitive=case_sensitive)

        def search(tasks: Sequence[FileTask], conflict_filter: ConflictFilter) -> WrittenDeletes:
            return work(tasks, self.finder(bound), conflict_filter)

        return self.run_pruned(bound, search, on_conflict)

    def finder(self, matcher: Matcher) -> Finder:
        """Returns the finder of the rows that match."""
        return Finder(self.table.io, self.table.metadata, matcher)

    def run_pruned(
        self,
        bound: Matcher,
        work: Callable[[Sequence[FileTask], ConflictFilter], WrittenDeletes],
        on_conflict: OnConflict,
    ) -> DeleteResult:
        """Runs a delete of rows of the data files that a matcher, bound to the table's schema, does not exclude."""
        table = self.table
        schema = table.schema()
        conflict_filter = self.conflict_filter(bound)

        def plan(base: Snapshot | None) -> WrittenDeletes:
            if base is None:
                return WrittenDeletes()
            files = plan_snapshot(table, base, schema, bound, metrics=True)
            return work(self.narrowed(files.tasks, base, bound), conflict_filter)

        return self.run(plan, on_conflict)

    def is_indexed(self, base: Snapshot) -> bool:
        """Whether the table has a key index of any columns."""
        return next(indexed(self.table.metadata, base), None) is not None

    def narrowed(self, tasks: Sequence[FileTask], base: Snapshot, bound: Matcher) -> Sequence[FileTask]:
        """Returns the data files and rows that may match, by a key index if the table has one."""
        exact = isinstance(bound, Keys)
        return narrowed(self.table.io, self.table.metadata, base, bound.equalities(), tasks, exact=exact)

    def conflict_filter(self, bound: Matcher, *, isolation: str = "delete") -> ConflictFilter:
        """Returns which data files added by a concurrent commit conflict with this job; see `conflict_filter_of`."""
        return conflict_filter_of(self.table, bound, isolation)

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


@dataclass(frozen=True)
class Replaced:
    """The result of a replacement of rows: the deletes with the changes to commit, and the number of new data files."""

    written: WrittenDeletes = field(default_factory=WrittenDeletes)
    data_files: int = 0

    @property
    def changes(self) -> Changes:
        return self.written.changes

    def facts(self, result: DeleteResult) -> dict[str, Any]:
        """Returns the attributes that the results of all verbs that replace rows have in common.

        Args:
            result: the result of the delete that is a part of the replacement.
        """
        return {
            "snapshot_id": result.snapshot_id,
            "data_files_written": self.data_files,
            "delete_files_written": result.vectors_written + result.position_delete_files_written,
            "n_bytes": result.n_bytes,
            "seconds": result.seconds,
            "attempts": result.attempts,
            "repeated": result.repeated,
        }

    @classmethod
    def of(
        cls, written: WrittenDeletes, entries: Sequence[ManifestEntry], required_data_files: frozenset[str]
    ) -> Replaced:
        """Combines the deletes of old rows and the data files of new rows into the changes of one commit.

        Args:
            written: the deletes.
            entries: the new data files.
            required_data_files: the data files that the new rows were computed from.
        """
        if not entries:
            return cls(written)
        changes = written.changes
        changes = replace(
            changes,
            added=(*changes.added, *entries),
            required_data_files=changes.required_data_files | required_data_files,
            new_files=(*changes.new_files, *(entry.file_path for entry in entries)),
        )
        return cls(replace(written, changes=changes), len(entries))
