"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

def split(data: Any, start: int, max_bytes: int, max_cardinality: int) -> list[tuple[bytes, int]]: ...
