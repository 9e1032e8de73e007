"""Reads and writes 32-bit Roaring bitmaps, which formats without 64-bit positions store.

ours:    u64 LE 1 | u32 LE key 0 | 32-bit Roaring
theirs:                            32-bit Roaring
"""

from __future__ import annotations

import struct

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError

MAX_POSITION = (1 << 32) - 1
_HEAD = struct.pack("<QI", 1, 0)
_EMPTY = struct.pack("<II", 12346, 0)


def read_bitmap32(
    data: bytes, start: int, stop: int, *, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """Reads a 32-bit bitmap in data[start:stop], and checks all rules of the format.

    Args:
        path, offset: the place of data[0], for errors.

    Raises:
        CorruptDataError: a rule is violated.
    """
    wide = _HEAD + data[start:stop]
    try:
        return PositionBitmap.from_bytes(wide)
    except CorruptDataError as error:
        at = max((error.offset or 0) - len(_HEAD), 0) + start + offset
        raise CorruptDataError(
            error.what, path=path, offset=at, expected=error.expected, found=error.found
        ) from None


def write_bitmap32(bitmap: PositionBitmap, what: str, maximum: int = MAX_POSITION) -> bytes:
    """Writes a set as a 32-bit bitmap.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap.
        LimitExceededError: a position above `maximum`.
    """
    if not isinstance(bitmap, PositionBitmap):
        raise InvalidInputError(f"{what}: expected a PositionBitmap, found {type(bitmap).__name__}")
    if not bitmap:
        return _EMPTY
    if bitmap.max() > maximum:
        raise LimitExceededError(f"{what}: expected positions up to {maximum}, found {bitmap.max()}")
    return bytes(bitmap.view[len(_HEAD) :])
