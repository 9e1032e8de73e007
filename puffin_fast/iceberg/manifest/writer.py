"""Writes manifests and manifest lists with all of their fields; values to be inherited are null."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import date, datetime, time
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, PartitionFieldStats
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.types import PrimitiveType, StructType, UnknownType

from puffin_fast._process.interrupt import interruptible
from puffin_fast.avro.file import CODECS, DEFLATES, plain_schema, to_avro_schema, write_avro
from puffin_fast.errors import CorruptDataError, InvalidInputError, UnsupportedError
from puffin_fast.iceberg.manifest.copies import EntryCopies
from puffin_fast.iceberg.manifest.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    ENTRY_NAMES,
    EXISTING,
    LIST_NAMES,
    UNASSIGNED,
    ManifestEntry,
    ManifestFile,
    PartitionSummary,
    check_version,
    entry_schema,
    partition_type,
)
from puffin_fast.rows.tasks import METRICS

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_DEFAULT_BLOCK_SIZE = 64 * 1024 * 1024  # field 105, required in version 1 only
_FROM_ENTRY = ("sequence_number", "file_sequence_number", "snapshot_id", "status")
_FROM_FILE = tuple(
    f.name for f in fields(ManifestEntry) if f.name not in (*_FROM_ENTRY, "spec_id", "partition")
)


@cache
def _list_avro_schema(format_version: int) -> Any:
    return to_avro_schema(MANIFEST_LIST_FILE_SCHEMAS[format_version], "manifest_file")


def check_transforms(spec: PartitionSpec, schema: Schema | None = None) -> None:
    """Refuses to write to a partition spec with unknown transforms, as the specification does ("Partition Transforms").

    Args:
        spec: the partition spec of new files.
        schema: the schema of their rows, which have the spec's source columns.

    Raises:
        UnsupportedError: the spec has such a transform, or a transform of several columns.
        CorruptDataError: the schema does not have a source column, or it is a struct, list or map.
    """
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            continue  # its value is null, also after its column was dropped
        if schema is not None and (
            field.source_id not in schema.field_ids or not schema.find_type(field.source_id).is_primitive
        ):
            raise CorruptDataError(
                f"partition spec {spec.spec_id}: source-id of field {field.name}",
                expected=f"a column of schema {schema.schema_id} that is not a struct, list or map",
                found=field.source_id,
            )
        if isinstance(field.transform, UnknownTransform):
            raise UnsupportedError(
                f"partition spec {spec.spec_id}: field {field.name}: {field.transform!r}; expected known transforms "
                "of one column; data files of other specs are read only"
            )


def can_write(metadata: TableMetadata, spec: PartitionSpec) -> bool:
    """Returns whether all partition values of a spec can be written: their transforms and types are known."""
    types = (field.field_type for field in partition_type(metadata, spec).fields)
    unknown = any(isinstance(field.transform, UnknownTransform) for field in spec.fields)
    return not unknown and not any(isinstance(kind, UnknownType) for kind in types)


def write_manifest(
    io: FileIO,
    path: str,
    *,
    metadata: TableMetadata,
    spec: PartitionSpec,
    content: int,
    snapshot_id: int,
    entries: Iterable[ManifestEntry],
    copies: Sequence[EntryCopies] = (),
    format_version: int | None = None,
) -> ManifestFile:
    """Writes one manifest.

    Args:
        io: PyIceberg's file access.
        path: the path of the new file.
        metadata: the table's metadata, for the schema, the format version and the codec.
        spec: the partition spec of all entries.
        content: 0 (`DATA`) or 1 (`DELETES`).
        snapshot_id: the id of the snapshot that the commit will add.
        entries: at least one entry, or `copies`. In an added entry, the sequence numbers, the snapshot id and the
            first row id may be None.
        copies: entries of other manifests, which come after these.
        format_version: overrides the format version of the metadata.

    Returns:
        the record for the manifest list, with sequence number `UNASSIGNED`.

    Raises:
        InvalidInputError: there are no entries, an entry has another content or spec, version 1 with delete files,
            or a sequence number is None that cannot be inherited.
        UnsupportedError: the format version is above 3, or as `check_transforms`.
    """
    version = metadata.format_version if format_version is None else format_version
    check_version(version)
    check_transforms(spec)
    if content not in (DATA, DELETES):
        raise InvalidInputError(f"content of a manifest: expected 0 or 1, found {content!r}")
    if version == 1 and content == DELETES:
        raise InvalidInputError(f"{path}: version 1 has no delete manifests")
    struct = partition_type(metadata, spec)
    schema = to_avro_schema(entry_schema(version, struct), "manifest_entry")
    tally = _Tally(ManifestFile(path, 0, spec.spec_id, content, UNASSIGNED, UNASSIGNED, snapshot_id), struct)
    keys = [field["name"] for field in _partition_fields(schema)]

    codec, copied, decoded = _codec(metadata), list[EntryCopies](), list[EntryCopies]()
    plain = plain_schema(schema, ENTRY_NAMES) if copies and codec in DEFLATES else None
    for one in copies:
        (decoded if plain is None or not one.can_copy(plain) else copied).append(one)

    def records() -> Iterator[dict[str, Any]]:
        for entry in entries:
            tally.add(entry)
            yield _record(entry, version, snapshot_id, keys)
        for one in decoded:
            for entry in one:
                tally.add(entry)
                yield _record(entry, version, snapshot_id, keys)
        if tally.is_empty and not copied:
            raise InvalidInputError(f"{path}: expected at least one manifest entry, found none")

    with interruptible():
        table_schema, partition_spec = metadata.schema().model_dump_json(), spec.model_dump_json()
    header = {
        "schema": table_schema,
        "schema-id": str(metadata.schema().schema_id),
        "partition-spec": json.dumps(json.loads(partition_spec)["fields"], ensure_ascii=False),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
    }
    if version > 1:
        header["content"] = "deletes" if content == DELETES else "data"
    encoded = chain.from_iterable(one.records() for one in copied)
    length = write_avro(io, path, schema, records(), header, codec, encoded)
    for one in copied:
        tally.add_copies(one)
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
    """Writes a manifest list, and assigns sequence numbers and first row ids to its manifests.

    Args:
        io: PyIceberg's file access.
        path: the path of the new file.
        snapshot_id: the id of the snapshot.
        parent_snapshot_id: the id of its parent, None for the first snapshot.
        sequence_number: the sequence number of the snapshot, which `UNASSIGNED` manifests get; 0 in version 1.
        manifests: all manifests of the snapshot, new and existing.
        first_row_id: the table's ``next-row-id`` (version 3). Data manifests without a first row id are assigned
            ids from here.
        format_version: 1, 2 or 3.
        codec: the codec's name in Avro.

    Returns:
        the new ``next-row-id`` of the table in version 3, else None.

    Raises:
        InvalidInputError: a manifest of another snapshot has no sequence number, a count is missing, or a
            version 1 list has a delete manifest.
    """
    check_version(format_version)
    if format_version >= 3 and first_row_id is None:
        raise InvalidInputError("first_row_id: expected the table's next-row-id (version 3), found none")
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
        raise UnsupportedError(f"write.avro.compression-codec {name!r}: expected one of {', '.join(CODECS)}")
    return CODECS[name]


def _partition_fields(schema: Any) -> list[dict[str, Any]]:
    for name in ("data_file", "partition"):
        schema = next(field for field in schema["fields"] if field["name"] == name)["type"]
    result: list[dict[str, Any]] = schema["fields"]
    return result


def _record(entry: ManifestEntry, version: int, snapshot_id: int, keys: Sequence[str]) -> dict[str, Any]:
    """Makes the Avro record. Arrays are tuples (type, value), so that fastavro does not search the union's type."""
    if len(entry.partition) != len(keys):
        raise InvalidInputError(
            f"{entry.file_path}: {len(entry.partition)} partition values for {len(keys)} fields"
        )
    file: dict[str, Any] = {name: getattr(entry, name) for name in _FROM_FILE}
    file["partition"] = {
        key: _without_logical_type(value) for key, value in zip(keys, entry.partition, strict=True)
    }
    for name in METRICS:
        if (values := file[name]) is not None:
            file[name] = ("array", [{"key": key, "value": value} for key, value in values.items()])
    for name in ("split_offsets", "equality_ids"):
        if file[name] is not None:
            file[name] = ("array", list(file[name]))
    if version == 1:
        file["block_size_in_bytes"] = _DEFAULT_BLOCK_SIZE
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


def _without_logical_type(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, date | datetime | time):
        raise InvalidInputError(f"partition value {value!r}: expected days or microseconds as an int")
    return value


def _list_record(manifest: ManifestFile, version: int) -> dict[str, Any]:
    record: dict[str, Any] = {f.name: getattr(manifest, f.name) for f in fields(ManifestFile)}
    for theirs, ours in LIST_NAMES.items():
        record[theirs] = record.pop(ours)
    if version > 1:  # required since version 2
        for name in ("added", "existing", "deleted"):
            for what in ("files", "rows"):
                if record[f"{name}_{what}_count"] is None:
                    raise InvalidInputError(f"{manifest.path}: expected {name}_{what}_count, found none")
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
    """Collects the counts and partition summaries of a manifest while its entries are written."""

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
                f"{entry.file_path}: content {entry.content} in a manifest of content {manifest.content}"
            )
        if entry.spec_id != manifest.spec_id:
            raise InvalidInputError(
                f"{entry.file_path}: spec {entry.spec_id} in a manifest of spec {manifest.spec_id}"
            )
        if entry.status not in (EXISTING, ADDED, DELETED):
            raise InvalidInputError(f"{entry.file_path}: status {entry.status!r}, expected 0, 1 or 2")
        self._files[entry.status] += 1
        self._rows[entry.status] += entry.record_count
        self._partitions[entry.partition] = None
        if entry.status != DELETED and entry.sequence_number is not None:
            self._min = entry.sequence_number if self._min is None else min(self._min, entry.sequence_number)

    def add_copies(self, copies: EntryCopies) -> None:
        files, status = copies.files, copies.status
        if (
            files.manifest.content != self._manifest.content
            or files.manifest.spec_id != self._manifest.spec_id
        ):
            raise InvalidInputError(
                f"{files.manifest.path}: expected the content and spec of the new manifest"
            )
        rows = files.integers("record_count").values
        for state in (EXISTING, DELETED):
            self._files[state] += int((status == state).sum())
            self._rows[state] += int(rows[status == state].sum())
        self._partitions |= dict.fromkeys(files.partitions()[1])
        numbers = files.integers("sequence_number").values[status != DELETED]
        if len(numbers):
            least = int(numbers.min())
            self._min = least if self._min is None else min(self._min, least)

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
            summary = stats.to_summary()
            result.append(
                PartitionSummary(
                    summary.contains_null, summary.contains_nan, summary.lower_bound, summary.upper_bound
                )
            )
        return result
