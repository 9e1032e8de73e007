"""Arrow arrays with invalid buffers, and buffers that another thread writes to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

LYING = {
    "list view": """
views = pa.ListViewArray.from_arrays(
    pa.array([0, 1 << 20], pa.int32()), pa.array([2, 1 << 28], pa.int32()), pa.array([1, 2, 3])
)
refuses(errors.InvalidInputError, lambda: arrow.encode(views), "lists")
""",
    "large list view": """
views = pa.LargeListViewArray.from_arrays(
    pa.array([0, -(1 << 40)], pa.int64()), pa.array([2, 9], pa.int64()), pa.array([1, 2, 3])
)
refuses(errors.InvalidInputError, lambda: arrow.encode(views), "lists")
blobs = pa.LargeListViewArray.from_arrays(
    pa.array([1 << 50], pa.int64()), pa.array([1], pa.int64()), pa.array([b"x"])
)
refuses(errors.InvalidInputError, lambda: arrow.union(blobs), "lists")
""",
    "binary view": """
import struct
view = struct.pack("<i4sii", 100, b"abcd", 0, 1 << 30)
blobs = pa.Array.from_buffers(pa.binary_view(), 1, [None, pa.py_buffer(view), pa.py_buffer(b"x" * 100)])
for read in (arrow.decode, arrow.cardinality, lambda b: arrow.mask(b, 5), lambda b: arrow.contains(b, 5)):
    refuses(errors.InvalidInputError, lambda: read(blobs), "blobs")
paths = pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(view), pa.py_buffer(b"x" * 100)])
refuses(errors.InvalidInputError, lambda: arrow.encode_grouped(paths, pa.array([1])), "file_path")
""",
    "offsets of strings": """
offsets = pa.py_buffer(pa.array([0, 1 << 30, 2], pa.int32()).buffers()[1])
paths = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
refuses(errors.InvalidInputError, lambda: arrow.encode_grouped(paths, pa.array([1, 2])), "file_path")
coded = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), paths, safe=False)
refuses(errors.InvalidInputError, lambda: arrow.encode_grouped(coded, pa.array([1, 2])), "file_path")
""",
    "offsets of binary values": """
offsets = pa.py_buffer(pa.array([0, 1 << 30, 2], pa.int32()).buffers()[1])
blobs = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"ab")])
refuses(errors.InvalidInputError, lambda: arrow.decode(blobs))
coded = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), blobs, safe=False)
refuses(errors.InvalidInputError, lambda: arrow.contains(coded, 5), "blobs")
""",
    "run ends": """
values = pa.Array.from_buffers(
    pa.run_end_encoded(pa.int32(), pa.int64()), 1 << 20, [None],
    children=[pa.array([5, -3, 1 << 20], pa.int32()), pa.array([1, 2, 3])],
)
refuses(errors.InvalidInputError, lambda: arrow.contains(pa.array([b""] * 8), values))
""",
}

WRITES_MEANWHILE = """
import threading
import numpy as np

bits = (np.random.default_rng(5).random(1 << 19) < 0.5).nonzero()[0]
sparse, runs = np.arange(1, 1 << 18, 9), np.arange(1 << 19)
made = [arrow.encode(pa.array([some + (k << 20) for k in range(2)] * 2)) for some in (bits, sparse, runs)]
memories = [np.frombuffer(blobs.buffers()[2], np.uint8).copy() for blobs in made]
columns = [
    pa.Array.from_buffers(pa.binary(), len(blobs), [None, blobs.buffers()[1], pa.py_buffer(memory)])
    for blobs, memory in zip(made, memories)
]
done = threading.Event()

def scribble():
    random = np.random.default_rng(6)
    originals = [memory.copy() for memory in memories]
    while not done.is_set():
        for memory, original in zip(memories, originals):
            at = random.integers(0, len(memory), 64)
            memory[at] = random.integers(0, 256, 64)
            memory[8 : 200] ^= 0xFF
            memory[:] = original

threads = [threading.Thread(target=scribble) for _ in range(2)]
for thread in threads:
    thread.start()
calls = [
    arrow.decode, arrow.cardinality, lambda b: arrow.mask(b, 1 << 20), lambda b: arrow.contains(b, 77),
    lambda b: arrow.union(pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), b)),
    lambda b: arrow.union(pa.ListArray.from_arrays(pa.array([0, 4], pa.int32()), b)),
    lambda b: arrow.difference(b, b), lambda b: arrow.difference(b.slice(1), b.slice(0, 3)),
]
refused = 0
for _ in range(60):
    for column in columns:
        for call in calls:
            try:
                call(column)
            except (errors.CorruptDataError, errors.InvalidInputError):
                refused += 1
done.set()
for thread in threads:
    thread.join()
assert refused
"""

FALSE_BITMAPS = """
from puffin_fast._kernels.roaring import stored

bitmap = PositionBitmap.from_positions([1, 2, 1 << 40])
data = bitmap.to_bytes()
assert stored.of_bytes(PositionBitmap, data, 0, len(data)) == bitmap
for name in ("_data", "_start", "_stop", "_cardinality"):
    refuses(AttributeError, lambda: setattr(bitmap, name, 1 << 40))
refuses(TypeError, lambda: stored.of_bytes(PositionBitmap, bytearray(data), 0, len(data)), "bytes")
refuses(ValueError, lambda: stored.of_bytes(PositionBitmap, data, 0, len(data) + 1), "not inside")
refuses(ValueError, lambda: stored.of_bytes(PositionBitmap, data, 9, 8), "not inside")
for other in (int, type, type(None), str, object):
    refuses(TypeError, lambda: stored.of_bytes(other, data, 0, len(data)), "type of bitmaps")
refuses(errors.InvalidInputError, lambda: stored.union(PositionBitmap, [bitmap, None]), "bitmap", "NoneType")
refuses(ValueError, lambda: PositionBitmap.from_positions([1, 2])._decode_into(bytearray(15)), "needed")
for empty in (stored.StoredBitmap(), PositionBitmap.__new__(PositionBitmap)):
    assert len(empty) == 0 and not empty and (empty | empty)._data == bytes(8) and empty.isdisjoint(bitmap)
"""


@pytest.mark.parametrize("lie", LYING)
def test_arrays_that_lie_about_their_buffers_are_refused(confined: Callable[..., int], lie: str) -> None:
    confined(LYING[lie], limit_mib=256)


def test_blobs_that_change_meanwhile_give_an_error_or_positions(confined: Callable[..., int]) -> None:
    confined(WRITES_MEANWHILE, limit_mib=1024)


def test_only_checked_bytes_make_a_bitmap(confined: Callable[..., int]) -> None:
    confined(FALSE_BITMAPS, limit_mib=256)
