"""A caller's options for a commit, its result, and the search for a job id in a branch's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from puffin_fast._api.arguments import check_mapping, check_name
from puffin_fast._display.html import HtmlFields
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.catalogs.working_table import with_history
from puffin_fast.iceberg.commit.changes import Changes, summary_keys
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id
from puffin_fast.iceberg.plan.files import snapshot_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.verbs.options import Options

JOB_ID = "puffin-fast.job-id"
"""Summary key of the caller's name for a job. A job whose id is in the branch's history is not repeated."""

JOB_VERB = "puffin-fast.job-verb"
"""Summary key of the job's verb: a job id names one job of one verb."""

RESERVED = summary_keys() | {"operation", JOB_ID, JOB_VERB}
"""Summary keys that no caller may set."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A caller's options for a commit.

    Attributes:
        verb: the public function that commits; recorded in the summary beside the job id.
        branch: an existing branch.
        job_id: recorded in the summary. A job whose id is in the branch's history is not repeated.
        snapshot_properties: more entries for the summary.

    Raises:
        InvalidInputError: a name or value that is not a string, a blank job id, or a name that is reserved in
            summaries.
    """

    verb: str = "commit"
    branch: str = MAIN_BRANCH
    job_id: str | None = None
    snapshot_properties: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_name("branch", self.branch, optional=False)
        check_name("job_id", self.job_id)
        check_mapping("snapshot_properties", self.snapshot_properties)
        for name in self.snapshot_properties or {}:
            if name in RESERVED:
                raise InvalidInputError(
                    f"snapshot_properties: {name!r} is reserved for the summary of the snapshot"
                )

    @classmethod
    def of(cls, options: Options) -> Request:
        """What a snapshot says of the options of a verb; raises as the class."""
        return cls(
            verb=options.verb,
            branch=options.branch,
            job_id=options.job_id,
            snapshot_properties=options.snapshot_properties,
        )

    def summary(self) -> dict[str, str]:
        """The entries of the snapshot's summary that come from the caller."""
        own = {} if self.job_id is None else {JOB_ID: self.job_id, JOB_VERB: self.verb}
        return {**(self.snapshot_properties or {}), **own}


@dataclass(frozen=True)
class Committed(HtmlFields):
    """A commit that happened.

    Attributes:
        snapshot_id: the snapshot.
        summary: its summary.
        attempts: the number of attempts: 1 if no other commit came first.
        changes: the committed changes. After a conflict they may have been planned again.
        repeated: the job id was in the branch's history, so nothing was done.
    """

    snapshot_id: int
    summary: Mapping[str, str]
    attempts: int
    changes: Changes = field(repr=False)
    repeated: bool = False


def head_of(metadata: TableMetadata, branch: str = MAIN_BRANCH) -> Snapshot | None:
    """Returns the snapshot that a branch points to; None for the main branch of a table without snapshots.

    Raises:
        NotFoundError: no such branch.
        InvalidInputError: the name of a tag.
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


def repeated(table: Table, request: Request) -> Snapshot | None:
    """Returns the snapshot in a branch's history that has the request's job id, if any.

    Raises:
        InvalidInputError: another verb committed that snapshot. A snapshot without a verb is accepted.
        UnsupportedError: the catalog's answer may lack a part of the history.
    """
    if request.job_id is None:
        return None
    metadata = with_history(table, head_of(table.metadata, request.branch))
    for snapshot in ancestors(head_of(metadata, request.branch), by_id(metadata)):
        if snapshot.summary is None or snapshot.summary.get(JOB_ID) != request.job_id:
            continue
        verb = snapshot.summary.get(JOB_VERB)
        if verb not in (None, request.verb):
            raise InvalidInputError(
                f"job_id {request.job_id!r}: expected a job of {request.verb}, found snapshot "
                f"{snapshot.snapshot_id}, which {verb} committed; give each job its own id"
            )
        return snapshot
    return None


def committed_before(table: Table, request: Request) -> Committed | None:
    """Returns the commit in a branch's history that has the request's job id, if any; raises as `repeated`."""
    done = repeated(table, request)
    if done is None:
        return None
    summary = {} if done.summary is None else done.summary.additional_properties
    return Committed(done.snapshot_id, dict(summary), 0, Changes(), repeated=True)
