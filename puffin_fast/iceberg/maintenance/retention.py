"""Which snapshots, branches and tags of a table expire.

Source: the table specification, "Snapshot Retention Policy".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType

from puffin_fast.errors import InvalidInputError
from puffin_fast.iceberg.compat.complete_metadata import ancestors, by_id
from puffin_fast.iceberg.compat.table_properties import integer_property
from puffin_fast.iceberg.maintenance.snapshot_files import snapshots_of
from puffin_fast.iceberg.plan.files import snapshot_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

FIVE_DAYS_MS = 432_000_000
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Expiry:
    """What expires.

    Attributes:
        snapshot_ids: ids of snapshots, in the order of the metadata.
        references: names of branches and tags.
    """

    snapshot_ids: tuple[int, ...] = ()
    references: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.snapshot_ids or self.references)


@dataclass(frozen=True)
class Retention:
    """How long snapshots, branches and tags are kept, unless a branch or tag has values of its own.

    Attributes:
        max_snapshot_age_ms: a branch keeps younger snapshots.
        min_snapshots_to_keep: a branch keeps at least this number of snapshots.
        max_ref_age_ms: branches other than main, and tags, are kept while their snapshot is younger; None: always.
    """

    max_snapshot_age_ms: int
    min_snapshots_to_keep: int
    max_ref_age_ms: int | None

    @classmethod
    def of(
        cls, properties: Mapping[str, str], *, older_than: timedelta | None, retain_last: int | None
    ) -> Retention:
        """Returns the retention of a table.

        Args:
            properties: the properties of the table; those that begin with ``history.expire.`` are read.
            older_than, retain_last: replace the properties of age and number.

        Raises:
            InvalidInputError: a property is not a positive integer.
        """
        age = integer_property(properties, "history.expire.max-snapshot-age-ms", FIVE_DAYS_MS)
        keep = integer_property(properties, "history.expire.min-snapshots-to-keep", 1)
        return cls(
            max_snapshot_age_ms=age if older_than is None else older_than // MILLISECOND,
            min_snapshots_to_keep=keep if retain_last is None else retain_last,
            max_ref_age_ms=integer_property(properties, "history.expire.max-ref-age-ms", None),
        )

    def expired(self, metadata: TableMetadata, now_ms: int) -> Expiry:
        """Returns what expires at a time, in milliseconds since 1970.

        Raises:
            CorruptDataError: a branch or tag points to a snapshot that does not exist.
        """
        retained: set[int] = set()
        history: set[int] = set()
        references = []
        known = by_id(metadata)
        for name, reference in metadata.refs.items():
            line = {s.snapshot_id: s.timestamp_ms for s in ancestors(snapshot_of(metadata, name), known)}
            if name != MAIN_BRANCH and self._is_expired(reference, line, now_ms):
                references.append(name)
                continue
            history.update(line)
            if reference.snapshot_ref_type == SnapshotRefType.BRANCH:
                retained.update(self._kept(reference, line, now_ms))
            else:
                retained.add(reference.snapshot_id)
        oldest_kept = now_ms - self.max_snapshot_age_ms
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in history and snapshot.timestamp_ms >= oldest_kept:
                retained.add(snapshot.snapshot_id)
        ids = (snapshot.snapshot_id for snapshot in metadata.snapshots)
        return Expiry(tuple(id for id in ids if id not in retained), tuple(references))

    def _is_expired(self, reference: SnapshotRef, line: Mapping[int, int], now_ms: int) -> bool:
        longest = reference.max_ref_age_ms or self.max_ref_age_ms
        return longest is not None and now_ms - line[reference.snapshot_id] > longest

    def _kept(self, reference: SnapshotRef, line: Mapping[int, int], now_ms: int) -> list[int]:
        oldest = now_ms - (reference.max_snapshot_age_ms or self.max_snapshot_age_ms)
        least = reference.min_snapshots_to_keep or self.min_snapshots_to_keep
        kept: list[int] = []
        for snapshot_id, timestamp_ms in line.items():
            if len(kept) >= least and timestamp_ms < oldest:
                break
            kept.append(snapshot_id)
        return kept


def chosen(metadata: TableMetadata, snapshot_ids: Collection[int]) -> Expiry:
    """Returns the expiry of given snapshots.

    Raises:
        NotFoundError: there is no such snapshot.
        InvalidInputError: a branch or tag points to one.
    """
    found = snapshots_of(metadata, snapshot_ids)
    for name, reference in metadata.refs.items():
        if reference.snapshot_id in snapshot_ids:
            raise InvalidInputError(
                f"snapshot_ids: {reference.snapshot_id} is the snapshot of {reference.snapshot_ref_type.value} {name}: "
                "expected snapshots that no branch or tag points to"
            )
    return Expiry(tuple(snapshot.snapshot_id for snapshot in found))
