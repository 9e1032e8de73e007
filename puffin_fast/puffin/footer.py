"""The footer of a Puffin file, bytes to metadata and back; no I/O here.

    PFA1 | payload | payload size: i32 LE | flags: 4 bytes | PFA1
           JSON, or one LZ4 frame of it (flags byte 0, bit 0)
         ^ start   ^------------- trailer: 12 bytes ----------^ end of the file

Specification, "Footer structure"; the payload is `metadata`'s business.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from puffin_fast.errors import CorruptDataError, LimitExceededError, UnsupportedError
from puffin_fast.puffin import compression, metadata
from puffin_fast.puffin.metadata import FileMetadata

__all__ = [
    "FOOTER_OVERHEAD",
    "MAGIC",
    "TRAILER_SIZE",
    "Trailer",
    "check_magic",
    "decode",
    "encode",
    "read_trailer",
]

MAGIC = b"PFA1"
MAGIC_SIZE = len(MAGIC)
TRAILER = struct.Struct(f"<i4s{MAGIC_SIZE}s")
TRAILER_SIZE = TRAILER.size
FLAGS_SIZE = 4
FOOTER_OVERHEAD = MAGIC_SIZE + TRAILER_SIZE
"""Bytes of a footer besides its payload."""

LEAST_FILE_SIZE = MAGIC_SIZE + FOOTER_OVERHEAD
FLAG_COMPRESSED = 1
"""Byte 0, bit 0; all other bits are reserved."""

MAX_PAYLOAD_SIZE = 2**31 - 1
"""What the size field can say."""


class Trailer(NamedTuple):
    """The last 12 bytes of a file, checked.

    Attributes:
        payload_size: bytes of the payload as stored.
        compressed: whether the payload is an LZ4 frame.
        footer_offset: where in the file the footer starts, with its magic.
        footer_size: bytes of the whole footer, both magics counted.
    """

    payload_size: int
    compressed: bool
    footer_offset: int
    footer_size: int


def encode(content: FileMetadata, *, compress: bool = False) -> bytes:
    """The whole footer, from its magic to the end of the file.

    Args:
        content: what it says.
        compress: LZ4 (peers: neither Java nor PyIceberg can read it).

    Raises:
        LimitExceededError: the payload is larger than its size field can say.
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
        tail: the end of the file, at least its last 12 bytes where it has as many.
        file_size: bytes of the whole file.
        path: the file, for errors.

    Raises:
        CorruptDataError: too short a file, foreign magic, a payload size that the file cannot hold.
        UnsupportedError: a flag that is reserved.
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
            expected=f"0 to {most}, the file's size",
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
    """Reads and checks a whole footer; each blob's range lies between the head's magic and the footer.

    Args:
        footer: `trailer.footer_size` bytes from `trailer.footer_offset` on.
        trailer: what `read_trailer` found.
        limit: a compressed payload that becomes more bytes is refused.
        path: the file, for errors.

    Raises:
        CorruptDataError: foreign magic, a broken frame, wrong JSON, a range outside the blobs' part of the
            file.
        UnsupportedError: a blob's codec that does not exist.
        LimitExceededError: a compressed payload of more than `limit` bytes.
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
    """A blob that is not where blobs can be."""
    return CorruptDataError(
        what,
        path=path,
        offset=blob.offset,
        expected=f"bytes from {MAGIC_SIZE} to {trailer.footer_offset}, where the footer starts",
        found=f"{blob.offset} to {blob.offset + blob.length}",
    )


def check_magic(found: bytes, what: str, *, path: str | None = None, offset: int | None = None) -> None:
    """Refuses anything but ``PFA1``."""
    if found != MAGIC:
        raise CorruptDataError(what, path=path, offset=offset, expected=MAGIC.hex(" "), found=found.hex(" "))
