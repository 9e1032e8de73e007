"""The two codecs of Puffin files. Compressed data is one frame with the content size in its header.

    zstd  28 B5 2F FD | descriptor | [window] | [dictionary id] | content size | blocks | [checksum]
    lz4   04 22 4D 18 | FLG | BD | content size: u64 LE | [dictionary id] | HC | blocks | end | [checksum]

Specification, "Compression codecs": a single frame with the content size; there are no other codecs. Before memory is
allocated, the declared size is compared with a limit and with the maximum for the length of the frame. Decompression
never yields more bytes than declared. Bytes after the frame are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lz4.frame
import zstandard

from puffin_fast.errors import CorruptDataError, InvalidInputError, LimitExceededError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

LZ4 = "lz4"
ZSTD = "zstd"
CODECS = (LZ4, ZSTD)

MAX_CONTENT_BYTES = 2**31 - 1
"""Maximum decompressed bytes of one blob or footer: the size of a Java array."""

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_FLG_OFFSET = len(LZ4_MAGIC)
LZ4_FLG_CONTENT_SIZE = 1 << 3
LZ4_SIZE_OFFSET = LZ4_FLG_OFFSET + 2
LZ4_SIZE_END = LZ4_SIZE_OFFSET + 8
LZ4_MOST_PER_BYTE = 255
"""One length byte of a match stands for at most 255 bytes (LZ4 block format)."""

LZ4_EMPTY = bytes.fromhex("04224d18 68 40 0000000000000000 05 00000000")
"""The frame of empty content, with its size: liblz4 omits a size of 0."""

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_LEAST_BLOCK = 4
"""Bytes of the smallest block with content: 3 bytes of header and 1 byte that is repeated (RFC 8878)."""
ZSTD_MOST_PER_BLOCK = 128 << 10


def check_codec(codec: str | None, *, path: str | None = None, offset: int | None = None) -> None:
    """Checks that a codec is in the specification.

    Raises:
        UnsupportedError: the codec is not None, ``lz4`` or ``zstd``.
    """
    if codec is not None and codec not in CODECS:
        where = "".join(f"{part}: " for part in (path, offset is not None and f"offset {offset}") if part)
        raise UnsupportedError(
            f"{where}compression codec: expected one of {', '.join(CODECS)}, found {codec!r}"
        )


def compress(data: Buffer, codec: str) -> bytes:
    """Compresses data to one frame with its content size.

    Raises:
        InvalidInputError: there is no such codec.
        LimitExceededError: the data has more than 2^31 - 1 bytes, which readers do not accept.
    """
    view = memoryview(data).cast("B")
    if len(view) > MAX_CONTENT_BYTES:
        raise LimitExceededError(f"a blob of {len(view)} bytes, the limit is {MAX_CONTENT_BYTES}")
    if codec == ZSTD:
        return zstandard.ZstdCompressor(write_content_size=True).compress(view)
    if codec == LZ4:
        frame: bytes = lz4.frame.compress(view, store_size=True) if len(view) else LZ4_EMPTY
        return frame
    raise InvalidInputError(f"compression: expected None, {LZ4!r} or {ZSTD!r}, found {codec!r}")


def decompress(
    frame: bytes,
    codec: str,
    *,
    limit: int = MAX_CONTENT_BYTES,
    path: str | None = None,
    offset: int | None = None,
) -> bytes:
    """Decompresses one frame.

    Args:
        frame: the frame, without other bytes.
        codec: ``lz4`` or ``zstd``.
        limit: the maximum number of decompressed bytes.
        path: the file, for error messages.
        offset: the offset of the frame in the file, for error messages.

    Raises:
        CorruptDataError: the frame is invalid, its content size is missing or wrong, or bytes follow it.
        LimitExceededError: the content is larger than `limit`.
        UnsupportedError: there is no such codec.
    """
    check_codec(codec, path=path, offset=offset)
    size, most = _zstd_sizes(frame) if codec == ZSTD else _lz4_sizes(frame)
    if size is None:
        magic = ZSTD_MAGIC if codec == ZSTD else LZ4_MAGIC
        raise CorruptDataError(
            f"{codec} frame",
            path=path,
            offset=offset,
            expected=f"magic {magic.hex(' ')} and a header with the content size",
            found=f"{len(frame)} bytes that start with {frame[:16].hex(' ') or 'nothing'}",
        )
    if size > limit:
        raise LimitExceededError(
            f"{path or 'frame'}: offset {offset or 0}: {codec} content of {size} bytes, the limit is {limit}"
        )
    if size > most:
        raise CorruptDataError(
            f"{codec} content size",
            path=path,
            offset=offset,
            expected=f"at most {most} bytes for a frame of {len(frame)} bytes",
            found=size,
        )
    try:
        content, used = _zstd_content(frame, size) if codec == ZSTD else _lz4_content(frame)
    except (zstandard.ZstdError, RuntimeError, ValueError) as error:
        raise CorruptDataError(
            f"{codec} frame", path=path, offset=offset, expected="one complete frame", found=error
        ) from None
    if len(content) != size:
        raise CorruptDataError(
            f"{codec} content size", path=path, offset=offset, expected=f"{size} bytes", found=len(content)
        )
    if used != len(frame):
        raise CorruptDataError(
            f"{codec} frame",
            path=path,
            offset=None if offset is None else offset + used,
            expected="the end of the blob after a single frame",
            found=f"{len(frame) - used} more bytes",
        )
    return content


def _zstd_sizes(frame: bytes) -> tuple[int | None, int]:
    """The declared content size (None if missing), and the maximum content size for the length of the frame."""
    most = len(frame) // ZSTD_LEAST_BLOCK * ZSTD_MOST_PER_BLOCK
    if not frame.startswith(ZSTD_MAGIC):
        return None, most
    try:
        size = zstandard.frame_content_size(frame)
    except zstandard.ZstdError:
        return None, most
    return (None if size < 0 else size), most


def _zstd_content(frame: bytes, size: int) -> tuple[bytes, int]:
    # for a declared size of 0, this call would return b"" without reading the blocks
    if size:
        return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False), len(frame)
    stream = zstandard.ZstdDecompressor().decompressobj()
    content = stream.decompress(frame)
    if not stream.eof:
        raise ValueError("the frame is truncated")
    return content, len(frame) - len(stream.unused_data)


def _lz4_sizes(frame: bytes) -> tuple[int | None, int]:
    most = len(frame) * LZ4_MOST_PER_BYTE
    if len(frame) < LZ4_SIZE_END or not frame.startswith(LZ4_MAGIC):
        return None, most
    if not frame[LZ4_FLG_OFFSET] & LZ4_FLG_CONTENT_SIZE:
        return None, most
    return int.from_bytes(frame[LZ4_SIZE_OFFSET:LZ4_SIZE_END], "little"), most


def _lz4_content(frame: bytes) -> tuple[bytes, int]:
    content, used = lz4.frame.decompress(frame, return_bytes_read=True)
    return content, used
