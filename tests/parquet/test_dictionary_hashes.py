"""Dictionary pages of any writer have all values of their column chunk, where they are asked for values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast._kernels.parquet import bloom
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet import column_chunks
from puffin_fast.parquet.bloom_filters import Hashes
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.damage import flipped_bits
from tests.kit.tables import parquet_file
from tests.kit.thrift import LIST, STRUCT, encode, footer_of, get
from tests.parquet.files import (
    columns_of_numbers,
    reader_of,
)

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
    distinct = np.where(np.arange(N) % GROUP < 3_000, numbers, rng.integers(0, 1 << 50, N))
    some = columns_of_numbers(numbers, rng.random(N) < 0.05).drop_columns(["time", "tz", "fixed"])
    return some.append_column("nulls", pa.nulls(N, pa.string())).append_column("mixed", pa.array(distinct))


SMALL_PAGES: dict[str, Any] = {
    "dictionary_pagesize_limit": 20_000,
    "data_page_size": 4_000,
    "row_group_size": GROUP,
}


DUCKDB: dict[str, Any] = {"by": "duckdb", "row_group_size": GROUP, "dictionary_size_limit": 3000}
WRITERS: dict[str, dict[str, Any]] = {
    "PyArrow": SMALL_PAGES,
    "PyArrow, version 1": SMALL_PAGES | {"version": "1.0", "store_decimal_as_integer": True},
    "PyArrow, pages of version 2": SMALL_PAGES | {"data_page_version": "2.0", "compression": "zstd"},
    "PyArrow, brotli": SMALL_PAGES | {"compression": "brotli"},
    "PyArrow, lz4": SMALL_PAGES | {"compression": "lz4", "write_page_checksum": True},
    "DuckDB": DUCKDB | {"parquet_version": "V1"},
    "DuckDB, version 2": DUCKDB | {"parquet_version": "V2"},
    "arrow-rs": {"by": "arrow-rs", "max_row_group_size": GROUP, "dictionary_page_size_limit": 20_000},
    "Polars": {"by": "polars", "row_group_size": GROUP},
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_dictionary_has_the_values_of_its_column_chunk(tmp_path: Path, writer: str) -> None:
    path = parquet_file(tmp_path / "a.parquet", rows(), **WRITERS[writer])
    reader, file = reader_of(path), pq.ParquetFile(path)
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
    assert asked >= {"long", "int", "day", "ts", "text", "bytes"}
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
    return reader_of(path)


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
    for mutated in flipped_bits(data, start, start + 20):  # its header
        path.write_bytes(mutated)
        found = reader_of(path).dictionary(0, "v")
        assert found is None or len(found._hashes) == 10
    path, data = written(tmp_path, compression="none", write_page_checksum=True)
    size = reader_of(path).chunk(0, "v").dictionary_bytes
    path.write_bytes(next(flipped_bits(data, start + size - 1)))
    with pytest.raises(CorruptDataError, match="CRC-32"):
        reader_of(path).dictionary(0, "v")


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
