"""Checks that given variants can be decoded (Parquet's VariantEncoding.md); none of their values is converted.

    metadata  = header (version 1, offset size) | n | n + 1 offsets | names
    value     = header (basic type, type) | content
    primitive | size by its type; binary and string: length (4 bytes), bytes
    short     | length in the header, bytes
    object    | n | n field ids | n + 1 offsets | n values        their offsets need not ascend
    array     | n | n + 1 offsets | n values

All values of a column are checked at a time, level by level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from puffin_fast.rows.files.conversion import ProjectionError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[np.int64]

_VERSION = 1
_PRIMITIVE, _SHORT, _OBJECT, _ARRAY = range(4)
_SIZES = np.array([1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5, 9, 9, 9, 17], np.int64)
"""By the type of a primitive: its bytes with the header."""
_BINARY, _STRING = 15, 16
_OUTSIDE = 1 << 40
"""Stands for a number that is not inside of its bytes: no value is as large."""


def check_variants(array: pa.StructArray, name: str) -> None:
    """Checks variants: structs of metadata and value.

    Raises:
        ProjectionError: one of them cannot be decoded; says which.
    """
    rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return
    valid = array.filter(array.is_valid()) if array.null_count else array
    metadata, value = (_Bytes(valid.field(at)) for at in range(2))
    n_names, is_wrong = _names(metadata)
    wrong, part = np.flatnonzero(is_wrong), "metadata"
    if not len(wrong):
        wrong, part = _wrong_values(value, n_names), "value"
    if len(wrong):
        found = valid[int(wrong[0])][part].as_py()
        raise ProjectionError(
            f"{name}: variant {rows[wrong[0]]}: expected a {part} that can be decoded, found {len(found)} bytes"
        )


class _Bytes:
    """The bytes of a column."""

    def __init__(self, column: pa.LargeBinaryArray) -> None:
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
        self.starts, self.stops = ends[:-1], ends[1:]
        self._data = np.zeros(1, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)

    def numbers(self, at: Numbers, sizes: Any, stops: Numbers) -> Numbers:
        """Returns the unsigned little-endian numbers at places, of 1 to 4 bytes each."""
        last = len(self._data) - 1
        found = self._data[np.minimum(at, last)].astype(np.int64)
        for byte in range(1, int(np.max(sizes, initial=1))):
            found += np.where(
                byte < sizes, self._data[np.minimum(at + byte, last)].astype(np.int64) << 8 * byte, 0
            )
        found[at + sizes > stops] = _OUTSIDE
        return found


def _names(metadata: _Bytes) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Returns the number of names in each metadata, and whether it is wrong."""
    stops = metadata.stops
    head = metadata.numbers(metadata.starts, 1, stops)
    size, at = (head >> 6 & 3) + 1, metadata.starts + 1
    n = metadata.numbers(at, size, stops)
    last = at + size * (n + 1)
    end = last + size + metadata.numbers(last, size, stops)
    return n, (head & 15 != _VERSION) | (head >= _OUTSIDE) | (end > stops)


def _wrong_values(value: _Bytes, n_names: Numbers) -> Numbers:
    """Returns the rows of values that are wrong, of the level at which one is found first."""
    rows, at, stops = np.arange(len(n_names)), value.starts, value.stops
    left = int((stops - at).sum())  # a value has at least one byte of its own
    while len(rows):
        head = value.numbers(at, 1, stops)
        is_nested = (head & 3 >= _OBJECT) & (head < _OUTSIDE)
        left -= len(rows)
        wrong: Numbers = _wrong_leaves(value, head, rows, at, stops)
        if len(wrong) or left < 0:
            return wrong if len(wrong) else rows
        rows, at, stops, info = rows[is_nested], at[is_nested], stops[is_nested], head[is_nested] >> 2
        is_object = head[is_nested] & 3 == _OBJECT
        n_bytes = np.where(np.where(is_object, info >> 4, info >> 2) & 1, 4, 1)
        size, id_size = (info & 3) + 1, np.where(is_object, (info >> 2 & 3) + 1, 0)
        n, ids = value.numbers(at + 1, n_bytes, stops), at + 1 + n_bytes
        offsets = ids + n * id_size
        first = offsets + (n + 1) * size
        ends = first + value.numbers(offsets + n * size, size, stops)
        wrong = rows[ends > stops]
        if len(wrong):
            return wrong
        parents = np.repeat(np.arange(len(rows)), n)
        child = np.arange(len(parents)) - np.repeat(np.cumsum(n) - n, n)
        with_id = is_object[parents]
        named = _listed(value, ids, id_size, stops, parents[with_id], child[with_id])
        wrong = rows[parents[with_id][named >= n_names[rows[parents[with_id]]]]]
        if len(wrong):
            return wrong
        offset = _listed(value, offsets, size, stops, parents, child)
        rows, at, stops = rows[parents], first[parents] + offset, ends[parents]
    return rows


def _listed(
    value: _Bytes, at: Numbers, size: Numbers, stops: Numbers, parents: Numbers, child: Numbers
) -> Numbers:
    """Returns the numbers of values in their parents' lists of field ids or offsets."""
    sizes = size[parents]
    return value.numbers(at[parents] + child * sizes, sizes, stops[parents])


def _wrong_leaves(value: _Bytes, head: Numbers, rows: Numbers, at: Numbers, stops: Numbers) -> Numbers:
    """Returns the rows of values that have no header, or are not nested and exceed their bytes."""
    kind, info = head & 3, head >> 2
    sizes = np.where(info < len(_SIZES), _SIZES[np.minimum(info, len(_SIZES) - 1)], _OUTSIDE)
    sizes[kind == _SHORT] = 1 + info[kind == _SHORT]
    sizes[kind >= _OBJECT] = 1
    is_text = np.flatnonzero((kind == _PRIMITIVE) & ((info == _BINARY) | (info == _STRING)))
    sizes[is_text] += value.numbers(at[is_text] + 1, 4, stops[is_text])
    found: Numbers = rows[(head >= _OUTSIDE) | (at + sizes > stops)]
    return found
