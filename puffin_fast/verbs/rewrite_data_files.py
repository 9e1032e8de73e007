"""What rewrites of data files have in common: the counts of the old files, and several commits one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from puffin_fast._process.outcome import note_earlier
from puffin_fast.errors import ConflictError, JobInterruptedError
from puffin_fast.rows.rewrite.file_groups import known_deleted
from puffin_fast.rows.tasks import Task
from puffin_fast.verbs.maintenance import RewriteDataFilesResult
from puffin_fast.verbs.results import Commit

AnyTask = TypeVar("AnyTask", bound=Task)

_ADDED_UP = (
    "commits",
    "data_files",
    "data_files_written",
    "rows",
    "rows_purged",
    "deletes_removed",
    "deletes_moved",
    "n_bytes_before",
)


def counts_of(tasks: Sequence[Task]) -> RewriteDataFilesResult:
    """Returns the counts of data files to rewrite, from the metadata."""
    purged = sum(map(known_deleted, tasks))
    return RewriteDataFilesResult(
        data_files=len(tasks),
        rows=sum(task.data.record_count for task in tasks) - purged,
        rows_purged=purged,
        n_bytes_before=sum(task.data.file_size_in_bytes for task in tasks),
    )


def rewritten_in_parts(
    groups: Sequence[Sequence[AnyTask]],
    max_commits: int,
    rewrite: Callable[[tuple[tuple[str, ...], ...]], RewriteDataFilesResult],
    head: str,
) -> RewriteDataFilesResult:
    """Rewrites groups of data files in several commits. A part that conflicts is left out.

    Args:
        groups: the data files.
        max_commits: the maximum number of commits.
        rewrite: rewrites some groups, which are given by the paths of their data files, and commits.
        head: what a commit makes, ``"snapshot"`` or ``"version"``.

    Raises:
        ConflictError: all parts conflict.
        JobInterruptedError: Spark's job of a part was cancelled; names the last commit of the parts before.
    """
    paths = [tuple(task.data.file_path for task in group) for group in groups]
    size = max(1, -(-len(paths) // max_commits))
    done: list[RewriteDataFilesResult] = []
    conflict: ConflictError | None = None
    for first in range(0, len(paths), size):
        earlier = f"earlier parts are committed up to {head} {done[-1].commit.id}" if done else ""
        try:
            result = rewrite(tuple(paths[first : first + size]))
        except ConflictError as error:
            conflict = error
        except JobInterruptedError as error:
            if not done:
                raise
            raise JobInterruptedError(f"{error}; {earlier}") from error
        except BaseException as error:
            if done:
                note_earlier(error, earlier)
            raise
        else:
            done += [result] if result.commits else []
    if conflict is not None and not done:
        raise conflict
    counts = {name: sum(getattr(result, name) for result in done) for name in _ADDED_UP}
    commits = [result.commit for result in done]
    sums = {name: sum(getattr(one, name) for one in commits) for name in ("attempts", "files", "n_bytes")}
    return RewriteDataFilesResult(
        replace(commits[-1] if commits else Commit(), **sums),
        data_files_left_out=sum(map(len, paths)) - counts["data_files"],
        **counts,
    )
