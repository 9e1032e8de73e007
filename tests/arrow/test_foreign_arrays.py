"""Invalid arrays of other libraries raise errors of this package, without a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import arrow, dv, errors
from puffin_fast._kernels.roaring import batch
from puffin_fast.bitmap import PositionBitmap

BLOB = dv.iceberg.encode(PositionBitmap.from_positions([1, 5, 70_000]))


def _lists(offsets: list[int], items: pa.Array, kind: type = np.int32) -> pa.Array:
    """A list array with unchecked offsets, as the C interface delivers it."""
    types = {np.int32: pa.list_, np.int64: pa.large_list}
    buffer = pa.py_buffer(np.array(offsets, kind))
    return pa.Array.from_buffers(types[kind](items.type), len(offsets) - 1, [None, buffer], children=[items])


def _binary(offsets: list[int], data: bytes) -> pa.Array:
    buffer = pa.py_buffer(np.array(offsets, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, buffer, pa.py_buffer(data)])


ITEMS = pa.array([1, 2, 3], pa.int64())
BLOBS = pa.array([BLOB] * 3, pa.binary())


@pytest.mark.parametrize("offsets", [[0, 3, 1, 3], [2, 1, 3], [0, -1, 3], [0, 1 << 30, 3]], ids=str)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_lists_whose_offsets_do_not_ascend_are_refused(offsets: list[int], kind: type) -> None:
    with pytest.raises(errors.InvalidInputError):
        arrow.encode(_lists(offsets, ITEMS, kind))
    with pytest.raises(errors.InvalidInputError):
        arrow.union(_lists(offsets, BLOBS, kind))


@pytest.mark.parametrize("offsets", [[0, 40, 20, 60], [0, -20, 60], [0, 1 << 30, 60]], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        arrow.decode,
        arrow.cardinality,
        lambda blobs: arrow.contains(blobs, 1),
        lambda blobs: arrow.mask(blobs, 10),
        lambda blobs: arrow.union(pa.LargeListArray.from_arrays(pa.array([0, len(blobs)]), blobs)),
    ],
    ids=["decode", "cardinality", "contains", "mask", "union"],
)
def test_blobs_whose_offsets_do_not_ascend_are_refused(offsets: list[int], call: Callable[..., Any]) -> None:
    with pytest.raises(errors.InvalidInputError):
        call(_binary(offsets, 2 * BLOB))


def test_kernels_refuse_offsets_past_what_they_point_into() -> None:
    """The last guard, whatever the callers check."""
    three, far = np.arange(3, dtype=np.int64), np.array([0, 4], np.int64)
    for offsets in (far, np.array([-1, 3], np.int64)):
        with pytest.raises(errors.InvalidInputError):
            batch.encode_lists(three, offsets, 1, 10)
        with pytest.raises(errors.InvalidInputError):
            batch.decode_blobs(b"abc", offsets, 1, str)
    with pytest.raises(ValueError, match="offsets"):
        batch.encode_lists(three, far, 2, 10)
    for ids in ([0, 1, 2], [0, -1, 1]):
        with pytest.raises(errors.InvalidInputError):
            batch.group(np.array(ids, np.int32), three, 2)
    with pytest.raises(ValueError, match="3 ids and 2 values"):
        batch.group(np.array([0, 1, 0], np.int32), three[:2], 2)


@pytest.mark.parametrize("index", [2, 50_000_000, -1, (1 << 31) - 1])
def test_dictionary_indices_past_the_dictionary_are_refused(index: int) -> None:
    def column(values: list[Any]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array([index, 0], pa.int32()), pa.array(values), safe=False)

    for call in (
        lambda: arrow.encode_grouped(column(["a", "b"]), [1, 2]),
        lambda: arrow.contains(column([BLOB, BLOB]), [1, 2]),
        lambda: arrow.decode(column([BLOB, BLOB])),
        lambda: PositionBitmap.from_positions(column([3, 4])),
    ):
        with pytest.raises(errors.InvalidInputError, match="indices"):
            call()


def test_lists_without_any_offsets_are_no_lists() -> None:
    """Arrow allows an empty array to come without the buffer of offsets."""
    empty = pa.Array.from_buffers(pa.list_(pa.int64()), 0, [None, None], children=[pa.array([], pa.int64())])
    assert len(arrow.encode(empty)) == 0
    with pytest.raises(errors.InvalidInputError):
        arrow.encode(pa.array([], pa.list_(pa.string())))


@pytest.mark.parametrize(
    "n_rows", [[1 << 62] * 4, [1 << 63] * 4, [1 << 60, 1, 1, 1], [5, 5, 5, -1], 1 << 59, 10**30, -1]
)
def test_masks_of_impossible_numbers_of_rows_are_refused(n_rows: Any) -> None:
    """Four times 2^62 wraps to nothing, which once wrote 2^62 bytes into it."""
    with pytest.raises(errors.InvalidInputError, match="n_rows"):
        arrow.mask(pa.array([BLOB] * 4), n_rows)


@pytest.mark.parametrize("rows", [[0, 1, 0, 3], [7, 9, 65_536, 70_001], [64, 63, 1, 80_000], [70_003] * 4])
def test_masks_of_a_column_follow_each_other_bit_by_bit(rows: list[int]) -> None:
    rng = np.random.default_rng(sum(rows))
    bitmaps = [
        PositionBitmap.from_positions(rng.integers(0, 80_000, count)) for count in (3, 50, 30_000, 60_000)
    ]
    blobs = pa.array([dv.iceberg.encode(bitmap) for bitmap in bitmaps])
    masks = arrow.mask(blobs, rows)
    masks.validate(full=True)
    for found, bitmap, n_rows in zip(masks, bitmaps, rows, strict=True):
        assert (found.values.to_numpy(zero_copy_only=False) == bitmap.mask(n_rows)).all()
