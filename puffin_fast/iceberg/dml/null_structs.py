"""The values of fields where their struct is null, which Arrow leaves open, and Parquet does not store.

Arrow's writer of Parquet requires values of required fields there, too. Values that other libraries have left there
are of no row, and need not fit the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.iceberg.datafile.plain_types import list_parts, map_parts, null_mask, plain, plain_type

__all__ = ["with_null_fields", "with_required_fields"]


def with_null_fields(array: pa.Array) -> pa.Array:
    """Returns a plain array in which the fields of null structs are null."""
    if pa.types.is_struct(array.type) and array.type.num_fields:
        children = array.flatten() if array.null_count else _children(array)
        found = list(map(with_null_fields, children))
        return pa.StructArray.from_arrays(found, fields=list(array.type), mask=null_mask(array))
    return _inside(array, with_null_fields) if _contains_struct(array.type) else array


def with_required_fields(array: pa.Array) -> pa.Array:
    """Returns an array in which required fields of null structs have values, which are of no row."""
    if not _has_required_field(array.type):
        return array
    if not pa.types.is_struct(array.type):
        return _inside(array, with_required_fields)
    null = array.is_null()
    children = []
    for field, child in zip(array.type, map(with_required_fields, _children(array)), strict=True):
        if not field.nullable and child.null_count:
            empty = pa.array([None], pa.struct([field.with_type(plain_type(field.type))])).field(0)
            places = pc.if_else(null, len(array), pa.array(np.arange(len(array))))
            child = pa.concat_arrays([plain(child).cast(empty.type), empty]).take(places).cast(field.type)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(array.type), mask=null_mask(array))


def _has_required_field(kind: pa.DataType) -> bool:
    """Whether a type is or contains a struct with a required field."""
    if isinstance(kind, pa.BaseExtensionType):
        return False
    inner = [kind.field(at) for at in range(kind.num_fields)]
    is_struct = pa.types.is_struct(kind)
    return any((is_struct and not field.nullable) or _has_required_field(field.type) for field in inner)


def _contains_struct(kind: pa.DataType) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
    return any(pa.types.is_struct(part) or _contains_struct(part) for part in inner)


def _children(array: pa.Array) -> list[pa.Array]:
    return [array.field(at) for at in range(array.type.num_fields)]


def _inside(array: Any, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Changes the values of lists or maps."""
    kind = array.type
    if pa.types.is_map(kind):
        offsets, keys, items = map_parts(array)
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), change(keys), change(items), type=kind, mask=null_mask(array)
        )
    offsets, values = list_parts(array)
    make, width = (
        (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(kind) else (pa.ListArray, pa.int32())
    )
    return make.from_arrays(pa.array(offsets, width), change(values), type=kind, mask=null_mask(array))
