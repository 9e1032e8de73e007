"""Types of the kernel."""

from typing import Literal, overload

OR: int
AND: int
ANDNOT: int
XOR: int

@overload
def combine(
    op: int,
    left: bytes,
    left_start: int,
    right: bytes,
    right_start: int,
    any_is_enough: Literal[False] = False,
) -> tuple[bytes, int]: ...
@overload
def combine(
    op: int, left: bytes, left_start: int, right: bytes, right_start: int, any_is_enough: Literal[True]
) -> bool: ...
def union_many(buffers: list[bytes], starts: list[int]) -> tuple[bytes, int]: ...
