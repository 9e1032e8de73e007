"""Deletes from Iceberg tables on executors: opens the table, plans, commits with retries, returns the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.expressions import AlwaysTrue

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import Plan, run_job
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.compat.working_table import WorkingTable
from puffin_fast.iceberg.delete_files.writer import WrittenDeletes
from puffin_fast.iceberg.dml.attempt import conflict_filter_of
from puffin_fast.iceberg.dml.data_files import DataFileWriter
from puffin_fast.iceberg.dml.delete import DeleteResult
from puffin_fast.iceberg.index.lookup import KeyLookup, narrowed
from puffin_fast.iceberg.index.stored import indexed
from puffin_fast.iceberg.manifest import check_transforms
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import plan_files, plan_snapshot
from puffin_fast.rows.filters.filters import Filter, Matcher
from puffin_fast.rows.keys.key_columns import key_schema
from puffin_fast.rows.keys.keys import KeyBounds, Keys
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.spark.table.job import ConflictFilter, Job
from puffin_fast.spark.table.scan import scan
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.counts import Counts, result_of
from puffin_fast.verbs.options import OnConflict, Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.rows.deletes.outcome import Outcome

Result = TypeVar("Result")


@dataclass(frozen=True)
class Replaced:
    """The result of a replacement of rows: the deletes with the changes to commit, and the number of new data files."""

    written: WrittenDeletes = field(default_factory=WrittenDeletes)
    data_files: int = 0

    @property
    def changes(self) -> Changes:
        return self.written.changes

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


class IcebergPart(Job):
    """One run of a job on an Iceberg table."""

    def replaced(
        self,
        outcomes: Iterable[Outcome],
        purpose: Purpose,
        entries: Sequence[ManifestEntry],
        sources: frozenset[str],
        metrics: Mapping[str, int],
    ) -> Replaced:
        """The changes of a verb that writes rows: deletes, and the data files that executors wrote.

        Args:
            outcomes: the deletes.
            purpose: the purpose of the files.
            entries: the new data files.
            sources: the data files that the new rows were computed from.
            metrics: entries of Delta's history; not used here.
        """
        matcher = purpose.matcher
        conflicts = None if matcher is None else conflict_filter_of(self.table, matcher, purpose.isolation)
        return Replaced.of(self.changes(outcomes, conflicts), entries, sources)


@dataclass
class IcebergDelete:
    """A delete from an Iceberg table in progress, with the data for executors.

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
        return self.finished(DeleteResult, Replaced(planned or WrittenDeletes()), committed)

    def commit(
        self, plan: Callable[[Snapshot | None], Plan], on_conflict: OnConflict
    ) -> tuple[Plan | None, Committed | None]:
        """Plans and commits; returns the last plan and the commit, as `run_job`."""
        merge = Options(verb=self.request.verb, on_conflict=on_conflict).merges
        return run_job(self.table, plan, self.request, merge=merge)

    def finder(self, matcher: Matcher) -> Finder:
        """Returns the finder of the rows that match."""
        return Finder(self.table.io, self.table.metadata, matcher)

    def run_pruned(
        self,
        bound: Matcher,
        work: Callable[[Sequence[FileTask], ConflictFilter], WrittenDeletes],
        on_conflict: OnConflict,
        predicate: str | None = None,
    ) -> DeleteResult:
        """Runs a delete of rows of the data files that a matcher does not exclude.

        Args:
            bound: the matcher, bound to the table's schema.
            work: searches data files for the rows to delete, and writes the deletes.
            on_conflict: as for `commit`.
            predicate: for Delta's history; not used here.
        """
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

    @property
    def metadata(self) -> TableMetadata:
        """The table's."""
        return self.table.metadata

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return ".".join(self.table.name())

    def schema(self) -> Schema:
        """The table's."""
        return self.table.schema()

    def scan(
        self,
        session: SparkSession,
        fields: Sequence[str],
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        *,
        case_sensitive: bool = True,
    ) -> DataFrame:
        """The live rows of the branch that match a filter of Iceberg."""
        branch = self.request.branch
        return scan(session, self.table, row_filter, fields, branch=branch, case_sensitive=case_sensitive)

    def is_done(self) -> bool:
        """Whether the branch's history has the job id."""
        return repeated(self.table, self.request) is not None

    def part(self, *, dry_run: bool, kind: str = "delete") -> IcebergPart:
        """Returns one run of the job; `kind` is one word for what the job does."""
        return IcebergPart(self.table, self.request.job_id, kind, dry_run=dry_run)

    def check_rows(self) -> None:
        """Rows can be written to any table."""

    def check_compared(self, row_filter: object) -> None:
        """Spark and Iceberg compare all columns alike."""

    def check_rows_fit(self, rows: pa.Schema) -> None:
        """Checks that rows of some columns can be appended.

        Raises:
            InvalidInputError: a column is not in the table, is missing and required, or its type does not fit; or a
                property of the table has a value that is not allowed.
        """
        schema, spec = self.metadata.schema(), self.metadata.spec()
        check_transforms(spec, schema)
        RowWriterSchema(schema, rows)
        DataFileWriter(self.table, schema, spec)

    def keep(self, part: Job) -> bool:
        """Keeps the data files of a run for all attempts; returns that they are kept."""
        self.table.created += [one.path for one in part.report.data_files]
        return True

    def sort_order(self) -> RowOrder | None:
        """The order of the rows in a new data file."""
        order = self.metadata.sort_order_by_id(self.metadata.default_sort_order_id)
        return RowOrder.of(order, self.metadata) if order is not None and order.fields else None

    def check_schema(self, schema: Schema) -> None:
        """Does nothing: the columns of the job's table do not change."""

    def pruned(self, base: Snapshot | None, matcher: Matcher) -> Sequence[FileTask]:
        """The data files of a snapshot that a matcher does not exclude."""
        if base is None:
            return []
        plan = plan_snapshot(self.table, base, self.schema(), matcher, metrics=True)
        return plan.tasks

    def matching(
        self, base: Snapshot | None, bounds: KeyBounds, keys: Callable[[], Keys | None]
    ) -> Sequence[FileTask]:
        """The data files of a snapshot that may have some keys.

        Args:
            base: the snapshot.
            bounds: the bounds of the keys.
            keys: returns the keys, if they are few enough to look them up in an index.
        """
        if base is None:
            return []
        few = keys() if self.is_indexed(base) else None
        files = self.pruned(base, few or bounds)
        return files if few is None else self.narrowed(files, base, few)

    def key_lookup(
        self, fields: Sequence[tuple[str, NestedField]], tasks: Sequence[FileTask]
    ) -> KeyLookup | None:
        """An index of keys that executors look keys up in; None if none covers a data file.

        Args:
            fields: names and fields of the key's columns.
            tasks: the data files of the branch's head.
        """
        kinds = key_schema(list(fields)).types
        keys = {field.field_id: kind for (_, field), kind in zip(fields, kinds, strict=True)}
        base = head_of(self.metadata, self.request.branch)
        return KeyLookup.of(self.table.io, self.metadata, base, keys, tasks)

    def finished(
        self,
        kind: type[Result],
        planned: Replaced | None,
        committed: Committed | None,
        counts: Mapping[str, int] = {},
    ) -> Result:
        """Returns the result of a verb; `counts` are its own counts."""
        planned = planned or Replaced()
        written = planned.written
        found = Counts(
            rows_deleted=written.rows,
            rows_dangling=written.rows_dangling,
            data_files=written.vectors + written.by_files + written.dropped,
            data_files_dropped=written.dropped,
            data_files_written=planned.data_files,
            vectors_written=written.vectors,
            vectors_merged=written.merged,
            position_delete_files_written=written.position_files,
            n_bytes=written.n_bytes,
        )
        return result_of(
            kind,
            replace(found, **counts),
            snapshot_id=None if committed is None else committed.snapshot_id,
            seconds=time.perf_counter() - self.started,
            attempts=0 if committed is None else committed.attempts,
            repeated=committed is not None and committed.repeated,
        )

    def tasks(self, base: Snapshot | None) -> Sequence[FileTask]:
        """The data files of a snapshot."""
        return [] if base is None else plan_files(self.table, snapshot_id=base.snapshot_id).tasks
