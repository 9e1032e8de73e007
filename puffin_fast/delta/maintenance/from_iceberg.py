"""Creates a Delta table from a snapshot of an Iceberg table: the same data files, with vectors in `.bin` files.

Delta finds the columns by Iceberg's field ids (column mapping by id), which is correct also for renamed and dropped
columns.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
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
)

from puffin_fast import __version__
from puffin_fast._runtime import split_location
from puffin_fast.delta.dml.changes import Written, write_vectors
from puffin_fast.delta.dml.data_files import partition_text
from puffin_fast.delta.log.protocol import (
    DELETION_VECTORS,
    ENABLE_VECTORS,
    FEATURES,
    MAPPING_ID,
    MAPPING_MAX_ID,
    MAPPING_MODE,
    PHYSICAL_NAME,
    Protocol,
)
from puffin_fast.delta.log.segment import commit_path
from puffin_fast.delta.log.storage import TableStorage, storage_of
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.iceberg.datafile.conversion import storage_type
from puffin_fast.iceberg.deletes.loader import DeleteLoader
from puffin_fast.iceberg.deletes.outcome import NewDeletes
from puffin_fast.iceberg.plan.files import FileTask, plan_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["from_iceberg"]


_NAMES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
    BinaryType: "binary",
}


def from_iceberg(
    table: Table,
    location: str | None = None,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    filesystem: Any = None,
) -> str:
    """Creates a Delta table from a snapshot of an Iceberg table; no data file is copied.

    Later commits of one table do not change the other. Both refer to the same data files: Iceberg's expiry of
    snapshots and a drop with purge remove data files of the Delta table, and its removal of orphan files removes the
    `.bin` files. If both tables are in one folder, Delta's vacuum removes all files that the Delta table does not refer
    to, also Iceberg's metadata. Do not run any of them while both tables are in use.

    Args:
        table: a PyIceberg table of format version 1 to 3.
        location: folder of the Delta table; by default that of the Iceberg table. Paths in the log are then relative,
            which some readers of Delta tables require.
        snapshot_id, branch, tag, as_of: as `puffin_fast.iceberg.scan`.
        filesystem: of `location`.

    Returns:
        The location of the Delta table.

    Raises:
        UnsupportedError: Delta does not have the type of a column, the type of a column was changed, a column has an
            initial default, or the table has equality deletes, data files that are not Parquet, or a name mapping.
        InvalidInputError: the Delta table exists.
        NotFoundError, CorruptDataError: as `puffin_fast.iceberg.scan`.
    """
    metadata, name = table.metadata, ".".join(table.name())
    schema = metadata.schema()
    _check_schemas(table, name)
    storage = storage_of(location or table.location(), filesystem)
    plan = plan_files(table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of)
    for task in plan.tasks:
        if task.equality_deletes:
            raise UnsupportedError(
                f"{name}: equality deletes apply to {task.data.file_path}; convert them first"
            )
        if task.data.file_format != "PARQUET":
            raise UnsupportedError(f"{task.data.file_path}: {task.data.file_format}; expected PARQUET")
    columns = _Converter(table).fields(schema.fields)
    partition = _partition_fields(table, plan.tasks)
    written = Written()
    try:
        written = write_vectors(storage, _deletes(table, plan.tasks))
        vectors = {new.task.data.file_path: descriptor for new, descriptor in written.changes}
        names = {column["name"]: column["metadata"][PHYSICAL_NAME] for column in columns}
        lines = [*_header(schema, columns, [field.name for field in partition], name)]
        for task in plan.tasks:
            vector = vectors.get(task.data.file_path, {})
            if vector is not None:
                lines.append(_add(task, storage, partition, names, vector))
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n"
        if not storage.put(commit_path(0), text.encode()):
            raise InvalidInputError(f"{storage.root}: expected no Delta table, found one")
    except BaseException:
        for path in written.files:
            storage.remove(path)
        raise
    return storage.root


def _check_schemas(table: Table, name: str) -> None:
    metadata, schema = table.metadata, table.metadata.schema()
    if metadata.name_mapping() is not None:
        raise UnsupportedError(f"{name}: the table has a name mapping; Delta finds columns only by field ids")
    known = {field_id: schema.find_type(field_id) for field_id in schema.field_ids}
    for field_id in schema.field_ids:
        if schema.find_field(field_id).initial_default is not None:
            column = schema.find_column_name(field_id)
            raise UnsupportedError(
                f"{name}: column {column} has an initial default, which Delta does not have"
            )
    for old in metadata.schemas:
        for field_id in set(old.field_ids) & set(known):
            before, now = old.find_type(field_id), known[field_id]
            if now.is_primitive and before != now:
                column = schema.find_column_name(field_id)
                raise UnsupportedError(f"{name}: column {column} was changed from {before} to {now}")


def _partition_fields(table: Table, tasks: Sequence[FileTask]) -> list[NestedField]:
    """Returns the partition columns for Delta; none if a file has another partition spec. The data files have these
    columns."""
    specs = {task.data.spec_id for task in tasks} or {table.metadata.default_spec_id}
    spec = table.metadata.specs()[min(specs)]
    tops = {field.field_id: field for field in table.metadata.schema().fields}
    if len(specs) > 1 or not all(
        isinstance(field.transform, IdentityTransform)
        and field.source_id in tops
        and not isinstance(tops[field.source_id].field_type, BinaryType)
        for field in spec.fields
    ):
        return []
    return [tops[field.source_id] for field in spec.fields]


def _deletes(table: Table, tasks: Sequence[FileTask]) -> Iterator[NewDeletes]:
    loader = DeleteLoader(table.io)
    for task in tasks:
        if task.vector is not None or task.position_deletes:
            positions = loader.of(task)
            yield NewDeletes(task, positions, len(positions))


def _header(
    schema: Any, columns: list[dict[str, Any]], partition: list[str], name: str
) -> Iterator[dict[str, Any]]:
    now = int(time.time() * 1000)
    info = {"timestamp": now, "operation": "CONVERT", "operationParameters": {"source": name}}
    yield {"commitInfo": info | {"engineInfo": f"puffin_fast/{__version__}", "isBlindAppend": True}}
    features = {DELETION_VECTORS, "columnMapping"}
    if "timestamp_ntz" in json.dumps(columns):
        features.add("timestampNtz")
    yield {"protocol": Protocol(*FEATURES, frozenset(features), frozenset(features)).action()}
    configuration = {
        MAPPING_MODE: "id",
        MAPPING_MAX_ID: str(schema.highest_field_id),
        ENABLE_VECTORS: "true",
    }
    yield {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": partition,
            "configuration": configuration,
            "createdTime": now,
        }
    }


def _add(
    task: FileTask,
    storage: TableStorage,
    partition: Sequence[NestedField],
    names: Mapping[str, str],
    vector: dict[str, Any],
) -> dict[str, Any]:
    data = task.data
    values = {}
    for field, value in zip(partition, data.partition, strict=True) if partition else ():
        array = pa.array([value], storage_type(field.field_type))
        values[names[field.name]] = partition_text(array, field.name)[0].as_py()
    found: dict[str, Any] = {
        "path": _path(data.file_path, storage.root),
        "partitionValues": values,
        "size": data.file_size_in_bytes,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(
            {"numRecords": data.record_count, "tightBounds": not vector}, separators=(",", ":")
        ),
    }
    return {"add": found | ({"deletionVector": vector} if vector else {})}


def _path(location: str, root: str) -> str:
    """Returns a location in the form of the log: relative to the table, or a URI; percent-encoded."""
    (scheme, authority, key), (own_scheme, own_authority, own_key) = map(split_location, (location, root))
    local = ("", "file")
    same = scheme == own_scheme or (scheme in local and own_scheme in local)
    if same and authority == own_authority and key.startswith(f"{own_key}/"):
        return quote(key[len(own_key) + 1 :], safe="/=")
    return f"{scheme or 'file'}://{authority}{quote(key, safe='/=')}"


class _Converter:
    """Converts columns to Delta's schema.

    The physical name of a column is its oldest name. So readers that find columns by name, not by id, also find columns
    that were renamed after a file was written.
    """

    def __init__(self, table: Table) -> None:
        self._table = ".".join(table.name())
        self._oldest: dict[int, str] = {}
        for schema in sorted(table.metadata.schemas, key=lambda schema: schema.schema_id):
            for field_id in schema.field_ids:
                self._oldest.setdefault(field_id, schema.find_field(field_id).name)

    def fields(self, fields: Sequence[NestedField]) -> list[dict[str, Any]]:
        """Converts the columns of a table or the fields of a struct."""
        names = [self._oldest[field.field_id] for field in fields]
        if len(set(names)) < len(names):
            names = [field.name for field in fields]
        return [
            {
                "name": field.name,
                "type": self._type(field.field_type, field.name),
                "nullable": not field.required,
                "metadata": {
                    MAPPING_ID: field.field_id,
                    PHYSICAL_NAME: name,
                    **({"comment": field.doc} if field.doc else {}),
                },
            }
            for field, name in zip(fields, names, strict=True)
        ]

    def _type(self, kind: IcebergType, column: str) -> Any:
        if isinstance(kind, DecimalType):
            return f"decimal({kind.precision},{kind.scale})"
        if isinstance(kind, StructType):
            return {"type": "struct", "fields": self.fields(kind.fields)}
        if isinstance(kind, ListType):
            element = self._type(kind.element_type, f"{column}.element")
            return {"type": "array", "elementType": element, "containsNull": not kind.element_required}
        if isinstance(kind, MapType):
            return {
                "type": "map",
                "keyType": self._type(kind.key_type, f"{column}.key"),
                "valueType": self._type(kind.value_type, f"{column}.value"),
                "valueContainsNull": not kind.value_required,
            }
        found = _NAMES.get(type(kind))
        if found is None:
            raise UnsupportedError(
                f"{self._table}: column {column} is of type {kind}, which Delta does not have"
            )
        return found
