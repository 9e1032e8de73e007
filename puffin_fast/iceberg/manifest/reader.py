"""Reads manifests and manifest lists, checks them, and fills in inherited values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate, compress, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pyiceberg.utils.decimal import bytes_to_decimal

from puffin_fast._io import is_remote
from puffin_fast._run.groups import filled_groups
from puffin_fast._run.interrupt import is_from_outside
from puffin_fast._run.streams import in_order
from puffin_fast.avro.columns import Nested, read_columns
from puffin_fast.avro.file import parse_avro, read_avro, read_together
from puffin_fast.avro.schema import PartitionColumn
from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg.manifest.checks import (
    check_counts,
    check_entries,
    check_partition_types,
    check_sequence_numbers,
    check_types,
)
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
    METRICS,
    POSITION_DELETES,
    ManifestEntry,
    ManifestFile,
    PartitionSummary,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.snapshots import Snapshot

Columns: TypeAlias = "dict[str, Any]"
"""The values of a manifest's entries by canonical field name, with an item per entry."""

EntrySelector: TypeAlias = "Callable[[Columns], npt.NDArray[np.bool_]]"
"""Returns a mask of the wanted entries of a manifest; it may select more than those."""

ENTRY_FIELDS = tuple(field.name for field in fields(ManifestEntry))
BOUNDS = ("lower_bounds", "upper_bounds")
TO_PRUNE = tuple(name for name in METRICS if name != "column_sizes")

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
    select: EntrySelector | None = None,
) -> list[ManifestEntry]:
    """Reads the entries of a manifest and fills in inherited values.

    Args:
        io: PyIceberg's file access.
        manifest: the manifest's record in its manifest list, from which entries inherit the sequence number and
            the first row id.
        specs: the partition specs of the table, ``table.specs()``. Without them, partition values are in the
            order of the file.
        data: the bytes of the manifest, if they were read already.
        live_only: whether entries with status deleted are omitted.
        metrics: whether the entries have the six maps of metrics. False is faster, but the entries must not be
            written back. They still have the maps that name a delete file's data file or that `select` needs.
        select: selects the wanted entries by their columns, before the entries are made. The columns include the
            bounds of data files: `Nested` if Polars read them, else dicts.

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
        names -= set(METRICS)
        if manifest.content == DELETES and file.metadata.get("format-version") != "3":
            names |= set(BOUNDS)
        if manifest.content == DATA and select is not None:
            names |= set(TO_PRUNE)
    partition = {column.name for column in file.plain.partition}
    columns: Columns = read_columns(file, names | partition, lazy=select is not None)
    try:
        check_entries(columns, manifest)
        check_counts(columns["status"], manifest, file.file_size)
        if not names.issuperset(BOUNDS) and _need_bounds(columns):
            columns |= read_columns(file, BOUNDS)
        _inherit(columns, manifest)
        columns["spec_id"] = repeat(manifest.spec_id)
        if specs is not None and manifest.spec_id not in specs:
            what = f"partition_spec_id of a manifest: expected one of {', '.join(map(str, specs))}"
            raise CorruptDataError(what, path=manifest.path, found=manifest.spec_id)
        spec = None if specs is None else specs[manifest.spec_id]
        columns["partition"] = _partitions(file.plain.partition, spec, columns)
        if select is not None:
            columns = _selected(select(columns), columns)
        entries = list(map(ManifestEntry, *(columns.get(name, repeat(None)) for name in ENTRY_FIELDS)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, CorruptDataError) or is_from_outside(error):
            raise
        raise CorruptDataError(f"entries of a manifest: {error!r}", path=manifest.path) from error
    if live_only and DELETED in columns["status"]:
        return [entry for entry in entries if entry.is_live]
    return entries


def _selected(mask: npt.NDArray[np.bool_], columns: Columns) -> Columns:
    """Selects entries of columns. Maps of other entries are not converted to dicts."""
    if mask.all():
        return columns
    flags = mask.tolist()
    return {
        name: values.where(mask) if isinstance(values, Nested) else list(compress(values, flags))
        for name, values in columns.items()
    }


def _need_bounds(columns: Columns) -> bool:
    """Whether there are position-delete files without ``referenced_data_file``, whose bounds name the data files."""
    contents, named = columns["content"], columns.get("referenced_data_file")
    if named is None or None not in named:
        return named is None and POSITION_DELETES in contents
    return (None, POSITION_DELETES) in zip(named, contents, strict=True)


def _inherit(columns: Columns, manifest: ManifestFile) -> None:
    columns["snapshot_id"] = _filled(columns["snapshot_id"], manifest.added_snapshot_id)
    status, number = columns["status"], manifest.sequence_number
    for name in ("sequence_number", "file_sequence_number"):
        values = columns[name]
        if number == 0 or {ADDED}.issuperset(status):
            columns[name] = _filled(values, number)
        elif None in values:
            if name == "sequence_number" and (EXISTING, None) in zip(status, values, strict=True):
                at = list(zip(status, values, strict=True)).index((EXISTING, None))
                raise CorruptDataError(
                    f"sequence number of {columns['file_path'][at]}",
                    path=manifest.path,
                    expected="a number (the status is existing)",
                    found="none",
                )
            columns[name] = [
                number if value is None and state == ADDED else value
                for value, state in zip(values, status, strict=True)
            ]
    check_sequence_numbers(columns, manifest)
    if manifest.content == DATA and manifest.first_row_id is not None:
        columns["first_row_id"] = _row_ids(columns, manifest.first_row_id)
    else:
        columns["first_row_id"] = [
            row_id if state == DELETED else None
            for row_id, state in zip(columns["first_row_id"], status, strict=True)
        ]


def _filled(values: list[Any], default: Any) -> list[Any]:
    return [default if value is None else value for value in values] if None in values else values


def _row_ids(columns: Columns, next_row_id: int) -> list[int | None]:
    """The first row id of each data file. Live files without one are assigned ids in order, deleted files none."""
    if {None}.issuperset(columns["first_row_id"]) and DELETED not in columns["status"]:
        return list(accumulate(columns["record_count"], initial=next_row_id))[:-1]
    found = []
    for state, row_id, n_rows in zip(
        columns["status"], columns["first_row_id"], columns["record_count"], strict=True
    ):
        if row_id is None and state != DELETED:
            row_id, next_row_id = next_row_id, next_row_id + n_rows
        found.append(row_id)
    return found


def _partitions(
    found: Sequence[PartitionColumn], spec: PartitionSpec | None, columns: Columns
) -> Iterable[tuple[Any, ...]]:
    """The partition values of each file in the order of the spec, found by field id."""
    ordered: list[PartitionColumn | None] = list(found)
    if spec is not None:
        by_id = {column.field_id: column for column in found}
        if all(field.field_id in by_id for field in spec.fields):
            ordered = [by_id[field.field_id] for field in spec.fields]
        elif None not in by_id:
            ordered = [by_id.get(field.field_id) for field in spec.fields]
        # without field ids (version 1) the fields are in the order of the spec
    if not ordered:
        return repeat(())
    nulls = [None] * len(columns["status"])
    return zip(*(_scaled(column, columns) if column else nulls for column in ordered), strict=True)


def _scaled(column: PartitionColumn, columns: Columns) -> Iterable[Any]:
    values: Iterable[Any]
    values, scale = columns[column.name], column.scale
    if scale is None:
        return values
    return [None if value is None else bytes_to_decimal(value, scale) for value in values]


def read_manifests(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    live_only: bool = True,
    metrics: bool = True,
    select: EntrySelector | None = None,
) -> Iterator[tuple[ManifestFile, list[ManifestEntry]]]:
    """Reads many manifests, their bytes on threads; yields them in the given order. See `read_manifest`.

    They are decoded by the caller's thread: it is mostly Python, for which threads would wait for each other.
    Memory: the bytes of 16 manifests, or of 16 MiB of small ones.
    """
    if not manifests:
        return
    enough = 1 if is_remote(manifests[0].path, io) else _TOGETHER_BYTES

    def fetch(group: Sequence[ManifestFile]) -> Iterator[list[bytes | None]]:
        yield read_together(io, [(manifest.path, manifest.length) for manifest in group], enough)

    groups = [*filled_groups(manifests, enough, lambda manifest: max(manifest.length, _TOGETHER_BYTES // 16))]
    threads = min(_THREADS, len(groups))
    for group, parts in zip(groups, in_order(groups, fetch, threads, capacity=1), strict=True):
        for manifest, data in zip(group, parts, strict=True):
            entries = read_manifest(
                io, manifest, specs, data=data, live_only=live_only, metrics=metrics, select=select
            )
            yield manifest, entries
