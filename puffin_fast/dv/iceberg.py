"""The Puffin blob `deletion-vector-v1`, which Iceberg v3 and Delta's portable records share.

    u32 BE length of (magic + vector) | D1 D3 39 64 | vector: 64-bit portable Roaring | u32 BE CRC-32(magic + vector)

Source: the Puffin specification, "deletion-vector-v1 blob type".
"""

from __future__ import annotations

from typing import Any

from puffin_fast._kernels.roaring import frames, stored
from puffin_fast._positions import MAX_POSITION, as_bytes
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv._counted import counted
from puffin_fast.errors import InvalidInputError

__all__ = [
    "BLOB_TYPE",
    "FIELDS",
    "FRAME_BYTES",
    "MAGIC",
    "MAX_POSITION",
    "ROW_POSITION_FIELD_ID",
    "decode",
    "encode",
]


def __dir__() -> list[str]:
    return sorted(__all__)


BLOB_TYPE = "deletion-vector-v1"
ROW_POSITION_FIELD_ID = 2147483645
"""The reserved field id of `_pos` (table specification, "Reserved Field IDs")."""

FIELDS = (ROW_POSITION_FIELD_ID,)
"""The `fields` of the blob's metadata."""
MAGIC: bytes = frames.MAGIC
FRAME_BYTES = 4 + len(MAGIC) + 4
"""Bytes of a blob in addition to the vector: length, magic, CRC-32."""


def encode(bitmap: PositionBitmap) -> bytes:
    """Encodes a set as a blob.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap.
        LimitExceededError: the blob would exceed 2 GiB.

    Examples:
        >>> blob = pf.dv.iceberg.encode(pf.PositionBitmap([3, 1]))
        >>> len(blob)
        44
    """
    if not isinstance(bitmap, PositionBitmap):
        raise InvalidInputError(f"deletion vector: expected a PositionBitmap, found {type(bitmap).__name__}")
    return bitmap.to_blob()


def decode(
    blob: Any, *, cardinality: int | None = None, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """Decodes a blob; magic, length and checksum are checked first, then all rules of the format.

    Args:
        blob: any contiguous buffer that holds exactly one blob; `bytes` are read in place, others copied.
        cardinality: number of positions in the metadata; None if it is unknown.
        path, offset: the place of the blob, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed blob, or have another number of positions.

    Examples:
        >>> pf.dv.iceberg.decode(pf.dv.iceberg.encode(pf.PositionBitmap([3, 1])))
        PositionBitmap([1, 3])
    """
    if type(blob) is not bytes or type(offset) is not int or offset >> 63:
        blob = as_bytes(blob, "deletion vector", offset)
    bitmap = stored.of_blob(PositionBitmap, blob, path, offset)
    return bitmap if cardinality is None else counted(bitmap, cardinality, path=path, offset=offset)
