"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any

BOOLEAN: int
LONG: int
FLOAT: int
DOUBLE: int
BYTES: int
STRING: int
FIXED: int
OPTIONAL: int
ARRAY: int
MAP: int
PLACE: int
INTEGER: int
TEXT: int
NUMBER: int

def split(data: Any, sync: Any, start: int = 0) -> tuple[list[tuple[int, int, int, int]], int]: ...
def gather(
    blocks: Any,
    counts: Any,
    program: Any,
    fields: Any,
    roles: Any,
    starts: Any,
    slots: Any,
    valid: Any,
    varies: Any,
    origins: Any,
    chosen: Any = None,
) -> tuple[bytearray, list[list[bytes] | None]] | None: ...
def locate(data: Any, records: Any, program: Any, fields: Any, places: Any) -> None: ...
def longs(data: Any, places: Any, program: Any, values: Any, valid: Any) -> int: ...
def spans(data: Any, places: Any, program: Any, starts: Any, sizes: Any) -> int: ...
def entries(data: Any, places: Any, program: Any, key: int, starts: Any, sizes: Any) -> None: ...
def values(data: Any, places: Any, program: Any) -> list[Any]: ...
