"""Decompresses the blocks of an Avro file, up to a limit.

    count: long | size: long | size bytes, compressed by the codec of the header | sync marker: 16 bytes

Source: Avro specification, "Object Container Files". A long is a zigzag varint of at most 10 bytes.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import zstandard

from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError

__all__ = ["SYNC_BYTES", "Block", "as_long", "read_blocks"]

SYNC_BYTES = 16
_LONG_BYTES = 10
_CRC_BYTES = 4


class Block(NamedTuple):
    """A block of an Avro file.

    Attributes:
        n_records: the declared number of records.
        data: the decompressed bytes of the records.
    """

    n_records: int
    data: bytes


def read_blocks(
    data: memoryview, *, codec: str, sync: bytes, limit: int, path: str, offset: int
) -> list[Block]:
    """Reads and decompresses the blocks of an Avro file.

    Args:
        data: the bytes of the file after its header.
        codec: ``avro.codec`` of the header.
        sync: the sync marker of the header.
        limit: the maximum number of decompressed bytes of all blocks.
        path, offset: the file and the offset of `data` in it, for error messages.

    Raises:
        CorruptDataError: a block is truncated, has another sync marker, a negative count or size, or bytes that
            are not valid for the codec.
        LimitExceededError: the blocks decompress to more than `limit` bytes.
        UnsupportedError: the codec is not supported.
    """
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise UnsupportedError(f"{path}: Avro codec {codec!r}; expected one of {', '.join(_INFLATE)}")
    blocks, left, at = [], limit, 0
    while at < len(data):
        start = at
        where: dict[str, Any] = {"path": path, "offset": offset + start}
        n_records, at = _long(data, at, path, offset)
        size, at = _long(data, at, path, offset)
        if n_records < 0 or not 0 <= size <= len(data) - at - SYNC_BYTES:
            raise CorruptDataError(
                "count and size of an Avro block",
                expected=f"0 or more, and 0 to {max(len(data) - at - SYNC_BYTES, 0)} bytes",
                found=f"{n_records} records in {size} bytes",
                **where,
            )
        if (found := data[at + size : at + size + SYNC_BYTES]) != sync:
            raise CorruptDataError(
                "sync marker of an Avro block", expected=sync.hex(), found=found.hex(), **where
            )
        try:
            content = inflate(data[at : at + size], left)
        except Exception as error:
            raise CorruptDataError(f"{codec} data of an Avro block: {error}", **where) from error
        if content is None or len(content) > left:
            raise LimitExceededError(
                f"{path}: offset {offset + start}: Avro blocks of more than {limit} decompressed bytes, "
                f"the limit for {len(data)} stored bytes"
            )
        left -= len(content)
        blocks.append(Block(n_records, content))
        at += size + SYNC_BYTES
    return blocks


def as_long(value: int) -> bytes:
    """Encodes a non-negative long."""
    value *= 2
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _long(data: memoryview, at: int, path: str, offset: int) -> tuple[int, int]:
    """Decodes a long; also returns the offset after it."""
    value = 0
    for index, byte in enumerate(data[at : at + _LONG_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at + index + 1
    raise CorruptDataError("count and size of an Avro block are truncated", path=path, offset=offset + at)


# Codecs: each returns the decompressed bytes, or None if they are more than `limit` ----------------


def _null(data: memoryview, limit: int) -> bytes | None:
    return bytes(data) if len(data) <= limit else None


def _deflate(data: memoryview, limit: int) -> bytes | None:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    content = stream.decompress(data, limit + 1)
    if len(content) > limit:
        return None
    if not stream.eof:  # bytes after the end are accepted: fastavro writes a part of zlib's checksum there
        raise ValueError("the deflate stream is truncated")
    return content


def _zstandard(data: memoryview, limit: int) -> bytes | None:
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
        return b"".join(_parts(stream.read, limit))


def _parts(read: Callable[[int], bytes], limit: int) -> Iterator[bytes]:
    """Reads at most one byte more than the limit, in steps: one large read would allocate all of its buffer."""
    step, left = 1 << 16, limit + 1
    while left and (part := read(min(step, left))):
        yield part
        left -= len(part)


def _snappy(data: memoryview, limit: int) -> bytes | None:
    body, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    size, shift = 0, 0
    for byte in body[:5]:  # snappy: the decompressed length, a varint, is first
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        return None
    content: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True)
    if zlib.crc32(content) != int.from_bytes(crc, "big"):
        raise ValueError("CRC-32 mismatch")
    return content


def _bzip2(data: memoryview, limit: int) -> bytes | None:
    return bz2.BZ2Decompressor().decompress(data, limit + 1)


def _xz(data: memoryview, limit: int) -> bytes | None:
    return lzma.LZMADecompressor(memlimit=max(limit, 1 << 26)).decompress(data, limit + 1)


_INFLATE: dict[str, Callable[[memoryview, int], bytes | None]] = {
    "null": _null,
    "deflate": _deflate,
    "zstandard": _zstandard,
    "snappy": _snappy,
    "bzip2": _bzip2,
    "xz": _xz,
}
