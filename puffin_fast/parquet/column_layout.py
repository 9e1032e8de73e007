"""Decides which column chunks of a Parquet file `column_pages` decodes; PyArrow reads all others.

They are columns and leaves of structs, not inside lists and maps, of the types below, in the encodings of `Layout` and
the compressions of `page_codecs`.

    stored as             | decoded to
    BOOLEAN               | bool
    INT32                 | int32, date32, time32, decimal128
    INT64                 | int64, time64, timestamp, decimal128
    FLOAT, DOUBLE         | float, double
    BYTE_ARRAY            | string, large_string, binary, large_binary, and their views
    FIXED_LEN_BYTE_ARRAY  | fixed_size_binary, decimal128

A differential test compares each of them with PyArrow to the bit (tests/parquet/test_column_pages.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._kernels.parquet import pages
from puffin_fast._process.cached import cached_property
from puffin_fast.columns.plain_types import plain_type

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_PLAIN, _PLAIN_DICTIONARY, _RLE, BIT_PACKED, _RLE_DICTIONARY = 0, 2, 3, 4, 8
ENCODINGS = sum(1 << n for n in (_PLAIN, _PLAIN_DICTIONARY, _RLE, BIT_PACKED, _RLE_DICTIONARY))
"""Bit n is set for encoding n of the format. `Layout.encodings` has those of some types, too."""

WITHOUT_VALUES = sum(1 << n for n in (_PLAIN_DICTIONARY, _RLE, BIT_PACKED, _RLE_DICTIONARY))
"""Encodings of levels, and of numbers of entries of the dictionary; booleans, which have none, also have RLE."""

IN_DICTIONARY = 1 << _PLAIN_DICTIONARY | 1 << _RLE_DICTIONARY
"""Encodings of numbers of entries of the dictionary."""

_DELTA_BINARY_PACKED, _DELTA_LENGTH, _DELTA_BYTE_ARRAY, _BYTE_STREAM_SPLIT = 5, 6, 7, 9
_OF_TEXTS = 1 << _DELTA_LENGTH | 1 << _DELTA_BYTE_ARRAY

_MOST_LEVEL = 255
"""The kernel has a byte for a definition level."""

_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True)
class Layout:
    """How the values of a column are stored, and the plain type that they are decoded to.

    Attributes:
        type: the plain Arrow type; a view type only for views.
        stored: bytes of a stored value; 0 for byte strings and booleans.
        width: bytes of a decoded value.
        conversion: the conversion of a stored value, as in the kernel.
        level: the definition level of a value; 0: neither it nor a struct around it may be null.
        structs: the structs around it, from the innermost: the plain type with the only field, and the definition
            level from which on it is not null, 0 if it never is.
    """

    type: pa.DataType
    stored: int
    width: int
    conversion: int
    level: int
    structs: tuple[tuple[pa.DataType, int], ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether its values are byte strings, which have no fixed width."""
        return self.stored == 0 and self.width > 1

    @property
    def needs_levels(self) -> bool:
        """Whether the definition levels say which of the structs around it are null."""
        return any(level for _, level in self.structs)

    @cached_property
    def encodings(self) -> int:
        """The encodings that its values may have: bit n is set for encoding n of the format."""
        if not self.stored:
            return ENCODINGS | (_OF_TEXTS if self.width > 1 else 0)
        is_integer = pa.types.is_integer(self.type) or pa.types.is_temporal(self.type)
        if is_integer or self.conversion in (pages.INT32_TO_INT128, pages.INT64_TO_INT128):
            return ENCODINGS | 1 << _BYTE_STREAM_SPLIT | 1 << _DELTA_BINARY_PACKED
        return ENCODINGS | 1 << _BYTE_STREAM_SPLIT


class NumberLayouts(NamedTuple):
    """How columns of numbers and booleans are stored.

    Attributes:
        columns: the name and the layout of each.
        leaves: the number of each in the file's schema.
        encodings: the encodings that the values of each may have.
        forms: a row for each: `stored`, `width`, `conversion` and `level` of its layout.
    """

    columns: list[tuple[str, Layout]]
    leaves: npt.NDArray[np.intp]
    encodings: npt.NDArray[np.int64]
    forms: npt.NDArray[np.int64]

    @classmethod
    def of(cls, columns: Iterable[tuple[str, int, Layout]]) -> NumberLayouts:
        """Takes those of some columns, each with its name, its leaf and its layout."""
        found = [column for column in columns if not column[2].is_text]
        layouts = [layout for _, _, layout in found]
        forms = [(layout.stored, layout.width, layout.conversion, layout.level) for layout in layouts]
        return cls(
            [(name, layout) for name, _, layout in found],
            np.array([leaf for _, leaf, _ in found], np.intp),
            np.array([layout.encodings for layout in layouts], np.int64),
            np.array(forms, np.int64).reshape(-1, 4),
        )


@dataclass(frozen=True, slots=True)
class ListLayout:
    """How a column of lists or maps is stored.

    Attributes:
        type: the plain type of the column.
        level: the definition level from which on a list is not null; items have higher ones.
        leaves: the leaf of each value in the file's schema: of the items, or of the fields of their structs; of a map
            of the keys first.
        layouts: how each of them is decoded.
        structs: the structs around the lists, as in `Layout`.
    """

    type: pa.DataType
    level: int
    leaves: tuple[int, ...]
    layouts: tuple[Layout, ...]
    structs: tuple[tuple[pa.DataType, int], ...]


def _fixed(column: pq.ColumnSchema, kind: pa.DataType) -> tuple[int, int, int] | None:
    """Bytes stored, bytes decoded and conversion of a type of fixed width; None if PyArrow must read it."""
    physical, is_decimal = column.physical_type, pa.types.is_decimal128(kind)
    if physical == "FIXED_LEN_BYTE_ARRAY":
        length = int(column.length)
        if is_decimal and 0 < length <= 16:
            return length, 16, pages.BIG_ENDIAN_TO_INT128
        same = pa.types.is_fixed_size_binary(kind) and kind.byte_width == length > 0
        return (length, length, pages.SAME) if same else None
    types = pa.types
    if physical == "INT32":
        if is_decimal:
            return 4, 16, pages.INT32_TO_INT128
        time = types.is_time32(kind) and _has_unit(column, kind)
        same = time or types.is_int32(kind) or types.is_date32(kind)
        return (4, 4, pages.SAME) if same else None
    if physical == "INT64":
        if is_decimal:
            return 8, 16, pages.INT64_TO_INT128
        time = (types.is_time64(kind) or types.is_timestamp(kind)) and _has_unit(column, kind)
        return (8, 8, pages.SAME) if time or types.is_int64(kind) else None
    if (physical, kind) == ("FLOAT", pa.float32()):
        return 4, 4, pages.SAME
    return (8, 8, pages.SAME) if (physical, kind) == ("DOUBLE", pa.float64()) else None


def _has_unit(column: pq.ColumnSchema, kind: Any) -> bool:
    unit = _UNITS.get(kind.unit)
    return unit is not None and f"timeUnit={unit}" in str(column.logical_type)


TEXTS = {
    pa.string(): pa.string_view(),
    pa.large_string(): pa.string_view(),
    pa.binary(): pa.binary_view(),
    pa.large_binary(): pa.binary_view(),
}
"""The view type of each plain type of texts and bytes."""


def layout_of(
    column: pq.ColumnSchema, fields: Sequence[pa.Field], *, views: bool = False, list_level: int | None = None
) -> Layout | None:
    """Returns how a column is decoded; None if PyArrow must read it.

    Args:
        column: the column in the file's schema.
        fields: the structs around it and the column itself, from the outermost, as PyArrow reads them.
        views: decode texts and bytes to views, outside of structs.
        list_level: for a value in a list, whose fields begin with the item: the definition level from which on the
            list is not null.
    """
    base = 0 if list_level is None else list_level + 1
    levels = [base + n for n in accumulate(int(field.nullable) for field in fields)]
    if column.max_repetition_level != int(list_level is not None):
        return None
    if column.max_definition_level != levels[-1] or levels[-1] > _MOST_LEVEL:
        return None
    *around, leaf = fields
    kind = plain_type(leaf.type)
    structs, inner = [], leaf.with_type(kind)
    for field, level in zip(reversed(around), levels[-2::-1], strict=True):
        structs.append((pa.struct([inner]), level))
        inner = field.with_type(structs[-1][0])
    rest = levels[-1], tuple(structs)
    if column.physical_type == "BYTE_ARRAY" and kind in TEXTS:
        return Layout(TEXTS[kind] if views and not around else kind, 0, 16, 0, *rest)
    if column.physical_type == "BOOLEAN" and pa.types.is_boolean(kind):
        return Layout(kind, 0, 1, 0, *rest)
    found = _fixed(column, kind)
    return None if found is None else Layout(kind, *found, *rest)


def items_of(kind: pa.DataType) -> list[tuple[pa.Field, ...]] | None:
    """Returns the fields from an item of a list or map down to each value; None if there are lists inside them."""
    if pa.types.is_map(kind):
        items = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = [kind.value_field]
    else:
        return None
    fields = [path for item in items for path in values_below(item)]
    return None if any(pa.types.is_nested(path[-1].type) for path in fields) else fields


def values_below(field: pa.Field) -> Iterator[tuple[pa.Field, ...]]:
    """Yields the fields from a field down to each value of its structs; a struct without fields stands for itself."""
    if not pa.types.is_struct(field.type) or field.type.num_fields == 0:
        yield (field,)
        return
    for child in field.type:
        yield from ((field, *path) for path in values_below(child))
