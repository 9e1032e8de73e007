"""Rewrites data files with many deleted rows, and joins small ones; keeps the deletes of concurrent commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast._concurrency.workers import OPEN_BYTES, Threads, Workers
from puffin_fast._io.run_folder import run_name
from puffin_fast.iceberg.catalogs.run_table import run_table
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.index.segment_maker import Encode
from puffin_fast.iceberg.maintenance.rewrite_job import run_rewrite
from puffin_fast.iceberg.maintenance.rewritten_groups import GroupWriter, RewrittenGroup
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.rows.rewrite.file_groups import RewriteTerms, live_bytes
from puffin_fast.rows.tasks import columns_of
from puffin_fast.verbs.maintenance import RewriteDataFilesResult

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable


_WRITING = "rewriting file groups"


def rewritten(
    table: Table,
    terms: RewriteTerms,
    request: Request,
    workers: Workers,
    encode: Encode | None,
    *,
    dry_run: bool,
) -> RewriteDataFilesResult:
    """`rewrite_data_files` with checked arguments; `encode` as for `run_rewrite`."""

    def write(
        table: WorkingTable, head: Snapshot, groups: Sequence[Sequence[FileTask]], target: int
    ) -> Iterable[RewrittenGroup]:
        writer = GroupWriter(table, head.sequence_number or 0, target, 1, terms.order(table.metadata))
        if not isinstance(workers, Threads):
            return _written_by(workers, writer, table, groups, run_name(request.job_id, "rewrite"))
        n_threads = workers.n or pa.cpu_count()
        writer = replace(writer, threads=max(1, n_threads // len(groups)))
        return Threads(n_threads).each(writer.write, groups, _group_bytes, _WRITING)

    return run_rewrite(table, terms, request, write, encode, dry_run=dry_run)


def _written_by(
    workers: Workers,
    writer: GroupWriter,
    table: WorkingTable,
    groups: Sequence[Sequence[FileTask]],
    run: str,
) -> list[RewrittenGroup]:
    """Has groups written by workers. Their files are in a folder that no other run uses."""
    lean = [[*columns_of(tasks)] for tasks in groups]
    with run_table(table, run) as (there, kept):
        write = replace(writer, table=there).write
        written = [*workers.each(write, lean, _group_bytes, _WRITING, run=run)]
        kept += [new.entry.file_path for group in written for new in group.new]
    return written


def _group_bytes(tasks: Sequence[FileTask]) -> int:
    return sum(live_bytes(task) + OPEN_BYTES for task in tasks)
