"""Disables deletion vectors: rewrites the data files that have some, and drops the feature from the protocol.

What Spark's ``ALTER TABLE … DROP FEATURE deletionVectors`` does (RFC "Checkpoint Protection" of Delta), in commits of
their own:

files       the property is removed, and data files with vectors are rewritten, until none is left
barriers    three versions without changes, each with a checkpoint: readers that do not know vectors start from these
            checkpoints, and never read the actions with vectors before them
protocol    without the feature; with `checkpointProtection`, which keeps writers from removing the barriers, and with
            `remove` actions of the files of vectors, so that no other vacuum removes those that time travel needs

A log in which no action ever had a vector needs no barriers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from puffin_fast._api.arguments import check_flags
from puffin_fast._concurrency.threads import check_threads
from puffin_fast._concurrency.workers import Threads
from puffin_fast._display.html import HtmlFields
from puffin_fast._io.run_folder import run_name
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._process.outcome import note_outcome
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.checkpoint_writer import write_checkpoint
from puffin_fast.delta.log.commit import (
    Changes,
    Committed,
    JobId,
    OnConflict,
    OnlyChanges,
    check_properties,
    commit,
    newest,
)
from puffin_fast.delta.log.protocol import (
    CHECKPOINT_PROTECTION,
    DELETION_VECTORS,
    ENABLE_VECTORS,
    without_vectors,
)
from puffin_fast.delta.log.segment import LogListing, read_commit
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage, encoded_path, storage_of
from puffin_fast.delta.maintenance.rewrite_data_files import RewritePlan
from puffin_fast.delta.maintenance.rewritten_files import FileRewriter
from puffin_fast.delta.scans.descriptors import path_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.errors import ConflictError
from puffin_fast.verbs.maintenance import RewriteDataFilesResult
from puffin_fast.verbs.results import Commit

N_BARRIERS = 3
"""Checkpoints before the protocol changes. Spark tries so many, if one cannot be read."""
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


@dataclass(frozen=True)
class DisableResult(HtmlFields):
    """The result of disabling deletion vectors.

    Attributes:
        commit: the version in which the protocol has no deletion vectors, without an id if it had none before, or in a
            dry run; and the attempts, files and bytes of all commits.
        commits: number of commits.
        data_files: number of data files that had deletion vectors, and were rewritten.
        data_files_written: number of new data files; fewer if a rewritten file had no live row.
        rows: number of rows in the new data files.
        rows_purged: number of deleted rows that were removed from the data files.
        keeps_checkpoints: whether the table has the feature ``checkpointProtection``, because earlier versions have
            deletion vectors: other writers must know it.
        dry_run: True if nothing was written. The counts of new files are then 0.
    """

    commit: Commit = field(default_factory=Commit)
    commits: int = 0
    data_files: int = 0
    data_files_written: int = 0
    rows: int = 0
    rows_purged: int = 0
    keeps_checkpoints: bool = False
    dry_run: bool = False


def disable(
    table: Any,
    *,
    on_conflict: OnConflict = "refuse",
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
) -> DisableResult:
    """Disables deletion vectors, in several commits: all readers can read the table again.

    Data files with vectors are rewritten without their deleted rows, as by `purge`; rows keep their row ids. Then the
    protocol has no deletion vectors, and the lowest versions that its other features allow. Earlier versions stay
    readable for readers that know deletion vectors. If it is interrupted, it goes on where it is called again.

    If earlier versions have vectors, the table gets the writer feature ``checkpointProtection``, as by Spark's
    ``ALTER TABLE … DROP FEATURE``: deltalake 1.6 reads the table, and does not write to it. Spark's
    ``DROP FEATURE checkpointProtection TRUNCATE HISTORY`` removes this feature after a day, with the earlier versions.

    Args:
        table: a Delta table, as `delete` takes it.
        on_conflict: as `delete`, for the commit of the new data files.
        job_id, snapshot_properties, threads: as `delete`.
        dry_run: count rows and data files, write nothing.

    Returns:
        The counts; `commit` has no id if the table had no deletion vectors.

    Raises:
        UnsupportedError: as `delete`.
        CorruptDataError, NotFoundError, ConflictError, CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.delta.delete(path, "id < 50")
        >>> result = pf.delta.disable(path)
        >>> result.rows_purged, "deletionVectors" in pf.delta.snapshot(path).protocol.writer_features
        (50, False)
    """
    check_threads(threads)
    check_flags(dry_run=dry_run)
    check_properties(snapshot_properties)
    started, job = time.perf_counter(), JobId("disable", job_id)
    storage = storage_of(table, filesystem_of(table, None, None))
    base = newest(storage)
    if job.is_done(base.transactions, base.root):
        return DisableResult(Commit(repeated=True), dry_run=dry_run)
    if DELETION_VECTORS not in base.protocol.writer_features:
        return DisableResult(dry_run=dry_run)
    parts: list[RewriteDataFilesResult] = []
    commits: list[Committed] = []

    def result(**others: Any) -> DisableResult:
        names = "data_files", "data_files_written", "rows", "rows_purged"
        counts = {name: sum(getattr(part, name) for part in parts) for name in names}
        last = commits[-1] if commits else Committed(None)
        done = Commit(
            last.version,
            sum(one.attempts for one in commits),
            last.repeated,
            sum(part.commit.files for part in parts),
            sum(part.commit.n_bytes for part in parts),
            time.perf_counter() - started,
        )
        return DisableResult(done, len(commits), **counts, **others)

    if dry_run:
        parts.append(_purged(base, threads=threads, dry_run=True).counts)
        return result(dry_run=True)
    while True:
        part, committed = commit(
            storage,
            lambda head: _purged(head, threads=threads, dry_run=False),
            on_conflict=on_conflict,
            snapshot_properties=snapshot_properties,
        )
        if part is None or committed.version is None:
            break
        parts.append(part.counts)
        commits.append(committed)
    try:
        protected = _had_vectors(storage)
        for _ in range(N_BARRIERS if protected else 0):
            _, committed = commit(
                storage,
                lambda head: OnlyChanges(Changes([], "EMPTY COMMIT", is_empty=True)),
                snapshot_properties=snapshot_properties,
            )
            commits.append(committed)
            write_checkpoint(storage, _version(committed.version))
        _, committed = commit(
            storage,
            lambda head: OnlyChanges(_dropped(head, protected=protected)),
            on_conflict="merge",
            job=job,
            snapshot_properties=snapshot_properties,
        )
        commits.append(committed)
        if committed.version is not None:
            write_checkpoint(storage, committed.version)
    except BaseException as error:
        note_outcome(
            error,
            f"{base.root}: no data file has deletion vectors; `disable` goes on if it is called again",
        )
        raise
    return result(keeps_checkpoints=protected)


def _version(version: int | None) -> int:
    assert version is not None, "a commit without a job"
    return version


def _has_vector(task: DeltaTask) -> bool:
    return task.vector is not None


def _without_property(base: Snapshot) -> dict[str, str]:
    return {name: value for name, value in base.configuration.items() if name != ENABLE_VECTORS}


def _purged(base: Snapshot, *, threads: int | None, dry_run: bool) -> RewritePlan:
    """The changes after which no data file has a vector, and no writer may add one."""
    table = DeltaTable.of(base)
    groups = [[task] for task in plan_files(table) if _has_vector(task)]
    rewriter, run = FileRewriter(table, sys.maxsize), run_name(None, "disable")
    purge: dict[str, str | bool] = {"predicate": as_json([]), "applyPurge": True}
    found = RewritePlan.of(rewriter, groups, Threads(threads), run, "REORG", purge, dry_run=dry_run)
    if dry_run or ENABLE_VECTORS not in base.configuration:
        return found
    parameters = {"properties": as_json([ENABLE_VECTORS]), "ifExists": "true"}
    changes = found.changes or Changes([], "UNSET TBLPROPERTIES", parameters=parameters)
    metadata = {"metaData": {**base.metadata, "configuration": _without_property(base)}}
    return replace(found, changes=replace(changes, actions=[metadata, *changes.actions]))


def _had_vectors(storage: TableStorage) -> bool:
    """Whether an action of the log has a vector, or may have had one: its first commits are removed."""
    commits = LogListing.of(storage).commits
    if commits != tuple(range(len(commits))):
        return True
    return any(b'"deletionVector"' in read_commit(storage, version) for version in commits)


def _dropped(base: Snapshot, *, protected: bool) -> Changes:
    """The changes of the protocol.

    Raises:
        ConflictError: another commit added a vector.
    """
    if any(map(_has_vector, plan_files(DeltaTable.of(base)))):
        raise ConflictError(
            f"{base.root}: version {base.version} has deletion vectors that another commit added"
        )
    configuration = _without_property(base)
    if protected:
        configuration[PROTECTED] = str(base.version + 1)
    keeps = protected or CHECKPOINT_PROTECTION in base.protocol.writer_features
    return Changes(
        [
            {"protocol": without_vectors(base.protocol, protected=keeps).action()},
            {"metaData": {**base.metadata, "configuration": configuration}},
            *_tombstones(base),
        ],
        "DROP FEATURE",
        parameters={"featureName": DELETION_VECTORS, "truncateHistory": False},
        whole_table=True,
    )


def _tombstones(base: Snapshot) -> Iterator[dict[str, Any]]:
    """Yields actions that remove the files of vectors of removed data files."""
    removed = [action.get("deletionVector") for action in base.tombstones(0)]
    paths = {path_of(vector, base.storage) for vector in removed if vector is not None}
    now = int(time.time() * 1000)
    for path in sorted(paths):
        if path.startswith(f"{base.root}/"):
            found = {
                "path": encoded_path(path[len(base.root) + 1 :]),
                "deletionTimestamp": now,
                "dataChange": False,
            }
            yield {"remove": found}
