"""Decodes wanted rows of a flat Parquet column from its pages. Pages and values of other rows are not decoded.

    column chunk = dictionary page? | data page | data page …
    page         = header | levels, values          (v1: compressed together; v2: the levels are not compressed)

A page that does not have the expected form raises `PageError`, and PyArrow reads the column instead: it decides what
is wrong with the file.

Source: Parquet format specification, "Data Pages", "Encodings".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._kernels import pages
from puffin_fast.iceberg.datafile.column_layout import Layout
from puffin_fast.iceberg.datafile.page_codecs import CODEC_ERRORS, CODECS, PageError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ColumnPages", "Rows"]

Rows = npt.NDArray[np.int32]
"""Ascending indexes of rows."""

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_SLACK = 32
"""Bytes after the last text that the kernel may overwrite."""

_MOST_TEXT = (1 << 31) - 1 - _SLACK
"""Bytes of text in an array: 32-bit offsets end there, and PyArrow starts another array."""


_MOST_BITS = 32
"""Bits of a code of a dictionary."""

_MOST_LEVELS = 1 << 24
"""Rows of a page with nulls: their levels are decoded at once."""


@dataclass(slots=True)
class _Page:
    """The data page that holds the next rows.

    Attributes:
        first: its first row in the row group.
        n_rows: the number of its rows, nulls included.
        header: as the kernel returns it.
        body: the stored bytes.
        values: the encoded values, decompressed; None until a row of the page is wanted.
        places: the index of each row's value, -1 for null; None if no value is null.
        n_values: the number of values that are not null.
        next: index and offset of the next byte string of a plain page.
    """

    first: int
    n_rows: int
    header: tuple[int, ...]
    body: pa.Buffer
    values: Any = None
    places: Rows | None = None
    n_values: int = 0
    next: tuple[int, int] = (0, 0)


class ColumnPages:
    """The pages of a column chunk, read in order. Memory: the chunk as stored, its dictionary and one page.

    Args:
        layout: of the column chunk.
        chunk: its metadata.
        data: its bytes.
        n_rows: number of rows of the row group.
    """

    def __init__(self, layout: Layout, chunk: pq.ColumnChunkMetaData, data: pa.Buffer, n_rows: int) -> None:
        self._layout, self._data, self._n_rows = layout, data, n_rows
        self._decompress = CODECS[chunk.compression]()
        self._most_bytes = chunk.total_uncompressed_size
        self._is_text = layout.stored == 0 and layout.width == 16
        self._at = 0
        self._dictionary: Any = None
        self._dictionary_texts: Any = b""
        self._page = _Page(0, 0, (), data.slice(0, 0))

    def read(self, first: int, n_rows: int, rows: Rows | None) -> pa.Array:
        """Decodes rows. Calls must be in the order of the rows; rows in between are skipped.

        Args:
            first: the first row, in the row group.
            n_rows: number of rows.
            rows: the wanted ones of them, as indexes from `first`; None: all.

        Raises:
            PageError: a page does not have the expected form.
        """
        try:
            return self._read(first, n_rows, rows)
        except PageError:
            raise
        except (ValueError, LookupError, OverflowError, RuntimeError, *CODEC_ERRORS) as error:
            raise PageError(str(error)) from error

    def _read(self, first: int, n_rows: int, rows: Rows | None) -> pa.Array:
        count = n_rows if rows is None else len(rows)
        width = self._layout.width
        out = pa.allocate_buffer(count * width)
        cells = np.frombuffer(out, np.uint8)
        valid: npt.NDArray[np.bool_] | None = None
        texts: list[Any] = [self._dictionary_texts]
        done = 0
        while done < count:
            wanted = first + (done if rows is None else int(rows[done]))
            page = self._page_of(wanted)
            stop = page.first + page.n_rows
            if rows is None:
                some = min(count, stop - first) - done
                part, base = None, wanted - page.first
            else:
                # an int32: NumPy would convert the rows to the type of a Python integer
                some = int(rows[done:].searchsorted(np.int32(min(stop - first, n_rows))))
                part, base = rows[done : done + some], first - page.first
            here = cells[done * width :]
            if page.places is None:
                self._decode(page, part, base, some, here, texts)
            else:
                places = page.places[base : base + some] if part is None else page.places[part + base]
                found = places >= 0
                if valid is None:
                    valid = np.ones(count, np.bool_)
                valid[done : done + some] = found
                values = places[found]
                aside = np.zeros(len(values) * width, np.uint8)
                self._decode(page, values, 0, len(values), aside, texts)
                kind = np.dtype(f"V{width}")
                slots = here[: some * width]
                slots[:] = 0
                slots.view(kind)[found] = aside.view(kind)
            done += some
        texts[0] = self._dictionary_texts
        return self._array(count, out, valid, texts)

    def _page_of(self, row: int) -> _Page:
        """Returns the page of a row; pages before it are skipped, and not decompressed."""
        page = self._page
        while row >= page.first + page.n_rows:
            header = pages.page_header(self._data, self._at)
            kind, n_raw, n_stored, n_values, encoding, *_, n_header = header
            start = self._at + n_header
            if not 0 <= n_stored <= len(self._data) - start or not 0 <= n_raw <= self._most_bytes:
                raise PageError(f"{n_stored} bytes of a page; the chunk has {len(self._data) - start} more")
            if not 0 <= n_values <= self._n_rows:
                raise PageError(f"{n_values} values of a page; the row group has {self._n_rows} rows")
            body = self._data.slice(start, n_stored)
            self._at = start + n_stored
            if kind == _DICTIONARY_PAGE and self._dictionary is None and page.first + page.n_rows == 0:
                self._load_dictionary(body, n_raw, n_values, encoding)
            elif kind in (_DATA_PAGE, _DATA_PAGE_V2):
                self._page = page = _Page(page.first + page.n_rows, n_values, header, body)
            else:
                raise PageError(f"page type {kind}")
        if page.values is None:
            self._load(page)
        return page

    def _decompressed(self, data: Any, n_bytes: int) -> Any:
        found = self._decompress(data, n_bytes)
        if len(found) != n_bytes:
            raise PageError(f"{len(found)} bytes of a page; expected {n_bytes}")
        return memoryview(found)

    def _load_dictionary(self, body: pa.Buffer, n_raw: int, n_values: int, encoding: int) -> None:
        if encoding not in (_PLAIN, _PLAIN_DICTIONARY):
            raise PageError(f"encoding {encoding} of a dictionary")
        layout, data = self._layout, self._decompressed(body, n_raw)
        if n_values * (layout.stored or 4) > len(data):
            raise PageError(f"{len(data)} bytes for {n_values} values of a dictionary")
        entries = np.zeros(n_values * layout.width, np.uint8)
        if self._is_text:
            pages.views_into(data, 0, None, 0, n_values, 0, 0, entries)
            self._dictionary_texts = data
        elif layout.stored:
            pages.fixed_into(data, layout.stored, layout.conversion, None, 0, n_values, entries)
        else:
            raise PageError("a dictionary of booleans")
        self._dictionary = entries

    def _load(self, page: _Page) -> None:
        kind, n_raw, _, n, encoding, level_encoding, *of_v2, _, _ = page.header
        n_rows, n_nulls, n_levels, n_repetition, is_compressed = of_v2
        optional = self._layout.is_optional
        if kind == _DATA_PAGE:
            data = self._decompressed(page.body, n_raw)
            levels = data[:0]
            if optional:
                n_levels = int.from_bytes(data[:4], "little")
                if level_encoding != _RLE or n_levels > len(data) - 4:
                    raise PageError(f"{n_levels} bytes of levels in encoding {level_encoding}")
                levels, data = data[4 : 4 + n_levels], data[4 + n_levels :]
        else:
            body = memoryview(page.body)
            if n_repetition != 0 or n_rows != n or not 0 <= n_levels <= min(len(body), n_raw):
                raise PageError(f"{n_levels} and {n_repetition} bytes of levels, {n_rows} rows")
            levels, data = body[:n_levels], body[n_levels:]
            if is_compressed and len(data):
                data = self._decompressed(data, n_raw - n_levels)
            elif len(data) != n_raw - n_levels:
                raise PageError(f"{len(data)} bytes of values; expected {n_raw - n_levels}")
        page.n_values, page.values = n, data
        if optional and not pages.all_set(levels, n):
            if n > _MOST_LEVELS:
                raise PageError(f"{n} rows of a page")
            codes = np.empty(n, np.uint32)
            pages.hybrid_into(levels, 1, n, None, 0, n, codes)
            places = np.empty(n, np.int32)
            page.n_values = pages.places_into(codes, n, places)
            page.places = None if page.n_values == n else places
        if kind == _DATA_PAGE_V2 and n - page.n_values != n_nulls:
            raise PageError(f"{n - page.n_values} nulls of a page; expected {n_nulls}")
        self._check_encoding(encoding, data)

    def _check_encoding(self, encoding: int, data: Any) -> None:
        """Checks the bytes before the values, which a page of nulls has, too."""
        if encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
            if self._dictionary is None or (len(data) and not 0 <= data[0] <= _MOST_BITS):
                raise PageError("a page without its dictionary, or with codes of too many bits")
        elif encoding == _RLE and not self._layout.stored and not self._is_text:
            if not len(data) - int.from_bytes(data[:4], "little") >= 4:
                raise PageError(f"{len(data)} bytes of booleans")
        elif encoding != _PLAIN:
            raise PageError(f"encoding {encoding}")

    def _decode(self, page: _Page, rows: Rows | None, base: int, n: int, out: Any, texts: list[Any]) -> None:
        """Decodes values of a page, by their index among its values that are not null."""
        layout, data, encoding = self._layout, page.values, page.header[4]
        if n == 0:
            return
        if encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
            pages.entries_into(data, page.n_values, rows, base, n, self._dictionary, layout.width, out)
        elif encoding == _PLAIN and self._is_text:
            texts.append(data)
            page.next = pages.views_into(data, len(texts) - 1, rows, base, n, *page.next, out)
        elif encoding == _PLAIN and layout.stored:
            if len(data) < page.n_values * layout.stored:
                raise PageError(f"{len(data)} bytes for {page.n_values} values")
            pages.fixed_into(data, layout.stored, layout.conversion, rows, base, n, out)
        elif encoding == _PLAIN:
            if len(data) * 8 < page.n_values:
                raise PageError(f"{len(data)} bytes for {page.n_values} booleans")
            bits = np.unpackbits(np.frombuffer(data, np.uint8), count=page.n_values, bitorder="little")
            out[:n] = bits[base : base + n] if rows is None else bits[rows + base]
        else:
            codes = np.empty(n, np.uint32)
            runs = data[4 : 4 + int.from_bytes(data[:4], "little")]
            pages.hybrid_into(runs, 1, page.n_values, rows, base, n, codes)
            out[:n] = codes

    def _array(
        self, n: int, values: pa.Buffer, valid: npt.NDArray[np.bool_] | None, texts: list[Any]
    ) -> pa.Array:
        kind = self._layout.type
        validity = None
        if valid is not None and not valid.all():
            validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
        if pa.types.is_boolean(kind):
            values = pa.py_buffer(np.packbits(np.frombuffer(values, np.uint8), bitorder="little"))
        if not self._is_text:
            return pa.Array.from_buffers(kind, n, [validity, values])
        n_bytes = pages.views_bytes(values, n)
        if kind in (pa.string_view(), pa.binary_view()):
            held = sum(map(len, texts[1:]))
            array = pa.Array.from_buffers(kind, n, [validity, values, *map(pa.py_buffer, texts)])
            if held <= 2 * n_bytes + (1 << 16):
                return array
            kind = pa.large_string() if kind == pa.string_view() else pa.large_binary()
            return self._copied(kind, n, values, validity, texts, n_bytes).cast(array.type)
        return self._copied(kind, n, values, validity, texts, n_bytes)

    def _copied(
        self, kind: pa.DataType, n: int, views: Any, validity: Any, texts: list[Any], n_bytes: int
    ) -> pa.Array:
        """The texts of views, one after the other."""
        if n_bytes > _MOST_TEXT:
            raise PageError(f"{n_bytes} bytes of text in {n} rows")
        width = 4 if kind in (pa.string(), pa.binary()) else 8
        offsets, out = pa.allocate_buffer((n + 1) * width), pa.allocate_buffer(n_bytes + _SLACK)
        pages.copy_views(views, n, texts, width, offsets, out)
        return pa.Array.from_buffers(kind, n, [validity, offsets, out.slice(0, n_bytes)])
