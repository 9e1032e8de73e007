"""Small row groups of Parquet files that are read as one: opening each costs more than its rows.

row groups   | 0 | 1 |    2, excluded    | 3 | 4 | 5, large … |
read as one  | 0 | 1 |                   | 3 | 4 |
rows         0       ^ rows are numbered in the file, from the first one that is read
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from puffin_fast._process.interrupt import suppressed
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.column_chunks import ColumnChunks
from puffin_fast.parquet.page_codecs import PageError
from puffin_fast.parquet.page_index import Spans
from puffin_fast.rows.files.files import Columns, reading

if TYPE_CHECKING:
    from puffin_fast.parquet.column_pages import JoinedPages, Rows
    from puffin_fast.parquet.page_index import Integers
    from puffin_fast.rows.files.parquet import ParquetReader

RowGroup: TypeAlias = tuple[int, int, int]
"""Its number, first row and row count."""

SMALL_ROWS = 1 << 12
"""Maximum number of rows of a row group that is read with others."""

MOST_FILES, MOST_FILE_BYTES = 16, 1 << 20
"""Maxima of files that are read as one, which are open at the same time: their number, and their bytes."""

MOST_TEXT_BYTES = 1 << 29
"""Maximum bytes of texts, if each row had the longest one of its dictionary: Arrow's offsets end at 2 GiB."""

_MOST_GROUPS, _MOST_ROWS, _MOST_BYTES = 1 << 10, 1 << 16, 4 << 20
"""Maxima of row groups that are read as one: their number, the rows from the first to the last one, and the bytes of
their columns without compression."""


def joined_groups(
    groups: Sequence[RowGroup], n_bytes: Iterable[int], text_bytes: Iterable[int], most_rows: int
) -> Iterator[Sequence[RowGroup]]:
    """Yields row groups that are read as one: each time twice as many at most, as few rows may be wanted.

    Args:
        groups: the row groups that are read, in the order of the file.
        n_bytes: the bytes of the columns of each, without compression.
        text_bytes: the most bytes of their texts.
        most_rows: maximum number of rows from the first to the last one.
    """
    run: list[RowGroup] = []
    most, left, most_rows = 1, _MOST_BYTES, min(most_rows, _MOST_ROWS)
    for group, size, texts in zip(groups, n_bytes, text_bytes, strict=True):
        size = max(size, texts * _MOST_BYTES // MOST_TEXT_BYTES)
        _, first, n_rows = group
        is_small, left = n_rows <= SMALL_ROWS, left - size
        fits = is_small and len(run) < most and left >= 0
        if run and not (fits and first + n_rows - run[0][1] <= most_rows):
            yield run
            run, most, left = [], min(2 * most, _MOST_GROUPS), _MOST_BYTES - size
        run.append(group)
        if not is_small:
            yield run
            run, left = [], _MOST_BYTES
    if run:
        yield run


def spans_of(run: Sequence[RowGroup]) -> Spans | None:
    """Returns the rows of row groups, numbered from the first one; None if they follow one another."""
    _, starts, lengths = np.array(run, np.int64).T
    starts = starts - starts[0]
    stops = starts + lengths
    if np.array_equal(starts[1:], stops[:-1]):
        return None
    last = np.append(starts[1:] != stops[:-1], True)
    return Spans(starts[np.append(True, last[:-1])], stops[last])


class JoinedColumns:
    """Some columns of parts that are read as one: each of them decoded in one call; see `Columns`.

    Args:
        firsts: the first row of each part.
        n_rows: its number of rows.
        names: the columns.
    """

    def __init__(self, firsts: Integers, n_rows: Integers, names: Sequence[str]) -> None:
        self._firsts, self._n_rows, self._names = firsts, n_rows, names

    def _pages(self, parts: Integers, names: Sequence[str]) -> Mapping[str, JoinedPages]:
        """The pages of some columns in some of the parts, as far as they are decoded in one call."""
        raise NotImplementedError

    def _columns(self, part: int, names: Sequence[str]) -> AbstractContextManager[Columns]:
        """Some columns of a part; what is wrong with its file is said of this file."""
        raise NotImplementedError

    def read(self, first: int, n_rows: int, rows: Rows | None) -> dict[str, pa.Array]:
        """Returns wanted rows of each column; parts without any are not read.

        Args:
            first, n_rows: all rows.
            rows: as for `Columns`.
        """
        here, edges = np.arange(len(self._firsts)), None
        if rows is not None:
            ends = np.stack([self._firsts, self._firsts + self._n_rows]).astype(np.int32)
            edges = rows.searchsorted(ends)
            here = np.flatnonzero(edges[1] > edges[0])
        found = {}
        with suppressed(OSError):
            for name, pages in self._pages(here, self._names).items():
                with suppressed(PageError, CorruptDataError):
                    found[name] = pages.read(n_rows, rows)
        if others := [name for name in self._names if name not in found]:
            parts = []
            for at in here.tolist():
                some = None
                if rows is not None and edges is not None and edges[1, at] - edges[0, at] < self._n_rows[at]:
                    some = rows[edges[0, at] : edges[1, at]] - np.int32(self._firsts[at])
                with self._columns(at, others) as columns:
                    parts.append(columns.read(0, int(self._n_rows[at]), some))
            found |= {name: pa.concat_arrays([part[name] for part in parts]) for name in others}
        return found


class ColumnsOfGroups(JoinedColumns):
    """Some columns of several row groups.

    Args:
        reader: the file.
        run: the row groups.
        names: the columns.
        batch_rows, use_threads: as for `ParquetReader.columns`.
    """

    def __init__(
        self,
        reader: ParquetReader,
        run: Sequence[RowGroup],
        names: Sequence[str],
        batch_rows: int,
        *,
        use_threads: bool,
    ) -> None:
        self._reader, self._batch_rows, self._use_threads = reader, batch_rows, use_threads
        self._groups, firsts, n_rows = np.array(run, np.int64).T
        super().__init__(firsts - firsts[0], n_rows, names)

    def _pages(self, parts: Integers, names: Sequence[str]) -> Mapping[str, JoinedPages]:
        return self._reader.chunks.joined(self._groups[parts], self._firsts[parts], names)

    def _columns(self, part: int, names: Sequence[str]) -> AbstractContextManager[Columns]:
        group = int(self._groups[part])
        return nullcontext(
            self._reader.columns(group, names, self._batch_rows, use_threads=self._use_threads)
        )


class ColumnsOfFiles(JoinedColumns):
    """Some columns of several files of one row group and one layout.

    Args:
        readers: the files.
        n_rows: the number of rows of each.
        names: the columns.
        batch_rows: as for `ParquetReader.columns`.
    """

    def __init__(
        self, readers: Sequence[ParquetReader], n_rows: Integers, names: Sequence[str], batch_rows: int
    ) -> None:
        self._readers, self._batch_rows = readers, batch_rows
        super().__init__(np.cumsum(n_rows) - n_rows, n_rows, names)

    def _pages(self, parts: Integers, names: Sequence[str]) -> Mapping[str, JoinedPages]:
        files = [self._readers[part].chunks for part in parts.tolist()]
        return ColumnChunks.joined_files(files, self._firsts[parts], names)

    @contextmanager
    def _columns(self, part: int, names: Sequence[str]) -> Iterator[Columns]:
        reader = self._readers[part]
        with reading(reader.location):
            yield reader.columns(0, names, self._batch_rows, use_threads=False)
