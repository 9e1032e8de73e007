"""Converts Arrow arrays to plain types: without views, dictionaries, run ends and extension types, at every depth, in
aligned buffers.

Arrow has no filter, no cast or a wrong cast for some layouts of files and data frames: it cannot filter
`string_view`, cannot cast a run-end encoded array, and its cast from `list_view` loses the lists after a null
(Arrow 26). Arrays are converted to plain types first. The rest of this package handles plain types only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin_fast._alignment import aligned

FLAT_IDS = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
        *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s")),
        *(pa.time64("us"), pa.timestamp("us"), pa.decimal128(1), pa.string(), pa.large_string()),
        *(pa.binary(), pa.large_binary(), pa.binary(1)),
    )
)
"""The ids of types that are plain and have no types inside them."""

_BOOL8 = getattr(pa, "Bool8Type", ())


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with plain types; the metadata of fields is preserved."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The plain type of a type: the type itself if it and all types inside it are plain."""
    if kind.id in FLAT_IDS:
        return kind
    if isinstance(kind, _BOOL8):
        return pa.bool_()
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _large(plain_type(kind.value_type))
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(plain_type(key.type)), item.with_type(plain_type(item.type)))
    if _is_list(kind):
        value = kind.value_field.with_type(plain_type(kind.value_type))
        if value.type == kind.value_type and not _is_list_view(kind):
            return kind
        return pa.large_list(value)
    return kind


def plain(array: pa.Array) -> pa.Array:
    """The same values as an array of the plain type, in aligned buffers."""
    array = aligned(array)
    kind = array.type
    if kind.id in FLAT_IDS:
        return array
    wanted = plain_type(kind)
    if wanted == kind:
        return array
    if isinstance(kind, _BOOL8):
        return array.storage.cast(wanted)
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(kind):
        return pc.take(plain(array.dictionary).cast(wanted), array.indices)
    if pa.types.is_run_end_encoded(kind):
        ends = array.run_ends.to_numpy()
        runs = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), side="right")
        return pc.take(plain(array.values).cast(wanted), pa.array(runs))
    if pa.types.is_struct(kind):
        children = [plain(array.field(at)) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null_mask(array))
    if pa.types.is_map(kind):
        return with_values(array, wanted, plain, plain)
    if _is_list(kind):
        return with_values(array, wanted, plain)
    return array.cast(wanted)


def decoded(array: pa.Array) -> pa.Array:
    """The values of a dictionary array in the type of its dictionary, or in that of longer offsets if these have too
    many bytes for it; other arrays as they are."""
    if not isinstance(array, pa.DictionaryArray):
        return array
    try:
        return array.dictionary_decode()
    except pa.ArrowInvalid:
        kind = array.dictionary.type
        wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind)
        if wide is None:
            raise
        return pc.take(array.dictionary.cast(wide), array.indices)


def plain_rows(rows: pa.Table) -> pa.Table:
    """Returns the rows in columns of plain types."""
    schema = plain_schema(rows.schema)
    return pa.Table.from_batches(
        (
            pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], schema=schema)
            for batch in rows.to_batches()
        ),
        schema,
    )


def array_of(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Returns contiguous values as an array without nulls of a type of their width; faster than `pa.array`."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def text_columns(schema: pa.Schema) -> list[int]:
    """Returns the numbers of the columns that have text, at any depth."""
    return [at for at, kind in enumerate(schema.types) if _has_text(kind)]


def check_text(column: pa.Array) -> None:
    """Checks that text is UTF-8, at any depth; Arrow's readers do not check it.

    Raises:
        pa.ArrowInvalid: a text is not UTF-8. The message does not contain the text.
    """
    if _has_text(column.type):
        column.validate(full=True)


def _has_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _has_text(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_has_text(kind.field(at).type) for at in range(kind.num_fields))
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array; `combine_chunks` makes no empty array of nested extension types."""
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def with_values(array: Any, wanted: pa.DataType, *changes: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Returns lists with changed values, or maps with changed keys and items.

    Args:
        array: lists or maps of any layout.
        wanted: the type of the result: a list, a large list or a map.
        changes: functions that change the values, or the keys and the items.
    """
    if pa.types.is_map(wanted):
        offsets, *parts = map_parts(array)
        keys, items = (change(part) for change, part in zip(changes, parts, strict=True))
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), keys, items, type=wanted, mask=null_mask(array)
        )
    (change,) = changes
    offsets, values = list_parts(array)
    is_large = pa.types.is_large_list(wanted)
    make, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
    return make.from_arrays(pa.array(offsets, width), change(values), type=wanted, mask=null_mask(array))


def decoder(schema: pa.Schema) -> Callable[[pa.Table], pa.Table] | None:
    """Returns `plain_rows` for rows with a column that is not of a plain type, else None."""
    return None if plain_schema(schema) == schema else plain_rows


def is_view(kind: pa.DataType) -> bool:
    """Whether a type is a view type of text or bytes."""
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def null_mask(array: pa.Array) -> pa.BooleanArray | None:
    """A mask that is true where a value is null; None if no value is."""
    return array.is_null() if array.null_count else None


def list_parts(array: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Returns the offsets and the values of lists of any layout; a null list has no values.

    Returns:
        `len(array) + 1` offsets from 0, int64, and the values that they refer to.
    """
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        found = _parts(array, array.values)
        if found is not None:
            return found
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return _offsets(lengths), array.flatten()


def map_parts(array: pa.MapArray) -> tuple[npt.NDArray[np.int64], pa.Array, pa.Array]:
    """Returns the offsets, the keys and the values of maps; a null map has no entries."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    found = _parts(array, entries)
    if found is None:
        lists = pa.ListArray.from_arrays(array.offsets, entries)
        null = array.is_null().to_numpy(zero_copy_only=False)
        lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)
        used = np.repeat(~null, lengths)
        found = _offsets(np.where(null, 0, lengths)), lists.flatten().filter(pa.array(used))
    offsets, entries = found
    return offsets, entries.field(0), entries.field(1)


def _parts(array: Any, values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array] | None:
    """Offsets and values without a copy; None if a null list has values."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    if array.null_count and np.diff(offsets)[array.is_null().to_numpy(zero_copy_only=False)].any():
        return None
    first = int(offsets[0])
    return offsets - first, values.slice(first, int(offsets[-1]) - first)


def _offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _large(kind: pa.DataType) -> pa.DataType:
    """Text and bytes with 64-bit offsets: repeated values may exceed 2 GiB in total."""
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or _is_list_view(kind)
    )
