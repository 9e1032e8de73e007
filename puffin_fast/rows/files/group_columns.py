"""Columns of a row group of a Parquet file: flat columns and lists by their pages, everything else with PyArrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast.parquet.column_pages import ColumnPages
from puffin_fast.parquet.page_codecs import PageError
from puffin_fast.parquet.page_index import PagePlaces, RequestedPages, Spans
from puffin_fast.rows.files.files import BatchColumns

if TYPE_CHECKING:
    from puffin_fast.parquet.column_pages import Rows
    from puffin_fast.parquet.list_pages import ListPages
    from puffin_fast.rows.files.parquet import ParquetReader

FEW_ROWS = 4
"""Number of rows for each wanted one from which on lists are decoded by `list_pages`: for more PyArrow is faster."""


class GroupColumns:
    """Some columns of a row group, read in order: those that `column_pages` decodes, and the others with PyArrow.

    Nothing is read before the first row is wanted.
    """

    def __init__(
        self,
        reader: ParquetReader,
        group: int,
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
        views: bool,
        wanted: Spans | None = None,
        is_late: bool = False,
    ) -> None:
        self._reader, self._group, self._names = reader, group, names
        self._batch_rows, self._use_threads, self._views = batch_rows, use_threads, views
        self._wanted, self._is_late = wanted, is_late
        self._pages: dict[str, ColumnPages | ListPages] | None = None
        self._requested: RequestedPages | None = None
        self._arrow: list[BatchColumns] = []

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column; see `Columns`."""
        pages = self._open(most=rows is None or len(rows) * FEW_ROWS > n_rows)
        if self._requested is not None:
            some = Spans(np.array([first]), np.array([first + n_rows]))
            if rows is not None:
                some = Spans.of_rows(first + rows.astype(np.int64))
            self._requested.request(some, first + n_rows)
        found = {}
        for name in [*pages]:
            try:
                found[name] = pages[name].read(first, n_rows, rows)
            except PageError:
                del pages[name]
                self._read_with_arrow([name])
        for columns in self._arrow:
            found |= columns.read(first, n_rows, rows)
        return found

    def places(self) -> list[PagePlaces]:
        """Returns where the pages of the columns are that `column_pages` decoded, after all rows were read."""
        known = (pages.places() for pages in self._open().values() if isinstance(pages, ColumnPages))
        return [places for places in known if places is not None]

    def are_decoded(self) -> bool:
        """Whether `column_pages` decodes all of them."""
        return len(self._open()) == len(self._names)

    def _open(self, *, most: bool = True) -> dict[str, ColumnPages | ListPages]:
        if self._pages is None:
            self._pages = self._reader.chunks.pages_of(
                self._group,
                self._names,
                views=self._views,
                wanted=self._wanted,
                is_late=self._is_late,
                most=most,
            )
            some = (pages.requested for pages in self._pages.values() if pages.requested is not None)
            self._requested = next(some, None)
            self._read_with_arrow([name for name in self._names if name not in self._pages])
        return self._pages

    def _read_with_arrow(self, names: Sequence[str]) -> None:
        if names:
            batches = self._reader.batches(
                self._group, names, self._batch_rows, use_threads=self._use_threads
            )
            n_rows = self._reader.group_rows[self._group]
            self._arrow.append(BatchColumns(batches, self._group, n_rows, self._reader.location))
