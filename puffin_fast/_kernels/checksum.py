"""CRC-32 through zlib's call: isal's (extra `iceberg`) or zlib-ng's (extra `fast`) where installed, else zlib's own.

All three compute the same function; isal's and zlib-ng's use carry-less multiplication and are several times faster.
The kernels use `crc32.h` instead of zlib's own, on processors with that instruction.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

_KNOWN = (("isal.isal_zlib", "crc32_gzip_refl"), ("zlib_ng.zlib_ng", "zng_crc32_z"), ("zlib", "crc32_z"))
"""Modules with `crc32(buffer, start)`, and the C function (start, pointer, size) that each is made of."""


def _choose() -> tuple[str, str, Callable[..., int], Any]:
    for name, symbol in _KNOWN:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return name, symbol, module.crc32, module
    raise ImportError("no module with crc32: Python was built without zlib")  # pragma: no cover


implementation, _symbol, crc32, _module = _choose()


def _address() -> int:
    """Where the C function stands, for kernels that checksum many blobs a call; 0 when it is not exported."""
    try:
        function = ctypes.CDLL(_module.__file__)[_symbol]
    except (AttributeError, OSError, TypeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


address = _address()
