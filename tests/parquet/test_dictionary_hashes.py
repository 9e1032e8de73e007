"""Dictionary pages of any writer have all values of their column chunk, where they are asked for values."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast._kernels.parquet import bloom
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet import column_chunks
from puffin_fast.parquet.bloom_filters import Hashes
from puffin_fast.rows.files.parquet import ParquetReader
from tests.thrift import LIST, STRUCT, encode, footer_of, get

N, GROUP = 30_000, 10_000


@pytest.fixture(autouse=True)
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_chunks, "LEAST_PICKED", 1)
        yield


def rows() -> pa.Table:
    """Columns with few values, and one whose dictionary is given up within each row group."""
    rng = np.random.default_rng(7)
    numbers = 2 * rng.integers(0, 50, N) + 1
    mask = rng.random(N) < 0.05
    some = pa.array(numbers, mask=mask)
    distinct = np.where(np.arange(N) % GROUP < 3_000, numbers, rng.integers(0, 1 << 50, N))
    prices = [None if n is None else decimal.Decimal(n).scaleb(-2) for n in some.to_pylist()]
    day = datetime.datetime(2024, 2, 29, 1, 2, 3)
    return pa.table(
        {
            "long": some,
            "int": some.cast(pa.int32()),
            "date": some.cast(pa.int32()).cast(pa.date32()),
            "ts": pa.array([day + datetime.timedelta(seconds=int(n)) for n in numbers], pa.timestamp("us")),
            "d9": pa.array(prices, pa.decimal128(9, 2)),
            "d18": pa.array(prices, pa.decimal128(18, 2)),
            "d38": pa.array(prices, pa.decimal128(38, 2)),
            "text": pa.array([None if n is None else f"é{n}" * (n % 5) for n in some.to_pylist()]),
            "bytes": pa.array([f"{n}".encode() for n in numbers]),
            "nulls": pa.nulls(N, pa.string()),
            "mixed": distinct,
        }
    )


def by_pyarrow(folder: Path, **options: Any) -> Path:
    limits = {"dictionary_pagesize_limit": 20_000, "data_page_size": 4_000, "row_group_size": GROUP}
    pq.write_table(rows(), folder / "p.parquet", **{**limits, **options})
    return folder / "p.parquet"


def by_duckdb(folder: Path, version: str) -> Path:
    with duckdb.connect() as connection:
        connection.register("t", rows())
        connection.execute(
            f"COPY t TO '{folder}/d.parquet' (ROW_GROUP_SIZE {GROUP}, DICTIONARY_SIZE_LIMIT 3000,"
            f" PARQUET_VERSION {version})"
        )
    return folder / "d.parquet"


def by_arrow_rs(folder: Path) -> Path:
    properties = deltalake.WriterProperties(max_row_group_size=GROUP, dictionary_page_size_limit=20_000)
    deltalake.write_deltalake(folder / "t", rows(), writer_properties=properties)
    (path,) = (folder / "t").glob("*.parquet")
    return path


def by_polars(folder: Path) -> Path:
    frame = pl.from_arrow(rows())
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(folder / "pl.parquet", row_group_size=GROUP)
    return folder / "pl.parquet"


WRITERS: dict[str, Callable[[Path], Path]] = {
    "PyArrow": by_pyarrow,
    "PyArrow, version 1": lambda folder: by_pyarrow(folder, version="1.0", store_decimal_as_integer=True),
    "PyArrow, pages of version 2": lambda folder: by_pyarrow(
        folder, data_page_version="2.0", compression="zstd"
    ),
    "PyArrow, brotli": lambda folder: by_pyarrow(folder, compression="brotli"),
    "PyArrow, lz4": lambda folder: by_pyarrow(folder, compression="lz4", write_page_checksum=True),
    "DuckDB": lambda folder: by_duckdb(folder, "V1"),
    "DuckDB, version 2": lambda folder: by_duckdb(folder, "V2"),
    "arrow-rs": by_arrow_rs,
    "Polars": by_polars,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_dictionary_has_the_values_of_its_column_chunk(tmp_path: Path, writer: str) -> None:
    path = WRITERS[writer](tmp_path)
    reader, file = ParquetReader(PyArrowFileIO(), str(path)), pq.ParquetFile(path)
    asked: set[str] = set()
    for group in range(file.num_row_groups):
        columns = file.read_row_group(group)
        for name in columns.column_names:
            layout = reader.layout_of(name)
            assert layout is not None, name
            found = reader.dictionary(group, name)
            if found is None:
                continue
            asked.add(name)
            stored = plain(columns[name].combine_chunks()).drop_null()
            there = Hashes.of(stored.unique(), layout)
            assert there is not None, name
            assert found.contains(there.hashes).all(), name
            assert not found.contains(there.hashes + np.uint64(1)).any(), name
            assert len(found._hashes) <= len(stored.unique()) + 1, name
    assert asked >= {"long", "int", "date", "ts", "text", "bytes"}
    assert "mixed" not in asked or writer.startswith(("DuckDB", "Polars"))


def written(tmp_path: Path, **options: Any) -> tuple[Path, bytes]:
    path = tmp_path / "w.parquet"
    pq.write_table(pa.table({"v": np.arange(20_000) % 10}), path, store_schema=False, **options)
    return path, path.read_bytes()


def described(tree: Any) -> Any:
    return get(get(get(tree, 4)[1][0], 1)[1][0], 3)


def with_footer(path: Path, data: bytes, change: Callable[[list[Any]], list[Any]]) -> ParquetReader:
    """The file with another description of its column chunk."""
    tree = footer_of(data)
    chunk = described(tree)
    chunk[:] = change(chunk)
    footer = encode(STRUCT, tree)
    size = int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return ParquetReader(PyArrowFileIO(), str(path))


def test_statistics_of_encodings_decide_and_else_the_headers_of_pages(tmp_path: Path) -> None:
    path, data = written(tmp_path)
    stats: list[tuple[list[tuple[int, int, int]], bool]] = [
        ([(2, 0, 1), (0, 8, 3)], True),
        ([(0, 2, 3)], True),
        ([(0, 8, 3), (3, 8, 1), (0, 0, 0)], True),
        ([(0, 8, 3), (0, 0, 1)], False),
        ([(0, 8, 3), (3, 5, 1)], False),
        ([(0, 8, 3), (1, 8, 1)], False),
        ([(0, 8, -1)], False),
        ([(2, 0, 1)], True),  # nothing about data pages: their headers are read
        ([], True),
    ]
    for items, expected in stats:
        structs = [[(1, 5, kind), (2, 5, encoding), (3, 5, n)] for kind, encoding, n in items]
        reader = with_footer(
            path,
            data,
            lambda chunk, structs=structs: [
                *(field for field in chunk if field[0] < 13),
                (13, LIST, (STRUCT, structs)),
                *(field for field in chunk if field[0] > 13),
            ],
        )
        assert (reader.dictionary(0, "v") is not None) is expected, items
    without = with_footer(path, data, lambda chunk: [field for field in chunk if field[0] != 13])
    assert without.dictionary(0, "v") is not None
    for encoding in (5, 9):
        other = with_footer(
            path,
            data,
            lambda chunk, encoding=encoding: [
                (number, kind, (5, [*value[1], encoding]) if number == 2 else value)
                for number, kind, value in chunk
                if number != 13
            ],
        )
        assert other.dictionary(0, "v") is None


def test_headers_of_pages_tell_a_dictionary_that_was_given_up(tmp_path: Path) -> None:
    path = tmp_path / "g.parquet"
    table = pa.table({"v": np.concatenate([np.arange(30_000) % 10, np.arange(5_000) * 7919])})
    pq.write_table(table, path, store_schema=False, dictionary_pagesize_limit=1_000, data_page_size=2_000)
    reader = with_footer(path, path.read_bytes(), lambda chunk: [field for field in chunk if field[0] != 13])
    chunk = reader.chunk(0, "v")
    assert chunk.dictionary_bytes
    assert chunk.is_in_dictionary is None
    assert reader.dictionary(0, "v") is None


def test_a_damaged_dictionary_is_not_asked(tmp_path: Path) -> None:
    path, data = written(tmp_path, compression="none")
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    for at in range(start, start + 20):  # its header
        for bit in range(8):
            mutated = bytearray(data)
            mutated[at] ^= 1 << bit
            path.write_bytes(mutated)
            found = ParquetReader(PyArrowFileIO(), str(path)).dictionary(0, "v")
            assert found is None or len(found._hashes) == 10
    path, data = written(tmp_path, compression="none", write_page_checksum=True)
    size = ParquetReader(PyArrowFileIO(), str(path)).chunk(0, "v").dictionary_bytes
    mutated = bytearray(data)
    mutated[start + size - 1] ^= 1
    path.write_bytes(mutated)
    with pytest.raises(CorruptDataError, match="CRC-32"):
        ParquetReader(PyArrowFileIO(), str(path)).dictionary(0, "v")


def test_texts_of_a_page_are_counted() -> None:
    page = b"\1\0\0\0a\0\0\0\0\2\0\0\0bc"
    for n, size, expected in (
        (3, len(page), True),
        (2, len(page), False),
        (4, len(page), False),
        (3, len(page) - 1, False),
    ):
        assert bloom.hash_plain(page[:size], np.empty(n, np.uint64)) is expected
    found = np.empty(3, np.uint64)
    assert bloom.hash_plain(page, found)
    expected_hashes = np.empty(3, np.uint64)
    bloom.hash_texts(np.array([0, 1, 1, 3]), b"abc", expected_hashes)
    assert found.tolist() == expected_hashes.tolist()
    assert not bloom.hash_plain(b"\xff\xff\xff\xffa", np.empty(1, np.uint64))
