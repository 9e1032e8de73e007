"""Creates Delta tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IcebergType, MapType, NestedField, StructType

from puffin_fast._api.arguments import check_flags, check_mapping, check_texts
from puffin_fast._io.storage_options import filesystem_of
from puffin_fast._pyiceberg.engine_types import warn_of_types
from puffin_fast._text import no_column
from puffin_fast.delta.dml.file_statistics import CHOSEN, COLUMN_PATHS, INDEXED, Path, column_paths
from puffin_fast.delta.dml.new_schema import NOT_IN_NAMES, NewSchema, first_actions
from puffin_fast.delta.log.action_types import as_json, as_lines
from puffin_fast.delta.log.protocol import (
    CHANGE_DATA_FEED,
    DELETION_VECTORS,
    ENABLE_VECTORS,
    ISOLATION,
    MAPPING_MAX_ID,
    MAPPING_MODE,
    is_set,
    warn_of_vectors,
)
from puffin_fast.delta.log.row_ids import MATERIALIZED
from puffin_fast.delta.log.snapshot import Snapshot, snapshot
from puffin_fast.delta.log.storage import storage_of
from puffin_fast.delta.log.version_file import put_first_version
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.files.arrow_schema import new_schema
from puffin_fast.rows.files.metadata_columns import RESERVED_NAMES

ROW_TRACKING = "delta.enableRowTracking"
_FEATURES = {
    ENABLE_VECTORS: (DELETION_VECTORS,),
    CHANGE_DATA_FEED: ("changeDataFeed",),
    ROW_TRACKING: ("rowTracking", "domainMetadata"),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp",),
    "delta.enableTypeWidening": ("typeWidening",),
    "delta.appendOnly": ("appendOnly",),
}
"""The features that a property requires if it is true."""

_ALWAYS = frozenset({"appendOnly", "invariants"})
"""Features that Spark lists in each new table."""

_PLAIN = frozenset(
    {
        ISOLATION,
        "delta.checkpointInterval",
        INDEXED,
        CHOSEN,
        "delta.deletedFileRetentionDuration",
        "delta.logRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.targetFileSize",
    }
)
"""Properties of Delta that require no feature."""

_FEED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})


def create_table(
    table: Any,
    schema: Any,
    *,
    types: Mapping[str, str | IcebergType] | None = None,
    partition_columns: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> Snapshot:
    """Creates an empty Delta table with deletion vectors enabled.

    Args:
        table: a path or a URI; its folder may exist, but must have no Delta table.
        schema, types: as `puffin_fast.iceberg.create_table`. Arrow's timestamps without a time zone become
            ``timestamp_ntz``.
        partition_columns: top-level columns.
        properties: table properties. ``delta.columnMapping.mode`` (``name`` or ``id``) gives columns physical names;
            ``delta.enableRowTracking``, ``delta.enableChangeDataFeed``, ``delta.enableInCommitTimestamps`` and others
            enable the features of their names.
        if_not_exists: return the newest version of the table that exists, whatever its schema is, instead of an error.
        filesystem: the pyarrow.fs.FileSystem or fsspec filesystem of the path.
        storage_options: instead of it, the options that deltalake takes, such as ``AWS_ACCESS_KEY_ID``. By
            default, those of a given `DeltaTable`.

    Returns:
        The first version, or that of the table that exists.

    Raises:
        InvalidInputError: there is a Delta table, a name of a column is reserved, occurs twice (in any case) or needs
            column mapping, a property has a value that is not allowed, or all columns are partition columns.
        NotFoundError: a partition column, or one of ``delta.dataSkippingStatsColumns``, does not exist.
        UnsupportedError: Delta does not have the type of a column, a partition column is nested or binary, or a
            property requires a feature that this package does not write.
        CommitUnknownError: the storage did not answer whether the table was created.
        EngineSupportWarning: is a warning; the message names readers that cannot read tables with deletion vectors, or
            with variants. The property ``delta.enableDeletionVectors`` with the value ``false`` makes a table without
            deletion vectors.

    Examples:
        >>> schema = pa.schema([("id", pa.int64())])
        >>> pf.delta.create_table(f"{path}-created", schema).version
        0
    """
    filesystem = filesystem_of(table, filesystem, storage_options)
    check_mapping("properties", properties)
    storage = storage_of(table, filesystem)
    check_flags(if_not_exists=if_not_exists)
    if if_not_exists:
        with suppress(NotFoundError):
            return snapshot(storage)
    made = new_schema(schema, types)
    configuration = {ENABLE_VECTORS: "true", **(properties or {})}
    features = _features(configuration, storage.root)
    mapped = configuration.get(MAPPING_MODE, "none") != "none"
    partition = _checked_partition(made, partition_columns)
    _check_names(made, configuration, mapped=mapped)
    _check_indexed(made, configuration, partition)
    physical = {id: f"col-{uuid.uuid4()}" for id in made.field_ids} if mapped else None
    columns = NewSchema(storage.root, physical).fields(made.fields)
    if mapped:
        configuration[MAPPING_MAX_ID] = str(made.highest_field_id)
    if is_set(configuration, ROW_TRACKING):
        names = (f"_row-id-col-{uuid.uuid4()}", f"_row-commit-version-col-{uuid.uuid4()}")
        configuration |= dict(zip(MATERIALIZED, names, strict=True))
    commit = str(uuid.uuid4())
    parameters = {
        "partitionBy": as_json(partition),
        "clusterBy": as_json([]),
        "description": None,
        "isManaged": "false",
        "properties": as_json(configuration),
    }
    info = {"operation": "CREATE TABLE", "operationParameters": parameters, "txnId": commit}
    lines = as_lines(first_actions(columns, partition, configuration, features, info))
    # first: where warnings are errors, there is no table then
    warn_of_types(made, storage.root, readers=("Polars",), stacklevel=3)
    if is_set(configuration, ENABLE_VECTORS):
        warn_of_vectors(storage.root, stacklevel=3)
    if not put_first_version(storage, lines, f"txnId {commit}"):
        if if_not_exists:
            return snapshot(storage)
        raise InvalidInputError(f"{storage.root}: a Delta table already exists")
    return snapshot(storage, version=0)


def _features(configuration: Mapping[str, str], root: str) -> frozenset[str]:
    """The features that properties require.

    Raises:
        InvalidInputError: a value is not allowed.
        UnsupportedError: a property requires a feature that this package does not write.
    """
    found = set(_ALWAYS)
    for name, value in configuration.items():
        if name in _FEATURES:
            if value.lower() not in ("true", "false"):
                raise InvalidInputError(f"properties: {name}: expected 'true' or 'false', found {value!r}")
            found.update(_FEATURES[name] if is_set(configuration, name) else ())
        elif name == MAPPING_MODE:
            if value not in ("none", "name", "id"):
                raise InvalidInputError(
                    f"properties: {name}: expected 'none', 'name' or 'id', found {value!r}"
                )
            found.update(() if value == "none" else ["columnMapping"])
        elif name.startswith("delta.") and name not in _PLAIN:
            raise UnsupportedError(f"{root}: property {name} of a new table is not supported")
    return frozenset(found)


def _checked_partition(schema: Schema, names: Sequence[str]) -> list[str]:
    found = list(check_texts("partition_columns", names))
    known = {field.name: field for field in schema.fields}
    if missing := [name for name in found if name not in known]:
        raise NotFoundError(f"partition_columns: {no_column(missing[0], known, 'the schema has')}")
    if len(set(found)) < len(found) or (found and len(found) == len(known)):
        raise InvalidInputError(
            f"partition_columns: expected distinct columns, and others beside them, found {', '.join(found)}"
        )
    for name in found:
        kind = known[name].field_type
        if not kind.is_primitive or isinstance(kind, BinaryType):
            raise UnsupportedError(f"partition_columns: column {name} is of type {kind}")
    return found


def _check_indexed(schema: Schema, configuration: Mapping[str, str], partition: Sequence[str]) -> None:
    """Checks the columns with statistics, which Spark reads in SQL's form."""
    if CHOSEN not in configuration:
        return
    paths = column_paths(configuration[CHOSEN])
    if paths is None:
        raise InvalidInputError(
            f"properties: {CHOSEN}: expected {COLUMN_PATHS}, found {configuration[CHOSEN]!r}"
        )
    known = set(_field_paths(schema.fields))
    for path in paths:
        shown = ".".join(path)
        if path not in known:
            names = (".".join(names) for names in sorted(known))
            raise NotFoundError(f"properties: {CHOSEN}: {no_column(shown, names, 'the schema has')}")
        if shown in map(str.lower, partition):
            raise InvalidInputError(
                f"properties: {CHOSEN}: expected no partition column, of which files have no statistics, found {shown}"
            )


def _field_paths(fields: Sequence[NestedField], above: Path = ()) -> Iterator[Path]:
    """Yields the paths of columns and of the fields of structs, in lower case."""
    for field in fields:
        yield (path := (*above, field.name.lower()))
        if isinstance(field.field_type, StructType):
            yield from _field_paths(field.field_type.fields, path)


def _check_names(schema: Schema, configuration: Mapping[str, str], *, mapped: bool) -> None:
    """Checks the names of columns, which Delta compares without case."""
    reserved = RESERVED_NAMES | (_FEED_COLUMNS if is_set(configuration, CHANGE_DATA_FEED) else set())
    seen: set[str] = set()
    for path in (str(schema.find_column_name(field_id)) for field_id in sorted(schema.field_ids)):
        if path in reserved:
            raise InvalidInputError(
                f"schema: column {path}: expected another name, because a metadata column has this one"
            )
        if path.lower() in seen:
            raise InvalidInputError(f"schema: column {path}: another column has this name, apart from case")
        seen.add(path.lower())
        if not mapped and set(path) & NOT_IN_NAMES:
            raise InvalidInputError(
                f"schema: column {path}: has a character that needs column mapping; expected the property "
                f"{MAPPING_MODE}"
            )
    for field_id in schema.field_ids:
        kind = schema.find_type(field_id)
        if isinstance(kind, MapType) and kind.value_required:
            raise UnsupportedError(
                f"schema: column {schema.find_column_name(field_id)}: required values of maps are not checked"
            )
