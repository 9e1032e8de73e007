"""What every job that writes has in common: the format version that it needs, and its commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from puffin_fast.errors import PuffinFastError, UnsupportedError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import attempts, commit
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.compat.locations import check_locations
from puffin_fast.iceberg.compat.pyiceberg_catalog import BusyError
from puffin_fast.iceberg.compat.working_table import WorkingTable
from puffin_fast.iceberg.plan.files import MAX_FORMAT_VERSION, metadata_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["open_table", "run_job"]


class _Planned(Protocol):
    @property
    def changes(self) -> Changes: ...


Plan = TypeVar("Plan", bound=_Planned)


def open_table(table: Table, *, oldest: int = 1) -> WorkingTable:
    """The table object of a job, at the table's newest metadata, to which the caller's object moves too.

    Args:
        table: the caller's; other threads may use it.
        oldest: the format version that the job needs at least: 3 for vectors, 2 for position-delete files.

    Raises:
        InvalidInputError: what is given is no table, or its files would be written elsewhere than it says.
        UnsupportedError: an older format version or one above 3, or PyIceberg is not known.
        NotFoundError: the table is gone.
        ConflictError: the catalog's database stays locked.
        PuffinFastError: the catalog does not answer.
    """
    properties = metadata_of(table).properties
    working = WorkingTable(table)
    for _ in attempts(properties):
        try:
            working.load()
            break
        except BusyError as error:
            busy = error
    else:
        raise busy
    check_locations(working)
    working.publish()
    name, version = working.shown, working.metadata.format_version
    if version > MAX_FORMAT_VERSION:
        raise UnsupportedError(f"{name}: format version {version}; up to {MAX_FORMAT_VERSION} are known")
    if version < oldest:
        raise UnsupportedError(
            f"{name}: format version {version}, expected {oldest} or later; "
            "puffin_fast.iceberg.upgrade(table) makes it version 3"
        )
    return working


def run_job(
    table: WorkingTable,
    plan: Callable[[Snapshot | None], Plan],
    request: Request,
    *,
    merge: bool = False,
) -> tuple[Plan | None, Committed | None]:
    """Plans on the branch's head and commits; planned anew where another commit came first.

    Args:
        table: the job's own, at its newest metadata. The caller's follows it. When nothing was committed, all
            files that the job has begun are removed.
        plan: what to change on a head.
        request: branch, job id and properties.
        merge: as `commit` takes it.

    Returns:
        The plan that stands in the table, None where the job was done before; and what was committed, None
        where there was nothing to do.
    """
    done = repeated(table.metadata, request.branch, request.job_id)
    if done is not None:
        summary = {} if done.summary is None else done.summary.additional_properties
        return None, Committed(done.snapshot_id, dict(summary), 0, Changes(), repeated=True)
    planned: Plan | None = None

    def plan_on(head: Snapshot | None) -> Changes:
        nonlocal planned
        planned = plan(head)
        return planned.changes

    base = head_of(table.metadata, request.branch)
    try:
        changes = plan_on(base)
        if not changes:
            return planned, None
        committed = commit(
            table,
            changes,
            base=base,
            branch=request.branch,
            job_id=request.job_id,
            snapshot_properties=request.snapshot_properties,
            rebuild=plan_on,
            merge=merge,
        )
    except OSError as error:
        table.remove_created()
        raise PuffinFastError(f"{table.shown}: nothing was committed: {error}") from error
    except BaseException:
        table.remove_created()
        raise
    finally:
        table.publish()
    return (None if committed is not None and committed.repeated else planned), committed
