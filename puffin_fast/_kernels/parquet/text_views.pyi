"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from typing import Any, final

@final
class TextBuffers:
    def __new__(cls, buffers: list[Any]) -> TextBuffers: ...

def views_bytes(views: Any, count: int) -> int: ...
def text_runs(
    views: Any, count: int, buffers: list[Any], most: int
) -> tuple[list[int], list[str]] | None: ...
def copy_views(
    views: Any, count: int, buffers: list[Any], offset_bytes: int, offsets: Any, out: Any
) -> int: ...
