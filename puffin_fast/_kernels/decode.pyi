"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

def check(
    data: Any, start: int, stop: int, path: str | None = None, base: int = 0
) -> tuple[int, int, int, int, int, int, bool]: ...
def decode_into(data: Any, start: int, out: Any, cardinality: int) -> None: ...
