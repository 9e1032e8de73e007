"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

LONG: int
FLOAT: int
DOUBLE: int
BYTES: int
FIXED: int
OPTIONAL: int
ARRAY: int

def fits(data: Any, n_records: int, program: Any) -> bool: ...
def cut(data: Any, n_records: int, program: Any, fields: Any) -> bytearray | None: ...
