"""Converts a Delta schema to PyIceberg's, with the column names in data files, for the data-file reader.

Column mapping (Delta Transaction Log Protocol, "Column Mapping"): with mode `id` files are read by field ids, with mode
`name` by physical names, without mapping by the logical names. Fields without an id in the log get new ids.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import PrivateAttr
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UnknownType,
)

from puffin_fast._process.interrupt import interruptible
from puffin_fast._pyiceberg.v3_types import VariantType
from puffin_fast.delta.log.protocol import MAPPING_ID, MAPPING_MODE, PHYSICAL_NAME
from puffin_fast.delta.log.row_ids import MATERIALIZED
from puffin_fast.delta.log.snapshot import Snapshot
from puffin_fast.errors import CorruptDataError, PuffinFastError, UnsupportedError
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS

ROW_TRACKING = ("_row_id", "_last_updated_sequence_number")
"""The metadata columns of the data-file reader for row ids and row commit versions."""

NAME_MAPPING = "schema.name-mapping.default"
PARTITION_ID = 1000
"""The first id of partition fields in Iceberg."""

_NESTED_IDS = "delta.columnMapping.nested.ids"
DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
PRIMITIVES: dict[str, IcebergType] = {
    "string": StringType(),
    "long": LongType(),
    "integer": IntegerType(),
    "short": IntegerType(),
    "byte": IntegerType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "void": UnknownType(),
    "variant": VariantType(),
}
"""By the name of a type in the log."""


@dataclass(frozen=True)
class TableSchema:
    """The schema for reading the data files of a snapshot.

    Attributes:
        schema: the table's schema; top-level fields by their logical names.
        names: the physical names.
        by_name: whether columns are found by these names even if the files have field ids.
        partition_fields: the partition columns, in the order of the log.
        partition_names: their physical names.
        last_id: the highest field id.
    """

    schema: Schema
    names: NameMapping
    by_name: bool
    partition_fields: tuple[NestedField, ...]
    partition_names: tuple[str, ...]
    last_id: int

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Container[str] | None = None) -> TableSchema:
        """Converts the schema of a snapshot.

        Args:
            columns: the names of the columns to convert beside the partition columns; all when None. Field ids that
                the log does not have depend on it.

        Raises:
            UnsupportedError: the type of a column or the mode of column mapping is not supported, or a column has the
                name of a field of a struct, with dots.
            CorruptDataError: the schema is invalid, or lacks a partition column.
        """
        mode = snapshot.configuration.get(MAPPING_MODE, "none")
        if mode not in ("none", "name", "id"):
            raise UnsupportedError(f"{snapshot.root}: column mapping by {mode!r}")
        try:
            fields = snapshot.delta_schema["fields"]
            ids = [] if mode == "none" else _ids(fields)
            highest = max(ids, default=0)
            if columns is not None and len(set(ids)) == len(ids):  # else the converter names the repeated id
                partition_columns = snapshot.metadata.get("partitionColumns") or []
                fields = [f for f in fields if f["name"] in columns or f["name"] in partition_columns]
            converter = _Converter(snapshot.root, mapped=mode != "none", highest=highest)
            converted = [converter.field(field, field["name"]) for field in fields]
            try:
                schema = Schema(*(field for field, _ in converted))
            except ValueError:  # a name is repeated
                _check_dotted(converted, snapshot.root)
                raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, PuffinFastError):
                raise
            raise CorruptDataError(
                "schema of the table", path=snapshot.root, expected="a Delta schema", found=repr(error)
            ) from error
        own = {field.name: field for field, _ in converted}
        partition = []
        for name in snapshot.metadata.get("partitionColumns") or []:
            if name not in own:
                raise CorruptDataError(
                    "partition column", path=snapshot.root, expected=f"one of {', '.join(own)}", found=name
                )
            if own[name] in partition:
                raise CorruptDataError(
                    "partition columns", path=snapshot.root, expected="each once", found=f"{name} twice"
                )
            partition.append(own[name])
        stored = [
            _mapped(METADATA_COLUMNS[column].field_id, snapshot.configuration[name], [])
            for column, name in zip(ROW_TRACKING, MATERIALIZED, strict=True)
            if name in snapshot.configuration
        ]
        return cls(
            schema,
            NameMapping([*(mapped for _, mapped in converted), *stored]),
            mode != "id",
            tuple(partition),
            tuple(snapshot.partition_columns),
            converter.last_id,
        )

    def with_column(self, field_id: int, name: str) -> TableSchema:
        """Returns the schema for files that also have a column beside those of the table. It is found by its name, as
        are all columns then."""
        names = NameMapping([*self.names, _mapped(field_id, name, [])])
        return replace(self, names=names, by_name=True)

    def spec(self) -> PartitionSpec:
        """The partition spec: identity transforms of the partition columns."""
        fields = [
            PartitionField(field.field_id, PARTITION_ID + at, IdentityTransform(), field.name)
            for at, field in enumerate(self.partition_fields)
        ]
        return PartitionSpec(*fields, spec_id=0)

    @interruptible()
    def metadata(self, location: str) -> TableMetadata:
        """The metadata of the table in Iceberg's form."""
        found = _Metadata.model_validate(
            {
                "location": location,
                "last-column-id": self.last_id,
                "schemas": [self.schema],
                "current-schema-id": self.schema.schema_id,
                "partition-specs": [self.spec()],
                "default-spec-id": 0,
                "last-partition-id": PARTITION_ID + len(self.partition_fields) - 1,
                "last-updated-ms": 0,
            }
        )
        found._names = self.names
        return found


class _Metadata(TableMetadataV2):
    """Metadata with the name mapping itself in place of the property with its JSON."""

    _names: NameMapping = PrivateAttr()

    def name_mapping(self) -> NameMapping:
        return self._names


def _ids(value: Any) -> list[int]:
    """Returns the ids in a schema or a part of it, at any depth."""
    if isinstance(value, Mapping):
        own = [value[MAPPING_ID]] if isinstance(value.get(MAPPING_ID), int) else []
        nested = value.get(_NESTED_IDS)
        own += [n for n in nested.values() if isinstance(n, int)] if isinstance(nested, Mapping) else []
        return own + [n for inner in value.values() for n in _ids(inner)]
    return [n for inner in value for n in _ids(inner)] if isinstance(value, list) else []


def _check_dotted(converted: Iterable[tuple[NestedField, MappedField]], root: str) -> None:
    """Raises `UnsupportedError` if columns and fields of structs have one name with dots: PyIceberg's schemas find
    fields by these."""
    paths = {path for field, _ in converted for path in _paths(field)}
    repeated = [name for name, count in Counter(map(".".join, paths)).items() if count > 1]
    if repeated:
        raise UnsupportedError(
            f"{root}: a column and a field of a struct have one name with dots, {repeated[0]}; rename one of them"
        )


def _paths(field: NestedField) -> Iterator[tuple[str, ...]]:
    yield (field.name,)
    for inner in field.field_type.fields if isinstance(field.field_type, StructType) else ():
        yield from ((field.name, *path) for path in _paths(inner))


def _mapped(field_id: int, name: str, below: list[MappedField]) -> MappedField:
    return MappedField.model_construct(field_id=field_id, names=[name], fields=below)


class _Converter:
    """Converts types and collects names; assigns ids to fields without one."""

    def __init__(self, root: str, *, mapped: bool, highest: int) -> None:
        self._root, self._mapped = root, mapped
        self._next = highest if mapped else 0
        self._ids: set[int] = set()

    @property
    def last_id(self) -> int:
        """The highest id so far."""
        return max(self._next, *self._ids, 0)

    def _once(self, field_id: int, path: str) -> int:
        if field_id in self._ids:
            raise CorruptDataError(
                f"column mapping of {path}", path=self._root, expected="an id of its own", found=field_id
            )
        self._ids.add(field_id)
        return field_id

    def _new(self) -> int:
        self._next += 1
        return self._next

    def field(self, field: Mapping[str, Any], path: str) -> tuple[NestedField, MappedField]:
        """Converts a field of a struct; returns it and its physical names."""
        info = field.get("metadata") or {}
        name, physical = field["name"], field["name"]
        if self._mapped:
            if info.get(MAPPING_ID) is None:
                raise CorruptDataError(
                    f"column mapping of {path}",
                    path=self._root,
                    expected=MAPPING_ID,
                    found=info.get(MAPPING_ID),
                )
            field_id, physical = self._once(info[MAPPING_ID], path), info.get(PHYSICAL_NAME, name)
        else:
            field_id = self._new()
        nested = info.get(_NESTED_IDS) or {} if self._mapped else {}
        kind, below = self.type(field["type"], path, nested, physical)
        made = NestedField(field_id, name, kind, required=False)
        return made, _mapped(field_id, physical, below)

    def type(
        self, kind: Any, path: str, nested: Mapping[str, int], physical: str
    ) -> tuple[IcebergType, list[MappedField]]:
        """Converts a type; returns it and the names of the fields in it."""
        if isinstance(kind, str):
            found = PRIMITIVES.get(kind)
            if found is None and (match := DECIMAL.fullmatch(kind)) is not None:
                found = DecimalType(int(match[1]), int(match[2]))
            if found is None:
                raise UnsupportedError(
                    f"{self._root}: column {path} is of type {kind}, which is not supported"
                )
            return found, []
        if kind["type"] == "struct":
            parts = [self.field(inner, f"{path}.{inner['name']}") for inner in kind["fields"]]
            return StructType(*(field for field, _ in parts)), [mapped for _, mapped in parts]

        def inside(role: str, inner: Any) -> tuple[int, IcebergType, MappedField]:
            place = f"{physical}.{role}"
            field_id = self._once(nested.get(place) or self._new(), place)
            made, below = self.type(inner, f"{path}.{role}", nested, place)
            return field_id, made, _mapped(field_id, role, below)

        if kind["type"] == "array":
            field_id, element, mapped = inside("element", kind["elementType"])
            return ListType(field_id, element, False), [mapped]
        if kind["type"] == "map":
            key_id, key, key_names = inside("key", kind["keyType"])
            value_id, value, value_names = inside("value", kind["valueType"])
            return MapType(key_id, key, value_id, value, False), [key_names, value_names]
        raise UnsupportedError(
            f"{self._root}: column {path} is of type {kind['type']}, which is not supported"
        )
