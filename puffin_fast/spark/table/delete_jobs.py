"""The delete jobs of Iceberg and Delta tables. They have one interface, so that the code for executors is shared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyiceberg.expressions import AlwaysTrue

from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.dml.attempt import conflict_filter_of
from puffin_fast.iceberg.dml.data_files import DataFileWriter
from puffin_fast.iceberg.index.lookup import KeyLookup
from puffin_fast.iceberg.manifest import check_transforms
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import plan_files, plan_snapshot
from puffin_fast.rows.filters.filters import Filter
from puffin_fast.rows.keys.key_columns import key_schema
from puffin_fast.rows.match.given_rows import RowWriterSchema
from puffin_fast.rows.rewrite.row_order import RowOrder
from puffin_fast.spark.table.delta import DeltaDelete
from puffin_fast.spark.table.iceberg_jobs import DeleteJob, Replaced
from puffin_fast.spark.table.job import Job
from puffin_fast.spark.table.scan import is_delta, scan
from puffin_fast.verbs.attempt import Purpose
from puffin_fast.verbs.counts import Counts, result_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.iceberg.manifest import ManifestEntry
    from puffin_fast.rows.deletes.outcome import Outcome
    from puffin_fast.rows.filters.filters import Matcher
    from puffin_fast.rows.keys.keys import KeyBounds, Keys

Result = TypeVar("Result")


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


class IcebergDelete(DeleteJob):
    """A delete from an Iceberg table in progress, with the data for executors."""

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
        counts: Mapping[str, int],
    ) -> Result:
        """Returns the result of a verb that writes rows; `counts` are its own counts."""
        planned = planned or Replaced()
        result = self.result(planned.written, committed)
        found = Counts(
            rows_deleted=result.rows_deleted,
            data_files=result.data_files,
            data_files_dropped=result.data_files_dropped,
            data_files_written=planned.data_files,
            vectors_written=result.vectors_written,
            position_delete_files_written=result.position_delete_files_written,
            n_bytes=result.n_bytes,
        )
        commit: dict[str, Any] = {
            name: getattr(result, name) for name in ("snapshot_id", "seconds", "attempts", "repeated")
        }
        return result_of(kind, replace(found, **counts), **commit)

    def tasks(self, base: Snapshot | None) -> Sequence[FileTask]:
        """The data files of a snapshot."""
        return [] if base is None else plan_files(self.table, snapshot_id=base.snapshot_id).tasks


AnyDeleteJob: TypeAlias = IcebergDelete | DeltaDelete


def start(session: SparkSession, table: Any, request: Request) -> AnyDeleteJob:
    """Opens a table for a delete job, and refreshes it.

    Raises:
        UnsupportedError: Spark's own verbs would write to another branch, or publish nothing.
    """
    if is_delta(table):
        return DeltaDelete(table, request)
    started = time.perf_counter()
    opened = open_table(table, oldest=2)
    _check_audit(session, opened, request)
    return IcebergDelete(opened, request, started)


def _check_audit(session: SparkSession, table: Any, request: Request) -> None:
    """Checks that the session does not have Iceberg's settings of write-audit-publish for another branch."""
    if table.properties.get("write.wap.enabled", "false").lower() != "true":
        return
    for name in ("spark.wap.branch", "spark.wap.id"):
        value = session.conf.get(name, None)
        if value and (name == "spark.wap.id" or value != request.branch):
            instead = "unset it" if name == "spark.wap.id" else f"pass branch={value!r}, or unset it"
            raise UnsupportedError(
                f"{'.'.join(table.name())}: the table has write.wap.enabled, and the session has {name}={value!r}, "
                f"found branch={request.branch!r}; {instead}"
            )
