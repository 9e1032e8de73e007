"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

CONTRADICTION: int
ENCRYPTED: int

def check_chunks(data: Any, leaves: Any) -> int: ...
