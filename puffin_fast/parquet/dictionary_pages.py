"""The dictionary page of a Parquet column chunk: the values of the chunk, without its data pages.

    page header (Thrift, compact protocol) | dictionary page, compressed | data pages …
    ^ dictionary_page_offset                                             ^ data_page_offset

    header: 1 type = 2 | 2 uncompressed size | 3 compressed size | 7 {1 number of values, 2 encoding, …}

If all data pages are dictionary-encoded, the page has all values of the chunk, each once. The footer has this
information in the chunk's `encoding_stats`, which PyArrow does not expose, and for files of Parquet's version 1 in its
list of encodings.

Arrow's writer also puts entries there that no row has: the unused categories of a dictionary of strings. They do no
harm where a page only says which values a chunk does not have (`DictionaryHashes`). The distinct values of byte arrays
are known only in files of writers that add no such entries, and those of numbers also in files of writers whose
dictionaries of numbers are made of the rows (`DictionaryPages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin_fast._kernels.parquet import bloom, pages
from puffin_fast._kernels.parquet.page_sums import PageSums
from puffin_fast._kernels.rows.members import SparseMembers
from puffin_fast._process.interrupt import is_from_outside
from puffin_fast.parquet.footer import AFTER_FOOTER
from puffin_fast.parquet.page_codecs import CODEC_ERRORS, CODECS
from puffin_fast.parquet.thrift import ThriftReader

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from puffin_fast._io import Source
    from puffin_fast.parquet.column_layout import Layout
    from puffin_fast.parquet.footer import Chunk

TRUSTED_WRITERS = ("parquet-mr ",)
"""The beginning of `created_by` for Java's library, which Spark, Iceberg, Flink and Hive use."""

TRUSTED_WITH_NUMBERS = ("parquet-cpp-arrow ",)
"""The library of PyArrow, and so of PyIceberg and of this package."""

_LEVELS_AND_DICTIONARY = {"PLAIN_DICTIONARY", "RLE", "BIT_PACKED"}
_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI"}
"""Compressions whose names in PyArrow are those of `page_codecs`."""
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
_DECIMAL_BYTES = 16

_MOST_HEADERS = 64
"""Number of pages of a column chunk whose headers are read."""

_HEADER_BYTES = 256
"""Bytes that are read for the header of a page; one with long bounds has more, and is not read."""


class DictionaryHashes:
    """The hashes of the values of a column chunk, by its dictionary page.

    Args:
        hashes: as `Hashes` has them for the values that are asked for.
    """

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        self._hashes = hashes

    @classmethod
    def of(
        cls, source: Source, chunk: Chunk, layout: Layout, *, path: str, name: str
    ) -> DictionaryHashes | None:
        """Reads the dictionary page of a column chunk; None if it is not of the expected form.

        Args:
            chunk: the column chunk; all of its values are in the dictionary.
            layout: the layout of the column.
            path, name: the path of the file and the name of the column, for messages.

        Raises:
            CorruptDataError: the page has another CRC-32 than its header states.
        """
        size, decompress = chunk.dictionary_bytes, CODECS.get(chunk.codec)
        if decompress is None or size > min(chunk.n_bytes, source.size - chunk.start):
            return None
        data = source.read_at(chunk.start, size)
        PageSums(data, n_values=chunk.n_values, path=path, column=name, start=chunk.start).check(size)
        found = _page(data, decompress, chunk.raw_bytes)
        if found is None:
            return None
        page, n = found
        width = layout.stored
        if len(page) != n * width if width else 4 * n > len(page):
            return None
        hashes = np.empty(n, np.uint64)
        if width:
            bloom.hash_fixed(page, width, hashes)
        elif not bloom.hash_plain(page, hashes):
            return None
        return cls(hashes)

    @staticmethod
    def are_all(source: Source, chunk: Chunk) -> bool:
        """Whether all values of a column chunk are in its dictionary, by the headers of its pages if they are few."""
        at, stop, n_values, n_pages = chunk.start + chunk.dictionary_bytes, chunk.start + chunk.n_bytes, 0, 0
        while at < min(stop, source.size) and n_pages < _MOST_HEADERS:
            try:
                header = pages.page_header(
                    source.read_at(at, min(_HEADER_BYTES, stop - at, source.size - at)), 0
                )
            except ValueError:
                return False
            kind, _, n_stored, n, encoding, *_, n_header = header
            if kind not in (_DATA_PAGE, _DATA_PAGE_V2) or encoding not in (
                _PLAIN_DICTIONARY,
                _RLE_DICTIONARY,
            ):
                return False
            n_values, n_pages, at = n_values + n, n_pages + 1, at + n_header + max(n_stored, 0)
        return at == stop and n_values == chunk.n_values

    def contains(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Returns which hashes it has: the chunk has no value of another hash."""
        found = np.empty(len(hashes), np.bool_)
        SparseMembers(self._hashes).contain(hashes, found)
        return found


class DictionaryPages:
    """The dictionary pages of one Parquet file.

    Args:
        source: reads the file.
        footer: the footer of the file.
    """

    def __init__(self, source: Source, footer: pq.FileMetaData) -> None:
        self._source, self._footer = source, footer
        self._stats: dict[tuple[int, int], object] | None = None

    def values(self, row_group: int, column: int, kind: pa.DataType) -> pa.Array | None:
        """The distinct values of a column chunk; None where its data pages are needed to know them.

        Args:
            column: number of the leaf, which is not in a list or map.
            kind: the Arrow type that PyArrow reads the column as.
        """
        chunk = self._footer.row_group(row_group).column(column)
        created_by = self._footer.created_by or ""
        trusted = TRUSTED_WRITERS + (() if chunk.physical_type == "BYTE_ARRAY" else TRUSTED_WITH_NUMBERS)
        start = chunk.dictionary_page_offset
        decompress = CODECS[chunk.compression] if chunk.compression in _CODECS else None
        if (
            not created_by.startswith(trusted)
            or not chunk.has_dictionary_page
            or not start
            or decompress is None
        ):
            return None
        size = chunk.data_page_offset - start
        if not 0 < size <= chunk.total_compressed_size:
            return None
        if not self._all_from_dictionary(row_group, column, chunk):
            return None
        data = self._source.read_at(start, size)
        name, n = chunk.path_in_schema, chunk.num_values
        PageSums(data, n_values=n, path=self._source.path, column=name, start=start).check(size)
        page = _page(data, decompress, chunk.total_uncompressed_size)
        return None if page is None else _array(*page, chunk.physical_type, kind)

    def _all_from_dictionary(self, row_group: int, column: int, chunk: pq.ColumnChunkMetaData) -> bool:
        """Whether it is certain that all data pages of a chunk are dictionary-encoded."""
        encodings = set(chunk.encodings)
        if "PLAIN_DICTIONARY" in encodings:  # the dictionary page has this encoding, too
            return encodings <= _LEVELS_AND_DICTIONARY
        if "RLE_DICTIONARY" not in encodings:
            return False
        if self._stats is None:
            self._stats = self._read_stats()
        pages = self._stats.get((row_group, column))
        return isinstance(pages, list) and _are_from_dictionary(pages)

    def _read_stats(self) -> dict[tuple[int, int], object]:
        """Reads the `encoding_stats` of each column chunk; none if the footer does not agree with PyArrow's."""
        n_bytes = self._footer.serialized_size
        start = self._source.size - AFTER_FOOTER - n_bytes
        if start < 0:
            return {}
        found: dict[tuple[int, int], object] = {}
        try:
            row_groups = ThriftReader(self._source.read_at(start, n_bytes)).struct()[4]
            for number, row_group in enumerate(row_groups):  # type: ignore[arg-type, var-annotated]
                for at, column in enumerate(row_group[1]):
                    chunk = column[3]
                    if chunk[9] == self._footer.row_group(number).column(at).data_page_offset:
                        found[number, at] = chunk.get(13)
        except (IndexError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            if is_from_outside(error):
                raise
            return {}
        return found


def _are_from_dictionary(pages: list[object]) -> bool:
    """Whether page encoding statistics {1 page type, 2 encoding, 3 count} are of dictionary-encoded data pages only."""
    data = [
        page.get(2) for page in pages if isinstance(page, dict) and page.get(1) in (_DATA_PAGE, _DATA_PAGE_V2)
    ]
    return bool(data) and all(encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY) for encoding in data)


def _page(data: bytes, decompress: Callable[[Any, int], Any], limit: int) -> tuple[bytes, int] | None:
    """The decompressed dictionary page and its number of values; None for anything else."""
    try:
        kind, n_bytes, n_compressed, n_values, encoding, *_, n_header = pages.page_header(data, 0)
    except ValueError:
        return None
    stored = data[n_header : n_header + n_compressed]
    is_whole = n_compressed >= 0 and len(stored) == n_compressed
    if kind != _DICTIONARY_PAGE or not 0 <= n_bytes <= limit or n_values < 0 or not is_whole:
        return None
    if encoding not in (_PLAIN, _PLAIN_DICTIONARY):
        return None
    try:
        page = decompress(stored, n_bytes)
    except (ValueError, *CODEC_ERRORS) as error:
        if is_from_outside(error):
            raise
        return None
    return (bytes(page), n_values) if len(page) == n_bytes else None


def _array(page: bytes, n: int, physical: str, kind: pa.DataType) -> pa.Array | None:
    """PLAIN-encoded values in an Arrow type; None for types that are stored in another way."""
    types = pa.types
    if physical == "BYTE_ARRAY" and (types.is_string(kind) or types.is_binary(kind)):
        values = list(_byte_arrays(page))
        return pa.array(values, pa.binary()).cast(kind) if len(values) == n else None
    if physical == "FIXED_LEN_BYTE_ARRAY":
        return _fixed(page, n, kind)
    width = _WIDTHS.get(physical, 0)
    if width == 0 or len(page) != n * width:
        return None
    if types.is_decimal128(kind):
        unscaled = np.frombuffer(page, f"<i{width}").astype(np.int64)
        words = np.stack([unscaled, unscaled >> 63], axis=1)
        return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(words)])
    as_stored = types.is_signed_integer(kind) or types.is_temporal(kind) or types.is_floating(kind)
    if not as_stored or kind.bit_width != 8 * width:
        return None
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(page)])


def _fixed(page: bytes, n: int, kind: pa.DataType) -> pa.Array | None:
    """Byte strings of one length: as they are, or decimals (big-endian)."""
    if n == 0 or len(page) % n:
        return None
    width = len(page) // n
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == width:
        return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(page)])
    if not pa.types.is_decimal128(kind) or not 0 < width <= _DECIMAL_BYTES:
        return None
    digits = np.frombuffer(page, np.uint8).reshape(n, width)
    words = np.where(digits[:, :1] >> 7, np.uint8(255), np.uint8(0)).repeat(_DECIMAL_BYTES, axis=1)
    words[:, :width] = digits[:, ::-1]
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(words)])


def _byte_arrays(page: bytes) -> Iterator[bytes]:
    """Byte strings, each after its length; ends early where a length is wrong."""
    at = 0
    while at + 4 <= len(page):
        end = at + 4 + int.from_bytes(page[at : at + 4], "little")
        if end > len(page):
            return
        yield page[at + 4 : end]
        at = end
