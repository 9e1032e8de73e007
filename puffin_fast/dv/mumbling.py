"""The Mumbling bitmap: small sets for inline storage in metadata. It is a draft of Iceberg and may change.

    bitmap     u8 version 1 | u24 LE cardinality | u16 LE n containers | descriptors | containers
    container  256 positions each: sparse (fewer than 32: their low bytes, ascending) or dense (32 bytes, the first
               position is the most significant bit)
    descriptor one byte per container: 0 to 31 the bytes of a sparse one, 32 to 63 dense
    PFOR       descriptors in chunks of 256:
               u8 b1 (low half) and b2 (high half) | u8 e | u8 m | values - m, b1 bits each | offsets of e exceptions |
               their high parts, b2 bits each; bits from the most significant on, padded with zeros to a byte

Source: Iceberg's draft "Mumbling Bitmap Spec", version 1.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from puffin_fast._positions import as_bytes
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv._counted import counted
from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError

__all__ = ["MAX_CONTAINERS", "MAX_POSITION", "VERSION", "decode", "encode"]


def __dir__() -> list[str]:
    return sorted(__all__)


VERSION = 1
MAX_CONTAINERS = 8_192
POSITIONS = 256
"""Number of positions of a container, and of descriptors of a chunk."""
MAX_POSITION = MAX_CONTAINERS * POSITIONS - 1

_HEAD_BYTES, _CHUNK_HEAD_BYTES = 6, 3
_DENSE, _DENSE_BYTES = 32, 32
_Bytes = npt.NDArray[np.uint8]


def encode(bitmap: PositionBitmap) -> bytes:
    """Encodes a set as a bitmap.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap.
        LimitExceededError: a position above 2,097,151.

    Examples:
        >>> blob = pf.dv.mumbling.encode(pf.PositionBitmap([3, 1]))
        >>> len(blob)
        11
    """
    if not isinstance(bitmap, PositionBitmap):
        raise InvalidInputError(f"mumbling bitmap: expected a PositionBitmap, found {type(bitmap).__name__}")
    if bitmap and bitmap.max() > MAX_POSITION:
        raise LimitExceededError(
            f"mumbling bitmap: expected positions up to {MAX_POSITION}, found {bitmap.max()}"
        )
    positions = bitmap.to_numpy().astype(np.int64)
    n = int(positions[-1]) // POSITIONS + 1 if len(positions) else 0
    counts = np.bincount(positions // POSITIONS, minlength=n)
    descriptors = np.minimum(counts, _DENSE).astype(np.uint8)
    ends = np.cumsum(counts)
    low = (positions % POSITIONS).astype(np.uint8)
    containers = []
    for at in np.flatnonzero(counts).tolist():
        values = low[ends[at] - counts[at] : ends[at]]
        if len(values) >= _DENSE:
            flags = np.zeros(POSITIONS, np.uint8)
            flags[values] = 1
            values = np.packbits(flags)
        containers.append(values.tobytes())
    head = struct.pack("<BHBH", VERSION, len(positions) & 0xFFFF, len(positions) >> 16, n)
    return head + _pack(descriptors) + b"".join(containers)


def decode(
    blob: Any, *, cardinality: int | None = None, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """Decodes a bitmap; all rules of the draft are checked.

    Args:
        blob: any contiguous buffer that holds exactly one bitmap.
        cardinality: number of positions in the metadata; None if it is unknown.
        path, offset: the place of the bitmap, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed bitmap, or have another number of positions.

    Examples:
        >>> pf.dv.mumbling.decode(pf.dv.mumbling.encode(pf.PositionBitmap([3, 1])))
        PositionBitmap([1, 3])
    """
    reader = _Reader(np.frombuffer(as_bytes(blob, "mumbling bitmap", offset), np.uint8), path, offset)
    version, low, high, n = struct.unpack("<BHBH", reader.take(_HEAD_BYTES, "header").tobytes())
    declared = high << 16 | low
    if version != VERSION:
        reader.refuse("version of a mumbling bitmap", VERSION, version, 0)
    if n > MAX_CONTAINERS:
        reader.refuse("containers of a mumbling bitmap", f"at most {MAX_CONTAINERS}", n, 4)
    descriptors = [_unpack(reader, min(POSITIONS, n - first)) for first in range(0, n, POSITIONS)]
    found = []
    for at, descriptor in enumerate(np.concatenate(descriptors).tolist() if descriptors else []):
        if descriptor:
            found.append(_container(reader, at, descriptor).astype(np.int64) + at * POSITIONS)
    if reader.at != len(reader.data):
        reader.refuse("trailing bytes of a mumbling bitmap", 0, len(reader.data) - reader.at, reader.at)
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    if declared != len(positions):
        reader.refuse("cardinality of a mumbling bitmap", declared, len(positions), 1)
    bitmap = PositionBitmap.from_positions(positions)
    return counted(bitmap, cardinality, what="mumbling bitmap", path=path, offset=offset)


class _Reader:
    """Reads bytes in order, and raises errors with their offset."""

    def __init__(self, data: _Bytes, path: str | None, offset: int) -> None:
        self.data, self.at = data, 0
        self._path, self._offset = path, offset

    def take(self, n: int, what: str) -> _Bytes:
        left = len(self.data) - self.at
        if n > left:
            self.refuse(f"{what} of a mumbling bitmap", f"{n} bytes", left, self.at)
        self.at += n
        return self.data[self.at - n : self.at]

    def bits(self, count: int, width: int, what: str) -> _Bytes:
        """Reads `count` values of `width` bits."""
        start = self.at
        flags = np.unpackbits(self.take((count * width + 7) // 8, what))
        if flags[count * width :].any():
            self.refuse(f"padding of {what}", 0, "bits that are set", start)
        weights = 1 << np.arange(width - 1, -1, -1)
        values: _Bytes = (flags[: count * width].reshape(count, width) @ weights).astype(np.uint8)
        return values

    def refuse(self, what: str, expected: object, found: object, at: int) -> NoReturn:
        raise CorruptDataError(
            what, path=self._path, offset=self._offset + at, expected=expected, found=found
        )


def _container(reader: _Reader, number: int, descriptor: int) -> _Bytes:
    start = reader.at
    if descriptor >= 2 * _DENSE:
        reader.refuse(f"descriptor of container {number}", "0 to 63", descriptor, start)
    if descriptor >= _DENSE:
        values = np.flatnonzero(np.unpackbits(reader.take(_DENSE_BYTES, f"container {number}")))
        if len(values) < _DENSE:
            reader.refuse(f"positions of dense container {number}", "32 or more", len(values), start)
        return values.astype(np.uint8)
    low = reader.take(descriptor, f"container {number}")
    if not (low[1:] > low[:-1]).all():
        reader.refuse(f"positions of sparse container {number}", "ascending", low.tolist(), start)
    return low


def _pack(values: _Bytes) -> bytes:
    return b"".join(_pack_chunk(values[at : at + POSITIONS]) for at in range(0, len(values), POSITIONS))


def _pack_chunk(values: _Bytes) -> bytes:
    """Encodes a chunk in the smallest form; of two equally small forms in the one with the smaller `b1`."""
    least = values.min()
    over = values - least
    widths = np.array([int(value).bit_length() for value in over])
    widest = int(widths.max())

    def size(b1: int) -> int:
        e = int((widths > b1).sum())
        return (len(values) * b1 + 7) // 8 + e + (e * (widest - b1) + 7) // 8

    b1 = min(range(widest + 1), key=size)
    exceptions = np.flatnonzero(widths > b1)
    b2 = widest - b1 if len(exceptions) else 0
    if b1 == 8:
        least, over = np.uint8(0), values
    head = bytes([b2 << 4 | b1, len(exceptions), least])
    return head + _bits(over, b1) + exceptions.astype(np.uint8).tobytes() + _bits(over[exceptions] >> b1, b2)


def _bits(values: _Bytes, width: int) -> bytes:
    """Returns the low `width` bits of each value, the most significant first."""
    return np.packbits(values[:, None] >> np.arange(width - 1, -1, -1) & 1).tobytes() if width else b""


def _unpack(reader: _Reader, n: int) -> _Bytes:
    start = reader.at
    widths, e, least = reader.take(_CHUNK_HEAD_BYTES, "header of descriptors").tolist()
    b1, b2 = widths & 15, widths >> 4
    if b1 + b2 > 8 or (b1 == 8 and e):
        reader.refuse(
            "bit widths of descriptors", "at most 8 bits, and no exception to 8", f"{b1}, {b2}", start
        )
    values = reader.bits(n, b1, "descriptors").astype(np.int64)
    offsets = reader.take(e, "offsets of exceptions").astype(np.int64)
    if e and not ((offsets[1:] > offsets[:-1]).all() and offsets[-1] < n):
        reader.refuse("offsets of exceptions", f"ascending, below {n}", offsets.tolist(), start)
    values[offsets] += reader.bits(e, b2, "exceptions").astype(np.int64) << b1
    values += least
    if len(values) and values.max() > 255:
        reader.refuse("descriptor", "at most 255", int(values.max()), start)
    return values.astype(np.uint8)
