"""Deletes from Delta tables on executors: the counterparts of `IcebergDelete` and `Job`, with one commit in
Delta's log.

Executors write files of records into a folder of the run, which is the prefix of their names in the log:
``<table>/<run>/deletion_vector_<uuid>.bin``.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import unquote

from pyiceberg.expressions import AlwaysTrue

from puffin_fast import delta
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.delta.dml.attempt import changes_of, fitting
from puffin_fast.delta.dml.changes import TARGET_FILE_SIZE, Written, actions_of
from puffin_fast.delta.dml.data_files import row_tracking_columns
from puffin_fast.delta.log.commit import Changes, Committed, OnConflict, commit
from puffin_fast.delta.log.commit import Job as DeleteId
from puffin_fast.delta.log.protocol import check_deletable, check_rows_writable
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.log.storage_options import filesystem_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.rows.deletes.outcome import NewDeletes, Outcome
from puffin_fast.rows.filters.filters import Filter, Matcher
from puffin_fast.rows.tasks import Task
from puffin_fast.spark.dataframe.job_files import run_name
from puffin_fast.spark.table.job import MAIN, Job
from puffin_fast.spark.table.scan import check_compared, refuse, scan
from puffin_fast.spark.worker.pack import Place
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Target
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.counts import Counts, result_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.rows.scan.finder import Finder


@dataclass(frozen=True)
class DeltaDeleteResult(delta.DeleteResult):
    """The result of a delete from a Delta table on executors.

    Attributes:
        rows_dangling: number of given rows whose path is not a data file of the table, if the job skips them.
        warning: whether rows were deleted that other engines do not delete; else None.
    """

    rows_dangling: int = 0
    warning: str | None = None


@dataclass(frozen=True)
class DeletePlan:
    """A delete planned on one version.

    Attributes:
        written: the new vectors; in a dry run only their counts.
        changes: the changes to commit; None in a dry run, or if there is no row to delete.
        rows_dangling: number of given rows whose path is not a data file of the table, if the job skips them.
        data_files: number of new data files.
    """

    written: Written = field(default_factory=Written)
    changes: Changes | None = None
    rows_dangling: int = 0
    data_files: int = 0

    @classmethod
    def of(
        cls,
        base: Snapshot,
        written: Written,
        *,
        predicate: str | None,
        looks_at_rows: bool,
        rows_dangling: int = 0,
    ) -> Self:
        """Returns the plan that commits vectors.

        Args:
            base: the version that the vectors were written for.
            written: the vectors.
            predicate: the filter as text, for ``commitInfo``.
            looks_at_rows: as in `Changes`.
            rows_dangling: as in the attribute.
        """
        if not written.changes:
            return cls(written, rows_dangling=rows_dangling)
        actions, touched = actions_of(base, written)
        changes = Changes(
            actions,
            "DELETE",
            touched,
            written.files,
            {"predicate": json.dumps([] if predicate is None else [predicate])},
            written.metrics(),
            looks_at_rows,
        )
        return cls(written, changes, rows_dangling)


class _Plan(Protocol):
    @property
    def changes(self) -> Changes | None: ...


Result = TypeVar("Result")
Planned = TypeVar("Planned", bound=_Plan)
"""The changes to commit, and the counts for the job's result."""


class DeltaDelete:
    """A delete from a Delta table in progress, with the interface of `IcebergDelete`.

    Attributes:
        request: branch, job id and properties.
        base: the version that the current attempt is planned on.
        predicate: the filter as text, if there is one.
    """

    def __init__(self, table: Any, request: Request) -> None:
        self.started = time.perf_counter()
        refuse(table, "Delta", branch=None if request.branch == MAIN else request.branch)
        self.request = request
        self.storage = storage_of(table, filesystem_of(table, None, None))
        self.base = DeltaTable.of(snapshot(self.storage))
        self._job = DeleteId(request.verb, request.job_id)
        self._tasks: Sequence[Task] = ()
        self.predicate: str | None = None

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table in the form that the data-file reader needs."""
        return self.base.metadata

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return self.storage.root

    def schema(self) -> Schema:
        """The columns as a PyIceberg schema."""
        return self.base.schema.schema

    def scan(
        self,
        session: SparkSession,
        fields: Sequence[str],
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        *,
        case_sensitive: bool = True,
    ) -> DataFrame:
        """The live rows, that match a filter, of the version that the current attempt is planned on."""
        return scan(session, self.base.snapshot, row_filter, fields, case_sensitive=case_sensitive)

    def is_done(self) -> bool:
        """Whether the log has the job id."""
        return self._job.is_done(self.base.snapshot.transactions, self.storage.root)

    def part(self, *, dry_run: bool, kind: str = "delete") -> DeltaJob:
        """Returns one run of the job; `kind` is one word for what the job does."""
        return DeltaJob(self, dry_run=dry_run, kind=kind)

    def check_rows(self) -> None:
        """Refuses tables to which rows cannot be written.

        Raises:
            UnsupportedError: the table has constraints, or columns whose values other engines compute.
        """
        base = self.base.snapshot
        check_rows_writable(base.configuration, base.delta_schema["fields"], base.root)

    def check_compared(self, row_filter: Any) -> None:
        """Refuses what Spark compares in another way; raises as `check_compared`."""
        check_compared(self.base.snapshot, row_filter)

    def tasks(self, base: object) -> list[Task]:
        """The data files of the current attempt."""
        self._tasks = plan_files(self.base)
        return list(self._tasks)

    def check_rows_fit(self, rows: pa.Schema) -> None:
        """Checks that rows of some columns can be appended.

        Raises:
            InvalidInputError, UnsupportedError: as `fitting`.
        """
        fitting(self.base, rows)

    def keep(self, part: Job) -> bool:
        """Returns that the files of an attempt that fails are removed."""
        return False

    def sort_order(self) -> None:
        """Delta tables have no sort order."""

    def key_lookup(self, fields: object, tasks: object) -> None:
        """Delta tables have no indexes of keys."""

    def pruned(self, base: object, matcher: Matcher) -> list[Task]:
        """Returns the data files of the current attempt that a matcher does not exclude."""
        self._tasks = plan_files(self.base, matcher, metrics=True)
        return list(self._tasks)

    def matching(self, base: object, bounds: Matcher, keys: Callable[[], object]) -> list[Task]:
        """Returns the data files of the current attempt that the bounds of keys do not exclude."""
        return self.pruned(base, bounds)

    def conflict_filter(self, bound: Matcher) -> Callable[[Any], bool]:
        """Returns a filter that selects all data files, so that rows of concurrent commits are searched."""
        return lambda entry: True

    def run(
        self,
        plan: Callable[[Any], DeletePlan],
        on_conflict: OnConflict,
    ) -> DeltaDeleteResult:
        """Plans and commits, with retries; as `IcebergDelete.run`."""
        planned, committed = self.commit(plan, on_conflict)
        return self.finished(DeltaDeleteResult, planned, committed)

    def commit(
        self, plan: Callable[[Any], Planned], on_conflict: OnConflict
    ) -> tuple[Planned | None, Committed]:
        """Plans and commits; returns the last plan and the commit, as `commit`."""

        def attempt(base: Snapshot) -> Planned:
            self.base = DeltaTable.of(base)
            return plan(base)

        return commit(
            self.storage,
            attempt,
            on_conflict=on_conflict,
            job=self._job,
            snapshot_properties=self.request.snapshot_properties,
        )

    def check_schema(self, schema: Schema) -> None:
        """Checks that a version has the columns for which the job was prepared.

        Raises:
            UnsupportedError: the columns differ.
        """
        if self.schema() != schema:
            raise UnsupportedError(
                f"{self.base.snapshot.root}: version {self.base.snapshot.version} changed the columns; run it again"
            )

    def finished(
        self,
        kind: type[Result],
        planned: DeletePlan | None,
        committed: Committed,
        counts: Mapping[str, int] = {},
    ) -> Result:
        """Returns the result of a verb; `counts` are its own counts."""
        planned = planned or DeletePlan()
        written = planned.written
        found = Counts(
            rows_deleted=written.rows,
            rows_dangling=planned.rows_dangling,
            data_files=len(written.changes),
            data_files_dropped=written.dropped,
            data_files_written=planned.data_files,
            vectors_written=written.vectors,
            vectors_merged=written.merged,
            n_bytes=written.n_bytes,
        )
        return result_of(
            kind,
            replace(found, **counts),
            version=committed.version,
            seconds=time.perf_counter() - self.started,
            attempts=committed.attempts,
            repeated=committed.repeated,
        )

    def finder(self, matcher: Matcher) -> Finder:
        """Returns the finder of the rows of the current attempt that match."""
        return self.base.finder(matcher)

    def run_pruned(
        self,
        bound: Matcher,
        work: Any,
        on_conflict: OnConflict,
        predicate: str | None = None,
    ) -> DeltaDeleteResult:
        """Runs a delete of rows of the data files that a matcher does not exclude.

        Args:
            bound: the matcher.
            work: searches data files for the rows to delete, and writes the deletes.
            on_conflict: as for `commit`.
            predicate: the filter as text, for ``commitInfo``.
        """
        schema, self.predicate = self.schema(), predicate

        def plan(base: Snapshot) -> DeletePlan:
            self.check_schema(schema)
            return work(self.pruned(base, bound), self.conflict_filter(bound))  # type: ignore[no-any-return]

        return self.run(plan, on_conflict)

    def task_of(self) -> dict[str, Task]:
        """The data files of the current attempt by path."""
        return {task.data.file_path: task for task in self._tasks}


def target_of(table: DeltaTable, place: Place) -> Target:
    """The parts of a version that executors need."""
    metadata = without_history(table.metadata)
    bare = replace(table.without_files(), metadata=metadata)
    return Target(table.snapshot.storage, metadata, place, bare)


class DeltaJob(Job):
    """One run of a delete from a Delta table."""

    def __init__(self, job: DeltaDelete, *, dry_run: bool = False, kind: str = "delete") -> None:
        self._delete = job
        self.name = run_name(job.request.job_id, kind)
        self.place = Place(
            f"{job.storage.root}/{self.name}", self.name, TARGET_FILE_SIZE, dry_run, records=True
        )
        self.report = Report()

    def executor_view(self) -> Target:
        """The parts of the table that executors need."""
        return target_of(self._delete.base, self.place)

    def listing(self) -> Any:
        """The filesystem that lists the folder of the run."""
        return self._delete.storage.filesystem

    def changes(self, outcomes: Iterable[Outcome], conflict_filter: Any = None) -> Any:
        """Returns the changes that a delete commits; with ``dry_run`` only their counts."""
        written = self._written(outcomes)
        if self.place.dry_run:
            return DeletePlan(written, rows_dangling=self.report.n_dangling)
        return DeletePlan.of(
            self._delete.base.snapshot,
            written,
            predicate=self._delete.predicate,
            looks_at_rows=conflict_filter is not None,
            rows_dangling=self.report.n_dangling,
        )

    def replaced(
        self,
        outcomes: Iterable[Outcome],
        purpose: Purpose,
        adds: Sequence[Any],
        sources: frozenset[str],
        metrics: Mapping[str, int],
    ) -> DeletePlan:
        """The changes of a verb that writes rows: deletes, and the data files that executors wrote.

        No change data files are written: readers derive the changes from the added and removed files.

        Args:
            outcomes: the deletes.
            purpose: the purpose of the files; all data files of concurrent commits are searched.
            adds: the actions of the new data files.
            sources: the data files that the new rows were computed from; not used here.
            metrics: entries for the table's history.
        """
        written, base = self._written(outcomes), self._delete.base.snapshot
        if self.place.dry_run:
            return DeletePlan(written)
        actions, touched = actions_of(base, written) if written.changes else ([], frozenset[str]())
        changes = changes_of(
            base,
            purpose,
            written,
            adds,
            [*actions, *adds],
            metrics,
            touched=touched,
            new_files=(*written.files, *(unquote(add["add"]["path"]) for add in adds)),
            keeps_row_ids=not written.changes or row_tracking_columns(base) is not None,
        )
        return DeletePlan(written, changes, data_files=len(adds))

    def _written(self, outcomes: Iterable[Outcome]) -> Written:
        tasks, sizes, written = self._delete.task_of(), dict[str, int](), Written()
        base, outcomes = self._delete.base.snapshot, list(outcomes)
        try:
            for drops in {outcome.drops for outcome in outcomes}:
                check_deletable(base.protocol, base.configuration, base.root, by_vector=not drops)
        except UnsupportedError:
            if not self.place.dry_run:
                self.remove_files()
            raise
        for outcome in outcomes:
            task, vector = tasks[outcome.task.data.file_path], outcome.vector
            written.rows += outcome.n_new
            if vector is not None:
                sizes[vector.path] = vector.file_size
                written.merged += task.vector is not None
            found = NewDeletes(task, None, outcome.n_new)
            written.changes.append((found, None if vector is None else self._descriptor(vector)))
        if not self.place.dry_run:
            written.n_bytes = sum(sizes.values())
            written.files = [f"{self.name}/{path.rpartition('/')[2]}" for path in sizes]
        return written

    def _descriptor(self, vector: Any) -> dict[str, Any]:
        name = uuid.UUID(vector.path.rpartition("/deletion_vector_")[2].removesuffix(".bin"))
        return {
            "storageType": "u",
            "pathOrInlineDv": self.name + codec.z85_encode(name.bytes),
            "offset": vector.offset,
            "sizeInBytes": vector.length - codec.FRAME_BYTES,
            "cardinality": vector.cardinality,
        }
