"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

CONTRADICTION: int
ENCRYPTED: int
CHUNK_WORDS: int
IN_UNKNOWN: int
IN_DICTIONARY: int

def find_groups(data: Any) -> tuple[int, int] | None: ...
def read_groups(data: Any, leaves: Any) -> tuple[int, int, int, bytes]: ...
