"""Iceberg schemas from Arrow schemas, and types from their names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from puffin_fast._api.arguments import check_unicode
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast._pyiceberg.v3_types import read_v3_types
from puffin_fast._text import no_column, shown_argument
from puffin_fast.columns.arrow_rows import EXPECTED, arrow_reader
from puffin_fast.columns.plain_types import plain_type
from puffin_fast.errors import InvalidInputError, NotFoundError

MOST_DIGITS = 38
"""Digits of a decimal in Iceberg."""


def schema_of_arrow(schema: pa.Schema) -> Schema:
    """An Arrow schema as an Iceberg schema of version 3, without ids (all -1).

    Timestamps of nanoseconds become microseconds, and times with a zone UTC: see `create_table`.

    Raises:
        InvalidInputError: a type that Iceberg does not have.
    """
    for field in schema:
        kind = str(getattr(field.type, "extension_name", ""))
        if kind.startswith("pandas."):
            raise InvalidInputError(
                f"schema: column {field.name}: {kind}, which no Iceberg type represents: expected text, or the "
                "begin and the end as columns of their own"
            )
    try:
        stored = pa.schema([field.with_type(_stored_type(field.type)) for field in schema])
        return Catalog._convert_schema_if_needed(stored, 3)
    except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
        hint = next((f"; {advice}" for part, advice in _INSTEAD.items() if part in str(error)), "")
        raise InvalidInputError(f"schema: {error}{hint}") from error


_INSTEAD = {
    "type: duration": "store durations as integers, such as column.cast('int64')",
    "interval": "store months, days and nanoseconds as columns of their own",
    "decimal256": f"a decimal has at most {MOST_DIGITS} digits",
    "_union": "store each type of the union in a column of its own",
}
"""What to store instead of types that Iceberg does not have, by a part of PyIceberg's message."""


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a table stores the values of an Arrow type: one that PyIceberg converts."""
    if isinstance(kind, pa.UuidType):
        return kind
    if isinstance(kind, pa.BaseExtensionType):
        return _stored_type(plain_type(kind))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_uint32(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in kind.fields])
    if pa.types.is_map(kind):
        key, item = (field.with_type(_stored_type(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _stored_type(kind.value_type)
    if hasattr(kind, "value_field"):
        return pa.list_(kind.value_field.with_type(_stored_type(kind.value_type)))
    return plain_type(kind)


def with_types(schema: Schema, types: Mapping[str, Any], what: str = "types") -> Schema:
    """A schema with other types for some of its top-level columns.

    Args:
        schema: a schema of Iceberg.
        types: a type of PyIceberg, or its name in the specification, by column.
        what: the argument that has the types, for errors.

    Raises:
        NotFoundError: the schema does not have a column.
        InvalidInputError: a name is not that of a type.
    """
    known = [field.name for field in schema.fields]
    if missing := [name for name in types if name not in known]:
        raise NotFoundError(
            f"{what}: {'; '.join(no_column(name, known, 'the schema has') for name in missing)}"
        )
    found, wrong = {}, []
    for name, kind in types.items():
        try:
            found[name] = _type(f"{what}: {name}", kind)
        except InvalidInputError as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidInputError("\n".join(wrong))
    fields = [
        field.model_copy(update={"field_type": found[field.name]}) if field.name in found else field
        for field in schema.fields
    ]
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


_OTHER_TYPES = {
    **dict.fromkeys(("int64", "bigint", "uint32"), "long"),
    **dict.fromkeys(("int8", "int16", "int32", "integer", "smallint", "tinyint"), "int"),
    **dict.fromkeys(("float64",), "double"),
    **dict.fromkeys(("float32", "real"), "float"),
    **dict.fromkeys(("str", "text", "varchar", "utf8", "large_string", "object", "category"), "string"),
    **dict.fromkeys(("bool", "bool_"), "boolean"),
    **dict.fromkeys(("bytes", "blob", "bytea"), "binary"),
    **dict.fromkeys(("date32", "date64"), "date"),
    **dict.fromkeys(("datetime", "datetime64", "timestamp_ntz"), "timestamp"),
    **dict.fromkeys(("timestamp_ltz", "timestamp_tz"), "timestamptz"),
}
"""Names that other libraries and SQL have for types: the name in Iceberg."""

_OF_PYTHON = {int: "long", float: "double", date: "date", datetime: "timestamp", Decimal: "decimal(10, 2)"}
"""Types of Python: the name in Iceberg."""


def _type(where: str, kind: Any) -> IcebergType:
    if isinstance(kind, IcebergType):
        return kind
    if (arrow := arrow_type(kind)) is not None:
        return schema_of_arrow(pa.schema([(where.rpartition(": ")[2], arrow)])).fields[0].field_type
    read_v3_types()
    try:
        if not isinstance(kind, str):
            raise TypeError("expected text")
        found = NestedField.model_validate({"id": 1, "name": "column", "type": kind, "required": False})
    except (ValueError, TypeError):
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        right = (_OF_PYTHON.get(kind) if isinstance(kind, type) else None) or _OTHER_TYPES.get(name.lower())
        raise InvalidInputError(
            f"{where}: expected a type of Iceberg such as 'timestamp_ns' or 'decimal(10, 2)', found "
            f"{shown_argument(kind)}{f'; write {right!r}' if right else ''}"
        ) from None
    return found.field_type


def new_schema(given: Any, types: Mapping[str, str | IcebergType] | None) -> Schema:
    """The schema of a new table, with field ids; arguments as `create_table`.

    Raises:
        NotFoundError, InvalidInputError: as `create_table`.
    """
    found = _new_schema(given, types)
    for field_id in found.field_ids:
        field, where = found.find_field(field_id), str(found.find_column_name(field_id)).strip(".")
        check_unicode("schema: column", field.name)
        check_unicode(f"schema: comment on column {where}", field.doc or "")
        if not field.name:
            raise InvalidInputError(
                f"schema: expected a name for each column, found an empty one{f' in {where}' if where else ''}"
            )
    return found


def _new_schema(given: Any, types: Mapping[str, str | IcebergType] | None) -> Schema:
    if types is not None and not isinstance(types, Mapping):
        raise InvalidInputError(f"types: expected a mapping of columns, found {shown_argument(types)}")
    if isinstance(given, Table):
        given = given.schema()
    if isinstance(given, Schema):
        return with_types(given, types) if types else given
    if isinstance(columns := _columns(given), Mapping):
        arrow = {name: arrow_type(kind) for name, kind in columns.items()}
        fields = [
            kind.with_name(name) if isinstance(kind, pa.Field) else (name, arrow[name] or pa.null())
            for name, kind in columns.items()
        ]
        found = schema_of_arrow(pa.schema(fields))
        others = {name: kind for name, kind in columns.items() if arrow[name] is None}
        found = with_types(found, others, "schema")
    elif (schema := _arrow_schema(given)) is not None:
        found = schema_of_arrow(schema)
    else:
        rows = arrow_reader(given, "schema", f"a schema of PyIceberg or Arrow, or {EXPECTED}")
        found = schema_of_arrow(rows.schema)
    if not found.fields:
        raise InvalidInputError("schema: expected at least one column, found none")
    return assign_fresh_schema_ids(with_types(found, types) if types else found)


def _columns(given: Any) -> Mapping[str, Any] | None:
    """The types by column of a mapping, of pairs, or of the dtypes of a frame of pandas; None for other objects."""
    pairs: Any = None
    if isinstance(given, Mapping) or (type(given).__name__ == "Series" and _package(given) == "pandas"):
        pairs = list(given.items())
    elif isinstance(given, list | tuple):
        pairs = [(one.name, one) if isinstance(one, pa.Field) else one for one in given]
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return None
    if pairs is None or not all(isinstance(name, str) and _is_type(kind) for name, kind in pairs):
        return None
    names = [name for name, _ in pairs]
    for name in names:
        check_unicode("schema: column", name)
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InvalidInputError(f"schema: expected each column once, found {', '.join(repeated)} twice")
    return dict(pairs)


def _arrow_schema(given: Any) -> pa.Schema | None:
    """The Arrow schema of a schema of Arrow or an object with the Arrow C interface of schemas."""
    if isinstance(given, pa.Schema):
        return given
    if not hasattr(given, "__arrow_c_schema__") or hasattr(given, "__arrow_c_stream__"):
        return None
    try:
        return pa.schema(given)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"schema: expected a schema of columns, found {shown_argument(given)}: {error}"
        ) from error


def _package(value: Any) -> str:
    return (value if isinstance(value, type) else type(value)).__module__.partition(".")[0]


def _is_type(kind: Any) -> bool:
    return isinstance(kind, str | IcebergType | type) or _is_of_library(kind)


def _is_of_library(kind: Any) -> bool:
    """Whether an object is a type of Arrow, NumPy, pandas, Polars or DuckDB; none of them is imported for this."""
    if isinstance(kind, pa.DataType | pa.Field | np.dtype):
        return True
    polars, pandas = sys.modules.get("polars"), sys.modules.get("pandas")
    if isinstance(kind, type):
        return issubclass(kind, np.generic) or (polars is not None and issubclass(kind, polars.DataType))
    return (
        (polars is not None and isinstance(kind, polars.DataType))
        or (pandas is not None and isinstance(kind, pandas.api.extensions.ExtensionDtype))
        or type(kind).__name__ == "DuckDBPyType"
    )


def arrow_type(kind: Any) -> pa.DataType | None:
    """The Arrow type of a type of Arrow, NumPy, pandas, Polars or DuckDB.

    Returns:
        the type; None for other objects, and for types without a counterpart, such as Python's objects.
    """
    if isinstance(kind, pa.DataType | pa.Field):
        return kind.type if isinstance(kind, pa.Field) else kind
    if not _is_of_library(kind):
        return None
    try:
        found = _converted(kind)
    except Exception as error:  # of these libraries
        if is_from_outside(error):
            raise
        return None
    return None if pa.types.is_null(found) or pa.types.is_null(plain_type(found)) else found


def _converted(kind: Any) -> pa.DataType:
    package = _package(kind)
    if package == "polars":
        if "Object" in str(kind):
            return pa.null()
        return pa.table(sys.modules["polars"].DataFrame(schema={"c": kind})).schema.field(0).type
    if package == "pandas":
        return pa.array(sys.modules["pandas"].Series([], dtype=kind)).type
    if package == "numpy":
        return pa.from_numpy_dtype(np.dtype(kind))
    connection = sys.modules["duckdb"].connect()
    try:
        return (
            connection.execute(f"SELECT CAST(NULL AS {kind}) LIMIT 0").to_arrow_table().schema.field(0).type
        )
    finally:
        connection.close()
