"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

def encode(positions: Any, maximum: int) -> tuple[bytes, int] | None: ...
