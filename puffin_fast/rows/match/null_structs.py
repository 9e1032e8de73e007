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

from puffin_fast.columns.plain_types import null_mask, plain, plain_type, with_values
from puffin_fast.rows.files.conversion import is_list


def with_null_fields(array: pa.Array) -> pa.Array:
    """Returns a plain array in which the fields of null structs are null."""
    if not _has_null_struct(array):
        return array
    if not pa.types.is_struct(array.type):
        return _inside(array, with_null_fields)
    children = list(map(with_null_fields, array.flatten()))
    return pa.StructArray.from_arrays(children, fields=list(array.type), mask=null_mask(array))


def with_required_fields(array: pa.Array) -> pa.Array:
    """Returns an array in which required fields of null structs have values, which are of no row."""
    if not _has_null_struct(array):
        return array
    if not pa.types.is_struct(array.type):
        return _inside(array, with_required_fields)
    children = []
    for field, child in zip(array.type, map(with_required_fields, _children(array)), strict=True):
        if not field.nullable and child.null_count:
            empty = pa.array([None], pa.struct([field.with_type(plain_type(field.type))])).field(0)
            places = pc.if_else(array.is_null(), len(array), pa.array(np.arange(len(array))))
            child = pa.concat_arrays([plain(child).cast(empty.type), empty]).take(places).cast(field.type)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(array.type), mask=null_mask(array))


def _has_null_struct(array: Any) -> bool:
    """Whether an array is or contains a null struct with fields."""
    kind = array.type
    if pa.types.is_struct(kind):
        has_null = array.null_count > 0 and kind.num_fields > 0
        return has_null or any(map(_has_null_struct, _children(array)))
    if pa.types.is_map(kind):
        return _has_null_struct(array.keys) or _has_null_struct(array.items)
    return is_list(kind) and _has_null_struct(array.values)


def _children(array: pa.Array) -> list[pa.Array]:
    return [array.field(at) for at in range(array.type.num_fields)]


def _inside(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Changes the values of lists or maps."""
    kind = array.type
    if pa.types.is_map(kind):
        return with_values(array, kind, change, change)
    wanted = pa.large_list(kind.value_field) if pa.types.is_fixed_size_list(kind) else kind
    return with_values(array, wanted, change)
