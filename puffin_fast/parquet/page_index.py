"""The page index of a Parquet file: where the pages of a column chunk are, and the bounds of their values.

    column chunks | column indexes | offset indexes | footer

    offset index   of each data page: offset, bytes, first row
    column index   of each data page: whether it has nulls only, bounds

An index is advice, as bounds are: one that contradicts itself or the footer is not used. A page that has other rows
than its offset index states is damage, because rows may have been left out by that index.

Source: Parquet format specification, "Page Index".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin_fast._kernels.parquet import page_index
from puffin_fast._kernels.parquet.pages import ChunkParts

if TYPE_CHECKING:
    from puffin_fast._io import Source
    from puffin_fast.parquet.footer import Chunk

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PagePlaces: TypeAlias = Sequence[int]
"""Where the pages of a column chunk are: its offset, the bytes of the page of its dictionary (0: none), then the bytes
and the rows of each data page. They are one after the other."""

_TWO_PAGES = 2 * page_index.LEAST_LOCATION + 8
"""Fewer bytes of an offset index are one page: their offsets and sizes take more bytes than the least ones."""

_FEW = 4
"""Pages of later rows are requested along with those of wanted rows, if more than one of so many was needed."""

_SMALL = 1 << 18
"""Fewer bytes are requested at once: another request costs more."""


_SMALL_DICTIONARY = 1 << 16
"""Fewer bytes of a dictionary are requested along with pages; more only if a page needs it, which the footer or the
header of the page says."""

_DICTIONARY = 2, 8
"""The encodings of the format that need the dictionary."""


MOST_LEVELS = 1 << 31
"""No page has as many levels: their number has 32 bits in its header."""


class Spans(NamedTuple):
    """Rows of a row group in ascending, disjoint spans, neither of them empty.

    Attributes:
        starts: the first row of each.
        stops: the row after each.
    """

    starts: Integers
    stops: Integers

    @classmethod
    def of_flags(cls, firsts: Integers, n_rows: int, flags: Flags) -> Spans:
        """Returns the rows of flagged parts.

        Args:
            firsts: the first row of each part.
            n_rows: number of rows of the row group.
            flags: one for each part.
        """
        edges = np.diff(flags.astype(np.int8), prepend=0, append=0)
        ends = np.append(firsts, n_rows)
        return cls(ends[np.flatnonzero(edges == 1)], ends[np.flatnonzero(edges == -1)])

    @classmethod
    def of_rows(cls, rows: npt.NDArray[Any]) -> Spans:
        """Returns spans of single, ascending rows."""
        starts = rows.astype(np.int64)
        return cls(starts, starts + 1)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int((self.stops - self.starts).sum())

    def touch(self, firsts: Integers, n_rows: Integers) -> Flags:
        """Returns which parts, of a first row and a number of rows, have one of the rows."""
        at = np.searchsorted(
            self.stops, firsts, "right"
        )  # the first span that ends after the start of the part
        starts = np.append(self.starts, np.iinfo(np.int64).max)[at]
        found: Flags = starts < firsts + n_rows
        return found

    def within(self, first: int, n_rows: int) -> Spans:
        """Returns those of consecutive rows."""
        low = int(np.searchsorted(self.stops, first, "right"))
        high = int(np.searchsorted(self.starts, first + n_rows, "left"))
        starts, stops = self.starts[low:high], self.stops[low:high]
        return Spans(np.maximum(starts, first), np.minimum(stops, first + n_rows))

    def less(self, n: int) -> Spans:
        """Returns the rows with numbers that are less by `n`."""
        return Spans(self.starts - n, self.stops - n)

    def rows(self) -> Integers:
        """Returns the rows."""
        lengths = self.stops - self.starts
        ends = np.cumsum(lengths)
        return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(self.stops - ends, lengths)


@dataclass(frozen=True)
class Pages:
    """The data pages of a column chunk.

    Attributes:
        words: of each its offset in the column chunk, first row and number of rows; as `PageDecoder` takes them.
        stops: where each ends in the column chunk.
    """

    words: Integers
    stops: Integers

    def __len__(self) -> int:
        return len(self.words)

    @property
    def firsts(self) -> Integers:
        """The first row of each."""
        return self.words[:, 1]

    @property
    def start(self) -> int:
        """Where the first one starts: before it is the dictionary, if there is one."""
        return int(self.words[0, 0])

    @classmethod
    def of(cls, data: bytes, chunk: Chunk, n_rows: int) -> Pages | None:
        """Reads an offset index; None if it contradicts itself, the footer, or has a single page.

        Args:
            n_rows: number of rows of the row group.
        """
        words = page_index.locations(data)
        if words is None:
            return None
        found = np.frombuffer(words, np.int64).reshape(-1, page_index.LOCATION_WORDS)
        if len(found) < 2:
            return None
        starts, sizes, firsts = found[:, 0] - chunk.start, found[:, 1], found[:, 2]
        ends = np.append(firsts[1:], n_rows)
        is_sound = (
            firsts[0] == 0
            and (ends > firsts).all()
            and (starts >= 0).all()
            and (starts < chunk.n_bytes).all()
            and (sizes > 0).all()
            and (sizes <= chunk.n_bytes - starts).all()
            and (starts[1:] >= (starts + sizes)[:-1]).all()
        )
        if not is_sound:
            return None
        return cls(np.ascontiguousarray(np.column_stack([starts, firsts, ends - firsts])), starts + sizes)

    @classmethod
    def known(cls, places: PagePlaces, chunk: Chunk, n_rows: int) -> Pages | None:
        """Returns pages whose places were learned when all were read; None if they contradict the footer.

        Args:
            places: where the pages are.
            chunk, n_rows: as for `of`.
        """
        start, dictionary, *rest = places
        sizes, counts = np.array(rest, np.int64).reshape(-1, 2).T
        starts, firsts = dictionary + np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
        found = start, dictionary + int(sizes.sum()), int(counts.sum())
        if found != (chunk.start, chunk.n_bytes, n_rows) or min(sizes.min(), counts.min()) <= 0:
            return None
        words = np.empty((len(sizes), 3), np.int64)
        words[:, 0], words[:, 1], words[:, 2] = starts, firsts, counts
        return cls(words, starts + sizes)

    @property
    def of_lists(self) -> Integers:
        """The words for a leaf of lists, whose rows are levels: each page has numbers of its own for these."""
        words = self.words.copy()
        words[:, 1] = np.arange(len(words)) * MOST_LEVELS
        words[:, 2] = MOST_LEVELS
        return words

    def touched(self, spans: Spans) -> Flags:
        """Returns which pages have one of some rows."""
        return spans.touch(self.words[:, 1], self.words[:, 2])

    def bytes_of(self, flags: Flags, *, dictionary: bool = True) -> int:
        """Returns the bytes of some pages, and those of the dictionary before the first page, if it is read, too."""
        n_bytes = self.start if dictionary and flags.any() else 0
        return n_bytes + int((self.stops - self.words[:, 0])[flags].sum())


@dataclass(frozen=True)
class Bounds:
    """The bounds of the data pages of a column chunk, as they are stored.

    Attributes:
        data: the bytes of the column index.
        words: the words of `page_index.bounds`.
    """

    data: bytes
    words: Integers

    @classmethod
    def of(cls, data: bytes, pages: Pages) -> Bounds | None:
        """Reads a column index; None if it contradicts itself or the offset index."""
        found = page_index.bounds(data)
        words = np.frombuffer(found or b"", np.int64).reshape(-1, page_index.BOUND_WORDS)
        if len(words) != len(pages):
            return None
        nulls, n_rows = words[:, 5], pages.words[:, 2]
        is_null = words[:, 0] == 1
        known = nulls >= 0
        if (nulls > n_rows).any() or ((nulls == n_rows) != is_null)[known].any():
            return None
        return cls(data, words)

    @property
    def nulls_only(self) -> Flags:
        """Which pages have nulls only."""
        found: Flags = self.words[:, 0] == 1
        return found

    def lower(self) -> tuple[Integers, Integers]:
        """Where the lower bounds are in the data, and their bytes; -1 for pages of nulls."""
        return self.words[:, 1], np.where(self.nulls_only, -1, self.words[:, 2])

    def upper(self) -> tuple[Integers, Integers]:
        """The same of the upper bounds."""
        return self.words[:, 3], np.where(self.nulls_only, -1, self.words[:, 4])


def has_several(chunk: Chunk) -> bool:
    """Whether a column chunk may have an offset index of several pages."""
    return chunk.offsets > 0 and chunk.offsets_bytes >= _TWO_PAGES


def needs_dictionary(chunk: Chunk, pages: Pages) -> bool:
    """Whether the dictionary of a column chunk is requested along with pages."""
    return pages.start <= _SMALL_DICTIONARY or bool(chunk.is_in_dictionary)


class RequestedPages:
    """The pages of column chunks of a row group on an object store, requested when rows of them are wanted.

    Those of all columns are requested at once. If rows are few among those that may be wanted, only their pages are.

    Args:
        source: the file.
        chunks: the column chunks, and their pages.
        spans: the rows that may be wanted; None: all.
    """

    def __init__(self, source: Source, chunks: Sequence[tuple[Chunk, Pages]], spans: Spans | None) -> None:
        self._source, self._chunks = source, chunks
        self.parts = [ChunkParts() for _ in chunks]
        self._open = [
            np.ones(len(pages), np.bool_) if spans is None else pages.touched(spans) for _, pages in chunks
        ]
        self._with_dictionary: set[int] = set()

    def request(self, rows: Spans, stop: int) -> None:
        """Requests the pages of rows, those that were not requested before.

        Calls are in the order of the rows. Pages of later rows are requested along with them if they have few bytes, or
        if many pages were needed this time.

        Args:
            stop: the row after the last one that is not asked for again.
        """
        every = [pages for _, pages in self._chunks]
        needed, passed, later = [], [], []
        for is_open, pages in zip(self._open, every, strict=True):
            is_later = is_open & (pages.words[:, 1] + pages.words[:, 2] > stop)
            needed.append(is_open & pages.touched(rows))
            passed.append(is_open & ~is_later)
            later.append(is_later)
        if not any(flags.any() for flags in needed):
            return
        n_needed, n_passed, n_later = (
            sum(
                pages.bytes_of(flags, dictionary=needs_dictionary(chunk, pages))
                for flags, (chunk, pages) in zip(chosen, self._chunks, strict=True)
            )
            for chosen in (needed, passed, later)
        )
        if n_later <= _SMALL or n_needed * _FEW > n_passed + n_needed:
            needed = [flags | ahead for flags, ahead in zip(needed, later, strict=True)]
        self._open = [flags & ~chosen for flags, chosen in zip(later, needed, strict=True)]
        places: list[tuple[int, int, int]] = []  # column chunk, start and stop in it
        for number, (flags, (chunk, pages)) in enumerate(zip(needed, self._chunks, strict=True)):
            starts, stops = pages.words[:, 0][flags], pages.stops[flags]
            if not len(starts):
                continue
            if pages.start and needs_dictionary(chunk, pages) and number not in self._with_dictionary:
                self._with_dictionary.add(number)
                starts, stops = np.insert(starts, 0, 0), np.insert(stops, 0, pages.start)
            ends = np.flatnonzero(starts[1:] > stops[:-1])
            firsts, lasts = np.insert(ends + 1, 0, 0), np.append(ends, len(starts) - 1)
            joined = zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True)
            places += [(number, *place) for place in joined]
        self._read(places)
        self._read(
            [
                (number, 0, self._chunks[number][1].start)
                for number in {number for number, *_ in places} - self._with_dictionary
                if self._chunks[number][1].start and self._needs_dictionary(number, needed[number])
            ]
        )

    def _needs_dictionary(self, number: int, flags: Flags) -> bool:
        """Whether one of some pages that were read needs the dictionary of its column chunk."""
        for start in self._chunks[number][1].words[:, 0][flags].tolist():
            try:
                encoding = self.parts[number].header(start)[4]
            except ValueError:  # `ColumnPages` says what is wrong
                encoding = _DICTIONARY[0]
            if encoding in _DICTIONARY:
                self._with_dictionary.add(number)
                return True
        return False

    def _read(self, places: Sequence[tuple[int, int, int]]) -> None:
        """Reads parts of column chunks: number of the chunk, start and stop in it."""
        ranges = [(self._chunks[number][0].start + start, stop - start) for number, start, stop in places]
        for at, data in self._source.read_ranges(ranges):
            number, start, _ = places[at]
            self.parts[number].add(start, data)
