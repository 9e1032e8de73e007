"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

from puffin_fast._kernels.containers import BitmapSummary

def check(data: bytes, start: int, stop: int, path: str | None = None, base: int = 0) -> BitmapSummary: ...
def decode_into(data: bytes, start: int, out: Any, cardinality: int) -> None: ...
