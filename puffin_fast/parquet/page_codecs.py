"""Decompresses the pages of a Parquet file, to no more than their declared number of bytes.

Source: Parquet format specification, "Compression".
"""

from __future__ import annotations

import ctypes
import sys
import threading
import zlib
from collections.abc import Callable
from typing import Any

import lz4.block
import pyarrow as pa
import zstandard

from puffin_fast._io.inflate import inflate_gzip
from puffin_fast._kernels.parquet import pages, snappy

CODEC_ERRORS = (pa.ArrowException, OSError, zlib.error, zstandard.ZstdError, lz4.block.LZ4BlockError)
"""What the decompressors raise for damaged bytes."""


_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class PageError(ValueError):
    """A page does not have the expected form."""


_LARGE = 1 << 18
"""Bytes from which a page of zstd is decompressed to Arrow's memory, where the C library would return it to the system
and fault it in again for each page. For fewer, Arrow's codec takes longer: it makes new tables for each page."""

_ZSTD = pa.Codec("zstd")


class _Thread(threading.local):
    """What a thread keeps: a decompressor has tables of 150 KB, and serves one thread at a time."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_THREAD = _Thread()


def _zstd(data: Any, n_bytes: int) -> Any:
    declared = zstandard.frame_content_size(data)
    if declared not in (-1, n_bytes):
        raise PageError(f"{declared} bytes of zstd; expected {n_bytes}")
    if n_bytes >= _LARGE:
        return _ZSTD.decompress(data, n_bytes)
    return _THREAD.zstd.decompress(data, max_output_size=n_bytes, allow_extra_data=False)


def _snappy(data: Any, n_bytes: int) -> Any:
    """PyArrow's codec takes longer: scans of a Delta table of 3 million rows 1.35 to 1.5 times (columns of numbers), or
    1.04 times (all columns, with texts)."""
    declared = snappy.decoded_size(data)
    if declared != n_bytes:
        raise PageError(f"{declared} bytes of snappy; expected {n_bytes}")
    out = pa.allocate_buffer(n_bytes)
    snappy.decode_into(data, out)
    return out


def _gzip(data: Any, n_bytes: int) -> Any:
    if (whole := inflate_gzip(data, n_bytes)) is not None:
        return whole
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    found = stream.decompress(data, n_bytes + 1)
    if not stream.eof or stream.unused_data:  # its checksum is compared at its end
        raise PageError(f"gzip of more or fewer than {n_bytes} bytes")
    return found


def _lz4(data: Any, n_bytes: int) -> Any:
    return lz4.block.decompress(data, uncompressed_size=n_bytes)


def _brotli(data: Any, n_bytes: int) -> Any:
    # `pa.Codec` does not say how many bytes it has decompressed
    return pa.CompressedInputStream(pa.BufferReader(data), "brotli").read(n_bytes + 1)


CODECS: dict[str, Callable[[Any, int], Any]] = {
    "UNCOMPRESSED": lambda data, n_bytes: data,
    "SNAPPY": _snappy,
    "ZSTD": _zstd,
    "GZIP": _gzip,
    "LZ4": _lz4,
    "BROTLI": _brotli,
}
"""How a page is decompressed to its declared number of bytes, or more or fewer if that is wrong; by compression."""


_BLOCK_HEADER = 3
_LAST, _RLE = 1, 1
_CHECKSUM_OR_DICTIONARY, _SINGLE_SEGMENT = 0b1111, 0b100000
_SIZE_BYTES = (0, 2, 4, 8)
"""Bytes of the size of a frame's contents, by the upper bits of its descriptor; 1 instead of 0 in a single segment."""


def _zstd_part(data: Any, n_bytes: int, least: int) -> Any:
    """Decompresses the first blocks of a frame, about `least` bytes: a frame of these blocks is made.

    A frame with a checksum is decompressed whole. Source: RFC 8878, "Zstandard Frames".
    """
    data = memoryview(data).cast("B")
    flags = data[4] if len(data) > 16 and data[:4] == _ZSTD_MAGIC else _CHECKSUM_OR_DICTIONARY
    if flags & _CHECKSUM_OR_DICTIONARY or n_bytes - least < _LEAST_LEFT:
        return _zstd(data, n_bytes)
    is_single = bool(flags & _SINGLE_SEGMENT)
    at = first = 5 + (not is_single) + (_SIZE_BYTES[flags >> 6] or is_single)
    enough = first + (len(data) - first) * least // n_bytes
    block = 0
    while at <= enough:
        block = at
        header = int.from_bytes(data[at : at + _BLOCK_HEADER], "little")
        if header & _LAST:
            return _zstd(data, n_bytes)
        at += _BLOCK_HEADER + (1 if header >> 1 & 3 == _RLE else header >> 3)
    if len(data) - at < _BLOCK_HEADER:
        return _zstd(data, n_bytes)
    window = max(n_bytes - 1, 1).bit_length() - 10 << 3 if is_single else data[5]
    frame = b"".join(
        [
            _ZSTD_MAGIC,
            bytes([0, max(window, 0)]),
            data[first:block],
            bytes([data[block] | _LAST]),
            data[block + 1 : at],
        ]
    )
    out = pa.allocate_buffer(n_bytes)
    found = pages.zstd_into(frame, out)
    return _zstd(data, n_bytes) if found < 0 else out.slice(0, found)


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_LEAST_LEFT = 1 << 16
"""If fewer bytes would be left, all are decompressed."""


def part_of(codec: str) -> Callable[[Any, int, int], Any]:
    """Returns how a page is decompressed as far as about a number of bytes; to all of them if that is not faster.

    It is called with the page, its declared number of bytes, and the number that is needed.
    """
    if codec == "ZSTD":
        return _zstd_part
    whole = CODECS[codec]
    return lambda data, n_bytes, least: whole(data, n_bytes)


def _finds_zstd() -> bool:
    """Gives the kernel of pages the functions of the system's zstd; False where there is none.

    It then decompresses without the interpreter's lock. Two threads that read small files wait for that lock more often
    than for anything else. The functions have been in the library's stable interface since version 1.0.
    """
    try:
        library = ctypes.CDLL("libzstd.1.dylib" if sys.platform == "darwin" else "libzstd.so.1")
        names = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx")
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    except (OSError, AttributeError):
        return False
    pages.use_zstd(*(address or 0 for address in addresses))
    return True


KERNEL_CODECS = {"UNCOMPRESSED": pages.UNCOMPRESSED, "SNAPPY": pages.SNAPPY}
"""Compressions that the kernel decompresses itself, for pages of numbers."""

if _finds_zstd():
    KERNEL_CODECS["ZSTD"] = pages.ZSTD
