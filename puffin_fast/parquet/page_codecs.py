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
    declared = snappy.decoded_size(data)
    if declared != n_bytes:
        raise PageError(f"{declared} bytes of snappy; expected {n_bytes}")
    out = pa.allocate_buffer(n_bytes)
    snappy.decode_into(data, out)
    return out


def _gzip(data: Any, n_bytes: int) -> Any:
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
