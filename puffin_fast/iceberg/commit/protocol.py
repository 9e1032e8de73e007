"""One atomic commit from a description of files: manifest list, snapshot, and what to do on a race.

A commit names its base snapshot. When the catalog says that another commit came first, the table is loaded
again and what came in is held against what this commit relies on: if both can stand, it is built on top and
tried again; if not, it is planned anew where the caller allows it, else refused. Files of a commit that did
not happen are removed; when nobody can say whether it happened, nothing is.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, ancestors_of
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.commit.changes import Changes, summarise
from puffin_fast.iceberg.commit.conflicts import concurrent_changes
from puffin_fast.iceberg.commit.snapshot_manifests import SnapshotManifests
from puffin_fast.iceberg.compat.pyiceberg_catalog import (
    BusyError,
    LostRaceError,
    check_version,
    commit_snapshot,
    is_locked,
)
from puffin_fast.iceberg.manifest import write_manifest_list
from puffin_fast.iceberg.plan.files import snapshot_of

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["JOB_ID", "Committed", "commit", "head_of", "remove_files", "repeated", "retries"]

JOB_ID = "puffin-fast.job-id"
"""Summary key of the caller's name for a job: a job that the branch's history holds is not done again."""

Rebuild = Callable[[Snapshot | None], Changes | None]


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


def commit(
    table: Table,
    changes: Changes,
    *,
    base: Snapshot | None,
    branch: str = MAIN_BRANCH,
    job_id: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    rebuild: Rebuild | None = None,
    merge: bool = False,
) -> Committed | None:
    """Commits changes that were planned on a base snapshot.

    Args:
        table: any PyIceberg table of format version 2 or 3; moved to the new metadata on success.
        changes: what to add and remove.
        base: the branch's head that the changes were planned on; None for an empty branch.
        branch: an existing branch.
        job_id: recorded in the summary; a job that the branch's history holds is not done again.
        snapshot_properties: more entries for the summary.
        rebuild: plans the changes anew on another head (None: nothing is left to do). It is called where
            another commit added data files that matter; without it that is a conflict.
        merge: call `rebuild` also where another commit changed or removed what this one touches.

    Returns:
        What was committed; None when `rebuild` found nothing left to do.

    Raises:
        ConflictError: another commit took away what this one relies on, or the races did not end; the table
            is unchanged and this commit's files are removed.
        CommitUnknownError: the outcome is unknown; nothing was removed.
        UnsupportedError: the table's format version, or a PyIceberg that is not known.
    """
    check_version()
    if table.metadata.format_version not in (2, 3):
        raise UnsupportedError(
            f"{'.'.join(table.name())}: format version {table.metadata.format_version}, expected 2 or 3"
        )
    attempt_of = _Attempt(
        table, changes, base, branch, job_id, dict(snapshot_properties or {}), rebuild, merge
    )
    try:
        for attempt in retries(table.metadata.properties):
            with attempt:
                return attempt_of.run(attempt.retry_state.attempt_number)
    except CommitUnknownError:
        raise
    except LostRaceError as error:
        try:
            last = attempt_of.landed()
        except BusyError as busy:
            if attempt_of.last is not None:
                raise _unknown(table, busy) from error
            last = None
        if last is not None:
            return last
        attempt_of.give_up()
        raise
    except OSError as error:
        attempt_of.give_up()
        raise PuffinFastError(
            f"{'.'.join(table.name())}: the commit's files could not be written: {error}"
        ) from error
    except Exception:
        attempt_of.give_up()
        raise
    raise AssertionError("tenacity ended without a result")  # pragma: no cover


def retries(properties: Mapping[str, str]) -> Retrying:
    """The table's own retry properties, with Java's defaults."""

    def number(name: str, default: int) -> int:
        return max(0, int(properties.get(f"commit.retry.{name}", default)))

    return Retrying(
        retry=retry_if_exception_type(LostRaceError),
        stop=stop_after_attempt(number("num-retries", 4) + 1)
        | stop_after_delay(number("total-timeout-ms", 1_800_000) / 1000),
        wait=wait_random_exponential(
            multiplier=number("min-wait-ms", 100) / 1000, max=number("max-wait-ms", 60_000) / 1000
        ),
        reraise=True,
    )


@dataclass
class _Attempt:
    """The state of a commit over its attempts."""

    table: Table
    changes: Changes
    base: Snapshot | None
    branch: str
    job_id: str | None
    properties: dict[str, str]
    rebuild: Rebuild | None
    merge: bool
    last: Snapshot | None = None
    metadata_files: list[str] | None = None
    number: int = 0

    def run(self, number: int) -> Committed | None:
        table = self.table
        self.number = number
        if number > 1:
            last = self.landed()
            if last is not None:
                return last
            self.clean()
        done = repeated(table.metadata, self.branch, self.job_id)
        if done is not None:
            self.give_up()
            return self.result(done, number, repeated=True)
        head = head_of(table.metadata, self.branch)
        if _id(head) != _id(self.base) and not self.move(head):
            return None
        self.metadata_files = []
        try:
            snapshot = self.write(head)
        except BaseException:
            self.clean()
            raise
        self.last = snapshot
        try:
            commit_snapshot(table, snapshot, branch=self.branch)
        except BusyError:
            self.last = None
            raise
        return self.result(snapshot, number)

    def landed(self) -> Committed | None:
        """The last attempt if it stands in the table, whatever the catalog said; moves to the new metadata.

        Raises:
            CommitUnknownError: the catalog does not answer.
            BusyError: its database is locked.
        """
        table = self.table
        try:
            table.refresh()
        except Exception as error:
            if is_locked(error):
                raise BusyError.of(".".join(table.name()), error) from error
            if self.last is None:
                raise
            raise _unknown(table, error) from error
        if self.last is None or table.metadata.snapshot_by_id(self.last.snapshot_id) is None:
            return None
        return self.result(self.last, self.number)

    def move(self, head: Snapshot | None) -> bool:
        """Holds the changes against what came in, or plans them anew; False: nothing is left to do."""
        came = concurrent_changes(self.table, self.base, head)
        conflict = came.conflict(self.changes)
        if conflict is not None and not (self.merge and self.rebuild):
            raise ConflictError(conflict)
        missed = came.missed(self.changes)
        if missed is not None and self.rebuild is None:
            raise ConflictError(missed)
        if self.rebuild is not None and (conflict or missed):
            remove_files(self.table.io, self.changes.new_files)
            changes = self.rebuild(head)
            if not changes:
                self.changes = Changes()
                return False
            self.changes = changes
        self.base = head
        return True

    def write(self, head: Snapshot | None) -> Snapshot:
        """Writes manifests and manifest list on top of a head."""
        table, metadata = self.table, self.table.metadata
        written = self.metadata_files
        assert written is not None
        snapshot_id, unique = metadata.new_snapshot_id(), uuid.uuid4()
        place = table.location_provider().new_metadata_location
        manifests = SnapshotManifests(table, snapshot_id, lambda n: place(f"{unique}-m{n}.avro"), written)
        files = manifests.on_top_of(head, self.changes)
        sequence_number = metadata.next_sequence_number()
        path = place(f"snap-{snapshot_id}-1-{unique}.avro")
        written.append(path)
        first_row_id = metadata.next_row_id or 0 if isinstance(metadata, TableMetadataV3) else None
        next_row_id = write_manifest_list(
            table.io,
            path,
            snapshot_id=snapshot_id,
            parent_snapshot_id=_id(head),
            sequence_number=sequence_number,
            manifests=files,
            first_row_id=first_row_id,
            format_version=metadata.format_version,
        )
        counts = summarise(self.changes, None if head is None else head.summary or {})
        extra = self.properties | ({} if self.job_id is None else {JOB_ID: self.job_id})
        fields: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": _id(head),
            "sequence-number": sequence_number,
            "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
            "manifest-list": path,
            "summary": Summary(Operation(self.changes.kind), **counts, **extra),
            "schema-id": metadata.current_schema_id,
        }
        if first_row_id is not None and next_row_id is not None:
            fields |= {"first-row-id": first_row_id, "added-rows": next_row_id - first_row_id}
        return Snapshot(**fields)

    def result(self, snapshot: Snapshot, number: int, *, repeated: bool = False) -> Committed:
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        return Committed(snapshot.snapshot_id, dict(summary), number, self.changes, repeated)

    def clean(self) -> None:
        """Removes the metadata files of an attempt that did not happen."""
        remove_files(self.table.io, self.metadata_files or ())
        self.metadata_files = None

    def give_up(self) -> None:
        """Removes everything that this commit brought."""
        self.clean()
        remove_files(self.table.io, self.changes.new_files)


def _unknown(table: Table, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(
        f"{'.'.join(table.name())}: the catalog refused the commit, and then did not answer "
        f"({type(error).__name__}: {error}); nothing was removed"
    )


def _id(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.snapshot_id


def remove_files(io: FileIO, paths: Iterable[str]) -> None:
    """Removes files of a commit that did not happen; one that cannot be removed stays as an orphan."""
    for path in paths:
        try:
            io.delete(path)
        except Exception:
            continue
