"""Decompresses deflate streams of known or likely size by libdeflate (extra `iceberg`), in half of zlib's time.

libdeflate needs memory for all of the result, and does not say what is wrong with a stream; then zlib is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from puffin_fast._process.interrupt import suppressed

try:
    import deflate
except ImportError:
    _raw = _gzip = None
else:
    _raw, _gzip = deflate.deflate_decompress, deflate.gzip_decompress


def inflate_raw(data: Any, most: int) -> bytearray | None:
    """Decompresses a stream without header; bytes after its end are ignored.

    Returns:
        the decompressed bytes; None if they are more than `most` or wrong, `most` is 0, or libdeflate is not installed.
    """
    return _whole(_raw, data, most)


def inflate_gzip(data: Any, most: int) -> bytearray | None:
    """Decompresses a member of gzip and verifies its CRC-32. The result is that of `inflate_raw`."""
    return _whole(_gzip, data, most)


def _whole(decompress: Callable[[Any, int], bytearray] | None, data: Any, most: int) -> bytearray | None:
    if decompress is None or most == 0:
        return None
    with suppressed(deflate.DeflateError, ValueError):
        return decompress(data, most)
    return None
