"""One commit: from changes whose files are written to a snapshot that is the head of a branch.

```
state       what it means                                                  files that a failure removes
planned     data files and delete files are written for a head             all of the job
written     manifests and manifest list of one attempt are written, too    all of the job
sent        the catalog was asked to make the snapshot the head            none, until it has answered
committed   the snapshot is in the table                                   none
lost        the catalog refused: another commit came first, or it is busy  none, until the table was loaded
unknown     the catalog did not answer, or the job was interrupted before  none

from     event                                               to
planned  the branch's history holds the job's id             committed (repeated); all files are removed
planned  the head moved, without a conflict                  planned on the new head
planned  the head moved or the table was upgraded, with a    planned again; the old files that the new plan
         conflict that allows to plan the changes again      does not have are removed; no commit if there is
                                                             nothing to change
planned  any other conflict                                  ConflictError
planned  manifests are written on top of the head            written
written  the request is complete                             sent
sent     the catalog agrees                                  committed
sent     LostRaceError, BusyError                            lost
sent     CommitUnknownError, interrupt                       unknown
lost     the snapshot is, or was, in the table after all     committed
lost     it is not, and another attempt is allowed           planned; the metadata of the attempt is removed,
                                                             except for merged manifests that may be reused
lost     it is not, and no other attempt is allowed          LostRaceError
lost     the table does not show it                          unknown
lost     the catalog's database is locked                    lost; LostRaceError after the last attempt
lost     the catalog does not answer                         unknown; LostRaceError if nothing was sent
any      another error                                       the error
```
All errors but `CommitUnknownError` mean that nothing was committed.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from puffin_fast._io.location import is_of_storage
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast._run.interrupt import is_from_outside
from puffin_fast.errors import CommitUnknownError, ConflictError, PuffinFastError, UnsupportedError
from puffin_fast.iceberg.commit.changes import Changes, summarise
from puffin_fast.iceberg.commit.conflicts import concurrent_changes
from puffin_fast.iceberg.commit.lost_attempt import has_landed
from puffin_fast.iceberg.commit.request import Committed, Request, head_of, repeated
from puffin_fast.iceberg.commit.snapshot_manifests import Merges, SnapshotManifests
from puffin_fast.iceberg.compat.catalog_commit import (
    BusyError,
    LostRaceError,
    commit_snapshot,
    commit_upgrade,
)
from puffin_fast.iceberg.compat.table_properties import integer_property
from puffin_fast.iceberg.compat.table_updates import next_timestamp_ms
from puffin_fast.iceberg.compat.working_table import WorkingTable
from puffin_fast.iceberg.manifest import write_manifest_list

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")

Rebuild = Callable[[Snapshot | None], Changes | None]


@dataclass(frozen=True)
class _Planned:
    """Changes that were planned on a head, and the format version of their delete files."""

    changes: Changes
    head: Snapshot | None
    format_version: int


@dataclass(frozen=True)
class _Written:
    """An attempt whose manifests and manifest list are written."""

    planned: _Planned
    snapshot: Snapshot
    base: str
    """The metadata file that it replaces."""
    earlier: frozenset[str]
    """The files that the job had created before this attempt."""


@dataclass(frozen=True)
class _Lost:
    """An attempt that the catalog refused."""

    written: _Written
    error: LostRaceError

    @property
    def is_certain(self) -> bool:
        """Whether it is certain that the commit did not happen, without loading the table."""
        return isinstance(self.error, BusyError)


_State = _Planned | _Lost | Committed | None


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
    version = working.metadata.format_version
    try:
        if version not in (2, 3):
            raise UnsupportedError(f"{working.shown}: format version {version}, expected 2 or 3")
        return _Commit(working, request, rebuild, merge).run(_Planned(changes, base, version))
    except CommitUnknownError:
        raise
    except BaseException as error:
        working.remove_created()
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


@dataclass(frozen=True)
class _Commit:
    """The transitions of one commit: each takes a state and returns the next one."""

    table: WorkingTable
    request: Request
    rebuild: Rebuild | None
    merge: bool
    merges: Merges = field(default_factory=dict)

    def run(self, planned: _Planned) -> Committed | None:
        state: _State = planned
        for number in attempts(self.table.metadata.properties):
            if isinstance(state, _Lost):
                state = self.load(state, number - 1)
            if isinstance(state, _Planned):
                state = self.place(state, number)
            if isinstance(state, _Planned):
                state = self.send(self.write(state), number)
            if not isinstance(state, _Lost):
                self.log(state, number)
                return state
            _LOG.info(
                "%s: %s: another commit came first in attempt %d", self.table.shown, self.request.verb, number
            )
        assert isinstance(state, _Lost)
        return self.give_up(state, number)

    def log(self, state: _State | Committed | None, number: int) -> None:
        if isinstance(state, Committed):
            _LOG.info(
                "%s: %s: snapshot %s %s, attempt %d",
                self.table.shown,
                self.request.verb,
                state.snapshot_id,
                "was committed before" if state.repeated else "committed",
                number,
            )

    def place(self, planned: _Planned, number: int) -> _Planned | Committed | None:
        """Planned on an older head to planned on the current one, or None if there is nothing to change."""
        done = repeated(self.table, self.request)
        if done is not None:
            self.table.remove_created()
            return replace(_committed(done, number, planned.changes), repeated=True)
        metadata = self.table.metadata
        head = head_of(metadata, self.request.branch)
        conflict, may_plan_again = self.conflict(planned, head)
        if conflict is None:
            return replace(planned, head=head, format_version=metadata.format_version)
        if self.rebuild is None or not may_plan_again:
            raise ConflictError(conflict)
        earlier = set(self.table.created)
        changes = self.rebuild(head)
        self.table.remove(earlier.difference(changes.new_files if changes else ()))
        if not changes:
            return None
        self.table.created += changes.new_files
        return _Planned(changes, head, metadata.format_version)

    def conflict(self, planned: _Planned, head: Snapshot | None) -> tuple[str | None, bool]:
        """Returns the conflict of changes with a head, if any, and whether they may be planned again."""
        found, changes = self.table.metadata.format_version, planned.changes
        if found != planned.format_version and (changes.has_deletes or changes.bound_to_head):
            return (
                f"{self.table.shown}: another commit raised the format version from {planned.format_version} "
                f"to {found}, which has other kinds of delete files"
            ), True
        if _id(head) == _id(planned.head):
            return None, True
        if changes.bound_to_head:
            return f"{self.table.shown}: another commit came first", True
        came = concurrent_changes(self.table, planned.head, head)
        conflict = came.conflict(changes)
        if conflict is not None:
            return conflict, self.merge
        return came.missed(changes), True

    def write(self, planned: _Planned) -> _Written:
        """Planned to written: manifests and manifest list on top of the head."""
        table, metadata, head = self.table, self.table.metadata, planned.head
        earlier = frozenset(table.created)
        snapshot_id = metadata.new_snapshot_id()
        files = SnapshotManifests(table, snapshot_id, self.merges).on_top_of(head, planned.changes)
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
        counts = summarise(planned.changes, None if head is None else head.summary or {})
        fields: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": _id(head),
            "sequence-number": sequence_number,
            "timestamp-ms": next_timestamp_ms(metadata),
            "manifest-list": path,
            "summary": Summary(Operation(planned.changes.kind), **counts, **self.request.summary()),
            "schema-id": metadata.current_schema_id,
        }
        if first_row_id is not None and next_row_id is not None:
            fields |= {"first-row-id": first_row_id, "added-rows": next_row_id - first_row_id}
        return _Written(planned, Snapshot(**fields), table.metadata_location, earlier)

    def send(self, written: _Written, number: int) -> Committed | _Lost:
        """Written to committed or lost."""
        table, snapshot = self.table, written.snapshot
        try:
            with table.handing_over() as sent:
                commit_snapshot(
                    table, snapshot, branch=self.request.branch, begun=table.created.append, sent=sent
                )
        except LostRaceError as error:
            return _Lost(written, error)
        return _committed(snapshot, number, written.planned.changes)

    def load(self, lost: _Lost, number: int) -> Committed | _Planned | _Lost:
        """Lost to committed or planned, as the loaded table shows; still lost if its catalog is busy."""
        table, written = self.table, lost.written
        try:
            table.load()
            if not lost.is_certain and has_landed(table, written.snapshot, written.base):
                table.doubtful.clear()
                return _committed(written.snapshot, number, written.planned.changes)
        except BusyError as error:
            return _Lost(written, error) if lost.is_certain else lost
        except Exception as error:
            if lost.is_certain or isinstance(error, CommitUnknownError) or is_from_outside(error):
                raise
            raise self.unknown(error) from error
        table.take_back()
        reusable = {manifest.path for manifest in self.merges.values()}
        table.remove(set(table.created) - written.earlier - reusable)
        return written.planned

    def give_up(self, lost: _Lost, number: int) -> Committed:
        """Lost after the last attempt: committed if the loaded table shows it, else the error."""
        state = lost if lost.is_certain else self.load(lost, number)
        if isinstance(state, Committed):
            return state
        if isinstance(state, _Lost) and not lost.is_certain:
            raise self.unknown(state.error) from state.error
        raise lost.error

    def unknown(self, error: Exception) -> CommitUnknownError:
        return CommitUnknownError(
            f"{self.table.shown}: the catalog refused the commit, and then did not answer "
            f"({type(error).__name__}: {error}); no file was removed"
        )


def _committed(snapshot: Snapshot, number: int, changes: Changes) -> Committed:
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return Committed(snapshot.snapshot_id, dict(summary), number, changes)


def _id(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.snapshot_id
