"""The pages of a column chunk that have some rows, read from a local file: headers are read until the last of them.

chunk    dictionary | page | page | page | page …
read     dictionary |             | page            put one after another, as if they were the chunk
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._kernels.parquet import pages
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.column_layout import Layout
from puffin_fast.parquet.column_pages import ColumnPages, Rows
from puffin_fast.parquet.page_codecs import PageError

if TYPE_CHECKING:
    from puffin_fast._io import Source
    from puffin_fast.parquet.footer import Chunk

BYTES_PER_ROW = 1 << 17
"""A column chunk is read whole if it has fewer bytes for each wanted row: most of its pages would be read."""

_HEADER_BYTES = 1 << 9
"""Bytes that are read for the header of a page."""

_DICTIONARY, _DATA = 2, (0, 3)


class PickedPages:
    """Some pages of a column chunk, read in order like `ColumnPages`.

    Args:
        layout, chunk, path, name: as for `ColumnPages`.
        data: the bytes of the dictionary and of the pages.
        firsts: the first row of each page of the chunk up to the last picked one, and the row after them.
        picked: whether each of these pages is in `data`.
    """

    def __init__(
        self,
        layout: Layout,
        chunk: Chunk,
        data: bytes,
        firsts: npt.NDArray[np.int64],
        picked: npt.NDArray[np.bool_],
        *,
        path: str,
        name: str,
    ) -> None:
        n_rows = np.where(picked, np.diff(firsts), 0)
        self._firsts, self._picked = firsts, picked
        self._moved = np.cumsum(n_rows) - n_rows
        buffer = pa.py_buffer(data)
        # a dictionary has at most as many values as the whole chunk
        self._pages = ColumnPages(layout, chunk, buffer, chunk.n_values, path=path, name=name)

    @classmethod
    def of(
        cls, layout: Layout, chunk: Chunk, source: Source, wanted: Rows, *, path: str, name: str
    ) -> PickedPages | None:
        """Reads the pages of some rows; None if a header does not have the expected form.

        Args:
            layout, chunk, path, name: as for `ColumnPages`.
            source: the file.
            wanted: ascending rows of the row group, at least one.
        """
        at, end, last = chunk.start, chunk.start + chunk.n_bytes, int(wanted[-1])
        firsts, places, dictionary = [0], [], b""
        while firsts[-1] <= last:
            try:
                kind, _, n_bytes, n_rows, *_, n_header = pages.page_header(
                    source.read_at(at, min(_HEADER_BYTES, end - at)), 0
                )
            except (ValueError, CorruptDataError):
                return None
            size = n_header + n_bytes
            if n_bytes < 0 or n_rows < 0 or size > end - at:
                return None
            if kind == _DICTIONARY and at == chunk.start:
                dictionary = source.read_at(at, size)
            elif kind in _DATA:
                firsts.append(firsts[-1] + n_rows)
                places.append((at, size))
            else:
                return None
            at += size
        found = np.array(firsts, np.int64)
        picked = np.zeros(len(places), np.bool_)
        picked[np.searchsorted(found, wanted, "right") - 1] = True
        parts = [source.read_at(*places[number]) for number in np.flatnonzero(picked).tolist()]
        return cls(layout, chunk, b"".join([dictionary, *parts]), found, picked, path=path, name=name)

    def read(self, first: int, n_rows: int, rows: Rows | None) -> pa.Array:
        """Decodes rows; see `ColumnPages.read`.

        Raises:
            PageError: a page does not have the expected form or is damaged, or a row was not wanted.
        """
        wanted = first + (np.arange(n_rows) if rows is None else rows.astype(np.int64))
        page = np.searchsorted(self._firsts, wanted, "right") - 1
        if len(page) and (page[-1] >= len(self._picked) or not self._picked[page].all()):
            raise PageError("a row of a page that was not read")
        moved = wanted - self._firsts[page] + self._moved[page]
        start = int(moved[0]) if len(moved) else 0
        span = int(moved[-1]) - start + 1 if len(moved) else 0
        try:
            return self._pages.read(start, span, (moved - start).astype(np.int32))
        except CorruptDataError as error:  # its offset is none of the file
            raise PageError(str(error)) from error
