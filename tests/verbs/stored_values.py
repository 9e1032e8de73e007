"""Finds values in the files below a folder: everything in them is decompressed, whether a scan would read it or not.

Read are file names, JSON, gzip, each page of Parquet files (dictionaries, values, levels), their footers and page
indexes, Avro blocks, and the blobs of Puffin files. A value is found as text, as bytes in both orders (bounds, plain
pages), or as Avro's varint. Encoded pages are also decoded; Bloom filters, key indexes and sketches, which have hashes,
are asked for the values.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO

import puffin_fast as pf
from puffin_fast import key_index
from puffin_fast.parquet.bloom_filters import Hashes
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.thrift import Reader, integer


def found(folder: Path, values: Iterable[int | str]) -> set[tuple[str, int | str]]:
    """Returns the files below a folder that have a value, with it.

    Args:
        folder: of a table.
        values: 64-bit integers so large that no other number in the files is equal; texts, and what is left of them
            where they are cut: bounds have 16 characters.
    """
    given = list(values)
    forms = {value: list(_forms(value)) for value in given}
    places: set[tuple[str, int | str]] = set()
    for path in sorted(folder.rglob("*")):
        name, data = path.relative_to(folder).as_posix(), path.read_bytes() if path.is_file() else b""
        contents = [name.encode(), *_contents(name, data)]
        places |= {
            (name, value)
            for value, spelled in forms.items()
            if any(form in content for content in contents for form in spelled)
        }
        if data[:4] == b"PAR1":
            places |= {(name, value) for value in _decoded(path, given)}
        if data[:4] == b"PFA1":
            places |= {(name, value) for value in given if _is_hashed(data, value)}
    return places


def _forms(value: int | str) -> Iterator[bytes]:
    if isinstance(value, str):
        yield value.encode()
    else:
        yield from (str(value).encode(), struct.pack("<q", value), struct.pack(">q", value), integer(value))


def _contents(name: str, data: bytes) -> Iterator[bytes]:
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    elif data[:4] == b"PAR1":
        yield from _pages(data)
    elif data[:4] == b"Obj\x01":
        yield repr(list(fastavro.reader(io.BytesIO(data)))).encode()
        yield from (block.bytes_.getvalue() for block in fastavro.block_reader(io.BytesIO(data)))
    elif data[:4] == b"PFA1":
        with pf.PuffinReader(io.BytesIO(data)) as reader:
            yield from map(reader.read, reader.blobs)


def _pages(data: bytes) -> Iterator[bytes]:
    """Each page of a Parquet file, decompressed."""
    metadata = pq.read_metadata(io.BytesIO(data))
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            reader = Reader(
                data, min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            )
            end = reader.at + chunk.total_compressed_size
            while reader.at < end:
                header = {number: value for number, _, value in reader.struct()}
                page = reader.take(header[3])
                second = {number: value for number, _, value in header.get(8, [])}
                n_levels = second.get(5, 0) + second.get(6, 0)
                yield page[:n_levels]
                if chunk.compression == "UNCOMPRESSED" or len(page) == n_levels:
                    yield page[n_levels:]
                else:
                    size = header[2] - n_levels
                    yield pa.Codec(chunk.compression.lower()).decompress(page[n_levels:], size).to_pybytes()


def _decoded(path: Path, values: list[int | str]) -> Iterator[int | str]:
    """The values that a Parquet file's columns have, or that one of its Bloom filters may have."""
    file = pq.ParquetFile(path)
    table = file.read()
    cells = repr([column.to_pylist() for column in table.columns])
    reader = ParquetReader(PyArrowFileIO(), str(path))
    for value in values:
        if str(value) in cells:
            yield value
        kind = pa.string() if isinstance(value, str) else pa.int64()
        for name in (field.name for field in table.schema if field.type == kind):
            for group in range(file.num_row_groups):
                layout, filter = reader.layout_of(name), reader.bloom_filter(group, name)
                hashes = None if layout is None else Hashes.of(pa.array([value], kind), layout)
                if filter is not None and hashes is not None and filter.contains(hashes.hashes).any():
                    yield value


def _is_hashed(data: bytes, value: int | str) -> bool:
    """Whether a key index or a sketch of a Puffin file has a value."""
    column = pa.array([value])
    with pf.PuffinReader(io.BytesIO(data)) as puffin:
        return any(_has(puffin.read(blob), blob.type, column) for blob in puffin.blobs)


def _has(blob: bytes, kind: str, column: pa.Array[Any]) -> bool:
    if kind == key_index.BLOB_TYPE:
        read = key_index.in_memory(blob)
        segment = key_index.Segment(read, len(blob))
        kinds = [key_index.kind_of(column.type)]
        return segment.may_hold(kinds) and len(segment.find(read, [column]).ordinals) > 0
    if kind == "apache-datasketches-theta-v1":
        return bool(pf.ThetaSketch.from_bytes(blob) & pf.ThetaSketch.from_arrow(column))
    return False
