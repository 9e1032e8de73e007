"""Manifests and manifest lists read: inheritance filled in, hostile bytes refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyiceberg.utils.decimal import bytes_to_decimal

from puffin_fast.errors import CorruptDataError
from puffin_fast.iceberg._avro import PartitionColumn, read_avro
from puffin_fast.iceberg._entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    ENTRY_NAMES,
    EQUALITY_DELETES,
    EXISTING,
    LIST_FIELD_NAMES,
    LIST_NAMES,
    METRICS,
    POSITION_DELETES,
    ManifestEntry,
    ManifestFile,
    PartitionSummary,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec

__all__ = ["read_manifest", "read_manifest_list", "read_manifests"]

_THREADS = 8
_NOT_TO_PLAN = (*METRICS, "key_metadata")
_LIST_WANTED = frozenset(
    name for field_id, name in LIST_FIELD_NAMES.items() if field_id not in (508, 509, 510, 511, 518)
)


def read_manifest_list(io: FileIO, path: str) -> list[ManifestFile]:
    """The manifests of a snapshot.

    Args:
        io: PyIceberg's file access.
        path: the snapshot's ``manifest-list``.

    Raises:
        CorruptDataError: the file is no manifest list.
        NotFoundError: there is no such file.
    """
    result = []
    for record in read_avro(io, path, LIST_FIELD_NAMES).records:
        values = {LIST_NAMES.get(name, name): value for name, value in record.items() if name in _LIST_WANTED}
        if (partitions := values.get("partitions")) is not None:
            values["partitions"] = [PartitionSummary(**summary) for summary in partitions]
        try:
            manifest = ManifestFile(**values)
        except TypeError as error:
            raise CorruptDataError(f"record of a manifest list: {error}", path=path) from error
        if manifest.content not in (DATA, DELETES):
            raise CorruptDataError(
                "content of a manifest", path=path, expected="0 or 1", found=manifest.content
            )
        if manifest.content == DELETES:
            manifest.first_row_id = None  # for data manifests only, whatever a writer put there
        result.append(manifest)
    return result


def read_manifest(
    io: FileIO,
    manifest: ManifestFile,
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    live_only: bool = True,
    metrics: bool = True,
) -> list[ManifestEntry]:
    """The entries of a manifest, with what they inherit filled in.

    Args:
        io: PyIceberg's file access.
        manifest: the manifest as its list states it: sequence number and first row id are inherited from it.
        specs: the table's, ``table.specs()``; without them partition values keep the file's order.
        live_only: leave out entries whose status is deleted.
        metrics: False leaves the six metrics maps and the key metadata of data files out (None); reads
            faster, but what comes out must not be written back.

    Raises:
        CorruptDataError: the file is no manifest, is shorter than stated, or lacks a required field.
        NotFoundError: there is no such file.
    """
    # delete files have few metrics, and their bounds say which data file is meant
    skip = frozenset(() if metrics or manifest.content == DELETES else _NOT_TO_PLAN)
    path = manifest.path
    file = read_avro(io, path, ENTRY_NAMES, n_bytes=manifest.length, skip=skip)
    partition_of = _partition_reader(file.partition, None if specs is None else specs.get(manifest.spec_id))
    spec_id, is_data = manifest.spec_id, manifest.content == DATA
    next_row_id = manifest.first_row_id if is_data else None
    unread = dict.fromkeys(skip)
    result = []
    for record in file.records:
        try:
            record["data_file"].update(unread)
            entry = _entry(record, spec_id, partition_of)
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptDataError(f"entry of a manifest: {error!r}", path=path) from error
        if (entry.content == DATA) != is_data or entry.content not in (
            DATA,
            POSITION_DELETES,
            EQUALITY_DELETES,
        ):
            raise CorruptDataError(
                f"content of {entry.file_path}",
                path=path,
                expected=f"that of manifest {manifest.content}",
                found=entry.content,
            )
        if entry.status == DELETED:
            if live_only:
                continue
        elif entry.status not in (ADDED, EXISTING):
            raise CorruptDataError(
                f"status of {entry.file_path}", path=path, expected="0 to 2", found=entry.status
            )
        elif not is_data or manifest.first_row_id is None:
            entry.first_row_id = None
        elif entry.first_row_id is None and next_row_id is not None:
            entry.first_row_id = next_row_id
            next_row_id += entry.record_count
        _inherit(entry, manifest)
        result.append(entry)
    return result


def _inherit(entry: ManifestEntry, manifest: ManifestFile) -> None:
    if entry.snapshot_id is None:
        entry.snapshot_id = manifest.added_snapshot_id
    if entry.status == ADDED or manifest.sequence_number == 0:
        if entry.sequence_number is None:
            entry.sequence_number = manifest.sequence_number
        if entry.file_sequence_number is None:
            entry.file_sequence_number = manifest.sequence_number
    elif entry.sequence_number is None and entry.status == EXISTING:
        raise CorruptDataError(
            f"sequence number of {entry.file_path}",
            path=manifest.path,
            expected="one: its status is existing",
        )


def _entry(
    record: dict[str, Any], spec_id: int, partition_of: Callable[[Any], tuple[Any, ...]]
) -> ManifestEntry:
    file = record["data_file"]
    get = file.get
    return ManifestEntry(
        record["status"],
        record.get("snapshot_id"),
        record.get("sequence_number"),
        record.get("file_sequence_number"),
        get("content", DATA),
        file["file_path"],
        file["file_format"].upper(),
        spec_id,
        partition_of(file["partition"]),
        file["record_count"],
        file["file_size_in_bytes"],
        _mapping(get("column_sizes")),
        _mapping(get("value_counts")),
        _mapping(get("null_value_counts")),
        _mapping(get("nan_value_counts")),
        _mapping(get("lower_bounds")),
        _mapping(get("upper_bounds")),
        get("key_metadata"),
        get("split_offsets"),
        get("equality_ids"),
        get("sort_order_id"),
        get("first_row_id"),
        get("referenced_data_file"),
        get("content_offset"),
        get("content_size_in_bytes"),
    )


def _mapping(pairs: list[dict[str, Any]] | None) -> dict[int, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _partition_reader(
    columns: Sequence[PartitionColumn], spec: PartitionSpec | None
) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """A function from the partition record to the tuple in the spec's order, found by field id."""
    ordered: list[PartitionColumn | None] = list(columns)
    if spec is not None:
        by_id = {column.field_id: column for column in columns}
        if all(field.field_id in by_id for field in spec.fields):
            ordered = [by_id[field.field_id] for field in spec.fields]
        elif None not in by_id:
            ordered = [by_id.get(field.field_id) for field in spec.fields]
        # a file without field ids (version 1) follows the spec by position
    if not ordered:
        return lambda record: ()
    plan = [(None if c is None else c.name, None if c is None else c.scale) for c in ordered]
    names = [name for name, scale in plan if name is not None and scale is None]
    if len(names) == len(plan):
        return lambda record: tuple([record[name] for name in names])

    def read(record: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            [
                None
                if name is None or (value := record[name]) is None
                else value
                if scale is None
                else bytes_to_decimal(value, scale)
                for name, scale in plan
            ]
        )

    return read


def read_manifests(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    specs: Mapping[int, PartitionSpec] | None = None,
    *,
    live_only: bool = True,
    metrics: bool = True,
) -> Iterator[tuple[ManifestFile, list[ManifestEntry]]]:
    """`read_manifest` of many manifests on threads, in their order."""

    def read(manifest: ManifestFile) -> list[ManifestEntry]:
        return read_manifest(io, manifest, specs, live_only=live_only, metrics=metrics)

    if len(manifests) < 2:
        yield from ((manifest, read(manifest)) for manifest in manifests)
        return
    with ThreadPoolExecutor(min(_THREADS, len(manifests)), thread_name_prefix="manifests") as pool:
        yield from zip(manifests, pool.map(read, manifests), strict=True)
