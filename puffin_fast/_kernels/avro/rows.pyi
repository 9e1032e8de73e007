"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any, final

NULL_: int
BOOLEAN: int
INT: int
LONG: int
FLOAT: int
DOUBLE: int
BYTES: int
STRING: int
FIXED: int
ENUM: int
DECIMAL: int
FIXED_DECIMAL: int
RECORD: int
ARRAY: int
MAP: int

@final
class RowDecoder:
    def __new__(cls, program: Any, wanted: Any) -> RowDecoder: ...
    def scan(self, data: Any, starts: Any, most: int) -> None: ...
    def pick(self, data: Any, starts: Any, most: int) -> None: ...
    def values(self, node: int) -> tuple[int, bytes | None, bytes, bytes]: ...
