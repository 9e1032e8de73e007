"""The records of manifests and manifest lists, their constants and their schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    PARTITION_FIELD_SUMMARY_TYPE,
)
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, ListType, MapType, NestedField, StructType, UnknownType

from puffin_fast.errors import UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""Values of a manifest entry's status (field 0)."""

STATUSES: Final = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}
"""The names of the statuses in the counts of a manifest list."""

DATA: Final = 0
POSITION_DELETES: Final = 1
EQUALITY_DELETES: Final = 2
"""Values of a file's content (field 134)."""

DELETES: Final = 1
"""A manifest's content (field 517) if it lists delete files; 0 (`DATA`) otherwise."""

UNASSIGNED: Final = -1
"""The sequence number of a manifest before its commit; `write_manifest_list` assigns the real one."""


@dataclass(slots=True)
class ManifestEntry:
    """One file of a manifest: the fields of the entry and those of its ``data_file``.

    `read_manifest` fills in inherited values. For `write_manifest`, None means that the value is inherited.
    `partition` has the values in the order of the spec, without logical types: days, microseconds, `Decimal`,
    16 bytes for a uuid.
    """

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    content: int
    file_path: str
    file_format: str
    spec_id: int
    partition: tuple[Any, ...]
    record_count: int
    file_size_in_bytes: int
    column_sizes: dict[int, int] | None = None
    value_counts: dict[int, int] | None = None
    null_value_counts: dict[int, int] | None = None
    nan_value_counts: dict[int, int] | None = None
    lower_bounds: dict[int, bytes] | None = None
    upper_bounds: dict[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: list[int] | None = None
    equality_ids: list[int] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_vector(self) -> bool:
        """Whether the file is a deletion vector: position deletes in a Puffin file."""
        return self.content == POSITION_DELETES and self.file_format == "PUFFIN"

    @property
    def is_live(self) -> bool:
        """Whether the file belongs to the snapshot: its status is added or existing."""
        return self.status != DELETED

    def __reduce__(self) -> tuple[Any, ...]:
        """The values without their names: many entries are copied and pickled."""
        return type(self), _values_of(self)


_values_of = attrgetter(*(field.name for field in fields(ManifestEntry)))


Key = tuple[str, int | None]


def key_of(entry: ManifestEntry) -> Key:
    """The identity of an entry: a Puffin file has many deletion vectors, each at its own offset."""
    return entry.file_path, entry.content_offset


def content_of(vector: ManifestEntry) -> tuple[object, ...]:
    """What a vector deletes: a commit makes one for a data file, and one that only moves keeps its sequence number."""
    return (
        vector.referenced_data_file,
        vector.sequence_number,
        vector.record_count,
        vector.content_size_in_bytes,
    )


def counts_of(entries: Iterable[ManifestEntry]) -> dict[str, int]:
    """The counts of files and rows by status that a manifest list has for a manifest, by their names in it."""
    counts = {f"{name}_{what}_count": 0 for name in STATUSES.values() for what in ("files", "rows")}
    for entry in entries:
        name = STATUSES[entry.status]
        counts[f"{name}_files_count"] += 1
        counts[f"{name}_rows_count"] += entry.record_count
    return counts


@dataclass(slots=True)
class PartitionSummary:
    """The summary of one partition field over the files of a manifest; bounds in single-value serialisation."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(slots=True)
class ManifestFile:
    """One manifest, as recorded in a manifest list."""

    path: str
    length: int
    spec_id: int
    content: int = DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: list[PartitionSummary] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None


VERSIONS: Final = (1, 2, 3)
"""The format versions that can be read and written."""

LIST_NAMES: Final = {"manifest_path": "path", "manifest_length": "length", "partition_spec_id": "spec_id"}
"""Names of the specification for which `ManifestFile` has shorter names."""

_EQUALITY_IDS = NestedField(135, "equality_ids", ListType(136, IntegerType(), True), required=False)
"""A list of int, as in the specification. PyIceberg's schema has a list of long, which Java does not read."""


def _names(*structs: Iterable[NestedField]) -> dict[int, str]:
    found: dict[int, str] = {}
    for struct in structs:
        for field in struct:
            found[field.field_id] = field.name
            if isinstance(field.field_type, StructType):
                found |= _names(field.field_type.fields)
    return found


def _types(*structs: Iterable[NestedField]) -> dict[str, str]:
    """The type of the values of each field, as `avro_schema.value_type` names it."""
    found: dict[str, str] = {}
    for field in chain.from_iterable(structs):
        if isinstance(field.field_type, StructType):
            found |= _types(field.field_type.fields)
        else:
            found[field.name] = _value_type(field.field_type)
    return found


def _value_type(kind: IcebergType) -> str:
    if isinstance(kind, MapType):
        return f"map<{_value_type(kind.key_type)}, {_value_type(kind.value_type)}>"
    if isinstance(kind, ListType):
        return f"list<{_value_type(kind.element_type)}>"
    if isinstance(kind, StructType):
        return "record"
    return {"int": "long", "binary": "bytes"}.get(str(kind), str(kind))


ENTRY_NAMES = _names(*(MANIFEST_ENTRY_SCHEMAS[version].fields for version in VERSIONS))
LIST_FIELD_NAMES = _names(
    *(MANIFEST_LIST_FILE_SCHEMAS[version].fields for version in VERSIONS), PARTITION_FIELD_SUMMARY_TYPE.fields
)
ENTRY_TYPES = _types(*(MANIFEST_ENTRY_SCHEMAS[version].fields for version in VERSIONS))
LIST_TYPES = _types(*(MANIFEST_LIST_FILE_SCHEMAS[version].fields for version in VERSIONS))


def check_version(format_version: int) -> None:
    if format_version not in VERSIONS:
        raise UnsupportedError(
            f"format version {format_version}: expected one of {', '.join(map(str, VERSIONS))}"
        )


def entry_schema(format_version: int, partition: StructType) -> Schema:
    """The schema of a manifest, with the partition struct of a spec; all partition fields are optional."""
    optional = [NestedField(f.field_id, f.name, f.field_type, required=False) for f in partition.fields]

    def replaced(field: NestedField) -> NestedField:
        if field.name == "partition":
            return NestedField(field.field_id, field.name, StructType(*optional), required=True)
        if field.name == "data_file" and isinstance(field.field_type, StructType):
            inner = StructType(*map(replaced, field.field_type.fields))
            return NestedField(field.field_id, field.name, inner, required=True)
        return _EQUALITY_IDS if field.field_id == _EQUALITY_IDS.field_id else field

    return Schema(*map(replaced, MANIFEST_ENTRY_SCHEMAS[format_version].fields))


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> StructType:
    """The struct type of a spec's partition values.

    Args:
        metadata: the table's metadata. A source column is searched in all schemas, first in the current one,
            which may have lost the column.
        spec: a partition spec of the table.
    """
    schemas = [metadata.schema(), *sorted(metadata.schemas, key=lambda schema: -schema.schema_id)]
    found = []
    for field in spec.fields:
        source = (s.find_type(field.source_id) for s in schemas if field.source_id in s.field_ids)
        known = next(source, None)
        result = UnknownType() if known is None else field.transform.result_type(known)
        found.append(NestedField(field.field_id, field.name, result, required=False))
    return StructType(*found)
