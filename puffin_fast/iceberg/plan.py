"""Which delete files apply to which data file of a snapshot (table specification, "Scan Planning").

A delete file applies to a data file
- deletion vector: it names the file, and is not older than it; it hides all position-delete files there;
- position deletes: same spec and partition (or the one path that it names), and not older than the file;
- equality deletes: same spec and partition, or an unpartitioned spec; the file is strictly older.
"Older" compares data sequence numbers. Planning is linear in the files: all is found by path or partition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection, manifest_evaluator
from pyiceberg.schema import Schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType

from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.filters import Matcher, RowFilter
from puffin_fast.iceberg.manifests import (
    DATA,
    EQUALITY_DELETES,
    ManifestEntry,
    ManifestFile,
    partition_type,
    read_manifest_list,
    read_manifests,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["DeleteIndex", "FileTask", "Plan", "only_path", "plan_files", "plan_snapshot", "resolve"]

FILE_PATH_ID = 2147483546
"""Reserved field id of ``file_path`` in position deletes: its bounds say which data files are meant."""

MAX_FORMAT_VERSION = 3

_NAN = object()  # NaN equals NaN as a partition value


@dataclass(slots=True)
class FileTask:
    """A data file and the deletes that apply to it, entries with inherited values filled in."""

    data: ManifestEntry
    vector: ManifestEntry | None = None
    position_deletes: tuple[ManifestEntry, ...] = ()
    equality_deletes: tuple[ManifestEntry, ...] = ()

    @property
    def deletes(self) -> tuple[ManifestEntry, ...]:
        """All delete files that apply."""
        first = () if self.vector is None else (self.vector,)
        return first + self.position_deletes + self.equality_deletes


@dataclass(slots=True)
class Plan:
    """What a scan of one snapshot reads.

    Attributes:
        snapshot: None for a table (or a main branch) without snapshots.
        schema: the schema to read with: the current one for a branch, else the snapshot's own.
        tasks: the data files that may hold an answer, in the order of the manifests.
        unused: delete files among those that were read that apply to none of `tasks`; without a filter these
            are the dangling ones.
    """

    snapshot: Snapshot | None
    schema: Schema
    tasks: list[FileTask] = field(default_factory=list)
    unused: list[ManifestEntry] = field(default_factory=list)


def resolve(
    metadata: TableMetadata,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    as_of: int | datetime | None = None,
) -> tuple[Snapshot | None, Schema]:
    """The snapshot that is meant, and the schema to read it with.

    Args:
        metadata: the table's.
        snapshot_id: a snapshot.
        branch: a branch or a tag.
        as_of: what was current at this time (milliseconds since 1970, or a datetime with a time zone).

    Raises:
        NotFoundError: no such snapshot or reference.
        InvalidInputError: more than one of the three, or a datetime without time zone.
        UnsupportedError: a format version above 3.
    """
    if metadata.format_version > MAX_FORMAT_VERSION:
        raise UnsupportedError(
            f"format version {metadata.format_version}: up to {MAX_FORMAT_VERSION} are known"
        )
    if sum(chosen is not None for chosen in (snapshot_id, branch, as_of)) > 1:
        raise InvalidInputError("give one of snapshot_id, branch and as_of")
    if branch is not None:
        reference = metadata.refs.get(branch)
        if reference is None:
            if branch == "main":
                return None, metadata.schema()
            known = ", ".join(sorted(metadata.refs)) or "none"
            raise NotFoundError(f"no branch or tag {branch!r}: the table has {known}")
        if reference.snapshot_ref_type == SnapshotRefType.BRANCH:
            return _snapshot(metadata, reference.snapshot_id), metadata.schema()
        snapshot_id = reference.snapshot_id
    if as_of is not None:
        snapshot_id = _as_of(metadata, as_of)
    if snapshot_id is None:
        return metadata.current_snapshot(), metadata.schema()
    snapshot = _snapshot(metadata, snapshot_id)
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    own = None if snapshot.schema_id is None else schemas.get(snapshot.schema_id)
    return snapshot, own or metadata.schema()


def _snapshot(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise NotFoundError(f"no snapshot {snapshot_id}: the table has {len(metadata.snapshots)} others")
    return snapshot


def _as_of(metadata: TableMetadata, as_of: int | datetime) -> int:
    if isinstance(as_of, datetime):
        if as_of.tzinfo is None:
            raise InvalidInputError(f"as_of={as_of}: a time zone is needed")
        as_of = int(as_of.timestamp() * 1000)
    past = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= as_of]
    if not past:
        raise NotFoundError(f"no snapshot at or before {as_of} ms")
    return max(past, key=lambda entry: entry.timestamp_ms).snapshot_id


def plan_files(
    table: Table,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    as_of: int | datetime | None = None,
    row_filter: str | BooleanExpression | pc.Expression | RowFilter = AlwaysTrue(),  # noqa: B008
    case_sensitive: bool = True,
    metrics: bool = False,
) -> Plan:
    """Plans a scan: the data files that a filter leaves, each with the deletes that apply.

    Args:
        table: a PyIceberg table of format version 1 to 3.
        snapshot_id: a snapshot, instead of the current one.
        branch: a branch or a tag.
        as_of: milliseconds since 1970 or a datetime with time zone.
        row_filter: as `RowFilter.bind` takes it; manifests and files where no row can match are left out by
            partition values and metrics.
        case_sensitive: whether names in the filter must agree in case.
        metrics: keep the metrics of data files even where the filter needs none.

    Raises:
        NotFoundError: an unknown snapshot, reference or column.
        InvalidInputError: a filter that does not parse or fit.
        CorruptDataError: two vectors for one data file (both are named), or damaged metadata.
        UnsupportedError: a format version above 3.
    """
    snapshot, schema = resolve(table.metadata, snapshot_id=snapshot_id, branch=branch, as_of=as_of)
    if not isinstance(row_filter, RowFilter):
        row_filter = RowFilter.bind(row_filter, schema, case_sensitive=case_sensitive)
    return plan_snapshot(table, snapshot, schema, row_filter, case_sensitive=case_sensitive, metrics=metrics)


def plan_snapshot(
    table: Table,
    snapshot: Snapshot | None,
    schema: Schema,
    row_filter: Matcher,
    *,
    case_sensitive: bool = True,
    metrics: bool = False,
) -> Plan:
    """`plan_files` of what `resolve` found, with a filter that is bound to that schema."""
    metadata = table.metadata
    plan = Plan(snapshot, schema)
    if snapshot is None or row_filter.nothing:
        return plan
    pruning = _Pruning(metadata, schema, row_filter, case_sensitive)
    manifests = [
        manifest
        for manifest in read_manifest_list(table.io, snapshot.manifest_list)
        if manifest.may_be_live and pruning.keeps_manifest(manifest)
    ]
    data_manifests = [manifest for manifest in manifests if manifest.content == DATA]
    oldest = min((manifest.min_sequence_number for manifest in data_manifests), default=0)
    delete_manifests = [
        m for m in manifests if m.content != DATA and m.sequence_number >= oldest and data_manifests
    ]
    specs = table.specs()
    deletes = DeleteIndex(metadata)
    for manifest, entries in read_manifests(table.io, delete_manifests, specs, metrics=False):
        keeps = pruning.keeps_delete(manifest.spec_id)
        deletes.add(entries if keeps is None else filter(keeps, entries))
    by_metrics = metrics or pruning.filters
    for manifest, entries in read_manifests(table.io, data_manifests, specs, metrics=by_metrics):
        keeps = pruning.keeps_data(manifest.spec_id)
        plan.tasks.extend(deletes.tasks(entries if keeps is None else filter(keeps, entries)))
    plan.unused = deletes.unused()
    return plan


class _Pruning:
    """Evaluators of a filter, made once per partition spec."""

    def __init__(
        self, metadata: TableMetadata, schema: Schema, row_filter: Matcher, case_sensitive: bool
    ) -> None:
        expression = row_filter.expression
        self.filters = not isinstance(expression, AlwaysTrue)
        self._metadata, self._schema = metadata, schema
        self._expression, self._case_sensitive = expression, case_sensitive
        self._specs = metadata.specs()
        self._projection = cache(self._project)
        self._manifest = cache(self._manifest_evaluator)
        self._partition = cache(self._partition_evaluator)
        self._metrics = row_filter.may_match(schema, case_sensitive=case_sensitive) if self.filters else None

    def _spec(self, spec_id: int) -> PartitionSpec:
        try:
            return self._specs[spec_id]
        except KeyError:
            raise CorruptDataError(
                "partition spec of a manifest",
                path=self._metadata.location,
                expected=sorted(self._specs),
                found=spec_id,
            ) from None

    def _project(self, spec_id: int) -> BooleanExpression:
        return inclusive_projection(self._schema, self._spec(spec_id), self._case_sensitive)(self._expression)

    def _manifest_evaluator(self, spec_id: int) -> Callable[[Any], bool]:
        return manifest_evaluator(
            self._spec(spec_id), self._schema, self._projection(spec_id), self._case_sensitive
        )

    def _partition_evaluator(self, spec_id: int) -> Callable[[Any], bool] | None:
        projected = self._projection(spec_id)
        if isinstance(projected, AlwaysTrue):
            return None
        struct = Schema(*partition_type(self._metadata, self._spec(spec_id)).fields)
        evaluate = expression_evaluator(struct, projected, self._case_sensitive)
        return cache(evaluate)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        self._spec(manifest.spec_id)
        return not self.filters or self._manifest(manifest.spec_id)(manifest)

    def keeps_delete(self, spec_id: int) -> Callable[[ManifestEntry], bool] | None:
        """By partition only: a delete file's metrics speak of deleted rows, not of those that are left."""
        by_partition = self._partition(spec_id) if self.filters else None
        return None if by_partition is None else lambda entry: by_partition(entry.partition)

    def keeps_data(self, spec_id: int) -> Callable[[ManifestEntry], bool] | None:
        by_metrics = self._metrics
        if by_metrics is None:
            return None
        by_partition = self._partition(spec_id)
        if by_partition is None:
            return by_metrics
        return lambda entry: by_partition(entry.partition) and by_metrics(entry)


class _BySequence:
    """Delete files of one partition or path, ordered by data sequence number."""

    __slots__ = ("_entries", "_numbers")

    def __init__(self) -> None:
        self._entries: list[ManifestEntry] = []
        self._numbers: list[int] | None = None

    def add(self, entry: ManifestEntry) -> None:
        self._entries.append(entry)
        self._numbers = None

    def _sorted(self) -> list[int]:
        if self._numbers is None:
            self._entries.sort(key=_sequence_number)
            self._numbers = [_sequence_number(entry) for entry in self._entries]
        return self._numbers

    def not_older(self, sequence_number: int) -> Sequence[ManifestEntry]:
        return self._entries[bisect_left(self._sorted(), sequence_number) :]

    def newer(self, sequence_number: int) -> Sequence[ManifestEntry]:
        return self._entries[bisect_right(self._sorted(), sequence_number) :]


def _sequence_number(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


class DeleteIndex:
    """Delete files by what they apply to."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._vectors: dict[str, ManifestEntry] = {}
        self._by_path: dict[str, _BySequence] = {}
        self._by_partition: dict[Any, _BySequence] = {}
        self._equal: dict[Any, _BySequence] = {}
        self._equal_everywhere = _BySequence()
        self._all: list[ManifestEntry] = []
        self._used: set[int] = set()
        specs = metadata.specs()
        self._global = {
            id
            for id, spec in specs.items()
            if all(isinstance(f.transform, VoidTransform) for f in spec.fields)
        }
        self._floats = {
            id: any(
                isinstance(f.field_type, FloatType | DoubleType)
                for f in partition_type(metadata, spec).fields
            )
            for id, spec in specs.items()
        }

    def _key(self, entry: ManifestEntry) -> Any:
        partition = entry.partition
        if self._floats.get(entry.spec_id):
            partition = tuple([_NAN if value != value else value for value in partition])
        return entry.spec_id, partition

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        vectors = self._vectors
        for entry in entries:
            self._all.append(entry)
            if entry.is_vector:
                path = entry.referenced_data_file
                if path is None:
                    raise CorruptDataError(
                        "deletion vector without referenced-data-file", path=entry.file_path
                    )
                if path in vectors:
                    self._second_vector(vectors[path], entry)
                else:
                    vectors[path] = entry
            elif entry.content == EQUALITY_DELETES:
                if not entry.equality_ids:
                    raise CorruptDataError("equality deletes without equality_ids", path=entry.file_path)
                if entry.spec_id in self._global:
                    self._equal_everywhere.add(entry)
                else:
                    self._equal.setdefault(self._key(entry), _BySequence()).add(entry)
            elif (path := only_path(entry)) is not None:
                self._by_path.setdefault(path, _BySequence()).add(entry)
            else:
                self._by_partition.setdefault(self._key(entry), _BySequence()).add(entry)

    def _second_vector(self, first: ManifestEntry, second: ManifestEntry) -> None:
        """A table may not have two vectors for a data file: nobody could say which one counts."""
        raise CorruptDataError(
            f"two deletion vectors for one data file: {_where(first)} and {_where(second)}",
            path=first.referenced_data_file,
        )

    def tasks(self, entries: Iterable[ManifestEntry]) -> Iterator[FileTask]:
        """A task for each data file."""
        vectors, used = self._vectors, self._used
        if not self._all:
            yield from map(FileTask, entries)
            return
        only_vectors = len(self._all) == len(vectors)
        for data in entries:
            number = data.sequence_number or 0
            vector = vectors.get(data.file_path)
            if vector is not None:
                if (vector.sequence_number or 0) < number:
                    vector = None  # of a file that stood at this path before
                else:
                    used.add(id(vector))
            task = FileTask(data, vector)
            if not only_vectors:
                if vector is None:
                    task.position_deletes = tuple(self._position_deletes(data, number))
                task.equality_deletes = tuple(self._equality_deletes(data, number))
                used.update(map(id, task.position_deletes), map(id, task.equality_deletes))
            yield task

    def _position_deletes(self, data: ManifestEntry, number: int) -> Iterator[ManifestEntry]:
        if (named := self._by_path.get(data.file_path)) is not None:
            yield from named.not_older(number)
        if self._by_partition and (same := self._by_partition.get(self._key(data))) is not None:
            path = data.file_path.encode()
            yield from (entry for entry in same.not_older(number) if _may_name(entry, path))

    def _equality_deletes(self, data: ManifestEntry, number: int) -> Iterator[ManifestEntry]:
        yield from self._equal_everywhere.newer(number)
        if self._equal and (same := self._equal.get(self._key(data))) is not None:
            yield from same.newer(number)

    def unused(self) -> list[ManifestEntry]:
        """Delete files that no task got."""
        return [entry for entry in self._all if id(entry) not in self._used]


def _where(vector: ManifestEntry) -> str:
    return f"{vector.file_path} offset {vector.content_offset}"


def only_path(entry: ManifestEntry) -> str | None:
    """The one data file that a position-delete file names, if it says so."""
    if entry.referenced_data_file is not None:
        return entry.referenced_data_file
    lower, upper = _path_bounds(entry)
    return lower.decode(errors="surrogateescape") if lower is not None and lower == upper else None


def _may_name(entry: ManifestEntry, path: bytes) -> bool:
    lower, upper = _path_bounds(entry)
    return (lower is None or lower <= path) and (upper is None or path <= upper)


def _path_bounds(entry: ManifestEntry) -> tuple[bytes | None, bytes | None]:
    return (entry.lower_bounds or {}).get(FILE_PATH_ID), (entry.upper_bounds or {}).get(FILE_PATH_ID)
