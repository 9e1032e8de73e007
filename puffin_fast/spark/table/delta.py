"""Verbs on Delta tables by executors: what `Verb` needs of a table of this format.

Executors write files of records into a folder of the run, which is the prefix of their names in the log:
``<table>/<run>/deletion_vector_<uuid>.bin``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._io.run_folder import RunFolder
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._pyiceberg.metadata import without_history
from puffin_fast.delta.dml.attempt import changed, commit_of, fitting
from puffin_fast.delta.dml.changes import VECTOR_FILE_SIZE, Written
from puffin_fast.delta.dml.data_files import row_tracking_columns
from puffin_fast.delta.log.commit import Committed, JobId, commit
from puffin_fast.delta.log.protocol import check_deletable, check_rows_writable
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import canonical_path, storage_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.dv import delta as codec
from puffin_fast.errors import UnsupportedError
from puffin_fast.rows.deletes.outcome import NewDeletes, Outcome
from puffin_fast.rows.filters.filters import Filter, Matcher
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.spark.dataframe.job_files import run_name
from puffin_fast.spark.table.job import MAIN
from puffin_fast.spark.table.scan import check_compared, refuse, scan
from puffin_fast.spark.table.verb import Part, Planned, Verb
from puffin_fast.spark.worker.pack import Place
from puffin_fast.spark.worker.reports import Report
from puffin_fast.spark.worker.tasks import Target
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.commit.request import Request
    from puffin_fast.rows.scan.finder import Finder
    from puffin_fast.rows.tasks import Task


class DeltaVerb(Verb):
    """A verb on a Delta table.

    Attributes:
        storage: the storage of the table.
        base: the version that the current attempt is planned on.
    """

    def __init__(self, table: Any, request: Request) -> None:
        self.started = time.perf_counter()
        refuse(table, "Delta", branch=None if request.branch == MAIN else request.branch)
        self.request = request
        self.storage = storage_of(table, filesystem_of(table, None, None))
        self.base = DeltaTable.of(snapshot(self.storage))
        self._job = JobId(request.verb, request.job_id)

    @property
    def metadata(self) -> TableMetadata:
        return self.base.metadata

    @property
    def name(self) -> str:
        return self.storage.root

    @property
    def head(self) -> str:
        return f"version {self.base.snapshot.version}"

    def schema(self) -> Schema:
        return self.base.schema.schema

    def scan(
        self,
        session: SparkSession,
        fields: Sequence[str],
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        *,
        case_sensitive: bool = True,
    ) -> DataFrame:
        return scan(session, self.base.snapshot, row_filter, fields, case_sensitive=case_sensitive)

    def is_done(self) -> bool:
        return self._job.is_done(self.base.snapshot.transactions, self.storage.root)

    def part(self, purpose: Purpose | None = None, *, dry_run: bool, kind: str = "delete") -> DeltaPart:
        return DeltaPart(self, purpose, dry_run=dry_run, kind=kind)

    def tasks(self, base: object) -> Sequence[Task]:
        return plan_files(self.base)

    def pruned(self, base: object, matcher: Matcher) -> Sequence[Task]:
        tasks, self.reads = plan_files(self.base, matcher, metrics=True), Reads()
        self.reads.plan(tasks.whole, tasks, tasks)
        return tasks

    def is_indexed(self, base: object) -> bool:
        return False

    def finder(self, matcher: Matcher) -> Finder:
        return self.base.finder(matcher, self.reads)

    def key_lookup(self, fields: object, tasks: object) -> None:
        """Delta tables have no indexes of keys."""

    def check_rows(self) -> None:
        base = self.base.snapshot
        check_rows_writable(base.configuration, base.delta_schema["fields"], base.root)

    def check_compared(self, row_filter: Any) -> None:
        check_compared(self.base.snapshot, row_filter)

    def check_rows_fit(self, rows: pa.Schema) -> None:
        fitting(self.base, rows)

    def check_schema(self, schema: Schema) -> None:
        if self.schema() != schema:
            raise UnsupportedError(
                f"{self.base.snapshot.root}: version {self.base.snapshot.version} changed the columns; run it again"
            )

    def keep(self, part: Part) -> bool:
        return False

    def commit(
        self, plan: Callable[[Any], Planned], on_conflict: OnConflict
    ) -> tuple[Planned | None, Committed]:
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

    def commit_of(self, committed: Committed | None) -> Commit:
        return commit_of(committed)


def target_of(table: DeltaTable, place: Place) -> Target:
    """The parts of a version that executors need."""
    metadata = without_history(table.metadata)
    bare = replace(table.without_files(), metadata=metadata)
    return Target(table.snapshot.storage, metadata, place, bare)


class DeltaPart(Part):
    """One run of the executors of a verb on a Delta table."""

    def __init__(self, verb: DeltaVerb, purpose: Purpose | None, *, dry_run: bool, kind: str) -> None:
        self._verb, self._purpose = verb, purpose or Purpose("DELETE")
        self.name = run_name(verb.request.job_id, kind)
        self.place = Place(
            RunFolder(f"{verb.storage.root}/{self.name}", self.name), VECTOR_FILE_SIZE, dry_run, records=True
        )
        self.report = Report()

    def executor_view(self) -> Target:
        return target_of(self._verb.base, self.place)

    def listing(self) -> Any:
        return self._verb.storage.filesystem

    def planned(
        self,
        outcomes: Iterable[Outcome],
        entries: Sequence[Any] = (),
        sources: frozenset[str] = frozenset(),
        metrics: Mapping[str, int] = {},
    ) -> Planned:
        """No change data files are written: readers derive the changes from the added and removed files."""
        written, base, dry_run = self._written(outcomes), self._verb.base.snapshot, self.place.dry_run
        adds = () if dry_run else entries
        replaces = bool(self._purpose.inserts and written.changes)
        changes, counts = changed(
            base,
            self._purpose,
            written,
            adds,
            metrics,
            new_files=[canonical_path(add["add"]["path"]) for add in adds],
            keeps_row_ids=not replaces or row_tracking_columns(base) is not None,
            dry_run=dry_run,
        )
        return Planned(changes, counts).counting(rows_dangling=self.report.n_dangling)

    def _written(self, outcomes: Iterable[Outcome]) -> Written:
        sizes, written = dict[str, int](), Written()
        base, outcomes = self._verb.base.snapshot, list(outcomes)
        try:
            for drops in {outcome.drops for outcome in outcomes}:
                check_deletable(base.protocol, base.configuration, base.root, by_vector=not drops)
        except UnsupportedError:
            if not self.place.dry_run:
                self.remove_files()
            raise
        for outcome in outcomes:
            task, vector = outcome.task, outcome.vector
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
