"""Delta's deletion vectors: records of `.bin` files, and inline vectors in the log.

    record    u32 BE length of payload | payload | u32 BE CRC-32(payload)
    payload   portable: D1 D3 39 64 | 64-bit portable Roaring          (the record is an Iceberg blob, byte for byte)
              native:   D0 D3 39 64 | u32 LE n | n of (u32 LE length, 32-bit Roaring), the keys being 0 … n - 1
    file      u8 version 1 | records
    inline    Z85 of the payload, padded to 4 bytes; no length, no checksum

Both payloads are read. Only the portable one is written, because Delta's Rust kernel refuses the other.

Source: Delta Transaction Log Protocol, "Deletion Vector Format".
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from puffin_fast._positions import MAX_POSITION, as_bytes, as_integer
from puffin_fast._text import shown_argument
from puffin_fast.bitmap import PositionBitmap
from puffin_fast.dv import iceberg
from puffin_fast.dv._bitmap32 import read_bitmap32
from puffin_fast.dv._counted import counted
from puffin_fast.dv._frame import FILE_VERSION, check_frame, spans
from puffin_fast.errors import CorruptDataError, InvalidInputError

__all__ = [
    "FILE_VERSION",
    "FRAME_BYTES",
    "MAGIC",
    "MAX_POSITION",
    "NATIVE_MAGIC",
    "decode",
    "decode_inline",
    "encode",
    "encode_inline",
    "spans",
    "z85_decode",
    "z85_encode",
]


def __dir__() -> list[str]:
    return sorted(__all__)


MAGIC = iceberg.MAGIC
NATIVE_MAGIC = bytes.fromhex("d0d33964")
FRAME_BYTES = 8
"""Bytes of length and checksum, which a record has in addition to the payload (``sizeInBytes`` of a descriptor)."""

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)


def encode(bitmap: PositionBitmap) -> bytes:
    """Encodes a set as a record with the portable payload.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap.
        LimitExceededError: the record would exceed 2 GiB.

    Examples:
        >>> blob = pf.dv.delta.encode(pf.PositionBitmap([3, 1]))
        >>> len(blob)
        44
    """
    return iceberg.encode(bitmap)


def decode(
    blob: Any, *, cardinality: int | None = None, path: str | None = None, offset: int = 0
) -> PositionBitmap:
    """Decodes a record; magic, length and checksum are checked before the content.

    Args:
        blob: any contiguous buffer that holds exactly one record, of either payload.
        cardinality: number of positions in the descriptor; None if it is unknown.
        path, offset: the place of the record, for errors.

    Raises:
        CorruptDataError: the bytes are not a well-formed record, or have another number of positions.

    Examples:
        >>> pf.dv.delta.decode(pf.dv.delta.encode(pf.PositionBitmap([3, 1])))
        PositionBitmap([1, 3])
    """
    data = as_bytes(blob, "deletion vector", offset)
    if data[4:8] != NATIVE_MAGIC:
        return iceberg.decode(data, cardinality=cardinality, path=path, offset=offset)
    start, stop = check_frame(data, NATIVE_MAGIC, least=4, path=path, offset=offset)
    return counted(_native(data, start, stop, path, offset), cardinality, path=path, offset=offset)


def encode_inline(bitmap: PositionBitmap) -> tuple[str, int]:
    """Returns ``pathOrInlineDv`` and ``sizeInBytes`` of a descriptor of storage type ``i``.

    Raises:
        InvalidInputError: the argument is not a PositionBitmap.

    Examples:
        >>> text, size = pf.dv.delta.encode_inline(pf.PositionBitmap([3, 1]))
        >>> size
        36
    """
    payload = iceberg.encode(bitmap)[4:-4]
    return z85_encode(payload + bytes(-len(payload) % 4)), len(payload)


def decode_inline(
    text: str, size_in_bytes: int, *, cardinality: int | None = None, path: str | None = None
) -> PositionBitmap:
    """Decodes a vector that is stored inline in the log.

    Args:
        text: ``pathOrInlineDv`` of a descriptor of storage type ``i``.
        size_in_bytes: its ``sizeInBytes``: the size of the payload without padding.
        cardinality: number of positions in the descriptor; None if it is unknown.
        path: the log file of the descriptor, for errors. Offsets in errors count from the start of the payload.

    Raises:
        CorruptDataError: the text is not Z85, has another size, or the payload is not well-formed.

    Examples:
        >>> text, size = pf.dv.delta.encode_inline(pf.PositionBitmap([3, 1]))
        >>> pf.dv.delta.decode_inline(text, size)
        PositionBitmap([1, 3])
    """
    padded, size_in_bytes = z85_decode(text, path=path), as_integer(size_in_bytes, "size_in_bytes")
    if not 0 <= len(padded) - size_in_bytes < 4:
        raise CorruptDataError(
            "sizeInBytes of an inline deletion vector",
            path=path,
            offset=0,
            expected=f"{max(len(padded) - 3, 0)} to {len(padded)}",
            found=size_in_bytes,
        )
    payload = padded[:size_in_bytes]
    if payload[:4] == NATIVE_MAGIC:
        bitmap = _native(payload, 4, len(payload), path, 0)
    elif payload[:4] == MAGIC:
        bitmap = PositionBitmap.from_bytes(payload[4:], path=path, offset=4)
    else:
        raise CorruptDataError(
            "magic of a deletion vector",
            path=path,
            offset=0,
            expected=f"{MAGIC.hex()} or {NATIVE_MAGIC.hex()}",
            found=payload[:4].hex() or "nothing",
        )
    return counted(bitmap, cardinality, path=path)


def z85_encode(data: bytes) -> str:
    """Encodes bytes as Z85 (ZeroMQ's base 85): five characters for each four bytes.

    Raises:
        InvalidInputError: the number of bytes is not a multiple of four.

    Examples:
        >>> pf.dv.delta.z85_encode(bytes([1, 2, 3, 4]))
        '0rJua'
    """
    data = as_bytes(data, "Z85")
    if len(data) % 4:
        raise InvalidInputError(f"Z85: expected a multiple of 4 bytes, found {len(data)}")
    return base64.b85encode(data).translate(_TO_Z85).decode("ascii")


def z85_decode(text: str, *, path: str | None = None) -> bytes:
    """Decodes a Z85 text.

    Delta's kernel in Rust writes a last group of one to three bytes as ``#`` for each missing byte, then their value.
    No group of Z85 itself begins with ``#``: it would exceed four bytes.

    Args:
        text: the characters; five for each four bytes.
        path: the file of the text, for errors.

    Raises:
        CorruptDataError: an invalid character, a number of characters that is not a multiple of five, or a group of
            five that exceeds its bytes.

    Examples:
        >>> pf.dv.delta.z85_decode("0rJua").hex()
        '01020304'
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"Z85: expected text, found {shown_argument(text)}")
    if len(text) % 5:
        raise CorruptDataError(
            "length of a Z85 text", path=path, offset=0, expected="a multiple of 5", found=len(text)
        )
    raw = text.encode("ascii", "replace")
    if not text.isascii() or raw.translate(None, _Z85):
        at, character = next((at, c) for at, c in enumerate(text) if not c.isascii() or ord(c) not in _Z85)
        raise CorruptDataError(
            "character of a Z85 text", path=path, offset=at, expected="one of Z85", found=repr(character)
        )
    missing = len(raw[-5:]) - len(raw[-5:].lstrip(b"#"))
    digits = raw.translate(_FROM_Z85)
    try:
        if not 0 < missing < 4:
            return base64.b85decode(digits)
        last = base64.b85decode(b"0" * missing + digits[len(digits) - 5 + missing :])
        if any(last[:missing]):
            raise ValueError(f"{text[-5:]!r}, which has more than {4 - missing} bytes")
        return base64.b85decode(digits[:-5]) + last[missing:]
    except ValueError as error:
        raise CorruptDataError(
            "group of a Z85 text", path=path, offset=0, expected="less than 2^32", found=str(error)
        ) from None


def _native(data: bytes, start: int, stop: int, path: str | None, offset: int) -> PositionBitmap:
    """Decodes the native payload after its magic: bitmaps with their lengths, one for each key from 0."""
    if stop - start < 4:
        raise CorruptDataError(
            "native payload",
            path=path,
            offset=offset + start,
            expected="at least 4 bytes",
            found=stop - start,
        )
    (count,) = struct.unpack_from("<I", data, start)
    parts: list[bytes] = []
    at = start + 4
    for key in range(count):
        length = struct.unpack_from("<I", data, at)[0] if stop - at >= 4 else 0
        if stop - at < 4 + max(length, 1):
            raise CorruptDataError(
                f"bitmap {key} of a native payload",
                path=path,
                offset=offset + at,
                expected=f"a length and {max(length, 1)} bytes",
                found=stop - at,
            )
        at += 4
        if read_bitmap32(data, at, at + length, path=path, offset=offset):
            parts.append(struct.pack("<I", key) + data[at : at + length])
        at += length
    if at != stop:
        raise CorruptDataError(
            "trailing bytes of a native payload", path=path, offset=offset + at, expected=0, found=stop - at
        )
    return PositionBitmap.from_bytes(
        struct.pack("<Q", len(parts)) + b"".join(parts), path=path, offset=offset
    )
