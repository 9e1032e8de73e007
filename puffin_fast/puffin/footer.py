"""Encodes and decodes the footer of a Puffin file; does no I/O.

    PFA1 | payload | payload size: i32 LE | flags: 4 bytes | PFA1
           JSON, or one LZ4 frame of it (flags byte 0, bit 0)
         ^ start   ^------------- trailer: 12 bytes ----------^ end of the file

Specification, "Footer structure". `metadata` encodes and decodes the payload.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError
from puffin_fast.puffin import compression, metadata
from puffin_fast.puffin.metadata import FileMetadata

MAGIC = b"PFA1"
MAGIC_SIZE = len(MAGIC)
TRAILER = struct.Struct(f"<i4s{MAGIC_SIZE}s")
TRAILER_SIZE = TRAILER.size
FLAGS_SIZE = 4
FOOTER_OVERHEAD = MAGIC_SIZE + TRAILER_SIZE
"""Bytes of a footer without its payload."""

LEAST_FILE_SIZE = MAGIC_SIZE + FOOTER_OVERHEAD
FLAG_COMPRESSED = 1
"""Byte 0, bit 0; all other bits are reserved."""

MAX_PAYLOAD_SIZE = 2**31 - 1
"""The maximum of the size field."""


class Trailer(NamedTuple):
    """The last 12 bytes of a file, checked.

    Attributes:
        payload_size: the size of the payload in bytes, as stored.
        compressed: whether the payload is an LZ4 frame.
        footer_offset: the offset of the footer, which starts with its magic.
        footer_size: the size of the footer in bytes, including both magics.
    """

    payload_size: int
    compressed: bool
    footer_offset: int
    footer_size: int


def encode(content: FileMetadata, *, compress: bool = False) -> bytes:
    """Encodes the footer, from its magic to the end of the file.

    Args:
        content: the metadata.
        compress: whether to compress the payload with LZ4, which neither Java nor PyIceberg can read.

    Raises:
        LimitExceededError: the payload is larger than the maximum of its size field.
    """
    payload = metadata.to_json(content)
    if compress:
        payload = compression.compress(payload, compression.LZ4)
    if len(payload) > MAX_PAYLOAD_SIZE:
        raise LimitExceededError(
            f"a footer of {len(content.blobs)} blobs: {len(payload)} bytes, the limit is {MAX_PAYLOAD_SIZE}"
        )
    flags = (FLAG_COMPRESSED if compress else 0).to_bytes(FLAGS_SIZE, "little")
    return b"".join((MAGIC, payload, TRAILER.pack(len(payload), flags, MAGIC)))


def read_trailer(tail: bytes, file_size: int, *, path: str | None = None) -> Trailer:
    """Reads and checks the last bytes of a file.

    Args:
        tail: the end of the file: at least its last 12 bytes, or the whole file if it is shorter.
        file_size: the size of the file in bytes.
        path: the file, for error messages.

    Raises:
        CorruptDataError: the file is too short, has another magic, or a payload size larger than the file.
        UnsupportedError: a reserved flag is set.
    """
    if file_size < LEAST_FILE_SIZE:
        raise CorruptDataError(
            "file size",
            path=path,
            offset=0,
            expected=f"a Puffin file of {LEAST_FILE_SIZE} bytes or more",
            found=file_size,
        )
    size, flags, magic = TRAILER.unpack_from(tail, len(tail) - TRAILER_SIZE)
    start = file_size - TRAILER_SIZE
    check_magic(magic, "magic at the end of the file", path=path, offset=file_size - MAGIC_SIZE)
    if flags[0] & ~FLAG_COMPRESSED or any(flags[1:]):
        raise UnsupportedError(
            f"{path or 'footer'}: offset {start + 4}: footer flags: expected {FLAG_COMPRESSED:02x} or 00 and "
            f"three times 00, found {flags.hex(' ')}"
        )
    most = file_size - LEAST_FILE_SIZE
    if not 0 <= size <= most:
        raise CorruptDataError(
            "footer payload size",
            path=path,
            offset=start,
            expected=f"0 to {most}, by the size of the file",
            found=size,
        )
    return Trailer(size, bool(flags[0]), start - size - MAGIC_SIZE, size + FOOTER_OVERHEAD)


def decode(
    footer: bytes,
    trailer: Trailer,
    *,
    limit: int = compression.MAX_CONTENT_BYTES,
    path: str | None = None,
) -> FileMetadata:
    """Decodes and checks a footer. The range of each blob must be between the first magic and the footer.

    Args:
        footer: `trailer.footer_size` bytes from `trailer.footer_offset`.
        trailer: the result of `read_trailer`.
        limit: the maximum number of bytes of a compressed payload after decompression.
        path: the file, for error messages.

    Raises:
        CorruptDataError: another magic, an invalid frame, invalid JSON, or a range outside of the blobs' part of
            the file.
        UnsupportedError: the codec of a blob is unknown.
        LimitExceededError: a compressed payload has more than `limit` bytes.
    """
    check_magic(
        footer[:MAGIC_SIZE], "magic at the start of the footer", path=path, offset=trailer.footer_offset
    )
    offset = trailer.footer_offset + MAGIC_SIZE
    payload = memoryview(footer)[MAGIC_SIZE : MAGIC_SIZE + trailer.payload_size]
    if trailer.compressed:
        payload = memoryview(
            compression.decompress(bytes(payload), compression.LZ4, limit=limit, path=path, offset=offset)
        )
    content = metadata.from_json(payload, path=path, offset=None if trailer.compressed else offset)
    for index, blob in enumerate(content.blobs):
        if blob.offset < MAGIC_SIZE or blob.offset + blob.length > trailer.footer_offset:
            raise range_error(f"range of blobs[{index}]", blob, trailer, path)
        if blob.compression_codec is not None:
            compression.check_codec(blob.compression_codec, path=path, offset=offset)
    return content


def range_error(
    what: str, blob: metadata.BlobMetadata, trailer: Trailer, path: str | None
) -> CorruptDataError:
    """Makes the error for a blob outside of the blobs' part of the file."""
    return CorruptDataError(
        what,
        path=path,
        offset=blob.offset,
        expected=f"bytes from {MAGIC_SIZE} to {trailer.footer_offset}, where the footer starts",
        found=f"{blob.offset} to {blob.offset + blob.length}",
    )


def check_magic(found: bytes, what: str, *, path: str | None = None, offset: int | None = None) -> None:
    """Checks that the magic is ``PFA1``."""
    if found != MAGIC:
        raise CorruptDataError(what, path=path, offset=offset, expected=MAGIC.hex(" "), found=found.hex(" "))
