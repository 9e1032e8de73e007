"""Manifests and manifest lists written: every field kept, what is null stays to be inherited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import date, datetime, time
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, PartitionFieldStats
from pyiceberg.types import PrimitiveType, StructType, UnknownType

from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.iceberg.manifest.avro import CODECS, to_avro_schema, write_avro
from puffin_fast.iceberg.manifest.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    LIST_NAMES,
    METRICS,
    UNASSIGNED,
    ManifestEntry,
    ManifestFile,
    PartitionSummary,
    check_version,
    entry_schema,
    partition_type,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["write_manifest", "write_manifest_list"]

_DEFAULT_BLOCK_SIZE = 64 * 1024 * 1024  # field 105, required in version 1 only
_FROM_ENTRY = ("sequence_number", "file_sequence_number", "snapshot_id", "status")
_FROM_FILE = tuple(
    f.name for f in fields(ManifestEntry) if f.name not in (*_FROM_ENTRY, "spec_id", "partition")
)


@cache
def _list_avro_schema(format_version: int) -> Any:
    return to_avro_schema(MANIFEST_LIST_FILE_SCHEMAS[format_version], "manifest_file")


def write_manifest(
    io: FileIO,
    path: str,
    *,
    metadata: TableMetadata,
    spec: PartitionSpec,
    content: int,
    snapshot_id: int,
    entries: Iterable[ManifestEntry],
    format_version: int | None = None,
) -> ManifestFile:
    """Writes one manifest.

    Args:
        io: PyIceberg's file access.
        path: where to.
        metadata: the table's metadata: schema, format version, compression.
        spec: the partition spec of all entries.
        content: 0 (`DATA`) or 1 (`DELETES`).
        snapshot_id: the snapshot that the commit will make.
        entries: at least one; an added one may leave sequence numbers, snapshot id and first row id None.
        format_version: other than the metadata's.

    Returns:
        the record for the manifest list, its sequence number still `UNASSIGNED`.

    Raises:
        InvalidInputError: no entries, entries of the wrong content or spec, deletes in version 1, or a
            sequence number that cannot be inherited.
        UnsupportedError: a format version above 3.
    """
    version = metadata.format_version if format_version is None else format_version
    check_version(version)
    if content not in (DATA, DELETES):
        raise InvalidInputError(f"content of a manifest must be 0 or 1, not {content!r}")
    if version == 1 and content == DELETES:
        raise InvalidInputError(f"{path}: version 1 has no delete manifests")
    struct = partition_type(metadata, spec)
    schema = to_avro_schema(entry_schema(version, struct), "manifest_entry")
    tally = _Tally(ManifestFile(path, 0, spec.spec_id, content, UNASSIGNED, UNASSIGNED, snapshot_id), struct)
    keys = [field["name"] for field in _partition_fields(schema)]

    def records() -> Iterator[dict[str, Any]]:
        for entry in entries:
            tally.add(entry)
            yield _record(entry, version, snapshot_id, keys)
        if tally.is_empty:
            raise InvalidInputError(f"{path}: a manifest without entries")

    header = {
        "schema": metadata.schema().model_dump_json(),
        "schema-id": str(metadata.schema().schema_id),
        "partition-spec": json.dumps(json.loads(spec.model_dump_json())["fields"]),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
    }
    if version > 1:
        header["content"] = "deletes" if content == DELETES else "data"
    length = write_avro(io, path, schema, records(), header, _codec(metadata))
    return tally.finish(length)


def write_manifest_list(
    io: FileIO,
    path: str,
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    manifests: Iterable[ManifestFile],
    first_row_id: int | None = None,
    format_version: int,
    codec: str = "deflate",
) -> int | None:
    """Writes a manifest list and assigns what its manifests left open.

    Args:
        io: PyIceberg's file access.
        path: where to.
        snapshot_id: the snapshot.
        parent_snapshot_id: its parent, None for the first.
        sequence_number: the snapshot's; `UNASSIGNED` manifests get it. 0 in version 1.
        manifests: all manifests of the snapshot, new and carried over.
        first_row_id: version 3: the table's ``next-row-id``; data manifests without a first row id get
            theirs from here on.
        format_version: 1, 2 or 3.
        codec: Avro's codec.

    Returns:
        version 3: the table's next ``next-row-id``; else None.

    Raises:
        InvalidInputError: a manifest of another snapshot without a sequence number, or a delete manifest in
            version 1.
    """
    check_version(format_version)
    if format_version >= 3 and first_row_id is None:
        raise InvalidInputError("version 3 needs the table's next-row-id as first_row_id")
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        header["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        header["first-row-id"] = str(first_row_id)
    next_row_id = first_row_id
    records = []
    for manifest in manifests:
        ready = replace(manifest)
        if ready.sequence_number == UNASSIGNED:
            if ready.added_snapshot_id != snapshot_id:
                raise InvalidInputError(
                    f"{ready.path}: a manifest of snapshot {ready.added_snapshot_id} without sequence number"
                )
            ready.sequence_number = sequence_number
        if ready.min_sequence_number == UNASSIGNED:
            ready.min_sequence_number = ready.sequence_number
        if format_version == 1 and ready.content == DELETES:
            raise InvalidInputError(f"{ready.path}: version 1 has no delete manifests")
        if format_version < 3 or ready.content == DELETES:
            ready.first_row_id = None
        elif ready.first_row_id is None and next_row_id is not None:
            ready.first_row_id = next_row_id
            next_row_id += (ready.existing_rows_count or 0) + (ready.added_rows_count or 0)
        records.append(_list_record(ready, format_version))
    write_avro(io, path, _list_avro_schema(format_version), records, header, codec)
    return next_row_id if format_version >= 3 else None


def _codec(metadata: TableMetadata) -> str:
    name = metadata.properties.get("write.avro.compression-codec", "gzip").lower()
    if name not in CODECS:
        raise UnsupportedError(f"write.avro.compression-codec {name!r}: known are {', '.join(CODECS)}")
    return CODECS[name]


def _partition_fields(schema: Any) -> list[dict[str, Any]]:
    for name in ("data_file", "partition"):
        schema = next(field for field in schema["fields"] if field["name"] == name)["type"]
    result: list[dict[str, Any]] = schema["fields"]
    return result


def _record(entry: ManifestEntry, version: int, snapshot_id: int, keys: Sequence[str]) -> dict[str, Any]:
    """The Avro record; arrays go as fastavro's tuples (type, value), which spares it a guess per union."""
    if len(entry.partition) != len(keys):
        raise InvalidInputError(
            f"{entry.file_path}: {len(entry.partition)} partition values for {len(keys)} fields"
        )
    file: dict[str, Any] = {name: getattr(entry, name) for name in _FROM_FILE}
    file["partition"] = {key: _raw(value) for key, value in zip(keys, entry.partition, strict=True)}
    for name in METRICS:
        if (values := file[name]) is not None:
            file[name] = ("array", [{"key": key, "value": value} for key, value in values.items()])
    for name in ("split_offsets", "equality_ids"):
        if file[name] is not None:
            file[name] = ("array", list(file[name]))
    if version == 1:
        file["block_size_in_bytes"] = _DEFAULT_BLOCK_SIZE
    elif entry.is_vector:
        file["file_format"] = "puffin"  # as Java writes it
    if entry.content != DATA:
        file["first_row_id"] = None
    if entry.sequence_number is None:
        if entry.status != ADDED:
            raise InvalidInputError(f"{entry.file_path}: only an added file may inherit its sequence number")
        if entry.snapshot_id not in (None, snapshot_id):
            raise InvalidInputError(
                f"{entry.file_path}: added by snapshot {entry.snapshot_id}, without sequence number"
            )
    return {
        "status": entry.status,
        "snapshot_id": snapshot_id if entry.snapshot_id is None else entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": file,
    }


def _raw(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, date | datetime | time):
        raise InvalidInputError(f"partition value {value!r}: days or microseconds as an int are expected")
    return value


def _list_record(manifest: ManifestFile, version: int) -> dict[str, Any]:
    record: dict[str, Any] = {f.name: getattr(manifest, f.name) for f in fields(ManifestFile)}
    for theirs, ours in LIST_NAMES.items():
        record[theirs] = record.pop(ours)
    if version > 1:  # the counts are required there; unknown ones (version 1) are read as some, not none
        for name in ("added", "existing", "deleted"):
            for what in ("files", "rows"):
                if record[f"{name}_{what}_count"] is None:
                    raise InvalidInputError(f"{manifest.path}: a manifest without {name}_{what}_count")
    if manifest.partitions is not None:
        record["partitions"] = (
            "array",
            [
                {f.name: getattr(summary, f.name) for f in fields(PartitionSummary)}
                for summary in manifest.partitions
            ],
        )
    return record


class _Tally:
    """Counts and summaries of a manifest while its entries pass by."""

    def __init__(self, manifest: ManifestFile, partition: StructType) -> None:
        self._manifest = manifest
        self._types = [field.field_type for field in partition.fields]
        self._partitions: dict[tuple[Any, ...], None] = {}
        self._files = [0, 0, 0]
        self._rows = [0, 0, 0]
        self._min: int | None = None

    def add(self, entry: ManifestEntry) -> None:
        manifest = self._manifest
        if (entry.content == DATA) != (manifest.content == DATA):
            raise InvalidInputError(
                f"{entry.file_path}: content {entry.content} in a manifest of {manifest.content}"
            )
        if entry.spec_id != manifest.spec_id:
            raise InvalidInputError(
                f"{entry.file_path}: spec {entry.spec_id} in a manifest of {manifest.spec_id}"
            )
        if entry.status not in (EXISTING, ADDED, DELETED):
            raise InvalidInputError(f"{entry.file_path}: status {entry.status!r}")
        self._files[entry.status] += 1
        self._rows[entry.status] += entry.record_count
        self._partitions[entry.partition] = None
        if entry.status != DELETED and entry.sequence_number is not None:
            self._min = entry.sequence_number if self._min is None else min(self._min, entry.sequence_number)

    @property
    def is_empty(self) -> bool:
        return not sum(self._files)

    def finish(self, length: int) -> ManifestFile:
        return replace(
            self._manifest,
            length=length,
            min_sequence_number=UNASSIGNED if self._min is None else self._min,
            added_files_count=self._files[ADDED],
            existing_files_count=self._files[EXISTING],
            deleted_files_count=self._files[DELETED],
            added_rows_count=self._rows[ADDED],
            existing_rows_count=self._rows[EXISTING],
            deleted_rows_count=self._rows[DELETED],
            partitions=self._summaries(),
        )

    def _summaries(self) -> list[PartitionSummary]:
        result = []
        for position, kind in enumerate(self._types):
            if not isinstance(kind, PrimitiveType) or isinstance(kind, UnknownType):
                result.append(PartitionSummary(contains_null=True))
                continue
            stats = PartitionFieldStats(kind)
            for partition in self._partitions:
                stats.update(partition[position])
            told = stats.to_summary()
            result.append(
                PartitionSummary(told.contains_null, told.contains_nan, told.lower_bound, told.upper_bound)
            )
        return result
