"""The Arrow schema of a Delta table's data files: physical names, and field ids with column mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin_fast.delta.scans.schema import DECIMAL

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField

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
