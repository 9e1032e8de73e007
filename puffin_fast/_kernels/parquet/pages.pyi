"""Types of the kernel; `Any` where a contiguous buffer is taken (Python 3.11 has no name for one)."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

SAME: int
INT32_TO_INT128: int
INT64_TO_INT128: int
BIG_ENDIAN_TO_INT128: int

OTHER: int
UNCOMPRESSED: int
SNAPPY: int
ZSTD: int

def use_zstd(create: int, release: int, decompress: int) -> None: ...
def zstd_into(data: Any, out: Any) -> int: ...
def level_bits(levels: Any, least: int) -> bytearray | None: ...
def read_chunks(
    data: Any, chunks: Any, n_rows: int, rows: Any, outs: list[Any], levels: list[Any]
) -> list[bytes | Literal[False] | None]: ...
def page_header(data: Any, start: int) -> tuple[int, ...]: ...

@final
class PageMemory: ...

@final
class LocalFile:
    def __new__(cls, descriptor: int) -> LocalFile: ...
    def read(self, start: int, n_bytes: int) -> bytes: ...

@final
class ChunkParts:
    def add(self, first: int, data: Any) -> None: ...
    def header(self, start: int) -> tuple[int, ...]: ...

@final
class PageDecoder:
    def __new__(
        cls,
        data: Any,
        decompress: Callable[[Any, int], Any],
        *,
        n_rows: int,
        most_bytes: int,
        stored: int,
        width: int,
        conversion: int,
        most_level: int,
        repeats: bool = False,
        codec: int = 0,
        path: str | None = None,
        column: str | None = None,
        start: int = 0,
        n_bytes: int = 0,
        pages: Any = None,
        decompress_part: Callable[[Any, int, int], Any] | None = None,
        codes: bool = False,
    ) -> PageDecoder: ...
    def read_into(
        self, first: int, n_rows: int, rows: Any, out: Any, levels: Any = None
    ) -> tuple[bytearray | None, list[Any]]: ...
    def read_joined(
        self, spans: Sequence[Any], words: Any, rows: Any, count: int, out: Any, levels: Any = None
    ) -> tuple[bytearray | None, list[Any]]: ...
    def dictionary(self) -> tuple[bytearray, Any] | None: ...
    def lists_at(self, row: int) -> tuple[int, int, bytes]: ...
    def places(self) -> list[int] | None: ...
