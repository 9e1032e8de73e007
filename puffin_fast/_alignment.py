"""Arrow arrays whose buffers begin at multiples of the size of their values.

Arrow recommends aligned buffers and does not require them: messages of Flight, sockets and Spark's executors have
buffers at other addresses, 16-byte decimals at multiples of 8. Arrow's Rust library, which PyIceberg's transforms use,
panics there.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

_WIDE = frozenset(
    kind.id for kind in (pa.decimal128(1), pa.decimal256(1), pa.month_day_nano_interval())
) | frozenset(kind().id for kind in (pa.string_view, pa.binary_view))
"""The ids of types with values of 16 bytes; all others have at most 8."""


def _alignment(kind: pa.DataType) -> int:
    """The alignment of the buffers of a type, in bytes."""
    while isinstance(kind, pa.BaseExtensionType):  # those of Python need not be hashable
        kind = kind.storage_type
    return _known_alignment(kind)


@cache
def _known_alignment(kind: pa.DataType) -> int:
    inside = [_alignment(kind.field(at).type) for at in range(kind.num_fields)]
    return max(inside, default=16 if kind.id in _WIDE else 8)


def aligned(array: pa.Array) -> pa.Array:
    """Returns the array; a copy if a buffer is not aligned."""
    if isinstance(array, pa.DictionaryArray):
        indices, values = aligned(array.indices), aligned(array.dictionary)
        if indices is array.indices and values is array.dictionary:
            return array
        return pa.DictionaryArray.from_arrays(indices, values, ordered=array.type.ordered, safe=False)
    step = _alignment(array.type)
    if all(buffer is None or buffer.address % step == 0 for buffer in array.buffers()):
        return array
    return pa.concat_arrays([array])


def aligned_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch; columns with buffers that are not aligned are copied."""
    return pa.RecordBatch.from_arrays([aligned(column) for column in batch.columns], schema=batch.schema)
