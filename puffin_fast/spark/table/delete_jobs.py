"""The delete jobs of both kinds of tables: one interface, so that one code searches and writes on executors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.request import Request, repeated
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.spark.table.delta import DeltaDelete
from puffin_fast.spark.table.iceberg_jobs import DeleteJob
from puffin_fast.spark.table.job import Job
from puffin_fast.spark.table.scan import is_delta, scan

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import DataFrame, SparkSession


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

    def part(self, *, dry_run: bool) -> Job:
        """Returns one run of the job."""
        return Job(self.table, self.request.job_id, dry_run=dry_run)

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
