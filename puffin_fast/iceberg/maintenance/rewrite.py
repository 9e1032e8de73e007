"""What convert, compact and repair share: rows stay the same, deletes change place, one commit says what it did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import open_table, run_job
from puffin_fast.iceberg.commit.request import Request, head_of, repeated
from puffin_fast.iceberg.deletes.outcome import Outcome
from puffin_fast.iceberg.deletes.writer import ChangeTerms, DeleteFiles, WrittenDeletes
from puffin_fast.iceberg.manifest import DATA, EQUALITY_DELETES
from puffin_fast.iceberg.plan.inventory import DeleteInventory, take_inventory

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.compat.working_table import WorkingTable
    from puffin_fast.iceberg.manifest import ManifestEntry

__all__ = ["REPLACE", "RewriteResult", "Rewritten", "older_than", "rewrite"]

REPLACE = "replace"
"""The summary's operation of a commit that changes files, and no rows."""


@dataclass(frozen=True)
class Rewritten:
    """What a rewrite wrote.

    Attributes:
        written: the changes to commit.
        left: what was left as it is, and why, one sentence each.
        vectors_before: number of live vectors in each Puffin file before the rewrite.
    """

    written: WrittenDeletes = field(default_factory=WrittenDeletes)
    left: tuple[str, ...] = ()
    vectors_before: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls, table: Table, outcomes: Iterable[Outcome], terms: ChangeTerms, left: tuple[str, ...] = ()
    ) -> Rewritten:
        """The changes of a rewrite whose vectors are written."""
        return cls(WrittenDeletes.of(table, DeleteFiles(tuple(outcomes)), terms), left)

    @property
    def changes(self) -> Changes:
        return self.written.changes


@dataclass(frozen=True)
class RewriteResult:
    """What became of a table's delete files.

    Attributes:
        snapshot_id: the new snapshot; None when there was nothing to do, or it was a dry run.
        vectors_written: deletion vectors written.
        vectors_removed: those that they replace, and those that applied to nothing.
        position_delete_files_removed: position-delete files that left the table.
        equality_delete_files_removed: equality-delete files that left the table.
        data_files_dropped: data files of which no row was left.
        puffin_files_written: files that hold the new vectors.
        puffin_files_removed: files of which no vector is left in this snapshot.
        positions: positions in the new vectors.
        rows_deleted: those of them that no vector or position-delete file held that readers look at.
        n_bytes: bytes of the new Puffin files.
        left: what had to be left as it is, and why, one sentence each.
        seconds: wall time.
        attempts: commits tried; 1 without a race, 0 without a commit.
        repeated: the job id was in the branch's history already, and nothing was done.
        dry_run: nothing was committed; all the numbers are what they would have been.
    """

    snapshot_id: int | None
    vectors_written: int = 0
    vectors_removed: int = 0
    position_delete_files_removed: int = 0
    equality_delete_files_removed: int = 0
    data_files_dropped: int = 0
    puffin_files_written: int = 0
    puffin_files_removed: int = 0
    positions: int = 0
    rows_deleted: int = 0
    n_bytes: int = 0
    left: tuple[str, ...] = ()
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False
    dry_run: bool = False


def older_than(entries: Iterable[ManifestEntry], *, same: bool) -> Callable[[ManifestEntry], bool]:
    """Whether a data file that came in meanwhile is old enough for delete files that are about to go.

    Args:
        entries: those delete files.
        same: whether they apply to data files of their own sequence number too.
    """
    newest = max((entry.sequence_number or 0 for entry in entries), default=-1)

    def conflict_filter(data: ManifestEntry) -> bool:
        number = data.sequence_number or 0
        return number <= newest if same else number < newest

    return conflict_filter


def rewrite(
    table: Table,
    work: Callable[[WorkingTable, DeleteInventory], Rewritten],
    *,
    branch: str,
    job_id: str | None,
    snapshot_properties: Mapping[str, str] | None,
    dry_run: bool,
) -> RewriteResult:
    """Surveys a branch's head, lets `work` write, commits; on a race all of it again.

    That is always right here: what is planned is a matter of the files that are there, not of the rows that
    somebody wanted gone.
    """
    started = time.perf_counter()
    request = Request(branch=branch, job_id=job_id, snapshot_properties=snapshot_properties)
    working = open_table(table, oldest=3)

    def plan(head: Snapshot | None) -> Rewritten:
        found = take_inventory(working, head)
        before = Counter(vector.file_path for vector in found.vectors())
        return replace(work(working, found), vectors_before=before)

    if dry_run and repeated(working.metadata, branch, job_id) is None:
        planned: Rewritten | None = plan(head_of(working.metadata, branch))
        committed = None
    else:
        planned, committed = run_job(working, plan, request, merge=True)
    planned = planned or Rewritten()
    changes = planned.changes
    gone = Counter(entry.file_path for entry in changes.removed if entry.is_vector)
    return RewriteResult(
        snapshot_id=None if committed is None else committed.snapshot_id,
        vectors_written=sum(entry.is_vector for entry in changes.added),
        vectors_removed=sum(entry.is_vector for entry in changes.removed),
        position_delete_files_removed=sum(
            not entry.is_vector and entry.content not in (DATA, EQUALITY_DELETES) for entry in changes.removed
        ),
        equality_delete_files_removed=sum(entry.content == EQUALITY_DELETES for entry in changes.removed),
        data_files_dropped=sum(entry.content == DATA for entry in changes.removed),
        puffin_files_written=len({entry.file_path for entry in changes.added}),
        puffin_files_removed=sum(planned.vectors_before[path] == count for path, count in gone.items()),
        positions=sum(entry.record_count for entry in changes.added),
        rows_deleted=planned.written.rows,
        n_bytes=planned.written.n_bytes,
        left=planned.left,
        seconds=time.perf_counter() - started,
        attempts=0 if committed is None else committed.attempts,
        repeated=committed is not None and committed.repeated,
        dry_run=dry_run,
    )
