"""The frame of a payload (length, magic and checksum), for magics that the kernel does not read.

    u32 BE length of (magic + payload) | magic: 4 bytes | payload | u32 BE CRC-32(magic + payload)

A file of records has one byte, the version, and then such frames without gaps. Delta's `.bin` files and Paimon's index
files have this form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from puffin_fast._kernels import checksum
from puffin_fast._positions import as_bytes
from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError

FILE_VERSION = 1
"""The first byte of a file of records."""

LENGTH_BYTES, MAGIC_BYTES, CRC_BYTES = 4, 4, 4
HEAD_BYTES = LENGTH_BYTES + MAGIC_BYTES
MAX_LENGTH = (1 << 31) - 1
"""The largest length that Java's signed integer can represent."""


def frame(magic: bytes, payload: bytes) -> bytes:
    """Adds the frame to a payload.

    Raises:
        LimitExceededError: the record would exceed 2 GiB.
    """
    n_bytes = len(magic) + len(payload)
    if n_bytes > MAX_LENGTH:
        raise LimitExceededError(f"deletion vector: expected at most {MAX_LENGTH} bytes, found {n_bytes}")
    body = magic + payload
    return struct.pack(">I", n_bytes) + body + struct.pack(">I", checksum.crc32(body))


def check_frame(
    data: bytes, magic: bytes, *, least: int = 0, path: str | None = None, offset: int = 0
) -> tuple[int, int]:
    """Checks magic, length and checksum, in this order.

    Args:
        data: exactly one record.
        magic: the expected magic.
        least: minimum number of bytes of the payload.
        path, offset: the place of the record, for errors.

    Returns:
        The range of the payload in `data`: its first byte, and the byte after its last.

    Raises:
        CorruptDataError: a check failed.
    """
    least += HEAD_BYTES + CRC_BYTES
    if len(data) < least:
        raise CorruptDataError(
            "deletion vector is too short",
            path=path,
            offset=offset,
            expected=f"at least {least} bytes",
            found=len(data),
        )
    if data[LENGTH_BYTES:HEAD_BYTES] != magic:
        raise CorruptDataError(
            "magic of a deletion vector",
            path=path,
            offset=offset + LENGTH_BYTES,
            expected=magic.hex(),
            found=data[LENGTH_BYTES:HEAD_BYTES].hex(),
        )
    (declared,) = struct.unpack_from(">I", data)
    n_bytes = len(data) - LENGTH_BYTES - CRC_BYTES
    if declared != n_bytes:
        raise CorruptDataError(
            "length of magic and vector", path=path, offset=offset, expected=n_bytes, found=declared
        )
    stop = len(data) - CRC_BYTES
    (stored,) = struct.unpack_from(">I", data, stop)
    found = checksum.crc32(memoryview(data)[LENGTH_BYTES:stop])
    if stored != found:
        raise CorruptDataError(
            "CRC-32 of magic and vector",
            path=path,
            offset=offset + stop,
            expected=f"{stored:08x}",
            found=f"{found:08x}",
        )
    return HEAD_BYTES, stop


def spans(data: bytes, path: str | None = None) -> Iterator[tuple[int, int]]:
    """Yields the offset and length of each record in a whole file of records; only the lengths are read.

    Args:
        data: the file.
        path: its path, for errors.

    Raises:
        UnsupportedError: the file has another version.
        CorruptDataError: the file is empty, or ends inside a record.

    Examples:
        >>> record = pf.dv.delta.encode(pf.PositionBitmap([3, 1]))
        >>> list(pf.dv.delta.spans(bytes([pf.dv.delta.FILE_VERSION]) + record))
        [(1, 44)]
    """
    data = as_bytes(data, "file of deletion vectors")
    if not data:
        raise CorruptDataError(
            "file of deletion vectors", path=path, offset=0, expected="a version byte", found="nothing"
        )
    if data[0] != FILE_VERSION:
        raise UnsupportedError(
            f"{path or 'file of deletion vectors'}: version {data[0]}, only {FILE_VERSION} is known"
        )
    at = 1
    while at < len(data):
        left = len(data) - at
        declared = struct.unpack_from(">I", data, at)[0] if left >= LENGTH_BYTES else 0
        length = LENGTH_BYTES + declared + CRC_BYTES
        if left < LENGTH_BYTES or length > left:
            raise CorruptDataError(
                "the file ends inside a deletion vector",
                path=path,
                offset=at,
                expected=f"{length} bytes",
                found=left,
            )
        yield at, length
        at += length
