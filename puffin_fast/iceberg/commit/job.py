"""What every job that writes has in common: the format version that it needs, and its commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import ValidationError as InvalidMetadata
from pyiceberg.exceptions import NoSuchTableError, ValidationError

from puffin_fast.errors import NotFoundError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import Committed, commit, head_of, repeated, retries
from puffin_fast.iceberg.compat.pyiceberg_catalog import (
    BusyError,
    check_version,
    is_locked,
    roll_back_returned_connections,
)
from puffin_fast.iceberg.plan.files import MAX_FORMAT_VERSION

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["refresh", "refresh_v3", "run_job"]


class _Planned(Protocol):
    @property
    def changes(self) -> Changes: ...


Plan = TypeVar("Plan", bound=_Planned)


def refresh(table: Table) -> None:
    """Moves a table to its newest metadata.

    Raises:
        UnsupportedError: its format version is above 3, or PyIceberg is not known.
        NotFoundError: it is gone.
        ConflictError: the catalog's database stays locked.
        PuffinFastError: the catalog does not answer.
    """
    check_version()
    roll_back_returned_connections(table.catalog)
    for attempt in retries(table.metadata.properties):
        with attempt:
            _load(table)
    name, version = ".".join(table.name()), table.metadata.format_version
    if version > MAX_FORMAT_VERSION:
        raise UnsupportedError(f"{name}: format version {version}; up to {MAX_FORMAT_VERSION} are known")


def _load(table: Table) -> None:
    name = ".".join(table.name())
    try:
        table.refresh()
    except (ValidationError, InvalidMetadata) as error:
        raise UnsupportedError(f"{name}: metadata that PyIceberg does not read: {error}") from error
    except NoSuchTableError as error:
        raise NotFoundError(f"{name}: {error}") from error
    except NotImplementedError as error:
        raise UnsupportedError(f"{name}: {type(table).__name__} is not of a catalog: {error}") from error
    except PuffinFastError:
        raise
    except Exception as error:
        if is_locked(error):
            raise BusyError.of(name, error) from error
        raise PuffinFastError(f"{name}: the table could not be loaded: {error}") from error


def refresh_v3(table: Table, *, oldest: int = 3) -> None:
    """Moves a table to its newest metadata, and checks that it can take vectors.

    Args:
        table: any.
        oldest: 2 where position-delete files will do.

    Raises:
        UnsupportedError: it is not of format version 3, or PyIceberg is not known.
    """
    refresh(table)
    name, version = ".".join(table.name()), table.metadata.format_version
    if version < oldest:
        lacks = "deletion vectors" if version > 1 else "deletes"
        raise UnsupportedError(
            f"{name}: format version {version} has no {lacks}; "
            "puffin_fast.iceberg.upgrade(table) makes it version 3"
        )


def run_job(
    table: Table,
    plan: Callable[[Snapshot | None], Plan],
    *,
    branch: str,
    job_id: str | None,
    snapshot_properties: Mapping[str, str] | None,
    merge: bool,
) -> tuple[Plan | None, Committed | None]:
    """Plans on the branch's head and commits; planned anew where another commit came first.

    Args:
        table: at its newest metadata.
        plan: what to change on a head.
        branch, job_id, snapshot_properties, merge: as `commit` takes them.

    Returns:
        The plan that stands in the table, None where the job was done before; and what was committed, None
        where there was nothing to do.
    """
    done = repeated(table.metadata, branch, job_id)
    if done is not None:
        summary = {} if done.summary is None else done.summary.additional_properties
        return None, Committed(done.snapshot_id, dict(summary), 0, Changes(), repeated=True)
    base = head_of(table.metadata, branch)
    try:
        planned = plan(base)
    except OSError as error:
        raise PuffinFastError(f"{'.'.join(table.name())}: nothing was committed: {error}") from error
    if not planned.changes:
        return planned, None

    def again(head: Snapshot | None) -> Changes:
        nonlocal planned
        planned = plan(head)
        return planned.changes

    committed = commit(
        table,
        planned.changes,
        base=base,
        branch=branch,
        job_id=job_id,
        snapshot_properties=snapshot_properties,
        rebuild=again,
        merge=merge,
    )
    return (None if committed is not None and committed.repeated else planned), committed
