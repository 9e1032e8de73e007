"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

LOCATION_WORDS: int
BOUND_WORDS: int
LEAST_LOCATION: int

def locations(data: Any) -> bytes | None: ...
def bounds(data: Any) -> bytes | None: ...
