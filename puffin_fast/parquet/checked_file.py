"""A Parquet file as PyArrow reads it: each column chunk is compared with the checksums of its pages when it is read.

PyArrow can compare pages itself. Its CRC-32 takes about 0.35 ns for each byte, which is as long as it takes to decode
values without compression; with the processor's instructions the comparison takes a tenth of that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from puffin_fast._io.source import MAX_RANGE
from puffin_fast._kernels.parquet.page_sums import PageSums
from puffin_fast.errors import CorruptDataError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from puffin_fast._io import Source
    from puffin_fast.parquet.footer import ChunkPlaces

PIECE = 1 << 19
"""Bytes of a local file that are read and compared at a time: they are then in the processor's second cache."""


class CheckedFile:
    """A file object for `pyarrow.PythonFile`, which reads from one thread at a time, and each column chunk at once.

    Args:
        file: the file in PyArrow.
        path: the path of the file, for messages.

    Attributes:
        places: where the column chunks are. Nothing is compared before they are set.
        schema: the Parquet schema of the file, for messages.
        closed: as PyArrow requires it.
    """

    places: ChunkPlaces | None = None
    schema: pq.ParquetSchema
    closed = False

    def __init__(self, file: pa.NativeFile, path: str) -> None:
        self._file, self._path, self._at = file, path, 0
        self._held: dict[int, bytes] = {}

    @contextmanager
    def holding(self, source: Source, ranges: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Reads column chunks at once, near ones together; each is kept until it is asked for."""
        size = source.size
        ranges = [(start, n) for start, n in ranges if 0 <= start <= size - n and 0 < n <= MAX_RANGE]
        self._held |= {ranges[at][0]: data for at, data in source.read_ranges(ranges)}
        try:
            yield
        finally:
            for start, _ in ranges:
                self._held.pop(start, None)

    def read_buffer(self, n: int) -> pa.Buffer:
        """Reads bytes from the position on.

        Raises:
            CorruptDataError: they are a column chunk with a page that has another CRC-32 than its header states.
        """
        start = self._at
        chunk = None if self.places is None else self.places.at(start)
        n = min(n, max(self._file.size() - start, 0))
        if chunk is None:
            self._file.seek(start)
            data = self._file.read_buffer(n)
        else:
            data = self._chunk(start, n, *chunk)
        self._at += len(data)
        return data

    def _chunk(self, start: int, n: int, leaf: int, n_bytes: int, n_values: int) -> pa.Buffer:
        held, column = self._held.pop(start, None), self.schema.column(leaf).path
        is_whole = True

        def sums(data: pa.Buffer) -> PageSums:
            pages = data.slice(0, min(n, n_bytes))
            return PageSums(pages, n_values=n_values, path=self._path, column=column, start=start)

        if held is not None or not isinstance(self._file, pa.OSFile):
            if held is None or len(held) < n:
                self._file.seek(start)
                data = self._file.read_buffer(n)
            else:
                data = pa.py_buffer(held).slice(0, n)
            is_whole = sums(data).check(min(len(data), n_bytes))
        else:
            data = pa.allocate_buffer(n)
            places, pages, at = memoryview(data), sums(data), 0
            self._file.seek(start)
            while at < n and (n_read := self._file.readinto(places[at : at + PIECE])):
                at += n_read
                is_whole = pages.check(min(at, n_bytes))
            data = data.slice(0, at)
        if not is_whole and len(data) >= n_bytes:
            raise CorruptDataError(
                f"pages of column {column}",
                path=self._path,
                offset=start,
                expected=f"{n_values} values",
                found="fewer",
            )
        return data

    def read(self, n: int = -1) -> bytes:
        """Reads bytes from the position on; `read_buffer` does not copy them."""
        data: bytes = self.read_buffer(n if n >= 0 else self._file.size()).to_pybytes()
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position; returns it."""
        if whence != os.SEEK_SET:
            offset += self._file.size() if whence == os.SEEK_END else self._at
        self._at = offset
        return offset

    def tell(self) -> int:
        """The position."""
        return self._at

    def close(self) -> None:
        """Does not close the file in PyArrow, which has another owner."""
        self.closed = True
