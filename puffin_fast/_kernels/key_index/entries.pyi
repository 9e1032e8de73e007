"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any, final

@final
class Entries:
    def __new__(cls, form: tuple[int, int, int, int, int], first: int, last: int) -> Entries: ...
    def count(self, hashes: Any) -> None: ...
    def add(self, hashes: Any, ordinals: Any = None, base: int = 0) -> None: ...
    def pack(self, n_before: int = 0) -> tuple[bytearray, bytearray]: ...

@final
class Source:
    def __new__(
        cls,
        data: Any,
        base: int,
        before: Any,
        form: tuple[int, int, int, int, int],
        n_rows: int,
        first: int,
        last: int,
        moved: Any = None,
        firsts: Any = b"",
        coarse: Any = b"",
        shift: int = 0,
        first_row: int = 0,
    ) -> Source: ...

def merge(
    sources: list[Source], form: tuple[int, int, int, int, int], first: int, last: int, n_before: int
) -> tuple[int, int, bytearray, bytearray, int]: ...
