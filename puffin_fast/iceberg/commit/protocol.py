"""One commit: from changes whose files are written to a snapshot that is the head of a branch.

`TRANSITIONS` has what happens in each state, and which files are removed then. All errors but `CommitUnknownError` mean
that nothing was committed.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from puffin_fast._io.location import is_of_storage
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast.errors import CommitUnknownError, ConflictError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.catalogs.catalog_commit import (
    BusyError,
    LostRaceError,
    commit_snapshot,
    commit_upgrade,
)
from puffin_fast.iceberg.catalogs.working_table import WorkingTable
from puffin_fast.iceberg.commit.changes import Changes, summarise
from puffin_fast.iceberg.commit.conflicts import concurrent_changes
from puffin_fast.iceberg.commit.lost_attempt import has_landed
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.commit.snapshot_manifests import Merges, SnapshotManifests
from puffin_fast.iceberg.compat.table_properties import integer_property
from puffin_fast.iceberg.compat.table_updates import next_timestamp_ms
from puffin_fast.iceberg.manifest import write_manifest_list

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")

Rebuild = Callable[[Snapshot | None], Changes | None]


class State(Enum):
    """The states of a commit."""

    PLANNED = "data files and delete files are written for a head"
    PLACED = "they apply to the current head"
    WRITTEN = "manifests and manifest list of one attempt are written, too"
    SENT = "the catalog was asked to make the snapshot the head"
    LOST = "the catalog refused: another commit came first, or it is busy"
    COMMITTED = "the snapshot is in the table"
    REPEATED = "the branch's history has the job's id"
    UNCHANGED = "there is nothing to change"
    UNKNOWN = "the catalog did not answer, or the job was interrupted before"
    FAILED = "nothing was committed"


class Event(Enum):
    """The events of a commit."""

    DONE_BEFORE = "the branch's history has the job's id"
    NO_CONFLICT = "the head is the same, or it moved without a conflict"
    PLANNED_AGAIN = "the head moved or the table was upgraded, and the changes were planned again on it"
    NO_CHANGES = "the same, and the new plan changes nothing"
    READY = "manifests are written on top of the head"
    REQUESTED = "the request is complete"
    AGREED = "the catalog agrees"
    REFUSED = "LostRaceError, BusyError"
    FOUND = "the loaded table has, or had, the snapshot after all"
    NOT_FOUND = "the loaded table does not have it, and another attempt is allowed"
    BUSY = "the catalog's database is locked, and another attempt is allowed"
    NO_ANSWER = "CommitUnknownError, or an interrupt after which the table was not loaded"
    ERROR = "a conflict, as many attempts as are allowed, another error or an interrupt"


class Removed(Enum):
    """The files that a transition removes."""

    NONE = "none; after a request none may be removed until the catalog has answered"
    REPLACED = "those of the earlier plan that the new one does not have"
    ATTEMPT = "the metadata of the attempt, except for merged manifests that may be reused"
    ALL = "all of the job, except for those of a request without an answer"


class Transition(NamedTuple):
    """What follows an event: the next state, and the files that are removed before."""

    to: State
    removes: Removed = Removed.NONE


TRANSITIONS: Mapping[tuple[State, Event], Transition] = {
    (State.PLANNED, Event.DONE_BEFORE): Transition(State.REPEATED, Removed.ALL),
    (State.PLANNED, Event.NO_CONFLICT): Transition(State.PLACED),
    (State.PLANNED, Event.PLANNED_AGAIN): Transition(State.PLACED, Removed.REPLACED),
    (State.PLANNED, Event.NO_CHANGES): Transition(State.UNCHANGED, Removed.REPLACED),
    (State.PLANNED, Event.ERROR): Transition(State.FAILED, Removed.ALL),
    (State.PLACED, Event.READY): Transition(State.WRITTEN),
    (State.PLACED, Event.ERROR): Transition(State.FAILED, Removed.ALL),
    (State.WRITTEN, Event.REQUESTED): Transition(State.SENT),
    (State.WRITTEN, Event.REFUSED): Transition(State.LOST),
    (State.WRITTEN, Event.ERROR): Transition(State.FAILED, Removed.ALL),
    (State.SENT, Event.AGREED): Transition(State.COMMITTED),
    (State.SENT, Event.REFUSED): Transition(State.LOST),
    (State.SENT, Event.NO_ANSWER): Transition(State.UNKNOWN),
    (State.SENT, Event.ERROR): Transition(State.FAILED, Removed.ALL),
    (State.LOST, Event.FOUND): Transition(State.COMMITTED),
    (State.LOST, Event.NOT_FOUND): Transition(State.PLANNED, Removed.ATTEMPT),
    (State.LOST, Event.BUSY): Transition(State.LOST),
    (State.LOST, Event.NO_ANSWER): Transition(State.UNKNOWN),
    (State.LOST, Event.ERROR): Transition(State.FAILED, Removed.ALL),
}


def commit(
    table: Table,
    changes: Changes,
    *,
    base: Snapshot | None,
    request: Request = Request(),  # noqa: B008
    rebuild: Rebuild | None = None,
    merge: bool = False,
) -> Committed | None:
    """Commits changes that were planned on a base snapshot.

    Args:
        table: a PyIceberg table of format version 2 or 3 with the metadata that the changes were planned with. It
            has the new metadata afterwards.
        changes: what to add and remove.
        base: the branch's head that the changes were planned on; None for an empty branch.
        request: branch, job id and properties.
        rebuild: plans the changes again on another head; None: nothing to change. May return files of the earlier plan.
            Called if another commit added data files that `conflict_filter` selects or row ids that replaced rows keep,
            upgraded the table, or came before changes bound to their head. Without it, these are conflicts.
        merge: call `rebuild` also if another commit changed or removed files that this commit touches.

    Returns:
        The commit, or None if `rebuild` found nothing to change.

    Raises:
        ConflictError: a conflict, or other commits came first in all attempts. The table is unchanged, and the files
            of this commit are removed.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.
        UnsupportedError: the table's format version or the version of PyIceberg.
    """
    check_version()
    working = WorkingTable.of(table)
    working.created += changes.new_files
    work = _Commit(working, changes, base, request, rebuild, merge)
    try:
        return work.run()
    except BaseException as error:
        work.end(error)
        if isinstance(error, CommitUnknownError):
            raise
        working.note_outcome(error)
        if isinstance(error, Exception) and is_of_storage(error):
            message = f"{working.shown}: the commit's files could not be written: {error}"
            raise PuffinFastError(message) from error
        raise
    finally:
        if working is not table:
            working.publish()


def attempts(properties: Mapping[str, str]) -> Iterator[int]:
    """Yields the numbers of the attempts that a table's properties allow, from 1. Waits before all but the first.

    Raises:
        InvalidInputError: a property ``commit.retry.*`` is not an integer.
    """

    def number(name: str, default: int) -> int:
        return max(0, integer_property(properties, f"commit.retry.{name}", default, positive=False))

    end = time.monotonic() + number("total-timeout-ms", 1_800_000) / 1000
    shortest, longest = number("min-wait-ms", 100), number("max-wait-ms", 60_000)
    for failed in range(number("num-retries", 4) + 1):
        if failed:
            time.sleep(random.uniform(0, min(longest, shortest * 2.0 ** min(failed - 1, 60))) / 1000)
        yield failed + 1
        if time.monotonic() >= end:
            return


def retried(table: WorkingTable, send: Callable[[], Result]) -> Result:
    """Loads a table and sends a change other than a snapshot; repeats that while other commits come first.

    Args:
        table: the table of the job. Files that it has begun are removed after an attempt that did not happen.
        send: writes the files of the change for the loaded metadata, and sends it with `handing_over`.

    Raises:
        ConflictError, CommitUnknownError: as `commit`.
    """
    lost: LostRaceError | None = None
    try:
        for _ in attempts(table.metadata.properties):
            try:
                table.load()
                table.take_back()
                table.remove_created()
                return send()
            except LostRaceError as error:
                lost = error
        assert lost is not None
        raise lost
    except CommitUnknownError:
        raise
    except BaseException as error:
        table.remove_created()
        table.note_outcome(error)
        raise
    finally:
        table.publish()


def upgrade_to_v3(table: WorkingTable) -> None:
    """Raises the format version of a table, unless another commit has done so.

    Raises:
        ConflictError, CommitUnknownError: as `commit`.
    """

    def send() -> None:
        if table.metadata.format_version < 3:
            with table.handing_over() as sent:
                commit_upgrade(table, begun=table.created.append, sent=sent)

    retried(table, send)


class _Commit:
    """One commit. Each state but the last ones has a method, which returns what happened."""

    def __init__(
        self,
        table: WorkingTable,
        changes: Changes,
        head: Snapshot | None,
        request: Request,
        rebuild: Rebuild | None,
        merge: bool,
    ) -> None:
        self._table, self._request, self._rebuild, self._merge = table, request, rebuild, merge
        self._changes: Changes | None = changes
        self._head, self._format_version = head, table.metadata.format_version
        self._state, self._attempt = State.PLANNED, 1
        self._merges: Merges = {}
        self._earlier: frozenset[str] = frozenset()

    def run(self) -> Committed | None:
        table, version = self._table, self._format_version
        if version not in (2, 3):
            raise UnsupportedError(f"{table.shown}: format version {version}, expected 2 or 3")
        self._attempts = attempts(table.metadata.properties)
        self._attempt = next(self._attempts)
        while (event := self._step()) is not None:
            self._follow(event)
        if self._state is State.UNCHANGED:
            return None
        is_repeated = self._state is State.REPEATED
        _LOG.info(
            "%s: %s: snapshot %s %s, attempt %d",
            table.shown,
            self._request.verb,
            self._snapshot.snapshot_id,
            "was committed before" if is_repeated else "committed",
            self._attempt,
        )
        summary = {} if self._snapshot.summary is None else self._snapshot.summary.additional_properties
        return Committed(
            self._snapshot.snapshot_id, dict(summary), self._attempt, self._changes or Changes(), is_repeated
        )

    def end(self, error: BaseException) -> None:
        """Ends the commit after an exception."""
        event = self._event_of(error)
        if (self._state, event) in TRANSITIONS:
            self._follow(event)

    def _event_of(self, error: BaseException) -> Event:
        is_open = self._state is State.LOST and bool(self._table.doubtful)
        if self._state is State.SENT:
            is_open = not isinstance(error, PuffinFastError)
        is_open |= isinstance(error, CommitUnknownError)
        return Event.NO_ANSWER if is_open else Event.ERROR

    def _step(self) -> Event | None:
        """Does what is to do in the state; returns what happened, None if the commit has ended."""
        if self._state is State.PLANNED:
            return self._place()
        if self._state is State.PLACED:
            return self._write()
        if self._state is State.WRITTEN:
            return self._send()
        if self._state is State.LOST:
            return self._load()
        return None

    def _follow(self, event: Event) -> None:
        """Removes files and takes the state that follows."""
        table, (to, removes) = self._table, TRANSITIONS[self._state, event]
        if removes is Removed.ALL:
            table.remove_created()
        elif removes is Removed.REPLACED:
            table.remove(self._earlier.difference(self._changes.new_files if self._changes else ()))
        elif removes is Removed.ATTEMPT:
            reusable = {manifest.path for manifest in self._merges.values()}
            table.remove(set(table.created) - self._earlier - reusable)
        _LOG.debug("%s: %s, %s: %s", table.shown, self._state.name, event.name, to.name)
        self._state = to

    def _place(self) -> Event:
        """Compares the changes with the current head, and plans them again if they conflict with it."""
        table = self._table
        done = repeated(table, self._request)
        if done is not None:
            self._snapshot = done
            return Event.DONE_BEFORE
        metadata = table.metadata
        head = head_of(metadata, self._request.branch)
        conflict, may_plan_again = self._conflict(head)
        if conflict is not None and (self._rebuild is None or not may_plan_again):
            raise ConflictError(conflict)
        if conflict is not None and self._rebuild is not None:
            self._earlier = frozenset(table.created)
            self._changes = self._rebuild(head)
            if not self._changes:
                return Event.NO_CHANGES
            table.created += self._changes.new_files
        self._head, self._format_version = head, metadata.format_version
        return Event.NO_CONFLICT if conflict is None else Event.PLANNED_AGAIN

    def _conflict(self, head: Snapshot | None) -> tuple[str | None, bool]:
        """Returns the conflict of the changes with a head, if any, and whether they may be planned again."""
        found, changes = self._table.metadata.format_version, self._planned
        if found != self._format_version and (changes.has_deletes or changes.bound_to_head):
            return (
                f"{self._table.shown}: another commit raised the format version from {self._format_version} "
                f"to {found}, which has other kinds of delete files"
            ), True
        if _id(head) == _id(self._head):
            return None, True
        if changes.bound_to_head:
            return f"{self._table.shown}: another commit came first", True
        came = concurrent_changes(self._table, self._head, head)
        changes = self._changes = came.followed(changes)
        conflict = came.conflict(changes)
        if conflict is not None:
            return conflict, self._merge
        return came.missed(changes), True

    def _write(self) -> Event:
        """Writes manifests and manifest list on top of the head."""
        table, metadata, head, changes = self._table, self._table.metadata, self._head, self._planned
        self._earlier = frozenset(table.created)
        snapshot_id = metadata.new_snapshot_id()
        manifests = SnapshotManifests(table, snapshot_id, self._merges)
        files = manifests.on_top_of(head, changes)
        sequence_number = metadata.next_sequence_number()
        path = table.location_provider().new_metadata_location(f"snap-{snapshot_id}-1-{uuid.uuid4()}.avro")
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
        previous: Mapping[str, Any] | None = None if head is None else head.summary or {}
        counts = manifests.counts(files) | summarise(changes.with_also(manifests.carried), previous)
        fields: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": _id(head),
            "sequence-number": sequence_number,
            "timestamp-ms": next_timestamp_ms(metadata),
            "manifest-list": path,
            "summary": Summary(Operation(changes.kind), **counts, **self._request.summary()),
            "schema-id": metadata.current_schema_id,
        }
        if first_row_id is not None and next_row_id is not None:
            fields |= {"first-row-id": first_row_id, "added-rows": next_row_id - first_row_id}
        self._snapshot, self._base = Snapshot(**fields), table.metadata_location
        return Event.READY

    def _send(self) -> Event:
        """Asks the catalog to make the snapshot the head."""
        table = self._table
        try:
            with table.handing_over() as requested:

                def sent() -> None:
                    requested()
                    self._follow(Event.REQUESTED)

                commit_snapshot(
                    table, self._snapshot, branch=self._request.branch, begun=table.created.append, sent=sent
                )
        except LostRaceError as error:
            self._lose(error)
            return Event.REFUSED
        return Event.AGREED

    def _lose(self, error: LostRaceError) -> None:
        self._error = error
        _LOG.info(
            "%s: %s: another commit came first in attempt %d",
            self._table.shown,
            self._request.verb,
            self._attempt,
        )

    def _load(self) -> Event:
        """Loads the table before the next attempt. After the last one, this can only show that the commit happened.

        Raises:
            LostRaceError: it did not happen, and no other attempt is allowed.
            CommitUnknownError: the table does not show whether it happened.
        """
        table, is_certain = self._table, isinstance(self._error, BusyError)
        number = next(self._attempts, None)
        if number is None and is_certain:
            raise self._error
        try:
            table.load()
            if not is_certain and has_landed(table, self._snapshot, self._base):
                table.doubtful.clear()
                return Event.FOUND
        except BusyError as error:
            if number is None:
                raise self._unknown(error) from error
            self._attempt = number
            self._lose(error if is_certain else self._error)
            return Event.BUSY
        except Exception as error:
            if is_certain or isinstance(error, CommitUnknownError) or is_from_outside(error):
                raise
            raise self._unknown(error) from error
        table.take_back()
        if number is None:
            raise self._error
        self._attempt = number
        return Event.NOT_FOUND

    def _unknown(self, error: Exception) -> CommitUnknownError:
        return CommitUnknownError(
            f"{self._table.shown}: the catalog refused the commit, and then did not answer "
            f"({type(error).__name__}: {error}); no file was removed"
        )

    @property
    def _planned(self) -> Changes:
        assert self._changes is not None
        return self._changes


def _id(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.snapshot_id
