"""Paimon's deletion vectors: records of index files, in two versions, which may occur in one table.

    V1     u32 BE length of (magic + bitmap) | 5E 43 F2 D0 | 32-bit Roaring | u32 BE CRC-32(magic + bitmap)
    V2     an Iceberg blob, byte for byte (table option `deletion-vectors.bitmap64`)
    file   u8 version 1 | records

In the index manifest, the length of a record is that of magic and bitmap for V1, and of the whole record for V2.

Source: Paimon's specification, "Deletion Vectors Index", and its Java classes.
"""

from __future__ import annotations

from typing import Any

from puffin_fast._positions import as_bytes
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg
from puffin_fast.dv._bitmap32 import read_bitmap32, write_bitmap32
from puffin_fast.dv._counted import counted
from puffin_fast.dv._frame import FILE_VERSION, check_frame, frame
from puffin_fast.errors import CorruptDataError, InvalidInputError

__all__ = [
    "FILE_VERSION",
    "FRAME_BYTES",
    "MAGIC_V1",
    "MAGIC_V2",
    "MAX_POSITION_V1",
    "decode",
    "encode",
    "version_of",
]


def __dir__() -> list[str]:
    return sorted(__all__)


MAGIC_V1 = bytes.fromhex("5e43f2d0")
MAGIC_V2 = iceberg.MAGIC
FRAME_BYTES = 8
"""Bytes of length and checksum, which a record has in addition to magic and bitmap."""
MAX_POSITION_V1 = (1 << 31) - 1
"""The largest position that Paimon writes to a V1 vector."""


def encode(bitmap: PositionBitmap, *, version: int = 2) -> bytes:
    """Encodes a set as a record.

    Args:
        bitmap: the deleted positions.
        version: 2, or 1 for tables without `deletion-vectors.bitmap64`.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap, or the version is not 1 or 2.
        LimitExceededError: a position above 2^31 - 1 in V1, or a record past 2 GiB.

    Examples:
        >>> blob = pf.dv.paimon.encode(pf.PositionBitmap([3, 1]))
        >>> len(blob)
        44
    """
    if version == 2:
        return iceberg.encode(bitmap)
    if version != 1:
        raise InvalidInputError(f"version: expected 1 or 2, found {version!r}")
    return frame(MAGIC_V1, write_bitmap32(bitmap, "deletion vector of version 1", MAX_POSITION_V1))


def decode(
    blob: Any, *, cardinality: int | None = None, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """Decodes a record of either version.

    Args:
        blob: any contiguous buffer that holds exactly one record.
        cardinality: number of positions in the index manifest; None if it is unknown.
        path, offset: the place of the record, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed record, or have another number of positions.

    Examples:
        >>> pf.dv.paimon.decode(pf.dv.paimon.encode(pf.PositionBitmap([3, 1])))
        PositionBitmap([1, 3])
    """
    data = as_bytes(blob, "deletion vector", offset)
    if data[4:8] != MAGIC_V1:
        return iceberg.decode(data, cardinality=cardinality, path=path, offset=offset)
    start, stop = check_frame(data, MAGIC_V1, least=8, path=path, offset=offset)
    bitmap = read_bitmap32(data, start, stop, path=path, offset=offset)
    return counted(bitmap, cardinality, path=path, offset=offset)


def version_of(blob: bytes) -> int:
    """Returns the version of a record (1 or 2) by its magic; the first 8 bytes are enough.

    Raises:
        CorruptDataError: the magic is another one.

    Examples:
        >>> pf.dv.paimon.version_of(pf.dv.paimon.encode(pf.PositionBitmap([3, 1]), version=1))
        1
    """
    magic = as_bytes(blob, "deletion vector")[4:8]
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise CorruptDataError(
            "magic of a deletion vector",
            offset=4,
            expected=f"{MAGIC_V1.hex()} or {MAGIC_V2.hex()}",
            found=magic.hex() or "nothing",
        )
    return 1 if magic == MAGIC_V1 else 2
