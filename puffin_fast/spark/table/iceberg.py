"""Verbs on Iceberg tables by executors: what `Verb` needs of a table of this format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.commit.job import run_job
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.delete_files.writer import ChangeTerms, DeleteFiles, WrittenDeletes
from puffin_fast.iceberg.dml.attempt import changed, commit_of, conflict_filter_of, planned_tasks
from puffin_fast.iceberg.dml.data_files import DataFileWriter
from puffin_fast.iceberg.index.lookup import KeyLookup
from puffin_fast.iceberg.index.stored import indexed
from puffin_fast.iceberg.manifest import check_transforms
from puffin_fast.iceberg.plan.files import Plan, plan_files, plan_snapshot
from puffin_fast.rows.filters.filters import Filter, Matcher
from puffin_fast.rows.keys.key_columns import key_schema
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.scan.explain import Reads
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.spark.table.scan import scan
from puffin_fast.spark.table.verb import Part, Planned, Verb
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.options import OnConflict, Options
from puffin_fast.verbs.results import Commit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.manifest.columns import Select
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from puffin_fast.rows.deletes.outcome import Outcome
    from puffin_fast.rows.tasks import Task


class IcebergPart(Part):
    """One run of the executors of a verb on an Iceberg table."""

    def __init__(
        self, table: WorkingTable, job_id: str | None, kind: str, purpose: Purpose | None, *, dry_run: bool
    ) -> None:
        super().__init__(table, job_id, kind, dry_run=dry_run)
        matcher = None if purpose is None else purpose.matcher
        self._conflict_filter = None
        if purpose is not None and matcher is not None:
            self._conflict_filter = conflict_filter_of(table, matcher, purpose.isolation)

    def planned(
        self,
        outcomes: Iterable[Outcome],
        entries: Sequence[Any] = (),
        sources: frozenset[str] = frozenset(),
        metrics: Mapping[str, int] = {},
    ) -> Planned:
        if self.place.dry_run:
            changes, counts = changed(WrittenDeletes.counted(outcomes), (), sources)
        else:
            files = DeleteFiles(tuple(outcomes), tuple(self.report.delete_files))
            terms = ChangeTerms(conflict_filter=self._conflict_filter)
            with paused_gc():
                written = WrittenDeletes.of(self.table, files, terms)
            changes, counts = changed(written, entries, sources)
        return Planned(changes, counts).counting(rows_dangling=self.report.n_dangling)


class IcebergVerb(Verb):
    """A verb on a branch of an Iceberg table.

    Args:
        table: the job's own table object, used to plan and write.
        request, started: as in the attributes.
    """

    def __init__(self, table: WorkingTable, request: Request, started: float) -> None:
        self.table, self.request, self.started = table, request, started

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def name(self) -> str:
        return ".".join(self.table.name())

    @property
    def head(self) -> str:
        return f"branch {self.request.branch!r}"

    def scan(
        self,
        session: SparkSession,
        fields: Sequence[str],
        row_filter: Filter = AlwaysTrue(),  # noqa: B008
        *,
        case_sensitive: bool = True,
    ) -> DataFrame:
        branch = self.request.branch
        return scan(session, self.table, row_filter, fields, branch=branch, case_sensitive=case_sensitive)

    def is_done(self) -> bool:
        return repeated(self.table, self.request) is not None

    def part(self, purpose: Purpose | None = None, *, dry_run: bool, kind: str = "delete") -> IcebergPart:
        return IcebergPart(self.table, self.request.job_id, kind, purpose, dry_run=dry_run)

    def tasks(self, base: Snapshot | None) -> Sequence[FileTask]:
        return [] if base is None else plan_files(self.table, snapshot_id=base.snapshot_id).tasks

    def pruned(self, base: Snapshot | None, matcher: Matcher) -> Sequence[FileTask]:
        schema, self.reads = self.schema(), Reads()

        def plan(select: Select | None) -> Plan:
            return plan_snapshot(self.table, base, schema, matcher, metrics=True, select=select)

        return planned_tasks(self.table, base, matcher, plan, self.reads)

    def is_indexed(self, base: Snapshot | None) -> bool:
        return base is not None and next(indexed(self.metadata, base), None) is not None

    def finder(self, matcher: Matcher) -> Finder:
        return Finder(self.table.io, self.metadata, matcher, reads=self.reads)

    def key_lookup(
        self, fields: Sequence[tuple[str, NestedField]], tasks: Sequence[Task]
    ) -> KeyLookup | None:
        kinds = key_schema(list(fields)).types
        keys = {field.field_id: kind for (_, field), kind in zip(fields, kinds, strict=True)}
        base = head_of(self.metadata, self.request.branch)
        return KeyLookup.of(self.table.io, self.metadata, base, keys, cast("Sequence[FileTask]", tasks))

    def check_rows(self) -> None:
        """Rows can be written to any table."""

    def check_compared(self, row_filter: Any) -> None:
        """Spark and Iceberg compare all columns alike."""

    def check_rows_fit(self, rows: pa.Schema) -> None:
        schema, spec = self.schema(), self.metadata.spec()
        check_transforms(spec, schema)
        RowWriterSchema(schema, rows)
        DataFileWriter(self.table, schema, spec)

    def check_schema(self, schema: Schema) -> None:
        """Does nothing: the columns of the job's table do not change."""

    def keep(self, part: Part) -> bool:
        self.table.created += [one.path for one in part.report.data_files]
        return True

    def commit(
        self, plan: Callable[[Snapshot | None], Planned], on_conflict: OnConflict
    ) -> tuple[Planned | None, Committed | None]:
        merge = Options(verb=self.request.verb, on_conflict=on_conflict).merges
        return run_job(self.table, plan, self.request, merge=merge)

    def commit_of(self, committed: Committed | None) -> Commit:
        return commit_of(committed)
