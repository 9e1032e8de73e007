"""One request to the catalog: a new snapshot, a format version, a statistics file or an expiry, and how it ended.

| ends with | meaning |
|---|---|
| return | the catalog made the commit; the table object has the new metadata |
| `LostRaceError`, `BusyError` | nothing happened: another commit came first, or the catalog's database was locked |
| `CommitUnknownError` | the catalog did not answer, and the table as loaded again does not prove either |
| other `PuffinFastError` | nothing happened: the catalog refused, or the metadata was not written |
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.compat.complete_metadata import read_complete
from puffin_fast.iceberg.compat.sql_catalog import is_locked, roll_back_returned_connections
from puffin_fast.iceberg.compat.table_metadata import metadata_writing, writes_metadata
from puffin_fast.iceberg.compat.table_updates import (
    AssertFormatVersion,
    AssertLastSequenceNumber,
    AssertReferences,
    AssertSnapshots,
    AssertStatistics,
    UpgradeToV3,
    references_of,
    statistics_path,
)


class LostRaceError(ConflictError):
    """The catalog refused a commit because another one came first. Nothing happened, so it can be retried."""


class BusyError(LostRaceError):
    """The catalog's database was locked by others until its timeout. Nothing happened."""

    @classmethod
    def of(cls, name: str, error: BaseException) -> BusyError:
        """Makes the error for a table from the one that SQLAlchemy raised."""
        return cls(f"{name}: the catalog's database is busy: {getattr(error, 'orig', error)}")


def _ignore(*_: object) -> None:
    pass


def commit_snapshot(
    table: Table,
    snapshot: Snapshot,
    *,
    branch: str = MAIN_BRANCH,
    begun: Callable[[str], object] = _ignore,
    sent: Callable[[], object] = _ignore,
) -> None:
    """Makes a snapshot the head of a branch, if the snapshot's parent is still the head. Its files are written.

    Args:
        table: has the new metadata afterwards. Its metadata before is the base of the commit.
        snapshot: the branch must point to its parent. If it has none, the branch must not exist.
        branch: created if it does not exist.
        begun: called with the path of the new metadata before it is written, if this process writes it.
        sent: called right before the catalog may make the commit.

    Raises:
        LostRaceError: another commit came first. Nothing happened.
        PuffinFastError: the catalog refused for another reason. Nothing happened.
        CommitUnknownError: neither the catalog's answer nor the table shows whether the commit happened.
    """
    base, head = table.metadata, snapshot.parent_snapshot_id
    reference = base.refs.get(branch)
    updates: tuple[TableUpdate, ...] = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(  # type: ignore[call-arg]
            ref_name=branch,
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot.snapshot_id,
            max_ref_age_ms=reference.max_ref_age_ms if reference else None,
            max_snapshot_age_ms=reference.max_snapshot_age_ms if reference else None,
            min_snapshots_to_keep=reference.min_snapshots_to_keep if reference else None,
        ),
    )

    def landed(metadata: TableMetadata) -> bool | None:
        if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
            return True
        now = metadata.refs.get(branch)
        moved = (now.snapshot_id if now else None) != head or metadata.format_version != base.format_version
        return False if moved else None

    requirement = AssertRefSnapshotId(ref=branch, snapshot_id=head)  # type: ignore[call-arg]
    _commit(table, updates, (requirement,), landed, begun, sent, settle_refusals=False)


def commit_upgrade(
    table: Table, *, begun: Callable[[str], object] = _ignore, sent: Callable[[], object] = _ignore
) -> None:
    """Raises a table's format version to 3. The next commit assigns row ids to the existing rows.

    Args:
        table: has the new metadata afterwards.
        begun, sent: as for `commit_snapshot`.

    Raises:
        LostRaceError, PuffinFastError, CommitUnknownError: as `commit_snapshot`.
    """
    metastore = isinstance(table.catalog, MetastoreCatalog)
    update = (UpgradeToV3 if metastore else UpgradeFormatVersionUpdate).model_validate({"format-version": 3})

    def landed(metadata: TableMetadata) -> bool | None:
        return True if metadata.format_version >= 3 else None

    _commit(table, (update,), (), landed, begun, sent)


def commit_statistics(
    table: Table,
    statistics: StatisticsFile,
    *,
    begun: Callable[[str], object] = _ignore,
    sent: Callable[[], object] = _ignore,
) -> None:
    """Makes a statistics file that is written the one of its snapshot, in place of an earlier one.

    Args:
        table: has the new metadata afterwards.
        begun, sent: as for `commit_snapshot`.

    Raises:
        LostRaceError, PuffinFastError, CommitUnknownError: as `commit_snapshot`.
    """
    path, snapshot_id = statistics.statistics_path, statistics.snapshot_id
    requirements: tuple[Any, ...] = ()
    if isinstance(table.catalog, MetastoreCatalog):
        earlier = statistics_path(table.metadata, snapshot_id)
        requirements = (AssertStatistics(snapshot_id=snapshot_id, statistics_path=earlier),)

    def landed(metadata: TableMetadata) -> bool | None:
        return True if any(known.statistics_path == path for known in metadata.statistics) else None

    update = SetStatisticsUpdate(statistics=statistics)  # type: ignore[call-arg]
    _commit(table, (update,), requirements, landed, begun, sent)


def commit_expiry(
    table: Table,
    snapshot_ids: Collection[int],
    references: Collection[str],
    *,
    begun: Callable[[str], object] = _ignore,
    sent: Callable[[], object] = _ignore,
) -> None:
    """Removes snapshots, their statistics, and branches and tags from a table's metadata.

    Args:
        table: has the new metadata afterwards.
        snapshot_ids: ids of snapshots that no other branch or tag points to.
        references: names of branches and tags.
        begun, sent: as for `commit_snapshot`.

    Raises:
        LostRaceError: another commit came first; also one that made, moved or removed a branch or tag, except a new
            one in a REST catalog.
        PuffinFastError, CommitUnknownError: as `commit_snapshot`.
    """
    base, gone = table.metadata, set(snapshot_ids)
    updates: list[Any] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in references]
    for known, update in (
        (base.statistics, RemoveStatisticsUpdate),
        (base.partition_statistics, RemovePartitionStatisticsUpdate),
    ):
        ids = sorted({file.snapshot_id for file in known} & gone)
        updates += [update.model_validate({"snapshot-id": snapshot_id}) for snapshot_id in ids]
    if gone:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(gone)}))
    stated = references_of(base)
    requirements: tuple[Any, ...] = (
        AssertReferences(references=stated),
        AssertSnapshots(snapshot_ids=sorted(gone)),
    )
    if not isinstance(table.catalog, MetastoreCatalog):
        requirements = tuple(
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": head})
            for name, head in stated.items()
        )

    def landed(metadata: TableMetadata) -> bool | None:
        left = gone.intersection(snapshot.snapshot_id for snapshot in metadata.snapshots)
        return None if left or set(references) & metadata.refs.keys() else True

    _commit(table, tuple(updates), requirements, landed, begun, sent)


def _commit(
    table: Table,
    updates: tuple[TableUpdate, ...],
    requirements: tuple[TableRequirement, ...],
    landed: Callable[[TableMetadata], bool | None],
    begun: Callable[[str], object],
    sent: Callable[[], object],
    *,
    settle_refusals: bool = True,
) -> None:
    """Sends one request.

    A server may refuse a request that it has carried out, as its client or a proxy repeats requests. `settle_refusals`
    says to load the table then; `commit` does that itself for snapshots.
    """
    catalog, base, name = table.catalog, table.metadata, ".".join(table.name())
    required: list[Any] = [AssertTableUUID(uuid=base.table_uuid), *requirements]
    is_metastore = isinstance(catalog, MetastoreCatalog)
    is_sent = not writes_metadata(catalog)
    if is_metastore:
        required += [
            AssertLastSequenceNumber(last_sequence_number=getattr(base, "last_sequence_number", 0)),
            AssertFormatVersion(format_version=base.format_version),
        ]
        try:
            with interruptible():
                update_table_metadata(base, updates)
        except (ValueError, ValidationError) as error:
            raise InvalidInputError(f"{name}: {error}") from error

    def send() -> None:
        nonlocal is_sent
        is_sent = True
        sent()

    if is_sent:
        sent()
    roll_back_returned_connections(catalog)
    try:
        with interruptible(), metadata_writing(catalog, begun, send):
            response = catalog.commit_table(table, tuple(required), updates)
    except (CommitFailedException, TooManyRequestsError) as error:
        if is_metastore or not settle_refusals:
            raise LostRaceError(f"{name}: {error}") from error
        _settle(table, error, landed)
    except PuffinFastError:
        raise
    except NoSuchTableError as error:
        raise NotFoundError(f"{name}: {error}") from error
    except NotImplementedError as error:
        raise UnsupportedError(f"{type(catalog).__name__} does not commit: {error}") from error
    except Exception as error:
        if is_from_outside(error):
            raise
        if is_locked(error):
            raise BusyError.of(name, error) from error
        if not is_sent:
            raise PuffinFastError(f"{name}: the metadata could not be written: {error}") from error
        _settle(table, error, landed)
    else:
        table.metadata, table.metadata_location = response.metadata, response.metadata_location


def _settle(table: Table, error: Exception, landed: Callable[[TableMetadata], bool | None]) -> None:
    """Loads the table after an error that leaves open whether the commit happened, and decides by its metadata."""
    name = ".".join(table.name())
    try:
        with interruptible():
            fresh = table.catalog.load_table(table.name())
            fresh.metadata = read_complete(fresh)
        verdict = landed(fresh.metadata)
    except Exception as trouble:
        if is_from_outside(trouble):
            raise
        raise _unknown(name, error) from error
    if verdict:
        table.metadata, table.metadata_location = fresh.metadata, fresh.metadata_location
        return
    if verdict is False or isinstance(error, CommitFailedException | TooManyRequestsError):
        raise LostRaceError(f"{name}: {error}") from error
    refused = (BadRequestError, UnauthorizedError, ForbiddenError, AuthorizationExpiredError)
    reason = getattr(error, "orig", error)
    if isinstance(reason, (*refused, sqlite3.Error)):
        raise PuffinFastError(f"{name}: the catalog refused the commit: {reason}") from error
    raise _unknown(name, error) from error


def _unknown(name: str, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(
        f"{name}: it is unknown whether the commit happened, because the catalog did not answer "
        f"({type(error).__name__}: {error}). "
        "No file was removed. Load the table again, and repeat the job if its newest snapshot is not of this job"
    )
