"""What is fuzzed of Parquet: the check of footers, and the decoder of pages."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from puffin_fast import errors
from puffin_fast._io import open_source

MAGIC = b"PAR1"
N_ROWS = 40


class Chunk(NamedTuple):
    """A column chunk of a well-formed file."""

    layout: Any
    metadata: Any
    data: bytes


def files() -> Iterator[bytes]:
    """Files of one column each: every width, encoding and codec that the decoder has."""
    numbers = range(N_ROWS)
    columns: dict[str, tuple[list[Any], pa.DataType, dict[str, Any]]] = {
        "plain": (list(numbers), pa.int64(), {"use_dictionary": False, "compression": "none"}),
        "dictionary": ([n % 3 for n in numbers], pa.int32(), {"compression": "none"}),
        "nulls": ([n if n % 4 else None for n in numbers], pa.float64(), {"use_dictionary": False}),
        "text": (["abc"[: n % 4] for n in numbers], pa.string(), {"use_dictionary": False, "compression": "none"}),
        "text of a dictionary": (["a", None, "bc", "a"] * (N_ROWS // 4), pa.string(), {"compression": "snappy"}),
        "booleans": ([bool(n % 3) for n in numbers], pa.bool_(), {"compression": "zstd"}),
        "version 2": ([n or None for n in numbers], pa.int32(), {"data_page_version": "2.0", "compression": "lz4"}),
        "decimal": ([n if n % 5 else None for n in numbers], pa.decimal128(30, 2), {"compression": "none"}),
        "pages": (list(numbers), pa.int32(), {"data_page_size": 32, "write_batch_size": 8, "use_dictionary": False}),
    }  # fmt: skip
    for values, kind, options in columns.values():
        sink = io.BytesIO()
        array = (
            pa.array(values, pa.int64()).cast(kind) if pa.types.is_decimal(kind) else pa.array(values, kind)
        )
        pq.write_table(pa.table({"c": array}), sink, store_schema=False, **options)
        yield sink.getvalue()


def footer_of(file: bytes) -> bytes:
    """The bytes of a file's footer, without its length and the magic."""
    n_bytes = int.from_bytes(file[-8:-4], "little")
    return file[-8 - n_bytes : -8]


@cache
def chunks() -> tuple[Chunk, ...]:
    """The column chunks of `files`."""
    from puffin_fast.parquet.footer import Footer

    found = []
    for file in files():
        footer = Footer.of(pq.ParquetFile(pa.BufferReader(file)), footer_of(file))
        column = footer.layout.column("c", views=False)
        assert column is not None
        chunk = footer.chunk(0, column[0])
        found.append(Chunk(column[1], chunk, file[chunk.start : chunk.start + chunk.n_bytes]))
    return tuple(found)


def parquet_footer(data: bytes) -> None:
    """A footer inside a right frame: where the check finds nothing wrong, PyArrow makes objects of it, which agree."""
    from puffin_fast.parquet.footer import FileLayout, Footer, check_footer

    file = MAGIC + data + len(data).to_bytes(4, "little") + MAGIC
    source = pa.BufferReader(file)
    try:
        opened = pq.ParquetFile(source)
        layout, footer = FileLayout(opened), opened.metadata
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return
    try:
        check_footer(footer, open_source(source), "f")
    except (errors.CorruptDataError, errors.UnsupportedError):
        return
    found = Footer(data, layout)
    assert (found.status, found.n_rows, len(found.group_rows)) == (0, footer.num_rows, footer.num_row_groups)
    for number, row_group in enumerate(map(footer.row_group, range(footer.num_row_groups))):
        assert found.group_rows[number] == row_group.num_rows
        for at, column in enumerate(map(row_group.column, range(row_group.num_columns))):
            assert column.physical_type == footer.schema.column(0).physical_type or footer.num_columns > 1
            _ = column.statistics, column.encodings
            chunk = found.chunk(number, at)
            stated = column.num_values, column.total_uncompressed_size, column.total_compressed_size
            assert (chunk.n_values, chunk.raw_bytes, chunk.n_bytes) == stated


def parquet_pages(data: bytes) -> None:
    """The pages of a column chunk, whose kind the first byte chooses: rows are decoded or refused."""
    from puffin_fast.parquet.column_pages import ColumnPages
    from puffin_fast.parquet.page_codecs import PageError

    if not data:
        return
    kind = chunks()[data[0] % len(chunks())]
    for step in (N_ROWS, 7):
        pages = ColumnPages(kind.layout, kind.metadata, pa.py_buffer(data[1:]), N_ROWS, path="f", name="c")
        with contextlib.suppress(PageError, errors.CorruptDataError):  # a checksum is no matter of PyArrow
            for first in range(0, N_ROWS, step):
                n_rows = min(step, N_ROWS - first)
                found = pages.read(first, n_rows, None)
                assert len(found) == n_rows
                found.validate()
