"""Converts arrays from the types of a data file or of a caller's rows to those of a table's schema, nested too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import PYARROW_FIELD_DOC_KEY
from pyiceberg.types import ListType, MapType, NestedField, StructType

from puffin_fast._pyiceberg.v3_types import VARIANT_FIELDS, VariantType, schema_to_arrow
from puffin_fast.columns.plain_types import null_mask, plain_type, with_values
from puffin_fast.columns.uuid_text import UuidText, uuids_of_text

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

Convert = Callable[[pa.Array, Mapping[int, Any]], pa.Array]
"""Converts an array of the file to the table's type; the mapping holds constants by field id."""

Cast = Callable[[pa.DataType, pa.DataType], Convert | None]
"""Returns the conversion from one primitive type to another; None if none is needed. Raises `ProjectionError`."""


class ProjectionError(ValueError):
    """A column cannot be converted to the table's type. The caller adds the file or the argument to the message."""


class ShreddedVariantError(ProjectionError):
    """A variant whose values are stored in columns of their own, which this package does not put together."""


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of the file.

    Attributes:
        field_id: None if the field belongs to no field of the table.
        name: in the file.
        type: the plain type of its arrays (see `plain_types`).
        found: its Arrow type in the file.
        children: the fields of a struct, the element of a list, or the key and value of a map.
    """

    field_id: int | None
    name: str
    type: pa.DataType
    found: pa.DataType
    children: tuple[FileField, ...]

    def by_id(self) -> dict[int, tuple[int, FileField]]:
        """The children that have a field id, with their index, by field id."""
        return {
            node.field_id: (at, node) for at, node in enumerate(self.children) if node.field_id is not None
        }


def arrow_type(iceberg: IcebergType) -> pa.DataType:
    """The Arrow type of results: PyIceberg's choice, with large strings and lists."""
    return _primitive_arrow_type(iceberg) if iceberg.is_primitive else _arrow_type(iceberg)


def _arrow_type(iceberg: IcebergType) -> pa.DataType:
    found: Any = schema_to_arrow(iceberg, include_field_ids=False)
    return found


_primitive_arrow_type = lru_cache(maxsize=1024)(_arrow_type)
"""Most columns of a table of thousands have one of a few types, which PyIceberg converts for each."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of results, as PyIceberg makes it of a schema, without field ids."""
    return pa.schema(
        [
            pa.field(
                field.name,
                arrow_type(field.field_type),
                nullable=not field.required,
                metadata={PYARROW_FIELD_DOC_KEY: field.doc} if field.doc else {},
            )
            for field in schema.fields
        ],
        metadata={},
    )


def storage_type(iceberg: IcebergType) -> pa.DataType:
    """The Arrow type of results without extension types, whose values can be compared."""
    found = arrow_type(iceberg)
    return found.storage_type if isinstance(found, pa.BaseExtensionType) else found


def constant(value: Any, wanted: pa.DataType, n_rows: int) -> pa.Array:
    """An array that repeats one value.

    Args:
        value: a Python value, or a raw partition value (days, microseconds, 16 bytes).
        wanted: the type of the array.
        n_rows: its length.
    """
    if value is None and pa.types.is_struct(wanted):
        return _repeated(None, wanted, n_rows)  # `pa.nulls` has nulls in required fields, too
    if value is None:
        return pa.nulls(n_rows, wanted)
    plain = wanted.storage_type if isinstance(wanted, pa.BaseExtensionType) else wanted
    if isinstance(value, int) and not (pa.types.is_integer(plain) or pa.types.is_boolean(plain)):
        raw = pa.int32() if pa.types.is_date32(plain) else pa.int64()
        scalar = pa.scalar(value, raw).cast(pa.float64() if pa.types.is_floating(plain) else plain)
    else:
        scalar = pa.scalar(getattr(value, "bytes", value), plain)
    array = pa.repeat(scalar.cast(plain), n_rows)
    return array if plain is wanted else pa.ExtensionArray.from_storage(wanted, array)


def missing(
    field: NestedField,
    wanted: pa.DataType,
    constants: Mapping[int, Any],
    n_rows: int,
    *,
    required: bool = True,
) -> pa.Array:
    """The values of a field that the file does not have: its constant, else its initial default, else null.

    The fields of a struct that is not null have their own ("Default values").

    Args:
        field: the field of the table's schema.
        wanted: the type of the array.
        constants: by field id; None is a null in spite of the default.
        n_rows: the length of the array.
        required: whether a required field without a value is an error.

    Raises:
        ProjectionError: a required field has neither a constant nor a default.
    """
    value = constants.get(field.field_id, field.initial_default)
    if value is None and field.required and required:
        raise ProjectionError(
            f"required field {field.field_id} ({field.name}) is missing, and has no default"
        )
    kind = field.field_type
    if value is not None and isinstance(kind, StructType) and kind.fields:
        children = [
            missing(child, out.type, constants, n_rows)
            for child, out in zip(kind.fields, wanted, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted))
    if value is not None and isinstance(kind, StructType | ListType | MapType):
        return _repeated(_stored_value(value, kind), wanted, n_rows)
    return constant(value, wanted, n_rows)


def _stored_value(value: Any, kind: IcebergType) -> Any:
    """A default value in Python, as Arrow makes arrays of plain types of it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        pairs = zip(kind.fields, value, strict=False)
        return {field.name: _stored_value(one, field.field_type) for field, one in pairs}
    if isinstance(kind, ListType):
        return [_stored_value(one, kind.element_type) for one in value]
    if isinstance(kind, MapType):
        return [
            (_stored_value(key, kind.key_type), _stored_value(one, kind.value_type)) for key, one in value
        ]
    return constant(value, storage_type(kind), 1)[0]


def _repeated(value: Any, wanted: pa.DataType, n_rows: int) -> pa.Array:
    """Arrow makes no arrays of Python values with extension types in nested types, but casts to them."""
    return pa.array([value] * n_rows, plain_type(wanted)).cast(wanted)


def type_in_file(node: FileField, iceberg: IcebergType) -> pa.DataType:
    """Returns the type that a file's field has in the answer of PyIceberg's `to_arrow`.

    Text, bytes and lists have 32-bit or 64-bit offsets as in the file, text and bytes are views or dictionaries as
    there. Unsigned integers, which PyIceberg leaves unsigned, get the table's type, whose range is checked.
    """
    wanted, found = arrow_type(iceberg), node.found
    if iceberg.is_primitive and found == wanted:
        return wanted
    if isinstance(iceberg, StructType) and pa.types.is_struct(found):
        known = node.by_id()
        fields = []
        for field, out in zip(iceberg.fields, wanted, strict=True):
            _, child = known.get(field.field_id, (None, None))
            fields.append(out if child is None else out.with_type(type_in_file(child, field.field_type)))
        return pa.struct(fields)
    if isinstance(iceberg, ListType) and is_list(found):
        value = wanted.value_field.with_type(type_in_file(node.children[0], iceberg.element_type))
        return pa.large_list(value) if pa.types.is_large_list(found) else pa.list_(value)
    if isinstance(iceberg, MapType) and pa.types.is_map(found):
        key, value = node.children
        return pa.map_(
            wanted.key_field.with_type(type_in_file(key, iceberg.key_type)),
            wanted.item_field.with_type(type_in_file(value, iceberg.value_type)),
        )
    value = found.value_type if pa.types.is_dictionary(found) else found
    same = (wanted == pa.large_string() and any(test(value) for test in _TEXT)) or (
        wanted == pa.large_binary() and any(test(value) for test in _BYTES)
    )
    return found if same else wanted


def converter(node: FileField, iceberg: IcebergType, wanted: pa.DataType, cast: Cast) -> Convert | None:
    """Returns the conversion of a file's field to an Iceberg type; None if its arrays have the wanted type already.

    Args:
        iceberg: the type of the table's field.
        wanted: its Arrow type: `arrow_type` or `type_in_file`.
        cast: converts primitive values.

    Raises:
        ProjectionError: there is no such conversion.
        ShreddedVariantError: a variant is shredded.
    """
    if iceberg.is_primitive and node.type == wanted:
        return None
    if pa.types.is_null(node.type):
        return lambda array, constants: pa.nulls(len(array), wanted)
    if isinstance(iceberg, StructType):
        return _struct(node, iceberg, wanted, cast)
    if isinstance(iceberg, ListType):
        return _list(node, iceberg, wanted, cast)
    if isinstance(iceberg, MapType):
        return _map(node, iceberg, wanted, cast)
    if isinstance(iceberg, VariantType):
        return _variant(node, wanted)
    return primitive(node, wanted, cast)


def _struct(node: FileField, iceberg: StructType, wanted: pa.DataType, cast: Cast) -> Convert | None:
    if not pa.types.is_struct(node.type):
        raise _does_not_fit(node, iceberg)
    known = node.by_id()
    steps: list[tuple[NestedField, pa.DataType, int | None, Convert | None]] = []
    for field, out in zip(iceberg.fields, wanted, strict=True):
        at, child = known.get(field.field_id, (None, None))
        convert = None if child is None else converter(child, field.field_type, out.type, cast)
        steps.append((field, out.type, at, convert))
    in_order = [at for _, _, at, _ in steps] == list(range(len(node.children)))
    if in_order and node.type == wanted and all(convert is None for *_, convert in steps):
        return None

    def convert_struct(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
        children = []
        for field, kind, at, convert in steps:
            if at is None:
                # a required field may be null where the struct itself is null
                is_there = array.null_count < len(array)
                child = missing(field, kind, constants, len(array), required=is_there)
            else:
                child = array.field(at)
                child = child if convert is None else convert(child, constants)
            children.append(child)
        if not children:
            return pa.array([None if null else {} for null in array.is_null().to_pylist()], wanted)
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null_mask(array))

    return convert_struct


def _list(node: FileField, iceberg: ListType, wanted: pa.DataType, cast: Cast) -> Convert | None:
    if not is_list(node.type):
        raise _does_not_fit(node, iceberg)
    (child,) = node.children
    convert = converter(child, iceberg.element_type, wanted.value_type, cast)
    if convert is None and node.type == wanted:
        return None
    return lambda array, constants: with_values(array, wanted, _change(convert, constants))


def _map(node: FileField, iceberg: MapType, wanted: pa.DataType, cast: Cast) -> Convert | None:
    if not pa.types.is_map(node.type):
        raise _does_not_fit(node, iceberg)
    key, value = node.children
    convert_key = converter(key, iceberg.key_type, wanted.key_type, cast)
    convert_value = converter(value, iceberg.value_type, wanted.item_type, cast)
    if convert_key is None and convert_value is None and node.type == wanted:
        return None
    return lambda array, constants: with_values(
        array, wanted, _change(convert_key, constants), _change(convert_value, constants)
    )


def _change(convert: Convert | None, constants: Mapping[int, Any]) -> Callable[[pa.Array], pa.Array]:
    return lambda values: values if convert is None else convert(values, constants)


def _variant(node: FileField, wanted: pa.DataType) -> Convert:
    """The conversion of a variant, which has no field ids inside it: its fields are found by name."""
    names = [child.name for child in node.children] if pa.types.is_struct(node.type) else []
    if "typed_value" in names:
        raise ShreddedVariantError(
            f"field {node.field_id} ({node.name}): a shredded variant; expected one with the fields metadata and "
            "value only"
        )
    if sorted(names) != [field.name for field in VARIANT_FIELDS]:
        raise _does_not_fit(node, "variant")
    places = [names.index(field.name) for field in VARIANT_FIELDS]

    def convert_variant(array: pa.Array, constants: Mapping[int, Any]) -> pa.Array:
        children, null = [], array.is_null()
        for at, field in zip(places, VARIANT_FIELDS, strict=True):
            child = array.field(at).cast(field.type)
            if child.null_count:  # its fields are required, but null where the struct is null
                child = pc.if_else(null, pa.scalar(b"", field.type), child)
            if child.null_count:
                raise ProjectionError(f"field {node.field_id} ({node.name}): a variant without {field.name}")
            children.append(child)
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null)

    return convert_variant


def primitive(node: FileField, wanted: pa.DataType, cast: Cast) -> Convert | None:
    """Returns the conversion of a primitive field to an Arrow type; as `converter`."""
    if isinstance(wanted, pa.BaseExtensionType):
        inner = primitive(node, wanted.storage_type, cast)
        return lambda array, constants: pa.ExtensionArray.from_storage(
            wanted, array if inner is None else inner(array, constants)
        )
    if node.type == wanted:
        return None
    if isinstance(node.found, UuidText) and wanted == pa.binary(16):
        return lambda array, constants: uuids_of_text(array, wanted)
    if node.found == wanted:  # views and dictionaries
        return lambda array, constants: array.cast(wanted)
    try:
        return cast(node.type, wanted)
    except ProjectionError:
        raise _does_not_fit(node, wanted) from None


_UNITS = ("s", "ms", "us", "ns")
_DAY = 86_400_000_000
"""Microseconds."""
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_TEXT_OR_BYTES = (*_TEXT, *_BYTES, pa.types.is_fixed_size_binary)
_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_null,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_time,
    lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind),
    # writers that predate Parquet's logical type UTF8 stored text as bytes
    lambda kind: any(test(kind) for test in _TEXT_OR_BYTES),
    # ORC has no type for the time of day: Iceberg stores it as a long
    lambda kind: kind in (pa.int64(), pa.time64("us")),
)


def stored(found: pa.DataType, wanted: pa.DataType) -> Convert | None:
    """Returns the conversion of a file's values to the table's type; a `Cast`.

    Both types must be of one family: schema evolution never leaves it.
    """
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # timestamps finer than the table's (old Spark files) are truncated; other values must fit
        is_finer = _UNITS.index(found.unit) > _UNITS.index(wanted.unit)
        return lambda array, constants: array.cast(wanted, safe=not is_finer)
    if not any(family(found) and family(wanted) for family in _FAMILIES):
        raise ProjectionError
    if pa.types.is_fixed_size_binary(wanted):
        return lambda array, constants: array.cast(pa.large_binary()).cast(wanted)
    if pa.types.is_time(wanted) and pa.types.is_integer(found):
        return lambda array, constants: _times(array, wanted)
    return lambda array, constants: array.cast(wanted)


def _times(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Times from their microseconds, which Arrow does not check."""
    ends = pc.min_max(array).as_py()
    for end in ends.values():
        if end is not None and not 0 <= end < _DAY:
            raise ProjectionError(f"time of day: expected microseconds from 0 to {_DAY - 1}, found {end}")
    return array.cast(wanted)


def _does_not_fit(node: FileField, wanted: object) -> ProjectionError:
    return ProjectionError(
        f"type of field {node.field_id} ({node.name}): expected {wanted}, found {node.type}"
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
