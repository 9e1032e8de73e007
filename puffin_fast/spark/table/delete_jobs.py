"""The delete jobs of Iceberg and Delta tables. They have one interface, so that the code for executors is shared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.dml.upsert import UpsertResult
from puffin_fast.iceberg.index.lookup import KeyLookup
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import plan_files, plan_snapshot
from puffin_fast.rows.keys.key_columns import key_schema
from puffin_fast.spark.table.delta import DeltaDelete
from puffin_fast.spark.table.iceberg_jobs import DeleteJob, Replaced
from puffin_fast.spark.table.job import Job
from puffin_fast.spark.table.scan import is_delta, scan

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession

    from puffin_fast.rows.deletes.outcome import Outcome
    from puffin_fast.rows.keys.keys import KeyBounds, Keys


class IcebergPart(Job):
    """One run of a job on an Iceberg table."""

    def replaced(
        self, outcomes: Iterable[Outcome], bounds: KeyBounds, names: Sequence[str], metrics: Mapping[str, int]
    ) -> Replaced:
        """The changes of an upsert: deletes, and the data files that executors wrote.

        Args:
            outcomes: the deletes.
            bounds: the bounds of the keys; data files of concurrent commits that may have such rows are searched.
            names, metrics: entries of Delta's history; not used here.
        """
        written = self.changes(outcomes, bounds.may_match(self.table.schema()))
        return Replaced.of(written, self.data_files, frozenset(file.path for file in self.matched))


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

    def scan(self, session: SparkSession, fields: Sequence[str]) -> DataFrame:
        """The live rows of the branch."""
        return scan(session, self.table, selected_fields=fields, branch=self.request.branch)

    def is_done(self) -> bool:
        """Whether the branch's history has the job id."""
        return repeated(self.table, self.request) is not None

    def part(self, *, dry_run: bool, kind: str = "delete") -> IcebergPart:
        """Returns one run of the job; `kind` is one word for what the job does."""
        return IcebergPart(self.table, self.request.job_id, kind, dry_run=dry_run)

    def check_rows(self) -> None:
        """Rows can be written to any table."""

    def check_schema(self, schema: Schema) -> None:
        """Does nothing: the columns of the job's table do not change."""

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
        files = plan_snapshot(self.table, base, self.schema(), few or bounds, metrics=True).tasks
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

    def upserted(
        self, planned: Replaced | None, committed: Committed | None, counts: Mapping[str, int]
    ) -> UpsertResult:
        """Returns the result of an upsert; `counts` are the counts of given rows."""
        planned = planned or Replaced()
        result = self.result(planned.written, committed)
        facts: dict[str, Any] = {**counts, **planned.facts(result)}
        return UpsertResult(rows_deleted=result.rows_deleted, **facts)

    def tasks(self, base: Snapshot | None) -> Sequence[FileTask]:
        """The data files of a snapshot."""
        return [] if base is None else plan_files(self.table, snapshot_id=base.snapshot_id).tasks


AnyDeleteJob: TypeAlias = IcebergDelete | DeltaDelete


def start(table: Any, request: Request) -> AnyDeleteJob:
    """Opens a table for a delete job, and refreshes it."""
    if is_delta(table):
        return DeltaDelete(table, request)
    started = time.perf_counter()
    return IcebergDelete(open_table(table, oldest=2), request, started)
