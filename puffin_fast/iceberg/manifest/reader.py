"""Reads manifests and manifest lists, checks them, and fills in inherited values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from puffin_fast._concurrency.groups import filled_groups
from puffin_fast._concurrency.streams import in_order
from puffin_fast._io import is_remote
from puffin_fast._process.interrupt import is_from_outside, suppressed
from puffin_fast.avro.columns import Records
from puffin_fast.avro.file import parse_avro, read_avro, read_together
from puffin_fast.avro.integers import Column
from puffin_fast.avro.schema import PartitionColumn
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.iceberg.manifest.checks import (
    LOCATED,
    check_counts,
    check_entries,
    check_partition_types,
    check_sequence_numbers,
    check_types,
    integer_columns,
    path_at,
    unchecked_texts,
)
from puffin_fast.iceberg.manifest.columns import FileColumns, Select
from puffin_fast.iceberg.manifest.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    ENTRY_NAMES,
    ENTRY_TYPES,
    EXISTING,
    LIST_FIELD_NAMES,
    LIST_NAMES,
    LIST_TYPES,
    POSITION_DELETES,
    ManifestEntry,
    ManifestFile,
    PartitionSummary,
)
from puffin_fast.rows.tasks import METRICS

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.snapshots import Snapshot

    from puffin_fast.avro.file import AvroFile

ENTRY_FIELDS = tuple(field.name for field in fields(ManifestEntry))
BOUNDS = ("lower_bounds", "upper_bounds")
TO_PRUNE = tuple(name for name in METRICS if name != "column_sizes")
MATCHED = ("file_path", "referenced_data_file")
INHERITED = ("content", "snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


_THREADS = 8
_TOGETHER_BYTES = 1 << 20
"""Local manifests are read up to 16 at a time, if they do not have more bytes."""

_LIST_WANTED = frozenset(
    name for field_id, name in LIST_FIELD_NAMES.items() if field_id not in (508, 509, 510, 511, 518)
)


def read_manifest_list(io: FileIO, path: str, snapshot_id: int | None = None) -> list[ManifestFile]:
    """Reads a manifest list.

    Args:
        io: PyIceberg's file access.
        path: the snapshot's ``manifest-list``.
        snapshot_id: the snapshot; compared with the file's header, in which writers name it.

    Raises:
        CorruptDataError: the file is not a manifest list, or is that of another snapshot.
        NotFoundError: there is no such file.
    """
    result = []
    file = read_avro(io, path, LIST_FIELD_NAMES)
    written_for = file.metadata.get("snapshot-id", "null")
    if snapshot_id is not None and written_for not in ("null", str(snapshot_id)):
        raise CorruptDataError(
            "snapshot-id of a manifest list", path=path, offset=0, expected=snapshot_id, found=written_for
        )
    check_types(file, LIST_TYPES)
    for record in file.records():
        values = {LIST_NAMES.get(name, name): value for name, value in record.items() if name in _LIST_WANTED}
        try:
            if (partitions := values.get("partitions")) is not None:
                values["partitions"] = [PartitionSummary(**summary) for summary in partitions]
            manifest = ManifestFile(**values)
        except TypeError as error:
            raise CorruptDataError(f"record of a manifest list: {error}", path=path) from error
        for name, attribute in LIST_NAMES.items():
            if getattr(manifest, attribute) is None:
                raise CorruptDataError("record of a manifest list", path=path, expected=name, found="null")
        if manifest.content not in (DATA, DELETES):
            raise CorruptDataError(
                "content of a manifest", path=path, expected="0 or 1", found=manifest.content
            )
        if manifest.content == DELETES:
            manifest.first_row_id = None  # only data manifests have one; ignore the value of a writer
        result.append(manifest)
    return result


def manifests_of(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """Reads the manifests of a snapshot.

    Raises:
        CorruptDataError: the file is not a manifest list, is that of another snapshot, or is empty although the
            snapshot's summary counts files.
        NotFoundError: there is no such file.
    """
    manifests = read_manifest_list(io, snapshot.manifest_list, snapshot.snapshot_id)
    if not manifests and snapshot.summary is not None:
        for name in ("total-data-files", "total-delete-files"):
            if str(snapshot.summary.get(name) or "0").strip("0"):
                raise CorruptDataError(
                    "manifests of a snapshot",
                    path=snapshot.manifest_list,
                    expected=f"{name} {snapshot.summary[name]} (snapshot {snapshot.snapshot_id})",
                    found="none",
                )
    return manifests


def read_manifest(
    io: FileIO,
    manifest: ManifestFile,
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    data: bytes | None = None,
    live_only: bool = True,
    metrics: bool = True,
) -> list[ManifestEntry]:
    """Reads the entries of a manifest; see `read_columns`."""
    return read_columns(io, manifest, specs, data=data, live_only=live_only, metrics=metrics).entries()


def read_columns(
    io: FileIO,
    manifest: ManifestFile,
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    data: bytes | None = None,
    live_only: bool = True,
    metrics: bool = True,
    bounds: bool = False,
    select: Select | None = None,
) -> FileColumns:
    """Reads a manifest by columns and fills in inherited values.

    Args:
        io: PyIceberg's file access.
        manifest: the manifest's record in its manifest list, from which entries inherit the sequence number and
            the first row id.
        specs: the partition specs of the table, ``table.specs()``. Without them, partition values are in the
            order of the file.
        data: the bytes of the manifest, if they were read already.
        live_only: whether entries with status deleted are omitted.
        metrics: whether the entries have the six maps of metrics. False is faster, but the entries must not be
            written back. Delete files still have the maps that name their data file.
        bounds: whether data files have the maps that `TO_PRUNE` names, although `metrics` is False.
        select: chooses the files that are wanted. All fields that it does not read are read of these only.

    Raises:
        CorruptDataError: the file is not a manifest, a required field is missing, or entries are lost: their counts
            and the file's size are less than the manifest list states. Other wrong counts are findings of `verify`.
        NotFoundError: there is no such file.
    """
    if data is None:
        file = read_avro(io, manifest.path, ENTRY_NAMES, manifest.length)
    else:
        file = parse_avro(data, manifest.path, ENTRY_NAMES, io)
    check_types(file, ENTRY_TYPES)
    check_partition_types(file)
    names = set(ENTRY_FIELDS)
    if not metrics:
        names -= {*METRICS, "file_format"}
        if manifest.content == DELETES and file.metadata.get("format-version") != "3":
            names |= set(BOUNDS)
        if manifest.content == DATA and bounds:
            names |= set(TO_PRUNE)
    partition = {column.name for column in file.plain.partition}
    first = names if select is None else {*select.fields, *unchecked_texts(file, select.fields)}
    try:
        records = Records.of(file, first | partition, (*LOCATED, *BOUNDS))
        columns = integer_columns(records)
        formats = check_entries(file, records, columns, manifest)
        check_counts(columns["status"], manifest, file.file_size)
        if not names.issuperset(BOUNDS) and _need_bounds(file, records, columns):
            names, first = names | set(BOUNDS), first | set(BOUNDS)
            records = Records.of(file, first | partition, (*LOCATED, *BOUNDS))
        _inherit(columns, file, manifest)
        if specs is not None and manifest.spec_id not in specs:
            what = f"partition_spec_id of a manifest: expected one of {', '.join(map(str, specs))}"
            raise CorruptDataError(what, path=manifest.path, found=manifest.spec_id)
        spec = None if specs is None else specs[manifest.spec_id]
        ordered = _ordered(file.plain.partition, spec)
        if any(column and column.name not in records for column in ordered):
            raise CorruptDataError(
                "partition of a manifest entry", path=manifest.path, expected="a record", found="a union"
            )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, PuffinFastError) or is_from_outside(error):
            raise
        raise CorruptDataError(f"entries of a manifest: {error!r}", path=manifest.path) from error
    kept = {name: columns[name] for name in INHERITED}
    found = FileColumns(manifest, records, formats, kept, ordered, file.plain)
    is_live = columns["status"].short[0] != DELETED
    rows = np.arange(len(found))
    if live_only and not is_live.all():
        rows = np.flatnonzero(columns["status"].values != DELETED)
        found = found.take(rows)
    if select is not None:
        wanted = np.flatnonzero(select.chosen(found))
        found, rows = found.take(wanted), rows[wanted]
        if first != names and len(rows):
            found = found.with_records(Records.of(file, names | partition, LOCATED, (records, rows)))
    return found.located(MATCHED)


def _need_bounds(file: AvroFile, records: Records, columns: Mapping[str, Column]) -> bool:
    """Whether there are position-delete files without ``referenced_data_file``, whose bounds name the data files."""
    positions = columns["content"].short[0] == POSITION_DELETES
    if not len(records) or not positions.any():
        return False
    if "referenced_data_file" not in records:
        return True
    _, sizes = records.spans("referenced_data_file")
    return bool((positions & (sizes < 0)).any())


def _inherit(columns: dict[str, Column], file: AvroFile, manifest: ManifestFile) -> None:
    columns["snapshot_id"] = columns["snapshot_id"].filled(manifest.added_snapshot_id)
    status, number = columns["status"].short[0], manifest.sequence_number
    added = status == ADDED
    for name in ("sequence_number", "file_sequence_number"):
        column = columns[name]
        if number == 0:
            columns[name] = column.filled(number)
            continue
        missing = ~column.short[1] & (status == EXISTING)
        if name == "sequence_number" and missing.any():
            raise CorruptDataError(
                f"sequence number of {path_at(file, int(missing.argmax()))}",
                path=manifest.path,
                expected="a number (the status is existing)",
                found="none",
            )
        columns[name] = column.filled(number, added)
    check_sequence_numbers(columns, file, manifest)
    row_ids = columns["first_row_id"]
    if manifest.content == DATA and manifest.first_row_id is not None:
        columns["first_row_id"] = _row_ids(columns, manifest.first_row_id)
    else:
        columns["first_row_id"] = Column(row_ids.values, row_ids.valid & (status == DELETED))


def _row_ids(columns: Mapping[str, Column], first: int) -> Column:
    """The first row id of each data file. Live files without one are assigned ids in order, deleted files none."""
    known, n_rows = columns["first_row_id"], columns["record_count"].values
    assigned = ~known.short[1] & (columns["status"].short[0] != DELETED)
    if not assigned.all():
        n_rows = np.where(assigned, n_rows, 0)
    ids = np.cumsum(n_rows)
    ids += first
    ids -= n_rows
    if assigned.all():
        return Column(ids, np.broadcast_to(np.True_, len(ids)))
    return Column(np.where(assigned, ids, known.values), known.valid | assigned)


def _ordered(
    found: Sequence[PartitionColumn], spec: PartitionSpec | None
) -> Sequence[PartitionColumn | None]:
    """The columns of the partition values in the order of the spec, found by field id."""
    if spec is not None:
        by_id = {column.field_id: column for column in found}
        if all(field.field_id in by_id for field in spec.fields):
            return [by_id[field.field_id] for field in spec.fields]
        if None not in by_id:
            return [by_id.get(field.field_id) for field in spec.fields]
        # without field ids (version 1) the fields are in the order of the spec
    return found


def read_manifests(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    live_only: bool = True,
    metrics: bool = True,
    select: Select | None = None,
) -> Iterator[tuple[ManifestFile, list[ManifestEntry]]]:
    """Reads the entries of many manifests; see `read_many`."""
    for found in read_many(io, manifests, specs, live_only=live_only, metrics=metrics, select=select):
        yield found.manifest, found.entries()


def read_many(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    live_only: bool = True,
    metrics: bool = True,
    bounds: bool = False,
    select: Select | None = None,
    fetched: Fetched | None = None,
) -> Iterator[FileColumns]:
    """Reads many manifests by columns, their bytes on threads; yields them in the given order. See `read_columns`.

    They are decoded by the caller's thread: it is mostly Python, for which threads would wait for each other.

    Args:
        fetched: has their bytes; by default they are read.
    """
    fetched = fetched or Fetched(io, manifests)
    for manifest in manifests:
        yield read_columns(
            io,
            manifest,
            specs,
            data=fetched.take(manifest),
            live_only=live_only,
            metrics=metrics,
            bounds=bounds,
            select=select,
        )


class Fetched:
    """The bytes of manifests, which threads read ahead.

    Memory: the bytes of 16 manifests, or of 16 MiB of small ones.
    """

    def __init__(
        self,
        io: FileIO,
        manifests: Sequence[ManifestFile],
        threads: int = _THREADS,
        probable: Sequence[ManifestFile] = (),
    ) -> None:
        # ends its threads when this object is not used any more
        self._parts = _read_ahead(io, manifests, threads, {*map(id, probable)})

    @classmethod
    def together(
        cls, io: FileIO, first: Sequence[ManifestFile], then: Sequence[ManifestFile]
    ) -> Fetched | None:
        """Manifests and those that are probably wanted after them, if a store is asked for all of them at once."""
        n = len(first) + len(then)
        if not first or not then or n > 2 * _THREADS or not is_remote(first[0].path, io):
            return None
        return cls(io, [*first, *then], n, then)

    def take(self, manifest: ManifestFile) -> bytes | None:
        """The bytes of a manifest, None if they are not read ahead. Those before it cannot be taken any more."""
        return next((data for other, data in self._parts if other is manifest), None)


def _read_ahead(
    io: FileIO, manifests: Sequence[ManifestFile], threads: int, probable: Set[int]
) -> Iterator[tuple[ManifestFile, bytes | None]]:
    """Yields manifests with their bytes; None for one of `probable` that cannot be read: it may not be wanted."""
    if not manifests:
        return
    enough = 1 if is_remote(manifests[0].path, io) else _TOGETHER_BYTES

    def fetch(group: Sequence[ManifestFile]) -> Iterator[list[bytes | None]]:
        parts: list[bytes | None] = [None] * len(group)
        with suppressed(PuffinFastError, OSError) if id(group[0]) in probable else nullcontext():
            parts = read_together(io, [(manifest.path, manifest.length) for manifest in group], enough)
        yield parts

    groups = [*filled_groups(manifests, enough, lambda manifest: max(manifest.length, _TOGETHER_BYTES // 16))]
    threads = min(threads, len(groups))
    for group, parts in zip(groups, in_order(groups, fetch, threads, capacity=1), strict=True):
        yield from zip(group, parts, strict=True)
