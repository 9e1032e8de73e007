"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

from puffin_fast._kernels.containers import BitmapSummary

MAGIC: bytes

def frame(data: Any, start: int, stop: int) -> bytes: ...
def check(blob: Any, path: str | None = None, offset: int = 0) -> BitmapSummary: ...
