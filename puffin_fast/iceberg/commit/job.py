"""What all jobs that write have in common: the check of the format version, and the commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._process.outcome import until_commit
from puffin_fast.errors import NotFoundError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.catalogs.catalog_commit import BusyError
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import attempts, commit
from puffin_fast.iceberg.commit.request import Committed, Request, committed_before, head_of
from puffin_fast.iceberg.compat.locations import check_locations
from puffin_fast.iceberg.plan.files import MAX_FORMAT_VERSION, metadata_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


class ChangePlan(Protocol):
    """A plan of a job: the changes to commit, and what the job's result needs."""

    @property
    def changes(self) -> Changes: ...


Plan = TypeVar("Plan", bound=ChangePlan)
"""The changes to commit, and what the job's result needs."""


@until_commit()
def open_table(table: Table, *, oldest: int = 1) -> WorkingTable:
    """Makes the table object of a job. It and the caller's object have the table's newest metadata afterwards.

    Args:
        table: the caller's table. Other threads may use it.
        oldest: the lowest format version: 3 for deletion vectors, 2 for position-delete files.

    Raises:
        InvalidInputError: not a table, or PyIceberg would write its files to other locations.
        UnsupportedError: the table's format version or the version of PyIceberg.
        NotFoundError: the table no longer exists.
        ConflictError: the catalog's database was locked in all attempts.
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


def _on_current(
    table: WorkingTable,
    plan_on: Callable[[Snapshot | None], Changes],
    base: Snapshot | None,
    request: Request,
) -> tuple[Snapshot | None, Changes]:
    """Plans on a head. If a file of it is missing, plans again on a newer one: it may have expired meanwhile."""
    for _ in attempts(table.metadata.properties):
        try:
            return base, plan_on(base)
        except NotFoundError as error:
            missing = error
        table.remove_created()
        table.load()
        current = head_of(table.metadata, request.branch)
        if base is None or current is None or current.snapshot_id == base.snapshot_id:
            break
        base = current
    raise missing


def run_job(
    table: WorkingTable,
    plan: Callable[[Snapshot | None], Plan],
    request: Request,
    *,
    merge: bool = False,
) -> tuple[Plan | None, Committed | None]:
    """Plans on the branch's head and commits. If another commit comes first, the job may be planned again.

    Args:
        table: the table of the job, with the newest metadata. The caller's object has the new metadata afterwards. If
            nothing was committed, all files that the job has begun are removed.
        plan: returns the changes on a head.
        request: branch, job id and properties.
        merge: as `commit` takes it.

    Returns:
        The committed plan, None if the job was repeated; and the commit, None if there was nothing to change.
    """
    done = committed_before(table, request)
    if done is not None:
        return None, done
    planned: Plan | None = None

    def plan_on(head: Snapshot | None) -> Changes:
        nonlocal planned
        planned = plan(head)
        return planned.changes

    base = head_of(table.metadata, request.branch)
    try:
        base, changes = _on_current(table, plan_on, base, request)
        if not changes:
            return planned, None
        committed = commit(
            table,
            changes,
            base=base,
            request=request,
            rebuild=plan_on,
            merge=merge,
        )
    except OSError as error:
        table.remove_created()
        if is_from_outside(error):
            raise
        raise PuffinFastError(f"{table.shown}: nothing was committed: {error}") from error
    except BaseException as error:
        table.remove_created()
        table.note_outcome(error)
        raise
    finally:
        table.publish()
    return (None if committed is not None and committed.repeated else planned), committed
