"""Rewrites data files with many deleted rows, and joins small ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._concurrency.workers import workers_of
from puffin_fast._display.html import HtmlFields
from puffin_fast._io.run_folder import run_name
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._process.outcome import note_earlier, until_commit
from puffin_fast.delta.dml.changes import rewrite_metrics
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.commit import Changes, JobId, commit, newest
from puffin_fast.delta.log.protocol import check_types_writable
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage, storage_of
from puffin_fast.delta.maintenance.rewritten_files import FileRewriter, removes_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.errors import ConflictError, CorruptDataError, JobInterruptedError
from puffin_fast.rows.filters.filters import Filter, RowFilter
from puffin_fast.rows.rewrite.file_groups import (
    MIN_DELETED,
    MIN_INPUT_FILES,
    GroupLimits,
    RewriteTerms,
    known_deleted,
)
from puffin_fast.verbs.options import OnConflict, Options

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pyspark.sql import SparkSession

TARGET_FILE_SIZE = 128 << 20
"""Target size in bytes of a table without the property `delta.targetFileSize`."""

_SIZE = re.compile(r"([0-9]{1,18})\s*(?:([kmgt]?)b?)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True)
class RewriteDataFilesResult(HtmlFields):
    """The result of a rewrite of data files.

    Attributes:
        version: the last new version; None if there was nothing to do, or in a dry run.
        data_files: number of data files rewritten.
        data_files_written: number of new data files.
        rows: number of rows in the new files.
        rows_purged: number of deleted rows that were removed from the data files.
        data_files_left_out: number of data files that were to be rewritten, but other commits changed meanwhile.
        n_bytes_before: size of the rewritten data files in bytes.
        n_bytes: size of the new data files in bytes.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        commits: number of commits, at most `max_commits`.
        repeated: True if the job id was in the log already, and nothing was done.
        dry_run: True if nothing was written. The counts of new files are then 0.
    """

    version: int | None
    data_files: int = 0
    data_files_written: int = 0
    rows: int = 0
    rows_purged: int = 0
    data_files_left_out: int = 0
    n_bytes_before: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    commits: int = 0
    repeated: bool = False
    dry_run: bool = False


def rewrite_data_files(
    table: Any,
    row_filter: Filter = AlwaysTrue(),  # noqa: B008
    *,
    min_deleted: float = MIN_DELETED,
    min_file_size: int | None = None,
    min_input_files: int = MIN_INPUT_FILES,
    target_file_size: int | None = None,
    max_commits: int = 1,
    sort_by: Sequence[str] | None = None,
    case_sensitive: bool = True,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    workers: Executor | SparkSession | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> RewriteDataFilesResult:
    """Rewrites the data files that have many deleted rows, and joins small ones, in one commit.

    The rows of the table do not change: they keep their row ids, and streams and the change data feed get no change
    (protocol, "Add File and Remove File": ``dataChange`` is false). New files have the partition of the old ones. The
    old files remain in storage for time travel until a vacuum removes them.

    For each group that is written at a time, the rows of one new file are in memory. With `sort_by`, the rows of each
    partition that are rewritten are sorted together, in runs of at most 128 MiB; several runs are merged, and are in
    files in Python's temporary directory.

    Args:
        table: a path, a URI, or deltalake's `DeltaTable`.
        row_filter: only data files that may have rows for which the filter is true are rewritten, whole.
        min_deleted: share of a data file's rows, deleted by its vector, at which it is rewritten, from 0 to 1.
        min_file_size: data files of fewer bytes are joined; by default 0.75 of the target size. 0: none are.
        min_input_files: minimum number of data files of a partition that are joined to one file.
        target_file_size: target size of a new data file in bytes; by default the table's property
            ``delta.targetFileSize``, or 128 MiB.
        max_commits: maximum number of commits. With several, the groups of data files are divided, and what is
            committed stays if a later part fails. A part that conflicts with other commits is left out. Only without
            `job_id`.
        sort_by: columns, such as ``"id"``, ``"time desc"``, ``"name asc nulls last"``; nulls are first in ascending
            order by default, and last in descending order. All data files are rewritten: the log does
            not record an order.
        case_sensitive, on_conflict, job_id, snapshot_properties, threads, filesystem, storage_options: as `delete`.
        workers: an executor of ``concurrent.futures`` or a SparkSession, which rewrites groups of data files
            instead of threads, each with one thread.
        dry_run: count from the log, write nothing.

    Returns:
        The counts; `version` is None if there was nothing to do.

    Raises:
        InvalidInputError: an argument.
        NotFoundError: a column of the filter or of `sort_by`, or a file, does not exist.
        UnsupportedError, CorruptDataError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.delta.delete(path, "id < 50")
        >>> result = pf.delta.rewrite_data_files(path, min_deleted=0.3)
        >>> result.data_files, result.rows_purged
        (1, 50)
    """
    who, run = workers_of(workers, threads), run_name(job_id, "rewrite")
    options = Options(
        verb="rewrite_data_files",
        on_conflict=on_conflict,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        threads=threads,
        dry_run=dry_run,
    )
    terms = RewriteTerms(
        row_filter,
        min_deleted,
        min_file_size,
        min_input_files,
        target_file_size,
        max_commits,
        case_sensitive,
        sort_by,
    )

    def write(
        current: DeltaTable, groups: Sequence[Sequence[DeltaTask]], limits: GroupLimits
    ) -> FileRewriter:
        rewriter = FileRewriter(current, limits.target_file_size, limits.order)
        rewriter.write(groups, who, run)
        return rewriter

    started = time.perf_counter()
    terms.check_job(job_id)
    storage = storage_of(table, filesystem_of(table, filesystem, storage_options))
    rewrite = _Rewrite(storage, options, terms, write)
    result = rewrite.run() if max_commits == 1 or dry_run else _in_parts(rewrite, max_commits)
    return replace(result, seconds=time.perf_counter() - started, dry_run=dry_run)


def _in_parts(rewrite: _Rewrite, max_commits: int) -> RewriteDataFilesResult:
    """Rewrites the groups that are chosen on the newest version in several commits.

    Raises:
        ConflictError: all parts conflict.
    """
    with until_commit():
        groups = rewrite.groups(DeltaTable.of(newest(rewrite.storage)))
    paths = [frozenset(task.data.file_path for task in group) for group in groups]
    size = max(1, -(-len(paths) // max_commits))
    done: list[RewriteDataFilesResult] = []
    conflict: ConflictError | None = None
    for first in range(0, len(paths), size):
        try:
            result = replace(rewrite, chosen=tuple(paths[first : first + size])).run()
        except ConflictError as error:
            conflict = error
        except JobInterruptedError as error:
            if not done:
                raise
            raise JobInterruptedError(f"{error}; {_earlier(done)}") from error
        except BaseException as error:
            if done:
                note_earlier(error, _earlier(done))
            raise
        else:
            done += [result] if result.commits else []
    if conflict is not None and not done:
        raise conflict
    counts = {name: sum(getattr(result, name) for result in done) for name in _ADDED_UP}
    left_out = sum(map(len, paths)) - counts["data_files"]
    return RewriteDataFilesResult(done[-1].version if done else None, data_files_left_out=left_out, **counts)


def _earlier(done: Sequence[RewriteDataFilesResult]) -> str:
    return f"earlier parts are committed up to version {done[-1].version}"


_ADDED_UP = (
    "data_files",
    "data_files_written",
    "rows",
    "rows_purged",
    "n_bytes_before",
    "n_bytes",
    "attempts",
    "commits",
)


@dataclass(frozen=True)
class _RewritePlan:
    """The changes of a rewrite of one version, and their counts."""

    counts: RewriteDataFilesResult = RewriteDataFilesResult(None)
    changes: Changes | None = None


@dataclass(frozen=True)
class _Rewrite:
    """A rewrite that can be planned on any version.

    Attributes:
        write: writes the new files.
        chosen: the locations of the data files of each group; None: `terms` choose.
    """

    storage: TableStorage
    options: Options
    terms: RewriteTerms
    write: Callable[[DeltaTable, Sequence[Sequence[DeltaTask]], GroupLimits], FileRewriter]
    chosen: tuple[frozenset[str], ...] | None = None

    def run(self) -> RewriteDataFilesResult:
        """Plans and commits once."""
        options = self.options
        planned, committed = commit(
            self.storage,
            self.on,
            on_conflict=options.on_conflict,
            job=JobId(options.verb, options.job_id),
            snapshot_properties=options.snapshot_properties,
        )
        counts = planned.counts if planned else RewriteDataFilesResult(None)
        return replace(
            counts,
            version=committed.version,
            attempts=committed.attempts,
            commits=int(committed.version is not None),
            repeated=committed.repeated,
        )

    def _bound(self, table: DeltaTable) -> RowFilter:
        terms = self.terms
        return RowFilter.bind(terms.row_filter, table.schema.schema, case_sensitive=terms.case_sensitive)

    def _limits(self, table: DeltaTable) -> GroupLimits:
        return self.terms.limits(table.metadata, target_file_size(table.snapshot))

    def groups(self, table: DeltaTable) -> list[list[DeltaTask]]:
        """Groups the data files of a version that are to be rewritten."""
        check_types_writable(table.snapshot.delta_schema["fields"], table.snapshot.root)
        tasks = plan_files(table, self._bound(table))
        if self.chosen is None:
            return self._limits(table).groups(tasks)
        known = {task.data.file_path: task for task in tasks}
        # a group with a file that another commit removed is left out
        return [[known[path] for path in sorted(group)] for group in self.chosen if group <= known.keys()]

    def on(self, base: Snapshot) -> _RewritePlan:
        """Writes the new files of a version, and returns the changes."""
        table = DeltaTable.of(base)
        groups = self.groups(table)
        tasks = [task for group in groups for task in group]
        purged = sum(map(known_deleted, tasks))
        counts = RewriteDataFilesResult(
            None,
            data_files=len(tasks),
            rows=sum(task.data.record_count for task in tasks) - purged,
            rows_purged=purged,
            n_bytes_before=sum(task.data.file_size_in_bytes for task in tasks),
        )
        if self.options.dry_run or not tasks:
            return _RewritePlan(counts)
        removes, touched = removes_of(table, groups)
        new = self.write(table, groups, self._limits(table))
        n_bytes = sum(action["add"]["size"] for action in new.adds)
        changes = Changes(
            [*removes, *new.adds],
            "OPTIMIZE",
            touched,
            tuple(new.written),
            {"predicate": as_json([]), "zOrderBy": as_json([]), "clusterBy": as_json([]), "auto": False},
            rewrite_metrics(removes, new.adds),
            keeps_row_ids=new.keeps_row_ids,
        )
        return _RewritePlan(replace(counts, data_files_written=len(new.adds), n_bytes=n_bytes), changes)


def target_file_size(base: Snapshot) -> int:
    """Returns the target size of a new data file in bytes.

    Raises:
        CorruptDataError: property ``delta.targetFileSize`` is not a size such as ``104857600`` or ``100mb``.
    """
    text = base.configuration.get("delta.targetFileSize")
    if text is None:
        return TARGET_FILE_SIZE
    found = _SIZE.fullmatch(text.strip())
    size = 0 if found is None else int(found[1]) << _UNITS[(found[2] or "").lower()]
    if not size:
        raise CorruptDataError(
            "property delta.targetFileSize", path=base.root, expected="a size, such as 100mb", found=text
        )
    return size
