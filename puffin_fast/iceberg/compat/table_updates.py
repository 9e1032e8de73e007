"""Updates of table metadata, and what they require, that PyIceberg lacks.

No release of PyIceberg ends this: 0.12.0 and its main branch of August 2026 have none of them. Issue 3622 of iceberg-
python plans the upgrade to version 3.
"""

from __future__ import annotations

import time

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV1
from pyiceberg.table.update import (
    UpgradeFormatVersionUpdate,
    ValidatableTableRequirement,
    _apply_table_update,
    _TableMetadataUpdateContext,
)

from puffin_fast.errors import CorruptDataError


class AssertLastSequenceNumber(ValidatableTableRequirement):
    """Requires that no snapshot was added on any branch: snapshots must not share sequence numbers or row ids.

    Checked by catalogs that run in this process; a REST server checks it on its own.
    """

    type: str = "assert-last-sequence-number"
    last_sequence_number: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        found = None if base_metadata is None else getattr(base_metadata, "last_sequence_number", 0)
        if found != self.last_sequence_number:
            raise CommitFailedException(
                f"last sequence number has changed: expected {self.last_sequence_number}, found {found}"
            )


class AssertReferences(ValidatableTableRequirement):
    """Requires that the table has exactly the given branches and tags: none points to a snapshot that expires.

    Checked by catalogs that run in this process; a REST server checks known references by `AssertRefSnapshotId`.
    """

    type: str = "assert-references"
    references: dict[str, int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        found = {} if base_metadata is None else references_of(base_metadata)
        if found != self.references:
            raise CommitFailedException(
                f"branches and tags have changed: expected {self.references}, found {found}"
            )


class AssertSnapshots(ValidatableTableRequirement):
    """Requires that the table has the given snapshots: another commit may have removed them.

    Checked by catalogs that run in this process; a REST server removes those that it has.
    """

    type: str = "assert-snapshots"
    snapshot_ids: list[int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        known = {snapshot.snapshot_id for snapshot in base_metadata.snapshots} if base_metadata else set()
        if missing := set(self.snapshot_ids) - known:
            raise CommitFailedException(f"snapshot {min(missing)} no longer exists")


def references_of(metadata: TableMetadata) -> dict[str, int]:
    """Returns the snapshot id of each branch and tag, by name."""
    return {name: reference.snapshot_id for name, reference in metadata.refs.items()}


class AssertStatistics(ValidatableTableRequirement):
    """Requires that a snapshot exists and has the given statistics file (none if the path is null).

    Checked by catalogs that run in this process; a REST server has no such requirement.
    """

    type: str = "assert-statistics"
    snapshot_id: int
    statistics_path: str | None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        if base_metadata is None or base_metadata.snapshot_by_id(self.snapshot_id) is None:
            raise CommitFailedException(f"snapshot {self.snapshot_id} no longer exists")
        found = statistics_path(base_metadata, self.snapshot_id)
        if found != self.statistics_path:
            raise CommitFailedException(
                f"statistics of snapshot {self.snapshot_id} have changed: expected {self.statistics_path}, "
                f"found {found}"
            )


def statistics_path(metadata: TableMetadata, snapshot_id: int) -> str | None:
    paths = (known.statistics_path for known in metadata.statistics if known.snapshot_id == snapshot_id)
    return next(paths, None)


class AssertFormatVersion(ValidatableTableRequirement):
    """Requires that the table was not upgraded: the commit was planned and written for this format version.

    Checked by catalogs that run in this process.
    """

    type: str = "assert-format-version"
    format_version: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        found = None if base_metadata is None else base_metadata.format_version
        if found != self.format_version:
            raise CommitFailedException(
                f"format version has changed: expected {self.format_version}, found {found}"
            )


class UpgradeToV3(UpgradeFormatVersionUpdate):
    """An upgrade to version 3. PyIceberg's own stops at version 2."""


@_apply_table_update.register(UpgradeToV3)
def _(
    update: UpgradeToV3, base_metadata: TableMetadata, context: _TableMetadataUpdateContext
) -> TableMetadata:
    if "location" not in base_metadata.model_fields_set:  # of a new table, before its other updates
        context.add_update(update)
        new = base_metadata.model_copy(update={"format_version": update.format_version, "next_row_id": 0})
        return TableMetadataUtil._construct_without_validation(new)
    if isinstance(base_metadata, TableMetadataV1):
        base_metadata = base_metadata.to_v2()
    fields = base_metadata.model_dump()
    fields["format-version"] = update.format_version
    fields["last-updated-ms"] = next_timestamp_ms(base_metadata)
    fields.setdefault("next-row-id", 0)
    context.add_update(update)
    return TableMetadataUtil.parse_obj(fields)


def next_timestamp_ms(metadata: TableMetadata) -> int:
    """Returns the time of a table's next snapshot or update: now, but later than each time in its metadata.

    Java refuses metadata whose snapshot log is not in order of time. PyIceberg replaces a time that is equal to the
    last one by the time of its own clock.

    Raises:
        CorruptDataError: a later time has more than 64 bits.
    """
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    times += [entry.timestamp_ms for entry in metadata.metadata_log]
    times += [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    last = max(times, default=0)
    found = max(int(time.time() * 1000), max(last, metadata.last_updated_ms) + 1)
    if found >= 1 << 63:
        what = "last time in the metadata of a table"
        raise CorruptDataError(what, path=metadata.location, expected="less than 2^63 - 1", found=found - 1)
    return found
