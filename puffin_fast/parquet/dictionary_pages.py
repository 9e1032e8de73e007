"""The dictionary page of a Parquet column chunk: the values of the chunk, without its data pages.

    page header (Thrift, compact protocol) | dictionary page, compressed | data pages …
    ^ dictionary_page_offset                                             ^ data_page_offset

    header: 1 type = 2 | 2 uncompressed size | 3 compressed size | 7 {1 number of values, 2 encoding, …}

If all data pages are dictionary-encoded, the page has all values of the chunk, each once. The footer has this
information in the chunk's `encoding_stats`, which PyArrow does not expose, and for files of Parquet's version 1 in its
list of encodings.

Arrow's writer also puts entries there that no row has: the unused categories of a dictionary of strings. So pages of
byte arrays count only in files of writers that add no such entries; pages of numbers also in files of writers whose
dictionaries of numbers are made of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from puffin_fast._kernels.parquet import pages
from puffin_fast._kernels.parquet.page_sums import PageSums
from puffin_fast._run.interrupt import is_from_outside
from puffin_fast.parquet.footer import AFTER_FOOTER
from puffin_fast.parquet.thrift import ThriftReader

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from puffin_fast._io import Source

TRUSTED_WRITERS = ("parquet-mr ",)
"""The beginning of `created_by` for Java's library, which Spark, Iceberg, Flink and Hive use."""

TRUSTED_WITH_NUMBERS = ("parquet-cpp-arrow ",)
"""The library of PyArrow, and so of PyIceberg and of this package."""

_LEVELS_AND_DICTIONARY = {"PLAIN_DICTIONARY", "RLE", "BIT_PACKED"}
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli"}
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_PLAIN_DICTIONARY, _RLE_DICTIONARY = 2, 8
_DECIMAL_BYTES = 16


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
            row_group: number of the row group.
            column: number of the leaf, which is not in a list or map.
            kind: the Arrow type that PyArrow reads the column as.
        """
        chunk = self._footer.row_group(row_group).column(column)
        created_by = self._footer.created_by or ""
        trusted = TRUSTED_WRITERS + (() if chunk.physical_type == "BYTE_ARRAY" else TRUSTED_WITH_NUMBERS)
        start, codec = chunk.dictionary_page_offset, _CODECS.get(chunk.compression, "")
        if not created_by.startswith(trusted) or not chunk.has_dictionary_page or not start or codec == "":
            return None
        size = chunk.data_page_offset - start
        if not 0 < size <= chunk.total_compressed_size:
            return None
        if not self._all_from_dictionary(row_group, column, chunk):
            return None
        data = self._source.read_at(start, size)
        name, n = chunk.path_in_schema, chunk.num_values
        PageSums(data, n_values=n, path=self._source.path, column=name, start=start).check(size)
        page = _page(data, codec, chunk.total_uncompressed_size)
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
        except (IndexError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
            return {}
        return found


def _are_from_dictionary(pages: list[object]) -> bool:
    """Whether page encoding statistics {1 page type, 2 encoding, 3 count} are of dictionary-encoded data pages only."""
    data = [
        page.get(2) for page in pages if isinstance(page, dict) and page.get(1) in (_DATA_PAGE, _DATA_PAGE_V2)
    ]
    return bool(data) and all(encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY) for encoding in data)


def _page(data: bytes, codec: str | None, limit: int) -> tuple[bytes, int] | None:
    """The decompressed dictionary page and its number of values; None for anything else."""
    try:
        kind, n_bytes, n_compressed, n_values, *_, n_header = pages.page_header(data, 0)
    except ValueError:
        return None
    stored = data[n_header : n_header + n_compressed]
    is_whole = n_compressed >= 0 and len(stored) == n_compressed
    if kind != _DICTIONARY_PAGE or not 0 <= n_bytes <= limit or n_values < 0 or not is_whole:
        return None
    try:
        page = stored if codec is None else pa.decompress(stored, n_bytes, codec, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        if is_from_outside(error):
            raise
        return None
    return (page, n_values) if len(page) == n_bytes else None


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
