"""The column chunks of an open Parquet file: those that are decoded page by page are read here, and no others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._io.source import MAX_RANGE
from puffin_fast._kernels.parquet.footers import CONTRADICTION
from puffin_fast._kernels.parquet.pages import ChunkParts, LocalFile
from puffin_fast.columns.row_selection import FEW_ROWS
from puffin_fast.parquet.column_layout import Layout
from puffin_fast.parquet.column_pages import ColumnPages, JoinedPages, reads_pages
from puffin_fast.parquet.footer import Chunk, Chunks, Footer, Integers, check_status
from puffin_fast.parquet.list_pages import ListPages
from puffin_fast.parquet.page_index import (
    PagePlaces,
    Pages,
    RequestedPages,
    Spans,
    has_several,
    needs_dictionary,
)
from puffin_fast.parquet.small_chunks import SmallChunks

if TYPE_CHECKING:
    from puffin_fast._io import Source
    from puffin_fast.parquet.column_pages import Rows

GAP = 1 << 16
"""Bytes between column chunks that are read along with them: a request costs more."""

LOCAL_GAP = 1 << 14
"""The same between those of several row groups in a local file, which cost less to read than another call."""

LONG_LISTS = 16
"""Number of items of a list from which on `list_pages` is faster for all rows, too."""

BYTES_PER_ROW = 1 << 17
"""A local column chunk is read page by page if it has more bytes for each span of wanted rows."""

LEAST_PICKED = 1 << 17
"""Bytes of a column chunk from which its page index is read: it takes 0.1 ms, and fewer bytes are decoded in that."""

LEAST_REQUESTED = 1 << 14
"""The same on an object store, where bytes cost more, and the index mostly comes with the footer."""

AHEAD_BYTES = 1 << 20
"""Maximum bytes of pages of other columns that are requested along with those of the columns that select rows."""

LEAST_TOGETHER = 16
"""Number of small column chunks from which on they are decoded together: fewer take longer so."""

READ_BYTES = 32 << 20
"""Maximum bytes of neighboring column chunks that are read at once; a larger column chunk is read alone."""


class ColumnChunks:
    """The column chunks of an open Parquet file, and their pages.

    Attributes:
        places: where the pages of column chunks are, as far as this is known, by the offset of the chunk.

    Args:
        source: the file.
        footer: its footer.
        path: its path, for messages.
        is_remote: whether it is on an object store.
    """

    def __init__(self, source: Source, footer: Footer, path: str, *, is_remote: bool) -> None:
        self._source, self._footer, self._path, self._is_remote = source, footer, path, is_remote
        self._group_rows = footer.group_rows
        self._local: LocalFile | None = None
        self.places: Mapping[int, PagePlaces] = {}
        self._ahead: dict[int, tuple[RequestedPages, ChunkParts]] = {}  # by the offset of the chunk

    def pages_of(
        self,
        group: int,
        names: Sequence[str],
        *,
        views: bool = False,
        wanted: Spans | None = None,
        is_late: bool = False,
        most: bool = False,
        ahead: Sequence[str] = (),
        codes: Collection[str] = (),
    ) -> dict[str, ColumnPages | ListPages]:
        """Opens the column chunks of those columns that `column_pages` or `list_pages` decodes.

        Column chunks of which all pages are read are read here, neighboring ones in one read; large ones in a local
        file page by page. If only some rows are wanted, their pages are read when the rows are.

        Args:
            group: the number of the row group.
            names: the columns.
            views: whether texts and bytes may be views.
            wanted: the only rows that may be wanted; None: all.
            is_late: whether only some of these are wanted, which is known later.
            most: whether most rows are read: short lists are then left to PyArrow.
            ahead: columns that are opened next, with the same rows wanted. On an object store, those of their pages
                that have a wanted row are requested along with the others, if they are small.
            codes: those of the columns whose texts may be dictionary arrays; only if all rows may be wanted.
        """
        n_rows = self._group_rows[group]
        found = self.of(group, names, views=views)
        places: dict[str, Pages] = {}
        if wanted is not None or is_late:
            large = self._large(found)
            if wanted is None and self._is_local:
                # a chunk that is read at once is decoded by page, too
                large = [item for item in large if reads_pages(*item[1:])]
            places = self.places_of(large, n_rows)
        result: dict[str, ColumnPages] = {}

        few = wanted is not None and wanted.n_rows <= FEW_ROWS

        def add(name: str, layout: Layout, chunk: Chunk, data: Any) -> None:
            result[name] = ColumnPages(
                layout,
                chunk,
                data,
                n_rows,
                path=self._path,
                name=name,
                places=places.get(name),
                few=few,
                codes=wanted is None and name in codes,
            )

        if self._is_local:
            for name, layout, chunk in found:
                is_few = wanted is not None and len(wanted.starts) * BYTES_PER_ROW < chunk.n_bytes
                if name in places or is_few or reads_pages(layout, chunk):
                    add(name, layout, chunk, self._local_file())
        elif places:
            picked = [item for item in found if item[0] in places]
            if not all(chunk.start in self._ahead for _, _, chunk in picked):
                self._request(
                    [(chunk, places[name]) for name, _, chunk in picked],
                    wanted,
                    [] if wanted is None else self._few_pages(group, ahead, wanted),
                )
            for name, layout, chunk in picked:
                requested, parts = self._ahead.pop(chunk.start)
                add(name, layout, chunk, parts)
                result[name].requested = requested
        for name, layout, chunk, data in self._whole([item for item in found if item[0] not in result]):
            add(name, layout, chunk, data)
        picks = wanted is not None or is_late
        lists = {
            name: self._lists_of(group, name, wanted, most=most, picks=picks)
            for name in names
            if name not in result
        }
        return {**result, **{name: pages for name, pages in lists.items() if pages is not None}}

    def read_small(self, group: int, names: Sequence[str], rows: Rows | None) -> dict[str, pa.Array]:
        """Returns rows of those columns whose column chunks are decoded together: many small ones of numbers.

        Args:
            group: the number of the row group.
            names: the columns.
            rows: the wanted rows; None: all.
        """
        if self._footer.status or len(names) < LEAST_TOGETHER:
            return {}
        found = SmallChunks.of(self._footer, group, names, self.least_picked, self._source.size)
        is_part = len(found.columns) < len(names)
        if len(found.columns) < LEAST_TOGETHER or (is_part and self._is_remote):  # each read is a request
            return {}
        result: dict[str, pa.Array] = {}
        spans, first = _neighbors(zip(found.starts, found.stops, strict=True)), 0
        for (begin, _, after), data in zip(spans, self._read(spans), strict=True):
            result.update(found.read(first, after, begin, data, self._group_rows[group], rows))
            first = after
        return result

    def _large(self, found: Sequence[tuple[str, Layout, Chunk]]) -> list[tuple[str, Layout, Chunk]]:
        return [item for item in found if item[2].n_bytes >= self.least_picked]

    def _request(
        self,
        chunks: Sequence[tuple[Chunk, Pages]],
        wanted: Spans | None,
        ahead: Sequence[tuple[Chunk, Pages]],
    ) -> None:
        """Column chunks whose pages are requested together."""
        requested = RequestedPages(self._source, [*chunks, *ahead], wanted)
        starts = [chunk.start for chunk, _ in (*chunks, *ahead)]
        self._ahead = {
            start: (requested, parts) for start, parts in zip(starts, requested.parts, strict=True)
        }

    def _few_pages(self, group: int, names: Sequence[str], wanted: Spans) -> list[tuple[Chunk, Pages]]:
        """The column chunks with an offset index, if their pages with a wanted row are small together."""
        found = self._large(self.of(group, names))
        places = self.places_of(found, self._group_rows[group])
        chunks = [(chunk, places[name]) for name, _, chunk in found if name in places]
        n_bytes = sum(
            pages.bytes_of(pages.touched(wanted), dictionary=needs_dictionary(chunk, pages))
            for chunk, pages in chunks
        )
        return chunks if n_bytes <= AHEAD_BYTES else []

    @property
    def least_picked(self) -> int:
        """Bytes of a column chunk from which its page index is read."""
        return LEAST_REQUESTED if self._is_remote else LEAST_PICKED

    def of(self, group: int, names: Iterable[str], *, views: bool = False) -> list[tuple[str, Layout, Chunk]]:
        """Returns the column chunks of a row group that `column_pages` decodes."""
        footer, n_rows = self._footer, self._group_rows[group]
        if footer.status == CONTRADICTION:  # PyArrow says what is wrong with the file
            return []
        check_status(footer.status, self._path)
        found: list[tuple[str, Layout, Chunk]] = []
        for name in names:
            column = footer.layout.column(name, views=views)
            if column is None:
                continue
            leaf, layout = column
            chunk = footer.chunk(group, leaf)
            if chunk.is_known(layout) and chunk.n_values == n_rows and chunk.start >= 4 and chunk.n_bytes > 0:
                found.append((name, layout, chunk))
        return found

    def places_of(self, chunks: Iterable[tuple[str, Layout, Chunk]], n_rows: int) -> dict[str, Pages]:
        """Returns the pages of those column chunks whose places are known, or whose offset index has several."""
        found: dict[str, Pages | None] = {}
        several = []
        for name, _, chunk in chunks:
            if (places := self.places.get(chunk.start)) is not None:
                found[name] = Pages.known(places, chunk, n_rows)
            elif has_several(chunk):
                several.append((name, chunk))
        indexes = (
            self.indexes((chunk.offsets, chunk.offsets_bytes) for _, chunk in several) if several else []
        )
        for (name, chunk), data in zip(several, indexes, strict=True):
            found[name] = None if data is None else Pages.of(data, chunk, n_rows)
        return {name: pages for name, pages in found.items() if pages is not None}

    def indexes(self, ranges: Iterable[tuple[int, int]]) -> list[bytes | None]:
        """Returns the bytes of indexes; None of one that is not within the file."""
        ranges, size = [*ranges], self._source.size
        inside = [
            at for at, (start, n) in enumerate(ranges) if start >= 4 and 0 < n <= min(size - start, MAX_RANGE)
        ]
        found: list[bytes | None] = [None] * len(ranges)
        for at, data in self._source.read_ranges([ranges[at] for at in inside]):
            found[inside[at]] = data
        return found

    def _whole(
        self, found: list[tuple[str, Layout, Chunk]]
    ) -> Iterator[tuple[str, Layout, Chunk, pa.Buffer]]:
        """Reads whole column chunks; neighboring ones in one read."""
        found = sorted(found, key=lambda item: (item[2].start, item[2].n_bytes))
        spans = _neighbors((chunk.start, chunk.start + chunk.n_bytes) for _, _, chunk in found)
        first = 0
        for (begin, _, after), data in zip(spans, self._read(spans), strict=True):
            for name, layout, chunk in found[first:after]:
                if chunk.start + chunk.n_bytes - begin <= len(data):
                    yield name, layout, chunk, data.slice(chunk.start - begin, chunk.n_bytes)
            first = after

    def joined(
        self, groups: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, JoinedPages]:
        """Opens the column chunks of several row groups, of those columns that `column_pages` decodes in all of them.

        Neighboring ones are read in one read.

        Args:
            groups: the numbers of the row groups.
            firsts: the first row of each, as wanted rows are numbered.
            names: the columns.
        """
        if self._footer.status:
            return {}

        def read(starts: Integers, stops: Integers) -> tuple[list[pa.Buffer], Integers, Integers]:
            begins, ends = _reads_of(starts.ravel(), stops.ravel(), GAP if self._is_remote else LOCAL_GAP)
            spans = [*self._read([*zip(begins.tolist(), ends.tolist(), strict=True)])]
            return spans, begins, begins.searchsorted(starts, "right") - 1

        return self._joined(self._footer.words[groups], firsts, names, read)

    @staticmethod
    def joined_files(
        files: Sequence[ColumnChunks], firsts: npt.NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, JoinedPages]:
        """Opens the column chunks of several local files of one row group and one layout, as `joined` does.

        Args:
            files: their column chunks.
            firsts, names: as for `joined`.
        """
        if any(file._footer.status for file in files):
            return {}

        def read(starts: Integers, stops: Integers) -> tuple[list[pa.Buffer], Integers, Integers]:
            begins = starts.min(axis=0)
            ranges = zip(files, begins.tolist(), stops.max(axis=0).tolist(), strict=True)
            spans = [part for file, *span in ranges for part in file._read([span])]
            return spans, begins, np.broadcast_to(np.arange(len(files)), starts.shape)

        return files[0]._joined(np.concatenate([file._footer.words for file in files]), firsts, names, read)

    def _joined(
        self,
        groups: Integers,
        firsts: Integers,
        names: Sequence[str],
        read: Callable[[Integers, Integers], tuple[list[pa.Buffer], Integers, Integers]],
    ) -> dict[str, JoinedPages]:
        """The pages of columns in row groups.

        Args:
            groups: the words of the row groups.
            firsts, names: as for `joined`.
            read: reads column chunks, whose starts and stops it takes, a line for each column: returns buffers, the
                offset of each in its file, and which one has each column chunk.
        """
        n_rows = groups[:, 0]
        found: list[tuple[str, Layout, str, Chunks]] = []
        for name in names:
            if (column := self._footer.layout.column(name, views=False)) is not None:
                leaf, layout = column
                chunks = self._footer.chunks(groups, leaf)
                if (codec := chunks.known_codec(layout, n_rows)) is not None:
                    found.append((name, layout, codec, chunks))
        if not found:
            return {}
        starts = np.stack([chunks.start for *_, chunks in found])
        spans, begins, of_span = read(starts, starts + np.stack([chunks.n_bytes for *_, chunks in found]))
        offsets = starts - begins[of_span]
        result = {}
        for at, (name, layout, codec, chunks) in enumerate(found):
            own = of_span[at], offsets[at], chunks.n_bytes, chunks.raw_bytes, chunks.start, firsts, n_rows
            words = np.stack(own, axis=1)
            result[name] = JoinedPages(layout, codec, spans, words, path=self._path, name=name)
        return result

    def _lists_of(
        self, group: int, name: str, wanted: Spans | None, *, most: bool, picks: bool
    ) -> ListPages | None:
        """The pages of a column of lists or maps that `list_pages` decodes faster than PyArrow; see `pages_of`."""
        layout = None if self._footer.status else self._footer.layout.lists(name)
        if layout is None:
            return None
        n_items = self._footer.chunk(group, layout.leaves[0]).n_values
        if most and n_items < LONG_LISTS * self._group_rows[group]:
            return None
        chunks = [self._footer.chunk(group, leaf) for leaf in layout.leaves]
        if not all(
            chunk.is_known(inner)
            and chunk.start >= 4
            and chunk.n_bytes > 0
            and not chunk.has_bit_packed_levels
            for inner, chunk in zip(layout.layouts, chunks, strict=True)
        ):
            return None
        items = [
            (str(leaf), inner, chunk)
            for leaf, inner, chunk in zip(layout.leaves, layout.layouts, chunks, strict=True)
        ]
        places = self.places_of(self._large(items), self._group_rows[group]) if picks else {}
        file, requested = self._local_file(), None
        parts: dict[str, LocalFile | ChunkParts] = {}
        if file is None and places:
            picked = [(leaf, chunk, places[leaf]) for leaf, _, chunk in items if leaf in places]
            requested = RequestedPages(self._source, [(chunk, pages) for _, chunk, pages in picked], wanted)
            parts = {leaf: part for (leaf, *_), part in zip(picked, requested.parts, strict=True)}
        elif file is not None:
            parts = {
                leaf: file for leaf, inner, chunk in items if leaf in places or reads_pages(inner, chunk)
            }
        read = self._read(
            [(chunk.start, chunk.start + chunk.n_bytes) for leaf, _, chunk in items if leaf not in parts]
        )
        leaves = []
        for leaf, inner, chunk in items:
            data: Any = parts[leaf] if leaf in parts else next(read)
            if leaf not in parts and len(data) < chunk.n_bytes:  # PyArrow says what is wrong with the file
                return None
            pages = ColumnPages(
                inner,
                chunk,
                data,
                chunk.n_values,
                path=self._path,
                name=name,
                places=places.get(leaf),
                repeats=True,
            )
            leaves.append((pages, places.get(leaf)))
        return ListPages(layout, leaves, requested)

    @property
    def _is_local(self) -> bool:
        """Whether the kernel can read from the file."""
        return not self._is_remote and self._source.descriptor is not None

    def _local_file(self) -> LocalFile | None:
        """The file, for reading from it in the kernel."""
        if self._local is None and self._is_local:
            assert self._source.descriptor is not None
            self._local = LocalFile(self._source.descriptor)
        return self._local

    def _read(self, spans: Sequence[Sequence[int]]) -> Iterator[pa.Buffer]:
        """The bytes of each span; none of one that ends after the file, and PyArrow says what is wrong with it."""
        size = self._source.size
        ranges = [(start, stop - start if stop <= size else 0) for start, stop, *_ in spans]
        if self._is_remote:
            found = dict(self._source.read_ranges(ranges))
            yield from (pa.py_buffer(found[at]) for at in range(len(ranges)))
            return
        if self._is_local:
            for start, n_bytes in ranges:
                held, local = self._source.in_memory(start, n_bytes), self._local_file
                yield pa.py_buffer(local().read(start, n_bytes) if held is None else held)  # type: ignore[union-attr]
            return
        file = self._source.for_arrow()
        for start, n_bytes in ranges:
            file.seek(start if n_bytes else 0)
            yield file.read_buffer(n_bytes)


def _neighbors(ranges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The spans of a file that have neighboring ranges: start, stop, and the index of the first range after.

    Args:
        ranges: start and stop of each, in order.
    """
    spans: list[list[int]] = []
    for at, (start, stop) in enumerate(ranges):
        if spans and start - spans[-1][1] <= GAP and stop - spans[-1][0] <= READ_BYTES:
            spans[-1][1:] = max(spans[-1][1], stop), at + 1
        else:
            spans.append([start, stop, at + 1])
    return spans


def _reads_of(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], gap: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where reads begin and end that have some ranges, with at most some bytes between two of them."""
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    is_far = starts[1:] - stops[:-1] > gap
    return starts[np.append(True, is_far)], stops[np.append(is_far, True)]
