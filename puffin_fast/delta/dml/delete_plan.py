"""The plan of a delete and its result, for deletes in this process and on executors."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Self

from puffin_fast._runtime.html import HtmlFields
from puffin_fast.delta.dml.changes import Written, actions_of
from puffin_fast.delta.log.commit import Changes, Committed
from puffin_fast.delta.log.snapshot import Snapshot

__all__ = ["DeletePlan", "DeleteResult"]


@dataclass(frozen=True)
class DeletePlan:
    """A delete planned on one version.

    Attributes:
        written: the new vectors; in a dry run only their counts.
        changes: to commit; None in a dry run, or if there is no row to delete.
        rows_dangling: number of given rows whose path is not a data file of the table, if the job skips them.
    """

    written: Written = field(default_factory=Written)
    changes: Changes | None = None
    rows_dangling: int = 0

    @classmethod
    def of(
        cls,
        base: Snapshot,
        written: Written,
        *,
        predicate: str | None,
        looks_at_rows: bool,
        rows_dangling: int = 0,
    ) -> Self:
        """Returns the plan that commits vectors.

        Args:
            base: the version that the vectors were written for.
            written: the vectors.
            predicate: the filter in text, for `commitInfo`.
            looks_at_rows: as in `Changes`.
            rows_dangling: as the attribute.
        """
        if not written.changes:
            return cls(written, rows_dangling=rows_dangling)
        actions, touched = actions_of(base, written)
        changes = Changes(
            actions,
            "DELETE",
            touched,
            written.files,
            {"predicate": json.dumps([] if predicate is None else [predicate])},
            {
                "numDeletedRows": written.rows,
                "numRemovedFiles": written.dropped,
                "numAddedFiles": 0,
                "numDeletionVectorsAdded": written.vectors,
                "numDeletionVectorsRemoved": sum(new.task.vector is not None for new, _ in written.changes),
                "numDeletionVectorsUpdated": written.merged,
            },
            looks_at_rows,
        )
        return cls(written, changes, rows_dangling)


@dataclass(frozen=True)
class DeleteResult(HtmlFields):
    """The result of a delete.

    Attributes:
        version: the new version; None if there was no row to delete, and nothing was committed.
        rows_deleted: number of newly deleted rows.
        data_files: number of data files with newly deleted rows, removed ones included.
        data_files_dropped: number of data files removed from the table because all their rows are deleted.
        vectors_written: number of deletion vectors written.
        vectors_merged: number of data files whose new deletes include earlier ones.
        n_bytes: size of the files of vectors.
        seconds: wall time.
        attempts: number of commit attempts: 1 without a conflict, 0 without a commit.
        repeated: True if the job id was in the log already, and nothing was done.
    """

    version: int | None
    rows_deleted: int = 0
    data_files: int = 0
    data_files_dropped: int = 0
    vectors_written: int = 0
    vectors_merged: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    attempts: int = 0
    repeated: bool = False

    @classmethod
    def of(cls, plan: DeletePlan, committed: Committed, started: float) -> Self:
        """Returns the result of a delete.

        Args:
            plan: the last plan; an empty one if the job was repeated.
            committed: the commit.
            started: the start time, by `time.perf_counter`.
        """
        written = plan.written
        return cls(
            version=committed.version,
            rows_deleted=written.rows,
            data_files=len(written.changes),
            data_files_dropped=written.dropped,
            vectors_written=written.vectors,
            vectors_merged=written.merged,
            n_bytes=written.n_bytes,
            seconds=time.perf_counter() - started,
            attempts=committed.attempts,
            repeated=committed.repeated,
        )
