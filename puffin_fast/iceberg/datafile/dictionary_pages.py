"""The dictionary page of a Parquet column chunk: the values of the chunk, without its data pages.

    page header (Thrift, compact protocol) | dictionary page, compressed | data pages …
    ^ dictionary_page_offset                                             ^ data_page_offset

    header: 1 type = 2 | 2 uncompressed size | 3 compressed size | 7 {1 number of values, 2 encoding, …}

Where every data page is dictionary-encoded the page holds all values of the chunk, each once. Arrow's writer
also puts entries there that no row has, and PyArrow does not tell how many pages have which encoding; so only
files of writers whose dictionaries are known to hold used values are read, and only chunks whose encodings
leave no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["TRUSTED_WRITERS", "dictionary_values"]

TRUSTED_WRITERS = ("parquet-mr ",)
"""How `created_by` begins for Java's library, which Spark, Iceberg, Flink and Hive write with."""

_LEVELS_AND_DICTIONARY = {"PLAIN_DICTIONARY", "RLE", "BIT_PACKED"}
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli"}
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_DICTIONARY_PAGE = 2


def dictionary_values(
    read_at: Callable[[int, int], bytes],
    created_by: str | None,
    chunk: pq.ColumnChunkMetaData,
    kind: pa.DataType,
) -> pa.Array | None:
    """The distinct values of a column chunk; None where its data pages are needed to know them.

    Args:
        read_at: reads so many bytes at an offset of the file.
        created_by: of the file.
        chunk: of a column that is no list or map.
        kind: the Arrow type that PyArrow reads the column as.
    """
    start, codec = chunk.dictionary_page_offset, _CODECS.get(chunk.compression, "")
    if (
        not (created_by or "").startswith(TRUSTED_WRITERS)
        or not chunk.has_dictionary_page
        or not start
        or codec == ""
        or "PLAIN_DICTIONARY" not in chunk.encodings
        or not _LEVELS_AND_DICTIONARY.issuperset(chunk.encodings)
    ):
        return None
    size = chunk.data_page_offset - start
    if not 0 < size <= chunk.total_compressed_size:
        return None
    page = _page(read_at(start, size), codec, chunk.total_uncompressed_size)
    return None if page is None else _array(*page, chunk.physical_type, kind)


def _page(data: bytes, codec: str | None, limit: int) -> tuple[bytes, int] | None:
    """The decompressed dictionary page and its number of values; None for anything else."""
    header = _Thrift(data)
    try:
        fields = header.struct()
    except (IndexError, ValueError, RecursionError):
        return None
    dictionary = fields.get(7)
    n_bytes, n_compressed = fields.get(2), fields.get(3)
    if fields.get(1) != _DICTIONARY_PAGE or not isinstance(dictionary, dict):
        return None
    if not isinstance(n_bytes, int) or not isinstance(n_compressed, int) or not 0 <= n_bytes <= limit:
        return None
    n_values, stored = dictionary.get(1), data[header.at : header.at + n_compressed]
    if not isinstance(n_values, int) or n_values < 0 or len(stored) != n_compressed:
        return None
    try:
        page = stored if codec is None else pa.decompress(stored, n_bytes, codec, asbytes=True)
    except (pa.ArrowException, OSError):
        return None
    return (page, n_values) if len(page) == n_bytes else None


def _array(page: bytes, n: int, physical: str, kind: pa.DataType) -> pa.Array | None:
    """PLAIN-encoded values in an Arrow type; None for types that are stored in another way."""
    types = pa.types
    if physical == "BYTE_ARRAY" and (types.is_string(kind) or types.is_binary(kind)):
        values = list(_byte_arrays(page))
        return pa.array(values, pa.binary()).cast(kind) if len(values) == n else None
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


def _byte_arrays(page: bytes) -> Iterator[bytes]:
    """Byte strings, each after its length; ends early where a length is wrong."""
    at = 0
    while at + 4 <= len(page):
        end = at + 4 + int.from_bytes(page[at : at + 4], "little")
        if end > len(page):
            return
        yield page[at + 4 : end]
        at = end


class _Thrift:
    """Integers and structs of Thrift's compact protocol; other values are passed over.

    Attributes:
        at: the next byte.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self) -> dict[int, object]:
        """The fields of a struct by id.

        Raises:
            IndexError: the bytes end.
            ValueError: a type that page headers do not have.
        """
        fields: dict[int, object] = {}
        field_id = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            field_id = field_id + delta if delta else self._integer()
            fields[field_id] = self._value(kind)
        return fields

    def _value(self, kind: int) -> object:
        if kind in (1, 2):  # a boolean is its type
            return kind == 1
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 8:
            n_bytes = self._unsigned()
            self.at += n_bytes
            return None
        if kind == 12:
            return self.struct()
        raise ValueError(f"Thrift type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
