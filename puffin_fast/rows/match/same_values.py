"""Whether values of two arrays are the same: null equals null, and floats are compared by their bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast.columns.row_selection import flags_of


def same_values(left: Any, right: Any) -> Any:
    """Returns a mask of the rows where two arrays of one type and length have the same value, nested values too."""
    kind = right.type
    if isinstance(kind, pa.BaseExtensionType):
        return same_values(left.storage, right.storage)
    if pa.types.is_null(kind):
        return np.ones(len(right), np.bool_)
    if pa.types.is_struct(kind):
        same = flags_of(pc.equal(left.is_null(), right.is_null()))
        for one, other in zip(left.flatten(), right.flatten(), strict=True):
            same &= same_values(one, other)
        return same
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return same_values(left.cast(entries), right.cast(entries))
    if pa.types.is_nested(kind):
        return _same_lists(left, right)
    if pa.types.is_floating(kind):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        left, right = left.view(bits), right.view(bits)
    equal = pc.equal(left, right)
    if equal.null_count:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        equal = pc.or_(pc.fill_null(equal, False), both_null)
    return flags_of(equal)


def _same_lists(left: Any, right: Any) -> Any:
    lengths = pc.list_value_length(right)
    same = same_values(pc.list_value_length(left), lengths)
    rows = np.flatnonzero(same & flags_of(lengths.is_valid()))
    found = same_values(left.take(pa.array(rows)).flatten(), right.take(pa.array(rows)).flatten())
    same[np.repeat(rows, lengths.take(pa.array(rows)))[~found]] = False
    return same
