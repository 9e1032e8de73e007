"""Registers a Delta table as an Iceberg table of format version 3: the same data files, the same vectors.

data files   are not moved; both tables refer to them
vectors      each record has the bytes of a `deletion-vector-v1` blob; it is copied to a Puffin file
columns      found by the ids of Delta's column mapping, else by a name mapping
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
)

from puffin_fast._concurrency.groups import split_by_size
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._pyiceberg.engine_types import warn_of_types
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.schema import NAME_MAPPING, ROW_TRACKING
from puffin_fast.delta.scans.tasks import DeltaFile, DeltaTask
from puffin_fast.dv import iceberg
from puffin_fast.dv.conversion import convert
from puffin_fast.errors import UnsupportedError
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.job import open_table, run_job
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.compat.table_properties import delete_file_size, vectors_per_file
from puffin_fast.iceberg.dml.tables import create_table
from puffin_fast.iceberg.manifest import ADDED, DATA, ManifestEntry
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.rows.deletes.loader import ReadAhead, within
from puffin_fast.rows.files.metadata_columns import METADATA_COLUMNS, RESERVED_NAMES

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable

_WIDENED = {
    ("byte", "short"),
    ("byte", "integer"),
    ("byte", "long"),
    ("short", "integer"),
    ("short", "long"),
} | {
    ("integer", "long"),
    ("float", "double"),
}
"""Changes of a column's type that Iceberg supports too; also decimals with more digits before the point."""


def to_iceberg(
    table: Any,
    catalog: Catalog,
    name: str | tuple[str, ...],
    *,
    version: int | None = None,
    as_of: int | str | datetime | None = None,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Registers a version of a Delta table as a new Iceberg table of format version 3; no data file is copied.

    The new table has the rows of that version; later commits of one table do not change the other. Both refer to the
    same data files: Delta's vacuum removes data files that newer versions of the Delta table no longer have; Iceberg's
    expiry of snapshots and a drop with purge remove data files that the Iceberg table no longer has. Do not run any of
    them while the other table is in use. The vectors are copied to files of the new table. Rows get new row ids.

    Args:
        table, version, as_of, filesystem, storage_options: as `scan`. The FileIO of the catalog must have access to the
            files.
        catalog: any PyIceberg catalog.
        name: ``"namespace.table"``; the namespace must exist.
        location: folder of the Iceberg table's metadata and vectors; by default one in the warehouse.
        properties: table properties.

    Returns:
        The new table, with one snapshot; without a snapshot if the version has no data file.

    Raises:
        NotFoundError: the table, the version or the namespace does not exist.
        InvalidInputError: the Iceberg table exists.
        UnsupportedError: Iceberg does not support the name or the type of a column, or a change of its type.
        CorruptDataError: the log or a vector is damaged.

    Examples:
        >>> converted = pf.delta.to_iceberg(path, catalog, "shop.converted")
        >>> pf.scan(converted).count()
        100
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    base = (
        table
        if isinstance(table, Snapshot)
        else snapshot(table, version=version, as_of=as_of, filesystem=filesystem)
    )
    source = DeltaTable.of(base)
    _check_types(base.delta_schema["fields"], base.root)
    if reserved := [
        field["name"] for field in base.delta_schema["fields"] if field["name"] in RESERVED_NAMES
    ]:
        raise UnsupportedError(
            f"{base.root}: column {reserved[0]}: Iceberg reserves the names of metadata columns"
        )
    tasks = plan_files(source, metrics=True)
    made = create_table(catalog, name, Schema(), location=location, properties=properties)
    try:
        with v3_metadata(catalog):
            catalog.commit_table(made, (AssertTableUUID(uuid=made.metadata.table_uuid),), _updates(source))
        working = open_table(made, oldest=3)
        warn_of_types(working.metadata.schema(), ".".join(made.name()), stacklevel=3)
        run_job(working, lambda head: _Registered.of(working, tasks, base), Request())
    except BaseException:
        catalog.drop_table(name)
        raise
    return made


def _check_types(fields: list[dict[str, Any]], root: str) -> None:
    for field in fields:
        for change in (field.get("metadata") or {}).get("delta.typeChanges", []):
            types = change.get("fromType"), change.get("toType")
            scales = [str(kind).rpartition(",")[2] for kind in types]
            decimals = all(str(kind).startswith("decimal") for kind in types) and scales[0] == scales[1]
            if types not in _WIDENED and not decimals:
                raise UnsupportedError(
                    f"{root}: column {field['name']} was changed from {types[0]} to {types[1]}, "
                    "which Iceberg does not support"
                )
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            _check_types(field["type"]["fields"], root)


def _updates(source: DeltaTable) -> tuple[Any, ...]:
    """Returns the updates for the schema with the ids of the files, the partition spec and the name mapping."""
    schema = Schema(*source.schema.schema.fields, schema_id=1)
    reserved = {METADATA_COLUMNS[name].field_id for name in ROW_TRACKING}
    names = NameMapping([mapped for mapped in source.schema.names if mapped.field_id not in reserved])
    spec = source.schema.spec()
    spec = type(spec)(*spec.fields, spec_id=1)
    partitions: tuple[Any, ...] = (
        AddPartitionSpecUpdate(spec=spec),
        SetDefaultSpecUpdate.model_validate({"spec-id": -1}),
    )
    return (
        AddSchemaUpdate(schema=schema),
        SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
        *(partitions if spec.fields else ()),
        SetPropertiesUpdate(updates={NAME_MAPPING: names.model_dump_json()}),
    )


@dataclass(frozen=True)
class _Registered:
    """The files of the new table."""

    changes: Changes

    @classmethod
    def of(cls, table: WorkingTable, tasks: Sequence[DeltaTask], base: Snapshot) -> _Registered:
        spec_id = table.metadata.default_spec_id
        data = {task.data.file_path: _data_entry(task.data, spec_id) for task in tasks}
        by_path = {entry.file_path: entry for entry in data.values()}
        added, files = list(data.values()), []
        name = uuid.uuid4()
        properties = table.properties
        size, most = delete_file_size(properties), vectors_per_file(properties)
        groups = split_by_size(_records(tasks, base), size, lambda pair: len(pair[1]), most=most)
        for number, group in enumerate(groups):
            path = table.location_provider().new_data_location(f"{name}-{number:05d}-deletes.puffin")
            shortest_first = sorted(group, key=lambda pair: len(pair[1]))  # see `write_deletion_vectors`
            pairs = [(data[local].file_path, record) for local, record in shortest_first]
            files.append(path)
            for vector in write_vectors(path, pairs, filesystem=table.io):
                added.append(vector_entry(vector, by_path[vector.data_file], vector.file_size))
        return cls(Changes(added=tuple(added), new_files=tuple(files), operation="append"))


def _data_entry(data: DeltaFile, spec_id: int) -> ManifestEntry:
    path = data.file_path
    return ManifestEntry(
        ADDED,
        None,
        None,
        None,
        DATA,
        f"file://{path}" if path.startswith("/") else path,
        data.file_format,
        spec_id,
        data.partition,
        data.record_count,
        data.file_size_in_bytes,
        value_counts=data.value_counts,
        null_value_counts=data.null_value_counts,
        lower_bounds=data.lower_bounds,
        upper_bounds=data.upper_bounds,
    )


def _records(tasks: Sequence[DeltaTask], base: Snapshot) -> Iterator[tuple[str, bytes]]:
    """Yields the location of each data file with a vector, and the bytes of the checked record."""
    entries = [task.vector for task in tasks if task.vector is not None]
    verbatim: Any = partial(convert, source="delta", target="iceberg")
    ahead = ReadAhead(base.storage, entries, counted=True, decode=verbatim)
    for task in tasks:
        if task.vector is not None:
            record: Any = ahead.take(task.vector)
            within(iceberg.decode(record), task.data, task.vector)
            yield task.data.file_path, record
