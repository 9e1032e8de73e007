"""Rewrites data files with many deleted rows without these rows, file by file; removes their vectors."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from puffin_fast._api.arguments import check_flags, check_share
from puffin_fast._concurrency.workers import Workers, workers_of
from puffin_fast._display.html import HtmlFields
from puffin_fast._io.run_folder import run_name
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast.delta.dml.changes import rewrite_metrics
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.commit import Changes, JobId, OnConflict, commit
from puffin_fast.delta.log.protocol import check_types_writable
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.maintenance.rewritten_files import FileRewriter, removes_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.errors import InvalidInputError
from puffin_fast.rows.rewrite.file_groups import known_deleted

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

MIN_DELETED = 0.1


@dataclass(frozen=True)
class PurgeResult(HtmlFields):
    """The result of a purge.

    Attributes:
        version: the new version; None if no data file had enough deletes.
        data_files: number of data files that were rewritten.
        data_files_written: number of new data files; fewer if a rewritten file had no live row.
        rows: number of rows in the new data files.
        rows_purged: number of deleted rows that were removed from the data files.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
    """

    version: int | None
    data_files: int = 0
    data_files_written: int = 0
    rows: int = 0
    rows_purged: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False


def purge(
    table: Any,
    *,
    min_deleted: float = MIN_DELETED,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> PurgeResult:
    """Rewrites the data files that have many deleted rows, in one commit.

    The rows of the table do not change: they keep their row ids, and streams and the change data feed get no change.
    The rows of one file are in memory for each thread. The old files remain in storage for time travel until a vacuum
    removes them.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        min_deleted: the share of deleted rows from which a file is rewritten, above 0 and up to 1. With a very small
            share, every file with a vector is rewritten.
        on_conflict, job_id, snapshot_properties, threads, filesystem, storage_options: as `delete`.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which rewrites data files instead of
            threads.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `version` is None if there was nothing to do.

    Raises:
        InvalidInputError: `min_deleted` is not such a share.
        UnsupportedError, CorruptDataError, NotFoundError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.delta.delete(path, "id < 50")
        >>> pf.delta.purge(path).data_files
        1
        >>> pf.delta.vectors(path).num_rows
        0
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    who, run = workers_of(workers, threads), run_name(job_id, "purge")
    check_flags(dry_run=dry_run)
    check_share("min_deleted", min_deleted)
    if not min_deleted:
        raise InvalidInputError(f"min_deleted: expected a share above 0 and up to 1, found {min_deleted}")
    started = time.perf_counter()
    storage = storage_of(table, filesystem)

    def is_chosen(task: DeltaTask) -> bool:
        return known_deleted(task) / max(task.data.record_count, 1) >= min_deleted

    def plan(base: Snapshot) -> Purged:
        return Purged.of(base, is_chosen, who, run, dry_run=dry_run)

    planned, committed = commit(
        storage,
        plan,
        on_conflict=on_conflict,
        job=JobId("purge", job_id),
        snapshot_properties=snapshot_properties,
    )
    planned = planned or Purged()
    return PurgeResult(
        committed.version,
        planned.data_files,
        planned.data_files_written,
        planned.rows,
        planned.rows_purged,
        time.perf_counter() - started,
        committed.attempts,
        committed.repeated,
    )


@dataclass(frozen=True)
class Purged:
    """A purge planned on one version: the counts of `PurgeResult`, and the changes to commit."""

    data_files: int = 0
    rows: int = 0
    rows_purged: int = 0
    data_files_written: int = 0
    changes: Changes | None = None

    def plus(self, other: Purged) -> Purged:
        """The counts of two purges together."""
        return Purged(
            self.data_files + other.data_files,
            self.rows + other.rows,
            self.rows_purged + other.rows_purged,
            self.data_files_written + other.data_files_written,
        )

    @classmethod
    def of(
        cls,
        base: Snapshot,
        is_chosen: Callable[[DeltaTask], bool],
        workers: Workers,
        run: str,
        *,
        dry_run: bool,
    ) -> Purged:
        """Writes the live rows of data files to new files.

        Args:
            is_chosen: whether a data file is rewritten.
            workers: who writes them.
            run: the name of the run.
            dry_run: as `purge`.
        """
        current = DeltaTable.of(base)
        check_types_writable(base.delta_schema["fields"], base.root)
        tasks = [task for task in plan_files(current) if is_chosen(task)]
        purged = sum(map(known_deleted, tasks))
        found = cls(len(tasks), sum(task.data.record_count for task in tasks) - purged, purged)
        if dry_run or not tasks:
            return found
        groups = [[task] for task in tasks]
        rewriter = FileRewriter(current, sys.maxsize)
        removes, touched = removes_of(current, groups)
        rewriter.write(groups, workers, run)
        adds = rewriter.adds
        changes = Changes(
            [*removes, *adds],
            "REORG",
            touched,
            rewriter.written,
            {"predicate": as_json([]), "applyPurge": True},
            rewrite_metrics(removes, adds),
            keeps_row_ids=rewriter.keeps_row_ids,
        )
        return replace(found, data_files_written=len(adds), changes=changes)
