"""The job of a rewrite of data files: chooses groups of them, has them written once, and replaces them.

The data files are read and written once, with one exception. If another commit comes first, only the manifests are read
again:

```
a data file of a group meanwhile                    the group
got row ids: the first snapshot after an upgrade    is read and written again, once: the new files store the row ids
has other deletes by position                       replaces it; the deletes are moved to the new files
has other equality deletes                          replaces it; they apply to the new files, which are older
is gone, or deletes that were applied are undone    is left out, its new files are removed
```
If all groups are left out, the job is a conflict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue

from puffin_fast._api.arguments import check_flags
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._process.outcome import note_earlier
from puffin_fast.errors import (
    ConflictError,
    JobInterruptedError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.job import open_table, run_job
from puffin_fast.iceberg.commit.request import Request, head_of
from puffin_fast.iceberg.compat.table_properties import target_file_size
from puffin_fast.iceberg.delete_files.writer import ChangeTerms, WrittenDeletes, write_deletes
from puffin_fast.iceberg.dml.attempt import commit_of
from puffin_fast.iceberg.index.build import extend_indexes
from puffin_fast.iceberg.index.segment_maker import Encode
from puffin_fast.iceberg.maintenance.rewrite import REPLACE
from puffin_fast.iceberg.maintenance.rewritten_groups import LINEAGE, RewrittenGroup, with_new_ids
from puffin_fast.iceberg.manifest import EQUALITY_DELETES
from puffin_fast.iceberg.plan.delete_index import FileTask, unused
from puffin_fast.iceberg.plan.files import Plan, plan_snapshot
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.rewrite.file_groups import GroupLimits, RewriteTerms
from puffin_fast.rows.shared_deletes import single_data_file
from puffin_fast.verbs.maintenance import RewriteDataFilesResult
from puffin_fast.verbs.results import Commit
from puffin_fast.verbs.rewrite_data_files import counts_of, rewritten_in_parts

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.manifest import ManifestEntry


WriteGroups = Callable[
    ["WorkingTable", "Snapshot", Sequence[Sequence[FileTask]], int], Iterable[RewrittenGroup]
]
"""Writes the live rows of groups of a snapshot's data files, to files of a target size."""


def run_rewrite(
    table: Table,
    terms: RewriteTerms,
    request: Request,
    write: WriteGroups,
    encode: Encode | None,
    *,
    dry_run: bool,
) -> RewriteDataFilesResult:
    """Chooses data files, calls `write` once, and commits; the common part of one machine and Spark.

    Args:
        table, terms, request, dry_run: those of the rewrite.
        write: writes groups of data files.
        encode: makes segments of key indexes of the new data files; None: indexes stay as they are.

    Raises:
        PuffinFastError: as `rewrite_data_files`.
    """
    started = time.perf_counter()
    check_flags(dry_run=dry_run)
    job = _opened(table, terms, write, dry_run=dry_run)
    if terms.max_commits == 1 or dry_run:
        result = job.run(request)
    else:
        groups = job.groups(head_of(job.table.metadata, request.branch))

        def part(paths: tuple[tuple[str, ...], ...]) -> RewriteDataFilesResult:
            opened = _opened(table, terms, write)
            return replace(opened, chosen=paths, committed=job.committed).run(request)

        result = rewritten_in_parts(groups, terms.max_commits, part, "snapshot")
    if encode is not None and job.committed:
        result = _with_indexes(table, result, frozenset(job.committed), request, encode)
    seconds = time.perf_counter() - started
    return replace(result, commit=replace(result.commit, seconds=seconds), dry_run=dry_run)


def _with_indexes(
    table: Table, result: RewriteDataFilesResult, paths: Collection[str], request: Request, encode: Encode
) -> RewriteDataFilesResult:
    """Adds new data files to the key indexes of a table whose data files were rewritten."""
    notes: list[str] = []
    done = f"the rewritten data files are committed up to snapshot {result.commit.id}"
    try:
        found = extend_indexes(table, paths, encode, branch=request.branch, notes=notes)
    except JobInterruptedError as error:
        raise JobInterruptedError(
            f"{done}; the key indexes do not have them, because Spark's job was cancelled"
        ) from error
    except BaseException as error:
        note_earlier(error, f"this is the key index: {done}")
        raise
    return replace(result, key_indexes=found, notes=tuple(notes))


def _opened(table: Table, terms: RewriteTerms, write: WriteGroups, *, dry_run: bool = False) -> _Rewrite:
    working = open_table(table, oldest=2)
    schema = working.schema()
    if working.metadata.format_version > 2 and (own := {field.name for field in schema.fields} & {*LINEAGE}):
        raise UnsupportedError(
            f"{working.shown}: column {min(own)} has the name of a metadata column, which new data files store"
        )
    matcher = RowFilter.bind(terms.row_filter, schema, case_sensitive=terms.case_sensitive)
    return _Rewrite(
        working,
        matcher,
        terms.limits(working.metadata, target_file_size(working.metadata.properties)),
        write,
        dry_run,
        _Written(),
    )


@dataclass(frozen=True)
class _RewritePlan:
    """The changes of a rewrite on one head, and their counts."""

    counts: RewriteDataFilesResult = field(default_factory=RewriteDataFilesResult)
    changes: Changes = field(default_factory=Changes)


@dataclass
class _Written:
    """The groups that the job has written and that may still be committed; None before it has written any.

    Attributes:
        groups: a group that was left out on one head stays left out: its files are removed.
        format_version: the format version of the table when they were written.
        n_left_out: number of data files of the other groups.
    """

    groups: tuple[RewrittenGroup, ...] | None = None
    format_version: int = 0
    n_left_out: int = 0


@dataclass(frozen=True)
class _Rewrite:
    """A rewrite that can be planned on any head; data files are read and written on the first one only."""

    table: WorkingTable
    matcher: RowFilter
    limits: GroupLimits
    write: WriteGroups
    dry_run: bool
    written: _Written
    chosen: tuple[tuple[str, ...], ...] | None = None
    """The paths of the data files of each group; None: the job chooses."""
    committed: list[str] = field(default_factory=list)
    """The paths of the new data files of its commits."""

    def run(self, request: Request) -> RewriteDataFilesResult:
        """Plans and commits once."""
        planned, committed = run_job(self.table, self.on, request, merge=True)
        is_done = committed is not None and not committed.repeated
        if is_done:
            self.committed.extend(
                new.entry.file_path for group in self.written.groups or () for new in group.new
            )
        counts = RewriteDataFilesResult() if planned is None else planned.counts
        made = replace(commit_of(committed), files=counts.commit.files, n_bytes=counts.commit.n_bytes)
        return replace(counts, commit=made, commits=int(is_done))

    def groups(self, head: Snapshot | None) -> list[list[FileTask]]:
        """The data files to rewrite, grouped."""
        return self._choose(head, self._plan(head, RowFilter.bind(AlwaysTrue(), self.table.schema())))

    def on(self, head: Snapshot | None) -> _RewritePlan:
        """Writes the files of one commit."""
        current = self._plan(head, RowFilter.bind(AlwaysTrue(), self.table.schema()))
        if self.written.groups is None:
            groups = self._choose(head, current)
            if self.dry_run or head is None or not groups:
                return _RewritePlan(counts_of([task for group in groups for task in group]))
            self.written.groups = self._write(groups, head)
            self.written.format_version = self.table.metadata.format_version
        elif head is not None:
            kept, again = with_new_ids(self.written.groups, current.tasks)
            self.written.groups = (*kept, *(self._write(again, head) if again else ()))
        return self._replace(current)

    def _plan(self, head: Snapshot | None, matcher: RowFilter) -> Plan:
        return plan_snapshot(self.table, head, self.table.schema(), matcher)

    def _choose(self, head: Snapshot | None, current: Plan) -> list[list[FileTask]]:
        """Groups the data files that the filter selects; their tasks have all deletes, which the filter may prune."""
        tasks = current.tasks
        if self.chosen is not None:
            known = {task.data.file_path: task for task in tasks}
            there = ([known[path] for path in paths if path in known] for paths in self.chosen)
            return [group for group in there if group]
        if not self.matcher.always_true:
            selected = {task.data.file_path for task in self._plan(head, self.matcher).tasks}
            tasks = [task for task in tasks if task.data.file_path in selected]
        return self.limits.groups(tasks)

    def _write(self, groups: Sequence[Sequence[FileTask]], head: Snapshot) -> tuple[RewrittenGroup, ...]:
        try:
            return tuple(self.write(self.table, head, groups, self.limits.target_file_size))
        except OSError as error:
            if is_from_outside(error):
                raise
            raise PuffinFastError(f"{self.table.shown}: data files could not be written: {error}") from error

    def _replace(self, current: Plan) -> _RewritePlan:
        """Replaces the old files by the written ones, as far as a snapshot still has the old ones."""
        table, written = self.table, self.written
        if table.metadata.format_version != written.format_version:
            raise ConflictError(
                f"{table.shown}: another commit raised the format version from {written.format_version} to "
                f"{table.metadata.format_version} while data files were rewritten"
            )
        tasks = {task.data.file_path: task for task in current.tasks}
        loader = DeleteLoader(table.io)
        groups: list[RewrittenGroup] = []
        moved: list[NewDeletes] = []
        for group in written.groups or ():
            since = group.deletes_since(tasks, loader)
            if since is None:
                written.n_left_out += len(group.old)
            else:
                groups.append(group)
                moved += since
        written.groups = tuple(groups)
        if not groups:
            raise ConflictError(
                f"{table.shown}: other commits changed or removed all {written.n_left_out} data files meanwhile"
            )
        old = {
            old.task.data.file_path: tasks[old.task.data.file_path] for group in groups for old in group.old
        }
        deletes = _obsolete(current, old, min(group.sequence_number for group in groups))
        removed = (*(task.data for task in old.values()), *deletes)
        terms = ChangeTerms(also_removed=removed, operation=REPLACE)
        of_deletes = WrittenDeletes.of(table, write_deletes(table, moved), terms)
        new = [file.entry for group in groups for file in group.new]
        changes = replace(
            of_deletes.changes,
            added=(*new, *of_deletes.changes.added),
            new_files=(*(entry.file_path for entry in new), *of_deletes.changes.new_files),
            bound_to_head=True,
        )
        rows = sum(entry.record_count for entry in new)
        n_bytes = sum(entry.file_size_in_bytes for entry in new)
        counts = replace(
            counts_of(list(old.values())),
            commit=Commit(files=len(changes.new_files), n_bytes=n_bytes + of_deletes.n_bytes),
            data_files_written=len(new),
            rows=rows,
            rows_purged=sum(task.data.record_count for task in old.values()) - rows,
            deletes_removed=len(deletes),
            deletes_moved=of_deletes.rows,
            data_files_left_out=written.n_left_out,
        )
        return _RewritePlan(counts, changes)


def _obsolete(current: Plan, old: Mapping[str, FileTask], sequence_number: int) -> list[ManifestEntry]:
    """Returns the delete files that no data file needs any more.

    Args:
        current: all files of the snapshot.
        old: the data files to remove, by path.
        sequence_number: data sequence number of the new files; later equality deletes apply to them.
    """
    others = [task for task in current.tasks if task.data.file_path not in old]
    dangling = set(map(id, current.unused))
    # a vector supersedes position-delete files; if it lacks positions, `repair` takes them from there
    has_vectors = any(task.vector is not None for task in others)
    found = []
    for entry in unused(current.delete_files, chain.from_iterable(task.groups for task in others)):
        is_of_one = entry.content != EQUALITY_DELETES and single_data_file(entry) in old
        if entry.content == EQUALITY_DELETES:
            is_free = (entry.sequence_number or 0) <= sequence_number
        else:
            is_free = not has_vectors
        if is_of_one or (is_free and id(entry) not in dangling):
            found.append(entry)
    return found
