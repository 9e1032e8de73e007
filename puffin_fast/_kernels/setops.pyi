"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any, Literal, overload

OR: int
AND: int
ANDNOT: int
XOR: int

@overload
def combine(
    op: int,
    left: Any,
    left_start: int,
    right: Any,
    right_start: int,
    any_is_enough: Literal[False] = False,
) -> tuple[bytes, int]: ...
@overload
def combine(
    op: int, left: Any, left_start: int, right: Any, right_start: int, any_is_enough: Literal[True]
) -> bool: ...
def union_many(buffers: list[bytes], starts: list[int]) -> tuple[bytes, int]: ...
