"""Which delete files apply to which data file of a snapshot (table specification, "Scan Planning").

A delete file applies to a data file under these conditions. "Older" compares data sequence numbers.
- A deletion vector references the data file and is not older. It supersedes all position-delete files of the data file.
- A position-delete file has the data file's spec and partition, or references its path, and is not older.
- An equality-delete file has the data file's spec and partition, or an unpartitioned spec; the data file is older.
Planning takes linear time, because delete files are found by path or by partition.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from puffin_fast._api.arguments import check_flags, check_integer, check_name
from puffin_fast._api.times import milliseconds_of
from puffin_fast._io.table_formats import other_format
from puffin_fast._process.gc_pause import paused_gc
from puffin_fast._text import counted, shown_argument
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.catalogs.path_table import READ_ONLY, as_table, is_metadata_path
from puffin_fast.iceberg.catalogs.working_table import complete_metadata
from puffin_fast.iceberg.compat.definitions import check_definitions
from puffin_fast.iceberg.manifest import DATA, ManifestEntry, ManifestFile
from puffin_fast.iceberg.manifest.columns import Select
from puffin_fast.iceberg.manifest.reader import Fetched
from puffin_fast.iceberg.plan.delete_index import FileTask, unused
from puffin_fast.iceberg.plan.snapshot_pruning import SnapshotPruning
from puffin_fast.iceberg.plan.staged import StagedSnapshot, files_of
from puffin_fast.iceberg.plan.tasks import Files, tasks_of
from puffin_fast.rows.filters.filters import Matcher, RowFilter
from puffin_fast.rows.scan.explain import TABLE, ScanStep

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

MAX_FORMAT_VERSION = 3


@dataclass(slots=True)
class Plan:
    """The files that a scan of one snapshot reads.

    Attributes:
        snapshot: None for a table, or a main branch, without snapshots.
        schema: the schema to read with: the current schema for a branch, else the schema of the snapshot.
        tasks: the data files that may have matching rows, in the order of the manifests. Tasks are made when they
            are requested.
        delete_files: the delete files of all manifests that were read, whether they apply to a task or not.
        data_manifests: the manifests of data files, whether they were read or not.
        manifests: the paths of the manifests that have one of these files.
    """

    snapshot: Snapshot | None
    schema: Schema
    tasks: Sequence[FileTask] = field(default_factory=list)
    delete_files: Sequence[ManifestEntry] = field(default_factory=list)
    data_manifests: list[ManifestFile] = field(default_factory=list, repr=False)
    manifests: frozenset[str] = field(default=frozenset(), repr=False)

    def __repr__(self) -> str:
        snapshot = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.snapshot_id}"
        return (
            f"Plan({snapshot}, {counted(len(self.tasks), 'data file')}, "
            f"{counted(len(self.delete_files), 'delete file')})"
        )

    @property
    def whole(self) -> ScanStep:
        """All data files of the snapshot, as the manifest list counts them; nothing is known of staged changes."""
        if isinstance(self.snapshot, StagedSnapshot):
            return ScanStep(TABLE, None, None, None, None)
        n_files = _sum(self.data_manifests, "added_files_count", "existing_files_count")
        n_rows = _sum(self.data_manifests, "added_rows_count", "existing_rows_count")
        return ScanStep(TABLE, n_files, None, n_rows, None)

    @property
    def unused(self) -> list[ManifestEntry]:
        """The delete files that apply to no task. Without a row filter these are the dangling deletes."""
        return unused(self.delete_files, chain.from_iterable(task.groups for task in self.tasks))


def _sum(manifests: Sequence[ManifestFile], *names: str) -> int | None:
    """The sum of counts of manifests; None if one has none."""
    counts = [getattr(manifest, name) for manifest in manifests for name in names]
    return None if None in counts else sum(counts)


def metadata_of(table: Table) -> TableMetadata:
    """A table's metadata.

    Raises:
        InvalidInputError: `table` is not a PyIceberg table, but for example its name.
        CorruptDataError: its schemas, partition specs and sort orders contradict each other.
    """
    if not isinstance(table, Table):
        is_path = is_metadata_path(table)
        hint = (
            (other_format(str(table), expected="Iceberg") or f"; this one would be {READ_ONLY}")
            if is_path
            else ""
        )
        raise InvalidInputError(
            f"table: expected a PyIceberg table (see catalog.load_table), found {shown_argument(table)}{hint}"
        )
    check_definitions(table.metadata, table.metadata_location)
    return table.metadata


def resolve(
    table: Table,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
) -> tuple[Snapshot | None, Schema]:
    """Finds a snapshot and the schema to read it with. At most one of the four selectors is given.

    Args:
        snapshot_id: selects this snapshot.
        branch: selects the head of this branch.
        tag: selects the snapshot of this tag.
        as_of: selects the snapshot that was current at this time: milliseconds since 1970, or a datetime or
            ISO 8601 text with a time zone.

    Raises:
        NotFoundError: there is no such snapshot or reference.
        InvalidInputError: more than one selector is given, one has another type, `branch` names a tag, `tag`
            names a branch, or a datetime has no time zone.
        CorruptDataError: the metadata does not have the snapshot of a reference.
        UnsupportedError: a format version above 3; the catalog's answer may lack the snapshot.
    """
    metadata = metadata_of(table)
    if metadata.format_version > MAX_FORMAT_VERSION:
        raise UnsupportedError(
            f"format version {metadata.format_version}: expected at most {MAX_FORMAT_VERSION}"
        )
    choices = {"snapshot_id": snapshot_id, "branch": branch, "tag": tag, "as_of": as_of}
    given = [name for name, value in choices.items() if value is not None]
    if len(given) > 1:
        raise InvalidInputError(f"expected one of {', '.join(choices)}, found {' and '.join(given)}")
    check_integer("snapshot_id", snapshot_id)
    check_name("branch", branch)
    check_name("tag", tag)
    if branch is not None:
        if branch != MAIN_BRANCH or branch in metadata.refs:
            _check_reference(metadata, SnapshotRefType.BRANCH, branch)
        return snapshot_of(metadata, branch), metadata.schema()
    if tag is not None:
        _check_reference(metadata, SnapshotRefType.TAG, tag)
        tagged = snapshot_of(metadata, tag)
        snapshot_id = None if tagged is None else tagged.snapshot_id
    if as_of is not None:
        metadata = complete_metadata(table)
        snapshot_id = _as_of(metadata, as_of)
    if snapshot_id is None:
        return snapshot_of(metadata), metadata.schema()
    snapshot = metadata.snapshot_by_id(snapshot_id) or _snapshot(complete_metadata(table), snapshot_id)
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    own = None if snapshot.schema_id is None else schemas.get(snapshot.schema_id)
    return snapshot, own or metadata.schema()


def _check_reference(metadata: TableMetadata, kind: SnapshotRefType, name: str) -> None:
    reference = metadata.refs.get(name)
    if reference is None:
        known = sorted(name for name, other in metadata.refs.items() if other.snapshot_ref_type == kind)
        raise NotFoundError(f"{kind.value} {name!r}: not found; the table has {', '.join(known) or 'none'}")
    if reference.snapshot_ref_type != kind:
        raise InvalidInputError(
            f"{name!r}: expected a {kind.value}, found a {reference.snapshot_ref_type.value}"
        )


def snapshot_of(metadata: TableMetadata, reference: str = MAIN_BRANCH) -> Snapshot | None:
    """The snapshot that a branch or tag points to; None for the main branch of a table without snapshots.

    Raises:
        CorruptDataError: the metadata does not have the snapshot, or its current snapshot differs from main's.
    """
    named = metadata.refs.get(reference)
    snapshot_id = None if named is None else named.snapshot_id
    if reference == MAIN_BRANCH and snapshot_id != metadata.current_snapshot_id:
        raise CorruptDataError(
            "current snapshot of a table",
            path=metadata.location,
            expected=f"{snapshot_id} (branch {reference!r})",
            found=metadata.current_snapshot_id or "none",
        )
    if snapshot_id is None:
        return None
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise CorruptDataError(
            f"snapshot of {reference!r}",
            path=metadata.location,
            expected=snapshot_id,
            found=f"none of this id among {len(metadata.snapshots)} snapshots",
        )
    return snapshot


def no_snapshot(metadata: TableMetadata, snapshot_id: object) -> NotFoundError:
    """The error for a snapshot id that a table does not have; it names the newest ids."""
    newest = [snapshot.snapshot_id for snapshot in metadata.snapshots[-NEWEST:][::-1]]
    more = f" and {len(metadata.snapshots) - NEWEST:,} older ones" if len(metadata.snapshots) > NEWEST else ""
    listed = ", ".join(map(str, newest)) or "none"
    return NotFoundError(f"no snapshot {shown_argument(snapshot_id)}; the table has {listed}{more}")


NEWEST = 5
"""An error names at most so many snapshots."""


def _snapshot(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise no_snapshot(metadata, snapshot_id)
    return snapshot


def _as_of(metadata: TableMetadata, as_of: int | str | datetime) -> int:
    as_of = milliseconds_of(as_of)
    found = None
    for entry in metadata.snapshot_log:  # the last match: the log is in commit order, timestamps may not be
        if entry.timestamp_ms <= as_of:
            found = entry.snapshot_id
    if found is None:
        raise NotFoundError(f"no snapshot at or before {as_of} ms since 1970")
    return found


def plan_files(
    table: Table | str | os.PathLike[str],
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    row_filter: str | BooleanExpression | pc.Expression | RowFilter = AlwaysTrue(),  # noqa: B008
    case_sensitive: bool = True,
    metrics: bool = False,
) -> Plan:
    """Plans a scan: finds the data files that may have matching rows, and the deletes that apply to each.

    Args:
        table: a PyIceberg table of format version 1 to 3, or a path as in `scan`.
        snapshot_id: the snapshot to scan; the current one by default.
        branch, tag: the branch or tag whose snapshot is scanned.
        as_of: the time at which the snapshot was current: milliseconds since 1970, or a datetime or ISO 8601
            text with a time zone.
        row_filter: as for `scan`. Manifests and data files in which no row can match are pruned by
            their partition values and metrics.
        case_sensitive: whether column names in the filter are case-sensitive.
        metrics: whether the entries of data files have their metrics even if pruning does not need them.

    Raises:
        NotFoundError: there is no such snapshot, reference or column.
        InvalidInputError: the filter does not parse, or a literal is not a value of its column's type.
        CorruptDataError: a data file has two deletion vectors (the message names both), or metadata is damaged.
        UnsupportedError: the format version is above 3.

    Examples:
        >>> plan = pf.iceberg.plan_files(table, row_filter="id < 10")
        >>> len(plan.tasks), len(plan.delete_files)
        (1, 0)
    """
    check_flags(case_sensitive=case_sensitive, metrics=metrics)
    table = as_table(table)
    snapshot, schema = resolve(table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of)
    if not isinstance(row_filter, RowFilter):
        row_filter = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
    return plan_snapshot(table, snapshot, schema, row_filter, metrics=metrics)


def plan_snapshot(
    table: Table,
    snapshot: Snapshot | None,
    schema: Schema,
    row_filter: Matcher,
    *,
    metrics: bool = False,
    select: Select | None = None,
    most: int | None = None,
) -> Plan:
    """Plans a scan of a snapshot and schema from `resolve`; `row_filter` is bound to that schema.

    `select` chooses the data files, before anything else is asked of them: `most` paths at most, after
    which no further data manifest is read. With it, or with a filter, delete files of other data files are left out.
    """
    metadata = table.metadata
    plan = Plan(snapshot, schema)
    if snapshot is None:
        return plan
    files = files_of(snapshot)
    known = files.manifests(table.io)
    plan.data_manifests = [manifest for manifest in known if manifest.content == DATA]
    if row_filter.always_false:
        return plan
    pruning = SnapshotPruning(metadata, schema, row_filter)
    manifests = [manifest for manifest in known if pruning.may_match_manifest(manifest)]
    data_manifests = [manifest for manifest in manifests if manifest.content == DATA]
    oldest = min((manifest.min_sequence_number for manifest in data_manifests), default=0)
    data, deletes = Files(), Files()
    delete_manifests = [m for m in manifests if m.content != DATA]
    fetched = Fetched.together(
        table.io, data_manifests, [m for m in delete_manifests if m.sequence_number >= oldest]
    )
    with paused_gc():
        for some in files.live(
            table,
            data_manifests,
            data=True,
            metrics=metrics,
            bounds=pruning.filters,
            select=pruning.selecting(select),
            fetched=fetched,
        ):
            data.add(*pruning.data_files(some))
            if most is not None and len(data) >= most and len(data.paths()) >= most:
                break
        # the manifest list may be wrong about the oldest data file: a delete manifest would be left out
        numbers = [part.integers("sequence_number").values.min() for part in data.parts]
        narrow = pruning.filters or select is not None
        oldest = min([*numbers, *([] if narrow and numbers else [oldest])])
        delete_manifests = [m for m in delete_manifests if m.sequence_number >= oldest]
        if not data_manifests or (narrow and not data):
            delete_manifests = []
        referenced = data.paths().select_deletes if narrow else None
        for some in files.live(table, delete_manifests, data=False, select=referenced, fetched=fetched):
            deletes.add(pruning.delete_files(some))
        plan.tasks = tasks_of(metadata, data, deletes)
    plan.delete_files = deletes
    plan.manifests = frozenset(part.manifest.path for part in (*data.parts, *deletes.parts))
    return plan
