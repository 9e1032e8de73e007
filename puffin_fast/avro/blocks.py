"""Decompresses the blocks of an Avro file, up to a limit.

    count: long | size: long | size bytes, compressed by the codec of the header | sync marker: 16 bytes

Source: Avro specification, "Object Container Files". A long is a zigzag varint of at most 10 bytes.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import zstandard

from puffin_fast._io.inflate import inflate_raw
from puffin_fast._kernels.avro.records import split
from puffin_fast._process.interrupt import PARSE_ERRORS, is_from_outside
from puffin_fast.errors import CorruptDataError, LimitExceededError, PuffinFastError, UnsupportedError
from puffin_fast.limits import most_inflated

if TYPE_CHECKING:
    from puffin_fast._io import Source

CODEC_ERRORS = (
    *PARSE_ERRORS,
    OSError,
    zlib.error,
    lzma.LZMAError,
    pa.ArrowException,
    zstandard.ZstdError,
)
"""What decompression raises for wrong bytes."""

READ_BYTES = 1 << 16

SYNC_BYTES = 16
_BLOCK_BYTES = (125_000, 1_000_000, 8_000_000)
"""Sizes of decompressed blocks that are tried: those of most manifests, of most data files, and larger ones."""
_LONG_BYTES = 10
_CRC_BYTES = 4


Bytes: TypeAlias = bytes | bytearray


class Block(NamedTuple):
    """A block of an Avro file.

    Attributes:
        n_records: the declared number of records.
        data: the decompressed bytes of the records.
    """

    n_records: int
    data: Bytes


class Blocks:
    """The blocks of an Avro file. They are decompressed when they are read, one at a time, each time again.

    Args:
        data: the bytes of the file after its header.
        codec: ``avro.codec`` of the header.
        sync: the sync marker of the header.
        limit: the maximum number of decompressed bytes of all blocks.
        n_fields: the number of fields of a record; each takes at least one byte.
        path, offset: the file and the offset of `data` in it, for error messages.

    Attributes:
        counts: the declared number of records of each block.

    Raises:
        CorruptDataError: a block is truncated, has another sync marker, or a negative count or size. When a block is
            read: its bytes are not valid for the codec, or are too few for its records.
        LimitExceededError: when blocks are read: they have more than `limit` bytes, or records without bytes.
        UnsupportedError: the codec is not supported.
    """

    def __init__(
        self, data: memoryview, *, codec: str, sync: bytes, limit: int, n_fields: int, path: str, offset: int
    ) -> None:
        self._data, self._codec, self._limit, self._n_fields = data, codec, limit, n_fields
        self._path, self._offset = path, offset
        _check_codec(codec, path)
        self._places, at = split(data, sync)  # stops at a block that is wrong, or has a very large number
        while at < len(data):
            self._places.append((at, *_head(data, at, sync, path, offset)))
            more, at = split(data, sync, self._places[-1][-1] + SYNC_BYTES)
            self._places += more
        self.counts = [n_records for _, n_records, _, _ in self._places]
        if sum(self.counts) * max(n_fields, 1) > limit:
            for _ in self:  # one of them has more bytes than are allowed, or too few
                pass

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Block]:
        return self.some(range(len(self)))

    def some(self, numbers: Iterable[int]) -> Iterator[Block]:
        """Reads the blocks of some numbers."""
        left = self._limit
        for number in numbers:
            at, n_records, start, stop = self._places[number]
            where = self._offset + at
            content = _inflated(self._data[start:stop], self._codec, left, len(self._data), self._path, where)
            left -= len(content)
            if n_records * max(self._n_fields, 1) > len(content):
                raise too_many_records(self._path, n_records, len(content), self._n_fields, where)
            yield Block(n_records, content)


def read_block(
    data: FileBytes, at: int, *, codec: str, sync: bytes, path: str, offset: int, io: Any = None
) -> tuple[Block, int]:
    """Reads and decompresses one block, up to the limit that follows from its size.

    Args:
        data: the bytes of the file after its header.
        at: where the block begins in `data`.
        io: the FileIO whose properties adjust the limit.
        codec, sync, path, offset: as for `Blocks`.

    Returns:
        the block, and where the next one begins.

    Raises:
        CorruptDataError, LimitExceededError, UnsupportedError: as `Blocks` does.
    """
    _check_codec(codec, path)
    n_records, start, stop = _head(data, at, sync, path, offset)
    size = stop - start
    content = _inflated(data[start:stop], codec, most_inflated(size, io), size, path, offset + at)
    return Block(n_records, content), stop + SYNC_BYTES


def _check_codec(codec: str, path: str) -> None:
    if codec not in _INFLATE:
        raise UnsupportedError(f"{path}: Avro codec {codec!r}; expected one of {', '.join(_INFLATE)}")


def _head(data: memoryview | FileBytes, at: int, sync: bytes, path: str, offset: int) -> tuple[int, int, int]:
    """The number of records of a block, and where its bytes begin and end; they are read with the sync marker."""
    head = data[at : at + 2 * _LONG_BYTES]
    n_records, n_head = _long(head, 0, path, offset + at)
    size, n_head = _long(head, n_head, path, offset + at)
    start = at + n_head
    if n_records < 0 or not 0 <= size <= len(data) - start - SYNC_BYTES:
        raise CorruptDataError(
            "count and size of an Avro block",
            path=path,
            offset=offset + at,
            expected=f"0 or more, and 0 to {max(len(data) - start - SYNC_BYTES, 0)} bytes",
            found=f"{n_records} records in {size} bytes",
        )
    if (found := data[start : start + size + SYNC_BYTES][size:]) != sync:
        raise CorruptDataError(
            "sync marker of an Avro block",
            path=path,
            offset=offset + at,
            expected=sync.hex(),
            found=found.hex(),
        )
    return n_records, start, start + size


def _inflated(body: memoryview, codec: str, most: int, stored: int, path: str, offset: int) -> Bytes:
    """Decompresses a block to at most `most` bytes, the limit for `stored` bytes."""
    try:
        content = _INFLATE[codec](body, most)
    except CODEC_ERRORS as error:
        if isinstance(error, TimeoutError) or is_from_outside(error):
            raise
        raise CorruptDataError(f"{codec} data of an Avro block: {error}", path=path, offset=offset) from error
    if content is None or len(content) > most:
        raise LimitExceededError(
            f"{path}: offset {offset}: Avro blocks of more than {most} decompressed bytes, "
            f"the limit for {stored} stored bytes"
        )
    return content


def too_many_records(path: str, n_records: int, n_bytes: int, n_fields: int, offset: int) -> PuffinFastError:
    """Makes the error for a block with fewer bytes than its number of records needs."""
    if n_fields == 0:
        return LimitExceededError(f"{path}: {n_records} records without bytes, the limit is 0")
    return CorruptDataError(
        "records of an Avro block",
        path=path,
        offset=offset,
        expected=f"at most {n_bytes // n_fields} ({n_bytes} bytes, at least {n_fields} per record)",
        found=n_records,
    )


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


def _deflate(data: memoryview, limit: int) -> Bytes | None:
    for size in _BLOCK_BYTES:
        if (whole := inflate_raw(data, min(size, limit))) is not None:
            return whole
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
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


_INFLATE: dict[str, Callable[[memoryview, int], Bytes | None]] = {
    "null": _null,
    "deflate": _deflate,
    "zstandard": _zstandard,
    "snappy": _snappy,
    "bzip2": _bzip2,
    "xz": _xz,
}
