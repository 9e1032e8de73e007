"""Creates tables of format version 3, and upgrades tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.types import IcebergType

from puffin_fast._api.arguments import (
    check_flags,
    check_mapping,
    check_name,
    check_table_name,
)
from puffin_fast._pyiceberg.engine_types import warn_of_types
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.iceberg.catalogs.catalog_commit import BusyError
from puffin_fast.iceberg.catalogs.near_names import near_names
from puffin_fast.iceberg.catalogs.new_table import SchemaWithDefaults, create_in_catalog
from puffin_fast.iceberg.commit.job import open_table
from puffin_fast.iceberg.commit.protocol import upgrade_to_v3
from puffin_fast.iceberg.compat.locations import check_new_location
from puffin_fast.iceberg.compat.sql_catalog import is_locked
from puffin_fast.iceberg.compat.table_metadata import check_catalog
from puffin_fast.iceberg.dml.data_files import file_schema
from puffin_fast.iceberg.dml.partition_spec import checked_partition_spec
from puffin_fast.rows.files.arrow_schema import new_schema
from puffin_fast.rows.files.metadata_columns import RESERVED_NAMES
from puffin_fast.rows.rewrite.row_order import sort_fields

FORMAT_VERSION = "format-version"


def create_table(
    catalog: Catalog,
    name: str | tuple[str, ...],
    schema: Any,
    *,
    types: Mapping[str, str | IcebergType] | None = None,
    partition_spec: PartitionSpec | Sequence[str] = UNPARTITIONED_PARTITION_SPEC,
    sort_order: SortOrder | Sequence[str] = (),
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    if_not_exists: bool = False,
) -> Table:
    """Creates an empty table of format version 3.

    Args:
        catalog: any PyIceberg catalog.
        name: ``"namespace.table"``; the namespace must exist.
        schema: a schema of PyIceberg, Arrow or Polars, the dtypes of pandas, types by column (``{"id": "long",
            "time": "timestamptz"}``, also of Arrow, Polars, pandas, NumPy or DuckDB), or rows that have a schema, such
            as a DataFrame (see `append`); the rows are not appended. Field ids are assigned anew, as PyIceberg does.
            Default values are kept. Arrow's timestamps become ``timestamp`` or, with any time zone, ``timestamptz``,
            both of microseconds. Spark cannot read nanoseconds: request these by `types`, or by a schema of PyIceberg.
        types: other types for some columns, of PyIceberg or as text: ``{"time": "timestamp_ns"}``.
        partition_spec: a partition spec of PyIceberg (its source ids are those of a PyIceberg schema), or texts such as
            ``"origin"``, ``"day(time)"``, ``"bucket[16](id)"``, ``"truncate[4](name)"``, or in Spark's
            spelling ``"days(time)"``, ``"bucket(16, id)"``.
        sort_order: the order of the rows in new data files: a sort order of PyIceberg (its source ids are those of a
            PyIceberg schema), or texts as `rewrite_data_files` takes them: ``["origin", "time desc nulls last"]``.
        location: folder of the table; by default one in the warehouse.
        properties: table properties.
        if_not_exists: return the table that exists, whatever its schema is, instead of an error.

    Raises:
        NotFoundError: the namespace, or a column of the partition spec or of the sort order does not exist.
        InvalidInputError: the table exists, its files would be written to another location than its metadata
            names, a property contradicts format version 3, a transform is unknown or does not accept the type of its
            column, a column has the name of a metadata column (``_file``, ``_pos``, ``_deleted``, ``_spec_id``,
            ``_partition``, ``_row_id``, ``_last_updated_sequence_number``) or an empty one, or a default is no value
            of its type.
        ConflictError: the catalog's database is locked.
        CommitUnknownError: the catalog did not answer; the message names the metadata file that was written.
        EngineSupportWarning: is a warning; the message names engines that cannot read the type of a column.
        PuffinFastError: the metadata could not be written, or the catalog refused the table.
        UnsupportedError: no data file can have the columns: two would have one name there, a struct has no fields, or
            only columns of type unknown; or this version of PyIceberg is not supported.

    Examples:
        >>> schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
        >>> created = pf.iceberg.create_table(catalog, "shop.visits", schema)
        >>> created.format_version
        3
    """
    check_catalog(catalog)
    check_mapping("properties", properties)
    check_name("location", location)
    check_flags(if_not_exists=if_not_exists)
    shown = check_table_name(name)
    if if_not_exists and catalog.table_exists(name):
        return catalog.load_table(name)
    settings = dict(properties or {})
    if settings.setdefault(FORMAT_VERSION, "3") != "3":
        raise InvalidInputError(f"{FORMAT_VERSION}: expected 3, found {settings[FORMAT_VERSION]}")
    schema = new_schema(schema, types)
    if reserved := [field.name for field in schema.fields if field.name in RESERVED_NAMES]:
        raise InvalidInputError(
            f"schema: column {reserved[0]}: expected another name, because a metadata column has this one"
        )
    file_schema(schema, shown)
    partition_spec = checked_partition_spec(partition_spec, schema)
    fields = getattr(sort_order, "fields", sort_order)
    order = SortOrder(*sort_fields(sort_order, schema, "sort_order")) if fields else UNSORTED_SORT_ORDER
    # for this function and `named_keywords`; first: where warnings are errors, there is no table then
    warn_of_types(schema, shown, stacklevel=3)
    try:
        location = check_new_location(catalog, name, location, settings)
        made = create_in_catalog(
            catalog,
            name,
            shown,
            schema=SchemaWithDefaults.of(schema),
            location=location,
            partition_spec=partition_spec,
            sort_order=order,
            properties=settings,
        )
    except NoSuchNamespaceError:
        said = near_names(catalog, shown).removeprefix("; ") or f"no namespace {shown.rpartition('.')[0]}"
        raise NotFoundError(f"{shown}: {said}; catalog.create_namespace creates it") from None
    except TableAlreadyExistsError:
        if if_not_exists:
            return catalog.load_table(name)
        raise InvalidInputError(f"{shown}: the table already exists") from None
    except Exception as error:
        if is_locked(error):
            raise BusyError.of(shown, error) from error
        raise
    return made


def upgrade(table: Table, *, dry_run: bool = False) -> Table:
    """Upgrades a table of format version 1 or 2 to 3; a table of version 3 is not changed.

    No file is rewritten: earlier deletes still apply, and the next commit assigns row ids to the rows.

    Args:
        table: a PyIceberg table. It is refreshed first, and has the new metadata afterwards.
        dry_run: check the table, change nothing.

    Returns:
        The given table.

    Raises:
        ConflictError: other commits came first in all attempts; the table is unchanged.
        CommitUnknownError: it is unknown whether the commit happened. No file was removed.
        UnsupportedError: this version of PyIceberg is not supported.

    Examples:
        >>> pf.iceberg.upgrade(table).format_version
        3
    """
    check_flags(dry_run=dry_run)
    working = open_table(table)
    if not dry_run:
        upgrade_to_v3(working)
    return table
