"""Rewrites manifests: their entries are sorted, and there are as few as the target size allows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from puffin_fast._api.arguments import check_flags
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import open_table, run_job
from puffin_fast.iceberg.commit.request import Request, head_of, repeated
from puffin_fast.iceberg.commit.sorted_manifests import unsorted
from puffin_fast.iceberg.manifest import manifests_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

from puffin_fast.iceberg.dml.attempt import commit_of
from puffin_fast.verbs.maintenance import RewriteManifestsResult


@dataclass(frozen=True)
class _ManifestPlan:
    """What is rewritten on a head."""

    changes: Changes
    counts: RewriteManifestsResult


def rewrite_manifests(
    table: Table,
    *,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> RewriteManifestsResult:
    """Sorts the entries of a branch's manifests by partition and path, in manifests of the target size.

    A filter on partitions then skips whole manifests, and a commit that replaces the deletes of neighboring data files
    rewrites few of them. Many small manifests become few large ones. No file and no row changes: sequence numbers and
    row ids stay. Deletion vectors and position-delete files are sorted by their data file.

    The size is that of the table's property ``commit.manifest.target-size-bytes`` (8 MiB). Manifests that have the
    order and the size, and list no removed files, are not written again. Entries of removed files are left out: their
    bounds are values of removed rows. Manifests of partition specs with unknown transforms, and encrypted ones,
    stay as they are. Other commits meanwhile are no conflict: the manifests of the newest snapshot are rewritten.

    Memory: the entries of the manifests of one partition spec, decompressed.

    Args:
        table: a PyIceberg table of format version 2 or 3. It is refreshed first, and has the new metadata afterwards.
        branch, job_id, snapshot_properties: as `delete`.
        dry_run: count, write nothing.

    Returns:
        The counts; `commit` has no id when there was nothing to do.

    Raises:
        InvalidInputError: an argument, or the property is no positive integer.
        CorruptDataError, NotFoundError: a manifest is damaged or missing, or the branch does not exist.
        UnsupportedError: the table's format version.
        ConflictError: other commits came first in all attempts; the table is unchanged.
        CommitUnknownError: as `delete`.

    Examples:
        >>> result = pf.iceberg.append(table, pa.table({"id": [100], "customer": [1], "price": [9.5]}))
        >>> result = pf.iceberg.rewrite_manifests(table)
        >>> result.manifests_removed, result.manifests_written
        (2, 1)
    """
    started = time.perf_counter()
    check_flags(dry_run=dry_run)
    request = Request(
        verb="rewrite_manifests", branch=branch, job_id=job_id, snapshot_properties=snapshot_properties
    )
    working = open_table(table, oldest=2)

    def plan(head: Snapshot | None) -> _ManifestPlan:
        manifests = [] if head is None else manifests_of(working.io, head)
        found = unsorted(working.io, working.metadata, manifests)
        removed = sum((manifest.content, manifest.spec_id) in found for manifest in manifests)
        counts = RewriteManifestsResult(
            manifests_removed=removed,
            manifests_written=sum(files.n_manifests for files in found.values()),
            manifests_kept=len(manifests) - removed,
            entries=sum(map(len, found.values())),
        )
        return _ManifestPlan(Changes(operation="replace", sorts_manifests=bool(found)), counts)

    planned: _ManifestPlan | None
    if dry_run and repeated(working, request) is None:
        planned, committed = plan(head_of(working.metadata, branch)), None
    else:
        planned, committed = run_job(working, plan, request, merge=True)
    return replace(
        RewriteManifestsResult() if planned is None else planned.counts,
        commit=replace(commit_of(committed), seconds=time.perf_counter() - started),
        dry_run=dry_run,
    )
