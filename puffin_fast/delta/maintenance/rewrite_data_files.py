"""Rewrites data files with many deleted rows, and joins small ones."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from puffin_fast._concurrency.workers import Workers
from puffin_fast._io.run_folder import run_name
from puffin_fast._process.outcome import until_commit
from puffin_fast.delta.dml.attempt import commit_of
from puffin_fast.delta.dml.changes import rewrite_metrics
from puffin_fast.delta.dml.data_files import TARGET_FILE_SIZE
from puffin_fast.delta.log.action_types import as_json
from puffin_fast.delta.log.commit import Changes, JobId, commit, newest
from puffin_fast.delta.log.protocol import check_types_writable
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.delta.log.storage import TableStorage
from puffin_fast.delta.maintenance.rewritten_files import FileRewriter, removes_of
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.tasks import DeltaTask
from puffin_fast.errors import CorruptDataError
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.rewrite.file_groups import GroupLimits, RewriteTerms
from puffin_fast.verbs.maintenance import RewriteDataFilesResult
from puffin_fast.verbs.options import Options
from puffin_fast.verbs.results import Commit
from puffin_fast.verbs.rewrite_data_files import counts_of, rewritten_in_parts

_SIZE = re.compile(r"([0-9]{1,18})\s*(?:([kmgt]?)b?)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def rewrite_files(
    storage: TableStorage, terms: RewriteTerms, options: Options, workers: Workers
) -> RewriteDataFilesResult:
    """Rewrites data files; `rewrite_data_files` with checked arguments.

    Args:
        storage: the files of the table.
        terms: what is rewritten.
        options: the options of the commits.
        workers: who writes the new files.

    Raises:
        PuffinFastError: as `rewrite_data_files`.
    """
    started = time.perf_counter()
    rewrite = _Rewrite(storage, options, terms, (workers, run_name(options.job_id, "rewrite")))
    if terms.max_commits == 1 or options.dry_run:
        result = rewrite.run()
    else:
        with until_commit():
            groups = rewrite.groups(DeltaTable.of(newest(storage)))
        result = rewritten_in_parts(
            groups, terms.max_commits, lambda paths: replace(rewrite, chosen=paths).run(), "version"
        )
    seconds = time.perf_counter() - started
    return replace(result, commit=replace(result.commit, seconds=seconds), dry_run=options.dry_run)


@dataclass(frozen=True)
class RewritePlan:
    """The changes of a rewrite of one version, and their counts."""

    counts: RewriteDataFilesResult = field(default_factory=RewriteDataFilesResult)
    changes: Changes | None = None

    @classmethod
    def of(
        cls,
        rewriter: FileRewriter,
        groups: Sequence[Sequence[DeltaTask]],
        workers: Workers,
        run: str,
        operation: str,
        parameters: Mapping[str, str | bool],
        *,
        dry_run: bool,
    ) -> RewritePlan:
        """Writes the live rows of groups of data files to new files.

        Args:
            rewriter: writes the files.
            groups: the data files.
            workers: who writes the new files.
            run: the name of the run.
            operation, parameters: for `commitInfo`.
            dry_run: only count.
        """
        table, tasks = rewriter.table, [task for group in groups for task in group]
        check_types_writable(table.snapshot.delta_schema["fields"], table.snapshot.root)
        counts = counts_of(tasks)
        if dry_run or not tasks:
            return cls(counts)
        removes, touched = removes_of(table, groups)
        rewriter.write(groups, workers, run)
        adds = rewriter.adds
        changes = Changes(
            [*removes, *adds],
            operation,
            touched,
            tuple(rewriter.written),
            parameters,
            rewrite_metrics(removes, adds),
            keeps_row_ids=rewriter.keeps_row_ids,
        )
        counts = replace(
            counts,
            commit=Commit(files=len(adds), n_bytes=sum(action["add"]["size"] for action in adds)),
            data_files_written=len(adds),
            deletes_removed=sum(task.vector is not None for task in tasks),
        )
        return cls(counts, changes)


@dataclass(frozen=True)
class _Rewrite:
    """A rewrite that can be planned on any version.

    Attributes:
        workers: who writes the new files, and the name of the run.
        chosen: the locations of the data files of each group; None: `terms` choose.
    """

    storage: TableStorage
    options: Options
    terms: RewriteTerms
    workers: tuple[Workers, str]
    chosen: tuple[tuple[str, ...], ...] | None = None

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
        counts = planned.counts if planned else RewriteDataFilesResult()
        made = replace(commit_of(committed), files=counts.commit.files, n_bytes=counts.commit.n_bytes)
        return replace(counts, commit=made, commits=int(committed.version is not None))

    def _bound(self, table: DeltaTable) -> RowFilter:
        terms = self.terms
        return RowFilter.bind(terms.row_filter, table.schema.schema, case_sensitive=terms.case_sensitive)

    def _limits(self, table: DeltaTable) -> GroupLimits:
        return self.terms.limits(table.metadata, target_file_size(table.snapshot))

    def groups(self, table: DeltaTable) -> list[list[DeltaTask]]:
        """Groups the data files of a version that are to be rewritten."""
        tasks = plan_files(table, self._bound(table))
        if self.chosen is None:
            return self._limits(table).groups(tasks)
        known = {task.data.file_path: task for task in tasks}
        # a group with a file that another commit removed is left out
        return [[known[path] for path in group] for group in self.chosen if known.keys() >= {*group}]

    def on(self, base: Snapshot) -> RewritePlan:
        """Writes the new files of a version, and returns the changes."""
        table = DeltaTable.of(base)
        limits = self._limits(table)
        rewriter = FileRewriter(table, limits.target_file_size, limits.order)
        parameters: dict[str, str | bool] = {
            "predicate": as_json([]),
            "zOrderBy": as_json([]),
            "clusterBy": as_json([]),
            "auto": False,
        }
        groups, (workers, run) = self.groups(table), self.workers
        return RewritePlan.of(
            rewriter, groups, workers, run, "OPTIMIZE", parameters, dry_run=self.options.dry_run
        )


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
