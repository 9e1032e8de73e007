"""The schema of a Delta table's data files: physical names, field ids with column mapping, and annotated variants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.delta.scans.schema import DECIMAL
from puffin_fast.parquet.logical_types import VARIANT

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField

    from puffin_fast.parquet.logical_types import Annotation, ColumnPath

_MARK = b"variant"
_STORED_VARIANT = pa.struct(
    [pa.field("metadata", pa.binary(), False, {_MARK: b"true"}), pa.field("value", pa.binary(), False)]
)
"""A variant. The mark, which PySpark sets in Arrow too, tells it from another struct."""

_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": _STORED_VARIANT,
}


def stored_fields(
    fields: Sequence[Mapping[str, Any]], names: Iterable[MappedField], *, physical: bool, ids: int = 0
) -> list[pa.Field]:
    """Returns the Arrow fields of columns.

    Args:
        fields: the fields of the schema in the log.
        names: their physical names and ids, in the same order.
        physical: whether to use the physical names; otherwise the logical ones.
        ids: the highest id in the log; higher ids were assigned by this package and are not written.
    """
    return [_field(field, name, physical, ids) for field, name in zip(fields, names, strict=True)]


def is_variant(kind: pa.DataType) -> bool:
    """Returns whether a type of `stored_fields` is that of a variant."""
    at = kind.get_field_index("metadata") if pa.types.is_struct(kind) else -1
    return at >= 0 and _MARK in (kind.field(at).metadata or {})


def annotations_of(fields: Iterable[pa.Field]) -> dict[ColumnPath, Annotation]:
    """Returns the logical types that PyArrow does not write, by column.

    Args:
        fields: those of `stored_fields`.
    """
    return dict.fromkeys((path for field in fields for path in _variants(field.type, (field.name,))), VARIANT)


def _variants(kind: pa.DataType, path: ColumnPath) -> Iterator[ColumnPath]:
    """The names of lists and maps are those that PyArrow writes, as the format wants them."""
    if is_variant(kind):
        yield path
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _variants(field.type, (*path, field.name))
    elif pa.types.is_list(kind):
        yield from _variants(kind.value_type, (*path, "list", "element"))
    elif pa.types.is_map(kind):
        yield from _variants(kind.item_type, (*path, "key_value", "value"))


def _field(field: Mapping[str, Any], name: MappedField, physical: bool, ids: int) -> pa.Field:
    kind = _type(field["type"], name.fields, physical, ids)
    return _named(name.names[0] if physical else field["name"], kind, name, ids)


def _named(name: str, kind: pa.DataType, mapped: MappedField, ids: int, *, nullable: bool = True) -> pa.Field:
    metadata = {"PARQUET:field_id": str(mapped.field_id)} if ids and (mapped.field_id or 0) <= ids else None
    return pa.field(name, kind, nullable, metadata)


def _type(kind: Any, names: Sequence[MappedField], physical: bool, ids: int) -> pa.DataType:
    if isinstance(kind, str):
        found = DECIMAL.fullmatch(kind)
        return _TYPES[kind] if found is None else pa.decimal128(int(found[1]), int(found[2]))
    if kind["type"] == "struct":
        return pa.struct(
            [_field(f, name, physical, ids) for f, name in zip(kind["fields"], names, strict=True)]
        )
    if kind["type"] == "array":
        (element,) = names
        return pa.list_(
            _named("element", _type(kind["elementType"], element.fields, physical, ids), element, ids)
        )
    key, value = names
    return pa.map_(
        _named("key", _type(kind["keyType"], key.fields, physical, ids), key, ids, nullable=False),
        _named("value", _type(kind["valueType"], value.fields, physical, ids), value, ids),
    )
