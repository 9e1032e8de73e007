"""The creation of a table: one request to the catalog, and what becomes of the metadata file that was written for it.

| ends with | meaning | metadata file |
|---|---|---|
| return | the table exists, with this metadata | the table's |
| `BusyError` | no table: the catalog's database was locked | removed |
| `TableAlreadyExistsError` of PyIceberg | another table has the name | removed |
| `CommitUnknownError` | the catalog did not answer | kept, and named in the message |
| other errors | no table: the catalog refused, or the metadata was not written | removed |

PyIceberg assigns the ids of the schema's fields anew, and drops the default values of fields. It keeps those of a
`SchemaWithDefaults`.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.conversions import to_json
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import load_file_io
from pyiceberg.schema import PreOrderSchemaVisitor, Schema, pre_order_visit
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from puffin_fast._process.interrupt import interruptible, is_from_outside
from puffin_fast._pyiceberg.versions import check_version
from puffin_fast.errors import CommitUnknownError, InvalidInputError, PuffinFastError
from puffin_fast.iceberg.catalogs.catalog_commit import BusyError
from puffin_fast.iceberg.catalogs.working_table import remove_files
from puffin_fast.iceberg.compat.sql_catalog import is_locked, roll_back_returned_connections
from puffin_fast.iceberg.compat.table_metadata import metadata_writing
from puffin_fast.rows.files.conversion import arrow_type, constant

if TYPE_CHECKING:
    from pyiceberg.table import Table

_JSON_TYPES: dict[type[IcebergType], tuple[type, ...]] = {
    BooleanType: (bool,),
    IntegerType: (int,),
    LongType: (int,),
    FloatType: (int, float),
    DoubleType: (int, float),
}
"""Types of default values in metadata that are not text."""


class SchemaWithDefaults(Schema):
    """A schema whose fields keep their defaults when `assign_fresh_schema_ids` assigns their ids anew."""

    @classmethod
    def of(cls, schema: Schema) -> Schema:
        """Returns such a schema, or the given one if no field has a default.

        Raises:
            InvalidInputError: a default is not a value of its field's type.
        """
        fields = {id: schema.find_field(id) for id in schema.field_ids}
        has_defaults = False
        for id, field in fields.items():
            for name in ("initial_default", "write_default"):
                if (value := getattr(field, name)) is not None:
                    has_defaults = True
                    _check_default(field.field_type, value, f"{schema.find_column_name(id)}: {name}")
        if not has_defaults:
            return schema
        ids: dict[str, Any] = {
            "schema_id": schema.schema_id,
            "identifier_field_ids": schema.identifier_field_ids,
        }
        return cls(*schema.fields, **ids)


@pre_order_visit.register(SchemaWithDefaults)
def _(schema: SchemaWithDefaults, visitor: PreOrderSchemaVisitor[Any]) -> Any:
    found = pre_order_visit.dispatch(Schema)(schema, visitor)
    if not isinstance(found, Schema):
        return found
    return Schema(
        *_with_defaults(found.as_struct(), schema.as_struct()).fields,
        schema_id=found.schema_id,
        identifier_field_ids=found.identifier_field_ids,
    )


def _with_defaults(found: Any, given: Any) -> Any:
    """Returns a type with the defaults of another that differs in ids only."""
    if isinstance(found, StructType):
        fields = []
        for field, other in zip(found.fields, given.fields, strict=True):
            kind = _with_defaults(field.field_type, other.field_type)
            defaults = {"initial_default": other.initial_default, "write_default": other.write_default}
            fields.append(
                NestedField(field.field_id, field.name, kind, field.required, field.doc, **defaults)
            )
        return StructType(*fields)
    if isinstance(found, ListType):
        element = _with_defaults(found.element_type, given.element_type)
        return ListType(found.element_id, element, found.element_required)
    if isinstance(found, MapType):
        key, value = (
            _with_defaults(getattr(found, name), getattr(given, name)) for name in ("key_type", "value_type")
        )
        return MapType(found.key_id, key, found.value_id, value, found.value_required)
    return found


def _check_default(kind: IcebergType, value: Any, where: str) -> None:
    if not isinstance(kind, PrimitiveType):
        raise InvalidInputError(f"schema: {where} {value!r}: expected none for a {kind}")
    try:
        stored = to_json(kind, value)
        json.dumps(stored, allow_nan=False)
        is_stored = type(stored) in _JSON_TYPES.get(type(kind), (str,))
        constant(value, arrow_type(kind), 1)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidInputError(f"schema: {where} {value!r}: expected a value of {kind}: {error}") from error
    if not is_stored:
        raise InvalidInputError(f"schema: {where} {value!r}: expected a value of {kind}")


def create_in_catalog(catalog: Catalog, name: str | tuple[str, ...], shown: str, **description: Any) -> Table:
    """Creates a table of format version 3.

    Args:
        catalog: any PyIceberg catalog.
        name: the name of the table.
        shown: the name in messages.
        description: the other arguments of the catalog's `create_table`.

    Raises:
        BusyError, TableAlreadyExistsError, CommitUnknownError, PuffinFastError: see the table above.
        Exception: what a catalog raises that did not write metadata in this process.
    """
    check_version()
    roll_back_returned_connections(catalog)
    begun: list[str] = []
    sent: list[bool] = []
    try:
        with interruptible(), metadata_writing(catalog, begun.append, lambda: sent.append(True)):
            return catalog.create_table(name, **description)
    except BaseException as error:
        if not sent:
            _remove(catalog, begun)
        if not begun or not isinstance(error, Exception) or isinstance(error, PuffinFastError):
            raise  # the caller handles errors from before anything was written
        if is_from_outside(error):
            raise
        if not sent:
            raise PuffinFastError(f"{shown}: the metadata could not be written: {error}") from error
        return _settle(catalog, name, shown, begun, error)


def _settle(
    catalog: Catalog, name: str | tuple[str, ...], shown: str, begun: list[str], error: Exception
) -> Table:
    """Returns the table if the catalog has it with the metadata that was written here; else raises."""
    reason = getattr(error, "orig", error)
    if is_locked(error):
        _remove(catalog, begun)
        raise BusyError.of(shown, error) from error
    try:
        with interruptible():
            found = catalog.load_table(name)
    except NoSuchTableError:
        if isinstance(reason, sqlite3.Error):
            _remove(catalog, begun)
            raise PuffinFastError(f"{shown}: the catalog refused the table: {reason}") from error
    except Exception as trouble:
        if is_from_outside(trouble):
            raise
    else:
        log = (entry.metadata_file for entry in found.metadata.metadata_log)
        if not {found.metadata_location, *log}.isdisjoint(begun):  # also if another commit came on top
            return found
        _remove(catalog, begun)
        if isinstance(error, TableAlreadyExistsError):
            raise error
        raise PuffinFastError(f"{shown}: the catalog refused the table: {reason}") from error
    raise CommitUnknownError(
        f"{shown}: it is unknown whether the table was created, because the catalog did not answer "
        f"({type(error).__name__}: {reason}). {', '.join(begun)} was not removed: it is the table's metadata if the "
        "table exists"
    ) from error


def _remove(catalog: Catalog, paths: list[str]) -> None:
    """Removes the metadata of a table that was not created."""
    for path in paths:
        remove_files(load_file_io(dict(catalog.properties), path), [path])
