"""Decodes wanted rows of a Parquet column from its pages. Pages and values of other rows are not decoded.

The column is flat, or a leaf of structs: the array is then the struct with this one field.

    column chunk = dictionary page? | data page | data page …
    page         = header | levels, values          (v1: compressed together; v2: the levels are not compressed)

A page that does not have the expected form raises `PageError`, and PyArrow reads the column instead: it decides what
is wrong with the file. A page is compared with its CRC-32, if its header has one, before it is decompressed.

Source: Parquet format specification, "Data Pages", "Encodings".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._kernels.parquet import pages, text_views
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.column_layout import Layout
from puffin_fast.parquet.page_codecs import CODEC_ERRORS, CODECS, KERNEL_CODECS, PageError, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from puffin_fast.parquet.footer import Chunk
    from puffin_fast.parquet.page_index import Pages, RequestedPages

Rows = npt.NDArray[np.int32]
"""Ascending indexes of rows."""

_SLACK = 32
"""Bytes after the last text that the kernel may overwrite."""

_MOST_TEXT = (1 << 31) - 1 - _SLACK
"""Bytes of text in an array: 32-bit offsets end there, and PyArrow starts another array."""


LEAST_IN_PAGES = 1 << 20
"""Bytes of a column chunk from which its pages are read one by one: larger ones leave the processor's second cache."""


def reads_pages(layout: Layout, chunk: Chunk) -> bool:
    """Whether the pages of a column chunk are best read from a local file one by one, when they are needed."""
    return chunk.n_bytes >= LEAST_IN_PAGES and not layout.is_text and chunk.codec in KERNEL_CODECS


def number_array(
    layout: Layout, n: int, cells: pa.Buffer, validity: Any, levels: npt.NDArray[np.uint8] | None
) -> pa.Array:
    """Returns an array of numbers or booleans, in the structs around it.

    Args:
        layout: the layout of the column.
        n: its length.
        cells: its values, as the kernel has them.
        validity: the validity bitmap; None: no value is null.
        levels: the definition levels, if the layout needs them.
    """
    if layout.stored == 0:
        cells = pa.py_buffer(np.packbits(np.frombuffer(cells, np.uint8), bitorder="little"))
    found = pa.Array.from_buffers(
        layout.type, n, [None if validity is None else pa.py_buffer(validity), cells]
    )
    return _in_structs(layout, found, levels if validity is not None else None) if layout.structs else found


def _in_structs(layout: Layout, array: pa.Array, levels: npt.NDArray[np.uint8] | None) -> pa.Array:
    """The array in the structs around it; without `levels` none of them is null."""
    for kind, level in layout.structs:
        validity = None if levels is None or not level else validity_from(levels, level)
        array = pa.Array.from_buffers(kind, len(array), [validity], children=[array])
    return array


def validity_from(levels: npt.NDArray[np.uint8], level: int) -> pa.Buffer | None:
    """Returns the validity bitmap of what is not null from a definition level on; None if nothing is null."""
    bits = pages.level_bits(levels, level)
    return None if bits is None else pa.py_buffer(bits)


class ColumnPages:
    """The pages of a column chunk, read in order.

    Memory: the bytes of the chunk that are given, its dictionary and one page; texts keep their pages.

    Args:
        layout: the layout of the column.
        chunk: the column chunk, whose compression is one of `CODECS`.
        data: its bytes; those of its pages that are read; or the file, whose pages are read when they are needed.
        n_rows: number of rows of the row group.
        path, name: the path of the file and the name of the column, for messages.
        places: where the pages are, if that is known: pages of other rows are then not looked at.
        repeats: whether it is a leaf of lists; rows are then the levels of the column chunk, which are numbered as
            `Pages.of_lists` has them if `places` are given.
        few: whether few rows are read: texts are then decompressed about as far as these need it.
        codes: whether texts may be dictionary arrays: they are while all pages have the dictionary.

    Attributes:
        n_rows: as given.
        requested: what requests the pages of all columns before rows are read; None: nothing has to be requested.
    """

    requested: RequestedPages | None = None

    def __init__(
        self,
        layout: Layout,
        chunk: Chunk,
        data: pa.Buffer | pages.ChunkParts | pages.LocalFile,
        n_rows: int,
        *,
        path: str,
        name: str,
        places: Pages | None = None,
        repeats: bool = False,
        few: bool = False,
        codes: bool = False,
    ) -> None:
        self._layout, self._start, self.n_rows = layout, chunk.start, n_rows
        self._path, self._name, self._places = path, name, places
        self._whole = partial(
            pages.PageDecoder,
            data,
            CODECS[chunk.codec],
            n_rows=n_rows,
            most_bytes=chunk.raw_bytes,
            stored=layout.stored,
            width=layout.width,
            conversion=layout.conversion,
            most_level=layout.level,
            repeats=repeats,
            codec=KERNEL_CODECS.get(chunk.codec, pages.OTHER),
            path=path,
            column=name,
            start=chunk.start,
            n_bytes=chunk.n_bytes,
            pages=None if places is None else places.of_lists if repeats else places.words,
        )
        is_coded = codes and not few and chunk.is_in_dictionary is not False
        self._is_coded = is_coded and layout.is_text and not layout.structs
        self._few = few
        self._views: bytearray | None = None  # of the texts of the dictionary
        self._texts: pa.Array | None = None  # they
        self._decoder = self._whole(
            decompress_part=part_of(chunk.codec) if few else None, codes=self._is_coded
        )

    def places(self) -> list[int] | None:
        """Returns where the pages are, as `Pages.known` takes it, after all rows were read; None if it is not known."""
        found = self._decoder.places()
        return None if found is None else [self._start, *found]

    def read(self, first: int, n_rows: int, rows: Rows | None) -> pa.Array:
        """Decodes rows. Calls must be in the order of the rows; rows in between are skipped.

        Args:
            first: the first row, in the row group.
            rows: the wanted ones of them, as indexes from `first`; None: all.

        Raises:
            PageError: a page does not have the expected form.
            CorruptDataError: a page has another CRC-32 than its header states.
        """
        try:
            with _PageErrors():
                return (
                    self._coded(first, n_rows, rows)
                    if self._is_coded
                    else self._decode(first, n_rows, rows)[0]
                )
        except PageError:
            if not (self._few or self._is_coded):
                raise
        # too little was decompressed, or a page does not have the dictionary
        self._few = self._is_coded = False
        self._decoder = self._whole()
        return self.read(first, n_rows, rows)

    def _coded(self, first: int, n_rows: int, rows: Rows | None) -> pa.DictionaryArray:
        """Decodes rows to numbers of texts in the dictionary of the column chunk."""
        count = n_rows if rows is None else len(rows)
        codes = pa.allocate_buffer(4 * count)
        validity, _ = self._decoder.read_into(first, n_rows, rows, codes)
        views, texts = self._decoder.dictionary() or (self._views, b"")
        if views is None:  # all rows are null
            return pa.nulls(count, pa.dictionary(pa.int32(), self._layout.type))
        if views is not self._views:
            n = len(views) // self._layout.width
            self._views, self._texts = views, _text_array(self._layout, n, pa.py_buffer(views), None, [texts])
        indexes = pa.Array.from_buffers(
            pa.int32(), count, [None if validity is None else pa.py_buffer(validity), codes]
        )
        return pa.DictionaryArray.from_arrays(indexes, self._texts, safe=False)

    def decode(self, first: int, n_rows: int, rows: Rows | None) -> tuple[pa.Array, npt.NDArray[np.uint8]]:
        """Decodes rows as `read` does; returns also their definition levels."""
        with _PageErrors():
            array, levels = self._decode(first, n_rows, rows, needs_levels=True)
        assert levels is not None
        return array, levels

    def lists_at(self, row: int) -> tuple[int, int, npt.NDArray[np.int32]]:
        """Finds the lists of a page of leaves of lists.

        Args:
            row: the first level that was not read.

        Returns:
            the first level of its page, the number of levels of the page, and where its lists begin in it.
        """
        with _PageErrors():
            first, n_rows, starts = self._decoder.lists_at(row)
        return first, n_rows, np.frombuffer(starts, np.int32)

    def other_rows(self, number: int, expected: int, found: int) -> CorruptDataError:
        """Makes the error for a page of other rows than its index states."""
        assert self._places is not None
        return CorruptDataError(
            f"rows of a page of column {self._name}",
            path=self._path,
            offset=self._start + int(self._places.words[number, 0]),
            expected=f"{expected} (page index)",
            found=found,
        )

    def _decode(
        self, first: int, n_rows: int, rows: Rows | None, *, needs_levels: bool = False
    ) -> tuple[pa.Array, npt.NDArray[np.uint8] | None]:
        read = partial(self._decoder.read_into, first, n_rows, rows)
        return _decoded(self._layout, n_rows if rows is None else len(rows), read, needs_levels=needs_levels)


class JoinedPages:
    """The pages of a column in several row groups, which are read as one.

    Args:
        layout: the layout of the column.
        codec: the compression of its column chunks, one of `CODECS`.
        spans, words: the column chunks, as `PageDecoder.read_joined` takes them.
        path, name: as for `ColumnPages`.
    """

    def __init__(
        self,
        layout: Layout,
        codec: str,
        spans: Sequence[pa.Buffer],
        words: npt.NDArray[np.int64],
        *,
        path: str,
        name: str,
    ) -> None:
        self._layout, self._spans, self._words = layout, spans, words
        self._decoder = pages.PageDecoder(
            b"",
            CODECS[codec],
            n_rows=0,
            most_bytes=0,
            stored=layout.stored,
            width=layout.width,
            conversion=layout.conversion,
            most_level=layout.level,
            codec=KERNEL_CODECS.get(codec, pages.OTHER),
            path=path,
            column=name,
        )

    def read(self, n_rows: int, rows: Rows | None) -> pa.Array:
        """Decodes rows.

        Args:
            n_rows: number of rows of all column chunks.
            rows: the wanted ones, as the words of the column chunks number them; None: all.

        Raises:
            PageError, CorruptDataError: as `ColumnPages.read`.
        """
        count = n_rows if rows is None else len(rows)
        with _PageErrors():
            read = partial(self._decoder.read_joined, self._spans, self._words, rows, count)
            return _decoded(self._layout, count, read)[0]


def _decoded(
    layout: Layout, count: int, read: Callable[..., tuple[Any, list[Any]]], *, needs_levels: bool = False
) -> tuple[pa.Array, npt.NDArray[np.uint8] | None]:
    """The array of some rows, and their definition levels if they are needed; `read` writes cells and levels."""
    cells = pa.allocate_buffer(count * layout.width)
    levels = np.empty(count, np.uint8) if needs_levels or layout.needs_levels else None
    validity, texts = read(cells, levels)
    if not layout.is_text:
        return number_array(layout, count, cells, validity, levels), levels
    array = _text_array(layout, count, cells, None if validity is None else pa.py_buffer(validity), texts)
    return _in_structs(layout, array, None if validity is None else levels), levels


def _text_array(
    layout: Layout, n: int, values: pa.Buffer, validity: pa.Buffer | None, texts: list[Any]
) -> pa.Array:
    kind = layout.type
    n_bytes = text_views.views_bytes(values, n)
    if kind in (pa.string_view(), pa.binary_view()):
        held = sum(map(len, texts[1:]))
        array = pa.Array.from_buffers(kind, n, [validity, values, *map(pa.py_buffer, texts)])
        if held <= 2 * n_bytes + (1 << 16):
            return array
        kind = pa.large_string() if kind == pa.string_view() else pa.large_binary()
        return _copied(kind, n, values, validity, texts, n_bytes).cast(array.type)
    return _copied(kind, n, values, validity, texts, n_bytes)


def _copied(kind: pa.DataType, n: int, views: Any, validity: Any, texts: list[Any], n_bytes: int) -> pa.Array:
    """The texts of views, one after the other."""
    if n_bytes > _MOST_TEXT:
        raise PageError(f"{n_bytes} bytes of text in {n} rows")
    width = 4 if kind in (pa.string(), pa.binary()) else 8
    offsets, out = pa.allocate_buffer((n + 1) * width), pa.allocate_buffer(n_bytes + _SLACK)
    text_views.copy_views(views, n, texts, width, offsets, out)
    return pa.Array.from_buffers(kind, n, [validity, offsets, out.slice(0, n_bytes)])


class _PageErrors:
    """Turns what decoding raises for bytes of another form into `PageError`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        is_wrong = isinstance(error, _WRONG) and not isinstance(error, PageError | CorruptDataError)
        if error is not None and is_wrong and not is_from_outside(error):
            raise PageError(str(error)) from error


_WRONG = (ValueError, LookupError, OverflowError, RuntimeError, *CODEC_ERRORS)
