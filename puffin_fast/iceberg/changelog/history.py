"""The snapshots between two states of a table, by their parents only: sequence numbers run across branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from puffin_fast._api.times import milliseconds_of
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.manifest import manifests_of
from puffin_fast.iceberg.plan.files import resolve
from puffin_fast.rows.changes.ends import Ends

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_CHANGE_NOTHING = {Operation.REPLACE}
"""Operations of snapshots with the same rows as their parents."""


@dataclass(frozen=True)
class History:
    """A range of snapshots.

    Attributes:
        before: the state before; None for the empty table.
        after: the state after; None if the table, or its branch, has no snapshot.
    """

    before: Snapshot | None
    after: Snapshot | None
    _metadata: TableMetadata
    _io: FileIO

    @classmethod
    def of(cls, table: Table, metadata: TableMetadata, ends: Ends) -> History:
        """Finds the ends of a range.

        Args:
            metadata: its complete metadata.

        Raises:
            NotFoundError: there is no such snapshot, branch or tag, or the snapshots of a time have expired.
            InvalidInputError: a time has no time zone.
        """
        first, last = ends.from_snapshot_id_exclusive, ends.to_snapshot_id_inclusive
        if last is not None:
            _known(metadata, last)
            after = resolve(table, snapshot_id=last, branch=ends.branch, tag=ends.tag)[0]
        else:
            after = resolve(table, branch=ends.branch, tag=ends.tag)[0]
        history = cls(None, after, metadata, table.io)
        if ends.to_timestamp_inclusive is not None:
            history = replace(
                history, after=history._at(ends.to_timestamp_inclusive, "to_timestamp_inclusive")
            )
        if first is not None:
            return replace(history, before=_known(metadata, first))
        if ends.from_timestamp_exclusive is not None:
            return replace(
                history, before=history._at(ends.from_timestamp_exclusive, "from_timestamp_exclusive")
            )
        return history

    def _at(self, time: int | str | datetime, name: str) -> Snapshot | None:
        """The newest snapshot of the history that is not newer than a time; None before the first snapshot."""
        milliseconds = milliseconds_of(time, name)
        for snapshot in self._ancestors():
            if snapshot.timestamp_ms <= milliseconds:
                return snapshot
        return None

    def _ancestors(self) -> Iterator[Snapshot]:
        """Yields the snapshots of the history, the newest first.

        Raises:
            NotFoundError: when it reaches a parent that has expired.
        """
        snapshot, seen = self.after, set()
        while snapshot is not None:
            if snapshot.snapshot_id in seen:
                raise InvalidInputError(f"snapshot {snapshot.snapshot_id}: is its own ancestor")
            seen.add(snapshot.snapshot_id)
            yield snapshot
            parent = snapshot.parent_snapshot_id
            if parent is None:
                if _has_older_files(self._io, snapshot):
                    raise _expired("the parent of", snapshot)
                return
            older = self._metadata.snapshot_by_id(parent)
            if older is None:
                raise _expired(f"snapshot {parent}, the parent of", snapshot)
            snapshot = older

    def earliest(self) -> Snapshot | None:
        """The oldest state after which no snapshot has expired; None for the empty table."""
        found: Snapshot | None = None
        try:
            for snapshot in self._ancestors():
                found = snapshot
        except NotFoundError:
            return found
        return None

    def steps(self) -> list[tuple[Snapshot | None, Snapshot]]:
        """Returns the snapshots that change rows, the oldest first, each with its parent; raises as `snapshots`."""
        return [step for step in self._pairs() if not _changes_nothing(step[1])]

    def snapshots(self) -> list[Snapshot]:
        """Returns the snapshots after the state before, the oldest first.

        Raises:
            InvalidInputError: the state before is not a snapshot of the history.
            NotFoundError: a snapshot between the states has expired.
        """
        return [newer for _, newer in self._pairs()]

    def _pairs(self) -> list[tuple[Snapshot | None, Snapshot]]:
        """The snapshots of the range, the oldest first, each with its parent."""
        found: list[tuple[Snapshot | None, Snapshot]] = []
        if self.before is not None and self.after is None:
            raise self._no_ancestor("a branch without snapshots")
        newer: Snapshot | None = None
        for snapshot in self._ancestors():
            if newer is not None:
                found.append((snapshot, newer))
            if self.before is not None and snapshot.snapshot_id == self.before.snapshot_id:
                break
            newer = snapshot
        else:
            if self.before is not None and self.after is not None:
                raise self._no_ancestor(f"snapshot {self.after.snapshot_id}")
            if newer is not None:
                found.append((None, newer))
        return found[::-1]

    def _no_ancestor(self, what: str) -> InvalidInputError:
        assert self.before is not None
        return InvalidInputError(
            f"from_snapshot_id_exclusive={self.before.snapshot_id}: expected an ancestor of {what}; with net=True any "
            "two snapshots are compared"
        )


def _has_older_files(io: FileIO, snapshot: Snapshot) -> bool:
    """Whether a snapshot without parent has files of other snapshots: PyIceberg drops the ids of expired parents."""
    return any(
        manifest.added_snapshot_id != snapshot.snapshot_id
        or manifest.existing_files_count
        or manifest.min_sequence_number < (snapshot.sequence_number or 0)
        for manifest in manifests_of(io, snapshot)
        if manifest.added_files_count or manifest.existing_files_count
    )


def _expired(what: str, oldest: Snapshot) -> NotFoundError:
    return NotFoundError(
        f"{what} snapshot {oldest.snapshot_id} has expired; changes can begin after {oldest.snapshot_id}, the oldest "
        "snapshot that remains of this history, and net=True needs only the two ends"
    )


def _changes_nothing(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation in _CHANGE_NOTHING


def _known(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    found = metadata.snapshot_by_id(snapshot_id)
    if found is None:
        oldest = min(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms, default=None)
        raise NotFoundError(
            f"no snapshot {snapshot_id}: it has expired or is of another table; the oldest snapshot that remains is "
            f"{'none' if oldest is None else oldest.snapshot_id}"
        )
    return found
