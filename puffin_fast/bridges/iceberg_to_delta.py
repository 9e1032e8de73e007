"""Creates a Delta table from a snapshot of an Iceberg table: the same data files, with vectors in `.bin` files.

Delta finds the columns by Iceberg's field ids (column mapping by id), which is correct also for renamed and dropped
columns. A table with a name mapping, such as one that `to_iceberg` made, may have files without field ids: Delta then
finds the columns by name (without column mapping), if each column has had one name, and each name one column.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    NestedField,
)

from puffin_fast._api.arguments import check_name
from puffin_fast._io import split_location
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._pyiceberg.v3_types import VariantType
from puffin_fast.delta.dml.changes import Written, write_vectors
from puffin_fast.delta.dml.data_files import partition_text
from puffin_fast.delta.dml.new_schema import NOT_IN_NAMES, NewSchema, first_actions
from puffin_fast.delta.log.action_types import as_json, as_lines
from puffin_fast.delta.log.protocol import (
    DELETION_VECTORS,
    ENABLE_VECTORS,
    MAPPING_MAX_ID,
    MAPPING_MODE,
    PHYSICAL_NAME,
    warn_of_vectors,
)
from puffin_fast.delta.log.storage import TableStorage, encoded_path, storage_of
from puffin_fast.delta.log.version_file import may_have_happened, put_first_version
from puffin_fast.errors import InvalidInputError, UnsupportedError
from puffin_fast.iceberg.plan.delete_index import FileTask
from puffin_fast.iceberg.plan.files import metadata_of, plan_files
from puffin_fast.rows.deletes.loader import DeleteLoader
from puffin_fast.rows.deletes.outcome import NewDeletes
from puffin_fast.rows.files.conversion import storage_type

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.name_mapping import MappedField


def from_iceberg(
    table: Table,
    location: str | PathLike[str] | None = None,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: int | str | datetime | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
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
        snapshot_id, branch, tag, as_of: as `puffin_fast.scan`.
        filesystem, storage_options: the filesystem and storage options of `location`.

    Returns:
        The location of the Delta table.

    Raises:
        UnsupportedError: the type of a column is not converted to one of Delta, the type of a column was changed, a
            column has an initial default, the table has equality deletes or data files that are not Parquet; or it has
            a name mapping, and a column that neither its id nor its name finds in all files.
        InvalidInputError: the Delta table exists, or the value of a partition column is an empty text, which Delta does
            not distinguish from null.
        NotFoundError, CorruptDataError: as `puffin_fast.scan`.
        CommitUnknownError: the storage did not answer whether the Delta table was created.
        EngineSupportWarning: is a warning, as of `create_table`.

    Examples:
        >>> location = pf.delta.from_iceberg(table, f"{path}-from-iceberg")
        >>> pf.scan(location).count()
        100
    """
    metadata = metadata_of(table)
    place = table.location() if location is None else location
    filesystem = filesystem_of(place, filesystem, storage_options)
    name = ".".join(table.name())
    schema = metadata.schema()
    _check_schemas(table, name)
    if not isinstance(location, PathLike):
        check_name("location", location)
    storage = storage_of(place, filesystem)
    plan = plan_files(table, snapshot_id=snapshot_id, branch=branch, tag=tag, as_of=as_of)
    for task in plan.tasks:
        if task.equality_deletes:
            raise UnsupportedError(
                f"{name}: equality deletes apply to {task.data.file_path}; convert them first"
            )
        if task.data.file_format != "PARQUET":
            raise UnsupportedError(f"{task.data.file_path}: {task.data.file_format}; expected PARQUET")
    by_name = metadata.name_mapping() is not None
    physical = None if by_name else _oldest_names(table)
    columns = NewSchema(name, physical).fields(schema.fields)
    partition = _partition_fields(table, plan.tasks)
    if by_name and not partition:
        _check_stored(metadata, plan.tasks, name)
    written = Written()
    try:
        written = write_vectors(storage, _deletes(table, plan.tasks))
        vectors = {new.task.data.file_path: descriptor for new, descriptor in written.changes}
        names = {column["name"]: column["metadata"].get(PHYSICAL_NAME, column["name"]) for column in columns}
        commit = str(uuid.uuid4())
        mapping = {MAPPING_MODE: "id", MAPPING_MAX_ID: str(schema.highest_field_id)}
        features = {DELETION_VECTORS} | (set() if by_name else {"columnMapping"})
        actions = [
            *first_actions(
                columns,
                [field.name for field in partition],
                {ENABLE_VECTORS: "true"} | ({} if by_name else mapping),
                frozenset(features),
                {"operation": "CONVERT", "operationParameters": {"source": name}, "txnId": commit},
            )
        ]
        for task in plan.tasks:
            vector = vectors.get(task.data.file_path, {})
            if vector is not None:
                actions.append(_add(task, storage, partition, names, vector))
        # first: where warnings are errors, there is no table then
        warn_of_vectors(storage.root, stacklevel=3)
        if not put_first_version(storage, as_lines(actions), f"txnId {commit}"):
            raise InvalidInputError(f"{storage.root}: a Delta table already exists")
    except BaseException as error:
        if not may_have_happened(storage, 0, error):
            for path in written.files:
                storage.remove(path)
        raise
    return storage.root


def _oldest_names(table: Table) -> dict[int, str]:
    """Returns the physical names: the oldest name of each field. So readers that find columns by name, not by id, also
    find columns that were renamed after a file was written."""
    found: dict[int, str] = {}
    for schema in sorted(table.metadata.schemas, key=lambda schema: schema.schema_id):
        for field_id in schema.field_ids:
            found.setdefault(field_id, schema.find_field(field_id).name)
    return found


def _check_schemas(table: Table, name: str) -> None:
    metadata, schema = table.metadata, table.metadata.schema()
    if metadata.name_mapping() is not None:
        _check_names(metadata, name)
    known = {field_id: schema.find_type(field_id) for field_id in schema.field_ids}
    for field_id in schema.field_ids:
        column = schema.find_column_name(field_id)
        if isinstance(known[field_id], VariantType):
            raise UnsupportedError(
                f"{name}: column {column} is a variant, which data files may have shredded"
            )
        if schema.find_field(field_id).initial_default is not None:
            raise UnsupportedError(
                f"{name}: column {column} has an initial default, which Delta does not have"
            )
    for old in metadata.schemas:
        for field_id in set(old.field_ids) & set(known):
            before, now = old.find_type(field_id), known[field_id]
            if now.is_primitive and before != now:
                column = schema.find_column_name(field_id)
                raise UnsupportedError(f"{name}: column {column} was changed from {before} to {now}")


def _check_names(metadata: TableMetadata, name: str) -> None:
    """Checks that a name finds the same column in files with and without field ids, of any age."""
    schema, mapping = metadata.schema(), metadata.name_mapping()
    mapped = {} if mapping is None else dict(_mapped_names(mapping.root))
    names, ids = defaultdict(set), defaultdict(set)
    for known in metadata.schemas:
        for field_id in known.field_ids:
            path = known.find_column_name(field_id)
            names[field_id].add(path)
            ids[path].add(field_id)
    for field_id in sorted(schema.field_ids):
        column = schema.find_column_name(field_id)
        found = mapped.get(field_id, set())
        if found != {column} or names[field_id] != {column}:
            others = (
                ", ".join(sorted({str(path) for path in found | names[field_id]} - {str(column)}))
                or "no name"
            )
            raise UnsupportedError(
                f"{name}: column {column} is found by a name mapping, and has other names: {others}; Delta finds "
                "columns of such files by one name"
            )
        if len(ids[column]) > 1:
            raise UnsupportedError(
                f"{name}: column {column} is found by a name mapping, and a dropped column had the same name"
            )
        if set(schema.find_field(field_id).name) & NOT_IN_NAMES:
            raise UnsupportedError(
                f"{name}: column {column} is found by a name mapping; Delta does not allow this name without column "
                "mapping"
            )


def _check_stored(metadata: TableMetadata, tasks: Sequence[FileTask], name: str) -> None:
    """Checks that no file may lack a partition column, because the Delta table is not partitioned."""
    specs = metadata.specs()
    for spec_id in {task.data.spec_id for task in tasks}:
        for field in specs[spec_id].fields:
            if isinstance(field.transform, IdentityTransform):
                raise UnsupportedError(
                    f"{name}: files that are read by a name mapping may lack partition column {field.name}, and the "
                    "partition specs of the files do not have one equivalent in Delta"
                )


def _mapped_names(
    fields: Sequence[MappedField], parents: Sequence[str] = ("",)
) -> Iterator[tuple[int, set[str]]]:
    """Yields the ids of a name mapping, and the full names for each."""
    for field in fields:
        paths = {f"{parent}{name}" for parent in parents for name in field.names}
        if field.field_id is not None:
            yield field.field_id, paths
        yield from _mapped_names(field.fields, [f"{path}." for path in paths])


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
        "stats": as_json({"numRecords": data.record_count, "tightBounds": not vector}),
    }
    return {"add": found | ({"deletionVector": vector} if vector else {})}


def _path(location: str, root: str) -> str:
    """Returns a location in the form of the log: relative to the table, or a URI; percent-encoded."""
    (scheme, authority, key), (own_scheme, own_authority, own_key) = map(split_location, (location, root))
    local = ("", "file")
    same = scheme == own_scheme or (scheme in local and own_scheme in local)
    if same and authority == own_authority and key.startswith(f"{own_key}/"):
        return encoded_path(key[len(own_key) + 1 :])
    return f"{scheme or 'file'}://{authority}{encoded_path(key)}"
