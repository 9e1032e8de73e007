"""Key columns: finds them in a table's schema, and converts the caller's keys to the table's types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField, PrimitiveType, UnknownType, UUIDType

from puffin_fast._api.arguments import check_texts
from puffin_fast._pyiceberg.v3_types import UNORDERED
from puffin_fast._text import no_column, without_values
from puffin_fast.columns.arrow_rows import arrow_reader, key_rows
from puffin_fast.columns.even_tables import even_tables
from puffin_fast.columns.plain_types import check_text, decoder, plain
from puffin_fast.columns.uuid_text import is_uuid_text, uuids_of_text
from puffin_fast.errors import InvalidInputError, NotFoundError
from puffin_fast.rows.files.conversion import storage_type
from puffin_fast.rows.filters.struct_path import structs_around
from puffin_fast.rows.keys.integers import is_integral, sorted_distinct

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

KEY_TABLE_BYTES = 64 << 20
"""About the greatest size of the keys that are converted at a time."""


def normalize_floats(columns: Mapping[int, pa.Array]) -> dict[int, pa.Array]:
    """Columns in which -0.0 is 0.0 and all NaN have the same bits."""
    return {field_id: _normalize_float(column) for field_id, column in columns.items()}


def normalize_nan(column: Any) -> Any:
    """A column in which all NaN have the same bits: their signs and payloads depend on the library that wrote them."""
    if not pa.types.is_floating(column.type):
        return column
    is_nan = pc.is_nan(column)
    if not pc.any(is_nan).as_py():
        return column
    return pc.if_else(is_nan, pa.scalar(math.nan, column.type), column)


def _normalize_float(column: Any) -> Any:
    if not pa.types.is_floating(column.type):
        return column
    return normalize_nan(pc.add(column, pa.scalar(0.0, column.type)))


def key_fields(
    schema: Schema, join_cols: str | Sequence[str] | None, *, case_sensitive: bool = True
) -> list[tuple[str, NestedField]]:
    """Finds the key columns.

    Args:
        join_cols: one or more column names; None for the schema's identifier fields.
        case_sensitive: whether names are compared with case.

    Raises:
        NotFoundError: the table does not have one of the columns.
        InvalidInputError: there is no column, a column occurs twice, is not of a primitive type, is a geometry or
            geography, or is inside a list or map.
    """
    if isinstance(join_cols, str):
        join_cols = [join_cols]
    if join_cols is None:
        join_cols = [schema.find_column_name(field_id) or "" for field_id in schema.identifier_field_ids]
        if not join_cols:
            raise InvalidInputError(
                "join_cols: expected key columns, because the table's schema has no identifier fields"
            )
        case_sensitive = True
    join_cols = check_texts("join_cols", join_cols)
    if not join_cols:
        raise InvalidInputError("join_cols: expected at least one column, found none")
    if len({name if case_sensitive else name.lower() for name in join_cols}) != len(join_cols):
        raise InvalidInputError(f"join_cols: expected distinct columns, found {', '.join(join_cols)}")
    found = []
    for name in join_cols:
        try:
            field = schema.find_field(name, case_sensitive=case_sensitive)
        except ValueError:
            raise NotFoundError(f"join_cols: {no_column(name, schema.column_names)}") from None
        if not isinstance(field.field_type, PrimitiveType) or isinstance(field.field_type, UnknownType):
            raise InvalidInputError(f"join_cols: {name} is a {field.field_type}; expected a primitive type")
        if isinstance(field.field_type, UNORDERED):
            what = (
                f"{name} is a {field.field_type}; expected a type whose values are equal if their bytes are"
            )
            raise InvalidInputError(f"join_cols: {what}")
        if structs_around(schema, field.field_id) is None:
            raise InvalidInputError(f"join_cols: {name} is inside a list or map; expected one value per row")
        found.append((name, field))
    return found


def distinct_keys(
    keys: Any, fields: list[tuple[str, NestedField]], *, null_safe: bool
) -> list[pa.ChunkedArray]:
    """The distinct keys in the table's storage types, in memory."""
    return list(distinct_rows(pa.concat_tables(key_tables(keys, fields, null_safe=null_safe))).columns)


def key_tables(keys: Any, fields: list[tuple[str, NestedField]], *, null_safe: bool) -> Iterator[pa.Table]:
    """Yields the keys as `keys_of_batch`, in tables of at most about 64 MiB; at least one table."""
    reader = arrow_reader(key_rows(keys, [name for name, _ in fields]), "keys")
    empty = _key_columns(_empty(reader.schema), fields)
    yield keys_of_batch(empty, fields, null_safe=null_safe)
    batches = (_key_columns(batch, fields) for batch in reader)
    for table in even_tables(batches, KEY_TABLE_BYTES, decoder(empty.schema)):
        for batch in table.to_batches():
            yield keys_of_batch(batch, fields, null_safe=null_safe)


def _key_columns(batch: pa.RecordBatch, fields: list[tuple[str, NestedField]]) -> pa.RecordBatch:
    columns = {name: column_of(batch, name) for name, _ in fields}
    for name, column in columns.items():
        try:
            check_text(column)
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"keys: column {name}: {error}") from error
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def keys_of_batch(
    batch: pa.RecordBatch, fields: list[tuple[str, NestedField]], *, null_safe: bool
) -> pa.Table:
    """The keys of a batch that are values of the table's types, in storage types; duplicates are not removed.

    Returns:
        a table with the columns of `key_schema`: k0, k1, and so on.

    Raises:
        NotFoundError: the batch does not have a key column.
        InvalidInputError: a column's type is not comparable with the table's.
    """
    columns, keep, wrong = [], None, []
    for name, field in fields:
        column = column_of(batch, name)
        try:
            column, fits = to_key_type(column, field, name)
        except InvalidInputError as error:
            wrong.append(error)
            continue
        if not null_safe:
            valid = pc.is_valid(column)
            fits = valid if fits is None else pc.and_(fits, valid)
        columns.append(column)
        keep = fits if keep is None else (keep if fits is None else pc.and_(keep, fits))
    if wrong:
        raise wrong[0] if len(wrong) == 1 else InvalidInputError("\n".join(map(str, wrong)))
    rows = pa.Table.from_arrays(columns, schema=key_schema(fields))
    return rows if keep is None else rows.filter(keep)


def key_schema(fields: list[tuple[str, NestedField]]) -> pa.Schema:
    """The columns of `keys_of_batch`."""
    return pa.schema([(f"k{at}", storage_type(field.field_type)) for at, (_, field) in enumerate(fields)])


def distinct_rows(rows: pa.Table) -> pa.Table:
    """The distinct rows of a table of key columns, in any order."""
    if rows.num_columns == 1:
        if is_integral(rows.schema.types[0]):
            return pa.Table.from_arrays([sorted_distinct(rows.column(0))], schema=rows.schema)
        return pa.Table.from_arrays([pc.unique(rows.column(0))], schema=rows.schema)
    return rows.group_by(rows.schema.names, use_threads=False).aggregate([]).cast(rows.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Finds a column by its name, or by its path through structs, separated by dots."""
    if (count := len(batch.schema.get_all_field_indices(name))) > 1:
        raise InvalidInputError(f"keys: column {name}: expected once, found {count}")
    for first, *rest in _paths(list(batch.schema), name):
        column = batch.column(first)
        return pc.struct_field(column, rest) if rest else column
    raise NotFoundError(f"keys: no column {name}, found {', '.join(batch.schema.names) or 'none'}")


def _paths(fields: Sequence[pa.Field], name: str) -> Iterator[list[int]]:
    """Yields the indexes on the way to a field of a dotted name, through structs; names may have dots, too."""
    for at, field in enumerate(fields):
        if field.name == name:
            yield [at]
    for at, field in enumerate(fields):
        if name.startswith(f"{field.name}.") and pa.types.is_struct(field.type):
            for rest in _paths(list(field.type), name[len(field.name) + 1 :]):
                yield [at, *rest]


def to_key_type(column: pa.Array, field: NestedField, name: str) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Converts a column to the storage type of the table's column.

    Returns:
        the values, and a mask of those that are values of the table's type (None if all are).

    Raises:
        InvalidInputError: the types are not comparable.
    """
    wanted = storage_type(field.field_type)
    column = plain(column)
    if column.type == wanted:
        return _normalize_float(column), None
    if isinstance(field.field_type, UUIDType) and _is_text(column.type):
        column = column.cast(pa.large_string())
        fits = pc.fill_null(is_uuid_text(column), False)
        values = uuids_of_text(pc.if_else(fits, column, pa.scalar(None, column.type)), wanted)
        return values, pc.or_(fits, column.is_null())
    if not _compares(column.type, wanted):
        raise InvalidInputError(f"keys: column {name} is {column.type}; the table's is {field.field_type}")
    try:
        if pa.types.is_null(column.type):
            return column.cast(wanted), None
        if pa.types.is_large_string(wanted) or pa.types.is_large_binary(wanted):
            return column.cast(wanted), None
        if pa.types.is_fixed_size_binary(wanted):
            column = column.cast(pa.large_binary())
            fits = pc.equal(pc.binary_length(column), wanted.byte_width)
            column = pc.if_else(pc.fill_null(fits, False), column, pa.scalar(None, column.type))
            return column.cast(wanted), pc.fill_null(fits, True)
        found = column.cast(wanted, safe=False)
        back = found.cast(column.type, safe=False)
        fits = pc.equal(back, column)
        if pa.types.is_floating(wanted):
            fits = pc.or_(fits, pc.is_nan(column))
        if (limit := _decimal_limit(column.type, wanted)) is not None:
            fits = pc.and_(fits, pc.less(pc.abs(column), limit))
        if pa.types.is_unsigned_integer(column.type) and pa.types.is_signed_integer(wanted):
            fits = pc.and_(fits, pc.greater_equal(found, 0))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"keys: column {name} is {column.type}; the table's is {field.field_type}: {without_values(error)}"
        ) from None
    return _normalize_float(found), pc.fill_null(fits, True)


def _decimal_limit(kind: pa.DataType, wanted: pa.DataType) -> pa.Scalar | None:
    """The limit for the magnitude of a decimal: Arrow's cast does not check the digits before the point."""
    if not pa.types.is_decimal(wanted) or kind.precision - kind.scale <= wanted.precision - wanted.scale:
        return None
    digits = wanted.precision - wanted.scale
    return pa.scalar(Decimal(10**digits), pa.decimal256(digits + 1, 0))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_time,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    _is_text,
    lambda kind: (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ),
)


def _compares(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether values of both types are comparable: the types belong to the same family."""
    if pa.types.is_null(left):
        return True
    return any(family(left) and family(right) for family in _FAMILIES)
