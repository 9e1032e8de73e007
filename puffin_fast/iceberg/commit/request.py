"""What a caller says about a commit, what comes of it, and what the history of a branch knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of

from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.changes import Changes, summary_keys
from puffin_fast.iceberg.plan.files import snapshot_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["JOB_ID", "Committed", "Request", "head_of", "repeated"]

JOB_ID = "puffin-fast.job-id"
"""Summary key of the caller's name for a job: a job that the branch's history holds is not done again."""

RESERVED = summary_keys() | {"operation", JOB_ID}
"""Summary keys that no caller may set."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a caller says about a commit.

    Attributes:
        branch: an existing branch.
        job_id: recorded in the summary; a job that the branch's history holds is not done again.
        snapshot_properties: more entries for the summary.

    Raises:
        InvalidInputError: a name or value that is no string, an empty job id, or a name that the summary of a
            snapshot has for itself.
    """

    branch: str = MAIN_BRANCH
    job_id: str | None = None
    snapshot_properties: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.job_id is not None and (not isinstance(self.job_id, str) or not self.job_id):
            raise InvalidInputError(f"job_id: expected a string that is not empty, found {self.job_id!r}")
        if not isinstance(self.snapshot_properties, Mapping | None):
            raise InvalidInputError(
                f"snapshot_properties: expected a mapping, found {type(self.snapshot_properties).__name__}"
            )
        for name, value in (self.snapshot_properties or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidInputError(
                    f"snapshot_properties: expected strings as names and values, found {name!r}: {value!r}"
                )
            if name in RESERVED:
                raise InvalidInputError(
                    f"snapshot_properties: {name!r} is reserved for the summary of the snapshot"
                )

    def summary(self) -> dict[str, str]:
        """The entries of the snapshot's summary that come from the caller."""
        own = {} if self.job_id is None else {JOB_ID: self.job_id}
        return {**(self.snapshot_properties or {}), **own}


@dataclass(frozen=True)
class Committed:
    """What a commit left in the table.

    Attributes:
        snapshot_id: the snapshot.
        summary: its summary.
        attempts: 1 without a race.
        changes: the changes that stand in the table: on a race they may have been planned anew.
        repeated: the job id stood in the branch's history, so nothing was done.
    """

    snapshot_id: int
    summary: Mapping[str, str]
    attempts: int
    changes: Changes = field(repr=False)
    repeated: bool = False


def head_of(metadata: TableMetadata, branch: str = MAIN_BRANCH) -> Snapshot | None:
    """The snapshot that a branch points at; None for the main branch of a table without snapshots.

    Raises:
        NotFoundError: no such branch.
        InvalidInputError: a tag: it never moves.
        CorruptDataError: the metadata does not have its snapshot.
    """
    reference = metadata.refs.get(branch)
    if reference is None:
        if branch == MAIN_BRANCH:
            return snapshot_of(metadata)
        raise NotFoundError(f"branch {branch!r}: the table has {', '.join(sorted(metadata.refs)) or 'none'}")
    if reference.snapshot_ref_type != SnapshotRefType.BRANCH:
        raise InvalidInputError(f"{branch!r} is a tag; expected a branch")
    return snapshot_of(metadata, branch)


def repeated(metadata: TableMetadata, branch: str, job_id: str | None) -> Snapshot | None:
    """The snapshot of a branch's history that carries a job id, if any."""
    if job_id is None:
        return None
    history = ancestors_of(head_of(metadata, branch), metadata)
    return next((s for s in history if s.summary is not None and s.summary.get(JOB_ID) == job_id), None)
