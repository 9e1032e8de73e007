"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

import os
from collections.abc import Sequence
from typing import Any, final

BLOCK_BYTES: int
NOWHERE: int
ASKED: int
ANYWHERE: int

def header(data: Any) -> tuple[int, int] | None: ...
def hash_fixed(values: Any, width: int, out: Any) -> None: ...
def hash_texts(offsets: Any, values: Any, out: Any) -> None: ...
def hash_plain(page: Any, out: Any) -> bool: ...
def blocks_of(hashes: Any, n_blocks: int, out: Any) -> None: ...
def contains(blocks: Any, hashes: Any, out: Any, *, is_whole: bool) -> None: ...

@final
class FileQuestion:
    def __new__(
        cls,
        before: bytes,
        after: bytes,
        leaves: Any,
        wanted: Sequence[tuple[int, float, Sequence[tuple[int, int, Any, Any]]]],
    ) -> FileQuestion: ...
    def excludes(self, path: str | os.PathLike[str], n_rows: int) -> tuple[tuple[int, int], ...] | None: ...
