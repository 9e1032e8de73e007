"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

OBJECT: int
INTEGER: int
TEXT: int
SIZE_BITS: int

def rows_into(
    data: Any,
    start: int,
    capacity: int,
    nodes: Any,
    names: Any,
    valid: Any,
    integers: Any,
    starts: Any,
    sizes: Any,
) -> tuple[int, int] | None: ...
def copy_texts(data: Any, start: int, starts: Any, sizes: Any, n: int, offsets: Any, out: Any) -> int: ...
