"""Decompresses the blocks of an Avro file, up to a limit.

    count: long | size: long | size bytes, compressed by the codec of the header | sync marker: 16 bytes

Source: Avro specification, "Object Container Files". A long is a zigzag varint of at most 10 bytes.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import zstandard

from puffin_fast._run.interrupt import PARSE_ERRORS, is_from_outside
from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError
from puffin_fast.limits import most_inflated

if TYPE_CHECKING:
    from puffin_fast._io import Source

try:
    from isal import isal_zlib
except ImportError:
    deflate: Any = zlib
else:
    deflate = isal_zlib  # inflates in half of the time

CODEC_ERRORS = (
    *PARSE_ERRORS,
    OSError,
    deflate.error,
    zlib.error,
    lzma.LZMAError,
    pa.ArrowException,
    zstandard.ZstdError,
)
"""What decompression raises for wrong bytes."""

READ_BYTES = 1 << 16

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
    blocks, left, at = [], limit, 0
    while at < len(data):
        block, at = read_block(data, at, codec=codec, sync=sync, limit=left, path=path, offset=offset)
        left -= len(block.data)
        blocks.append(block)
    return blocks


def read_block(
    data: memoryview | FileBytes,
    at: int,
    *,
    codec: str,
    sync: bytes,
    limit: int | None,
    path: str,
    offset: int,
    io: Any = None,
) -> tuple[Block, int]:
    """Reads and decompresses one block.

    Args:
        data: the bytes of the file after its header.
        at: where the block begins in `data`.
        limit: the maximum number of decompressed bytes; None for the limit that follows from the block's size.
        io: the FileIO whose properties adjust that limit.
        codec, sync, path, offset: as for `read_blocks`.

    Returns:
        the block, and where the next one begins.

    Raises:
        As `read_blocks` does.
    """
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise UnsupportedError(f"{path}: Avro codec {codec!r}; expected one of {', '.join(_INFLATE)}")
    where: dict[str, Any] = {"path": path, "offset": offset + at}
    head = data[at : at + 2 * _LONG_BYTES]
    n_records, n_head = _long(head, 0, path, offset + at)
    size, n_head = _long(head, n_head, path, offset + at)
    at += n_head
    if n_records < 0 or not 0 <= size <= len(data) - at - SYNC_BYTES:
        raise CorruptDataError(
            "count and size of an Avro block",
            expected=f"0 or more, and 0 to {max(len(data) - at - SYNC_BYTES, 0)} bytes",
            found=f"{n_records} records in {size} bytes",
            **where,
        )
    body = data[at : at + size + SYNC_BYTES]
    if (found := body[size:]) != sync:
        raise CorruptDataError(
            "sync marker of an Avro block", expected=sync.hex(), found=found.hex(), **where
        )
    most = most_inflated(size, io) if limit is None else limit
    try:
        content = inflate(body[:size], most)
    except CODEC_ERRORS as error:
        if isinstance(error, TimeoutError) or is_from_outside(error):
            raise
        raise CorruptDataError(f"{codec} data of an Avro block: {error}", **where) from error
    if content is None or len(content) > most:
        raise LimitExceededError(
            f"{path}: offset {where['offset']}: Avro blocks of more than {most} decompressed bytes, "
            f"the limit for {size if limit is None else len(data)} stored bytes"
        )
    return Block(n_records, content), at + size + SYNC_BYTES


class FileBytes:
    """The bytes of a file. Only the requested slices are read, at least `READ_BYTES` at a time."""

    def __init__(self, source: Source) -> None:
        self._source, self._start, self._found = source, 0, memoryview(b"")

    def __len__(self) -> int:
        return self._source.size

    def __getitem__(self, part: slice) -> memoryview:
        start, end, _ = part.indices(len(self))
        if not self._start <= start <= end <= self._start + len(self._found):
            n_bytes = min(max(end - start, READ_BYTES), len(self) - start)
            self._start, self._found = start, memoryview(self._source.read_at(start, n_bytes))
        return self._found[start - self._start : end - self._start]


def as_long(value: int) -> bytes:
    """Encodes a long."""
    value = 2 * value if value >= 0 else -2 * value - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _long(data: memoryview, at: int, path: str, offset: int) -> tuple[int, int]:
    """Decodes a long; also returns the offset after it."""
    if at + 1 < len(data) and (first := data[at]) & 1 == 0 and (second := data[at + 1]) < 0x80 <= first:
        return (first & 0x7F | second << 7) >> 1, at + 2
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
    stream = deflate.decompressobj(-zlib.MAX_WBITS)
    content: bytes = stream.decompress(data, limit + 1)
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
