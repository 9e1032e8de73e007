"""The Puffin blob `deletion-vector-v1`, which Iceberg v3 and Delta's portable records share.

    u32 BE length of (magic + vector) | D1 D3 39 64 | vector: 64-bit portable Roaring | u32 BE CRC-32(magic + vector)

Source: the Puffin specification, "deletion-vector-v1 blob type".
"""

from __future__ import annotations

import struct
from typing import Any

from puffin_fast._positions import MAX_POSITION
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv.checksum import crc32
from puffin_fast.errors import CorruptDataError, InvalidInputError

__all__ = ["BLOB_TYPE", "FIELDS", "MAGIC", "MAX_POSITION", "decode", "encode"]

BLOB_TYPE = "deletion-vector-v1"
FIELDS = (2147483645,)
"""The `fields` of the blob's metadata: the reserved field id of `_pos`."""
MAGIC = b"\xd1\xd3\x39\x64"

_LENGTH_BYTES = 4
_CRC_BYTES = 4
_HEAD_BYTES = _LENGTH_BYTES + len(MAGIC)
_EMPTY_VECTOR_BYTES = 8
_MIN_BYTES = _HEAD_BYTES + _EMPTY_VECTOR_BYTES + _CRC_BYTES
_U32 = struct.Struct(">I")
_MAX_LENGTH = (1 << 31) - 1  # Java reads the length as a signed integer


def encode(bitmap: PositionBitmap) -> bytes:
    """The blob of a set.

    Raises:
        InvalidInputError: a position above MAX_POSITION, or a blob past 2 GiB.
    """
    length = len(MAGIC) + bitmap.n_bytes
    if length > _MAX_LENGTH:
        raise InvalidInputError(f"deletion vector: expected at most {_MAX_LENGTH} bytes, found {length}")
    if bitmap and bitmap.max() > MAX_POSITION:
        raise InvalidInputError(
            f"deletion vector: expected positions up to {MAX_POSITION}, found {bitmap.max()}"
        )
    vector = bitmap.view
    return b"".join((_U32.pack(length), MAGIC, vector, _U32.pack(crc32(vector, crc32(MAGIC)))))


def decode(
    blob: Any, *, cardinality: int | None = None, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """The set of a blob; magic, length and checksum are checked before meaning, then every rule of the format.

    Args:
        blob: any contiguous buffer that holds exactly one blob; `bytes` are read in place, others copied.
        cardinality: how many positions the metadata says there are; None: not known.
        path, offset: where the blob lies, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed blob, or hold another number of positions.
    """
    if not isinstance(blob, bytes):
        blob = bytes(blob)
    if len(blob) < _MIN_BYTES:
        raise CorruptDataError(
            "deletion vector is too short", path=path, offset=offset, expected=f"at least {_MIN_BYTES} bytes",
            found=len(blob),
        )  # fmt: skip
    if blob[_LENGTH_BYTES:_HEAD_BYTES] != MAGIC:
        raise CorruptDataError(
            "magic of a deletion vector", path=path, offset=offset + _LENGTH_BYTES, expected=MAGIC.hex(),
            found=blob[_LENGTH_BYTES:_HEAD_BYTES].hex(),
        )  # fmt: skip
    (length,) = _U32.unpack_from(blob)
    if length != len(blob) - _LENGTH_BYTES - _CRC_BYTES:
        raise CorruptDataError(
            "length of magic and vector", path=path, offset=offset, expected=len(blob) - _LENGTH_BYTES - _CRC_BYTES,
            found=length,
        )  # fmt: skip
    stop = len(blob) - _CRC_BYTES
    (stored,) = _U32.unpack_from(blob, stop)
    found = crc32(memoryview(blob)[_LENGTH_BYTES:stop])
    if stored != found:
        raise CorruptDataError(
            "CRC-32 of magic and vector", path=path, offset=offset + stop, expected=f"{stored:08x}",
            found=f"{found:08x}",
        )  # fmt: skip
    bitmap = PositionBitmap._from_slice(blob, _HEAD_BYTES, stop, path, offset + _HEAD_BYTES)
    if cardinality is not None and len(bitmap) != cardinality:
        raise CorruptDataError(
            "cardinality of a deletion vector",
            path=path,
            offset=offset,
            expected=cardinality,
            found=len(bitmap),
        )
    return bitmap
