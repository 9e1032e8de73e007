"""The common part of convert, compact and repair: takes inventory, rewrites deletes, commits once with retries."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from puffin_fast._api.arguments import check_flags
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import open_table, run_job
from puffin_fast.iceberg.commit.request import Request, head_of, repeated
from puffin_fast.iceberg.delete_files.writer import ChangeTerms, DeleteFiles, WrittenDeletes
from puffin_fast.iceberg.dml.attempt import commit_of
from puffin_fast.iceberg.manifest import DATA, EQUALITY_DELETES
from puffin_fast.iceberg.plan.inventory import DeleteInventory, inventory_beside, take_inventory
from puffin_fast.rows.deletes.outcome import Outcome
from puffin_fast.verbs.maintenance import RewriteResult

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.manifest import ManifestEntry

REPLACE = "replace"
"""The operation, in the snapshot's summary, of a commit that changes files but no rows."""


@dataclass(frozen=True)
class Rewritten:
    """Deletes that a rewrite wrote.

    Attributes:
        written: the changes to commit.
        not_rewritten: deletes that were not rewritten, and why: one sentence each.
        vectors_before: number of live vectors in each Puffin file before the rewrite.
        n_bounds: number of data files whose wrong bounds are removed.
    """

    written: WrittenDeletes = field(default_factory=WrittenDeletes)
    not_rewritten: tuple[str, ...] = ()
    vectors_before: Counter[str] = field(default_factory=Counter)
    n_bounds: int = 0

    @classmethod
    def of(
        cls,
        table: Table,
        outcomes: Iterable[Outcome],
        terms: ChangeTerms,
        not_rewritten: tuple[str, ...] = (),
        n_bounds: int = 0,
    ) -> Rewritten:
        """Returns the changes of a rewrite whose vectors were written."""
        written = WrittenDeletes.of(table, DeleteFiles(tuple(outcomes)), terms)
        return cls(written, not_rewritten, n_bounds=n_bounds)

    @property
    def changes(self) -> Changes:
        return self.written.changes


def older_than(entries: Iterable[ManifestEntry], *, same: bool) -> Callable[[ManifestEntry], bool]:
    """Returns a conflict filter for delete files to be removed: true for data files that they apply to.

    A data file that a concurrent commit added conflicts if it is not younger than the delete files.

    Args:
        entries: the delete files.
        same: whether they apply to data files of their own sequence number too (position deletes do).
    """
    newest = max((entry.sequence_number or 0 for entry in entries), default=-1)

    def conflict_filter(data: ManifestEntry) -> bool:
        number = data.sequence_number or 0
        return number <= newest if same else number < newest

    return conflict_filter


def rewrite(
    table: Table,
    work: Callable[[WorkingTable, DeleteInventory], Rewritten],
    request: Request,
    *,
    dry_run: bool,
    file_paths: Collection[str] | None = None,
) -> RewriteResult:
    """Takes inventory of a branch's head, calls `work` to write, and commits; after a conflict repeats all of it.

    With `file_paths`, the inventory is that of the Puffin files that have vectors of these data files.

    Repeating is always correct here, because the plan depends on the files of the head only, not on a row
    filter.
    """
    started = time.perf_counter()
    check_flags(dry_run=dry_run)
    working = open_table(table, oldest=3)

    is_first = True

    def plan(head: Snapshot | None) -> Rewritten:
        nonlocal is_first
        if file_paths is None:
            found = take_inventory(working, head)
        else:  # others may drop a data file between two attempts
            found = inventory_beside(working, head, file_paths, strict=is_first)
        is_first = False
        before = Counter(vector.file_path for vector in found.vectors())
        return replace(work(working, found), vectors_before=before)

    if dry_run and repeated(working, request) is None:
        planned: Rewritten | None = plan(head_of(working.metadata, request.branch))
        committed = None
    else:
        planned, committed = run_job(working, plan, request, merge=True)
    planned = planned or Rewritten()
    changes = planned.changes
    vectors_removed = Counter(entry.file_path for entry in changes.removed if entry.is_vector)
    n_files = len({entry.file_path for entry in changes.added})
    return RewriteResult(
        commit=replace(
            commit_of(committed),
            files=n_files,
            n_bytes=planned.written.n_bytes,
            seconds=time.perf_counter() - started,
        ),
        vectors_written=sum(entry.is_vector for entry in changes.added),
        vectors_removed=sum(entry.is_vector for entry in changes.removed),
        position_delete_files_removed=sum(
            not entry.is_vector and entry.content not in (DATA, EQUALITY_DELETES) for entry in changes.removed
        ),
        equality_delete_files_removed=sum(entry.content == EQUALITY_DELETES for entry in changes.removed),
        data_files_dropped=sum(entry.content == DATA for entry in changes.removed),
        puffin_files_written=n_files,
        puffin_files_removed=sum(
            planned.vectors_before[path] == count for path, count in vectors_removed.items()
        ),
        positions=sum(entry.record_count for entry in changes.added),
        rows_deleted=planned.written.rows,
        bounds_removed=planned.n_bounds,
        not_rewritten=planned.not_rewritten,
        dry_run=dry_run,
    )
