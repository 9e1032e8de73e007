"""A page that has another CRC-32 than its header is an error with its file, column and place, whatever decodes it."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast._io import open_source
from puffin_fast._kernels.parquet.page_sums import PageSums
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet.arrow_file import ArrowFile
from puffin_fast.parquet.checked_file import PIECE
from puffin_fast.parquet.dictionary_pages import DictionaryPages
from puffin_fast.parquet.footer import ChunkPlaces
from puffin_fast.rows.files.files import reading
from tests.kit import thrift
from tests.kit.tables import parquet_file
from tests.parquet.files import CODECS, few_columns, read, reader_of

pytestmark = pytest.mark.usefixtures("least_in_pages")

N_ROWS = 400
ROWS = few_columns(N_ROWS).drop_columns(["x"])


def by_pyarrow(codec: str, version: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    small = {"row_group_size": 250, "data_page_size": 300, "write_batch_size": 100}
    pq.write_table(
        ROWS, sink, compression=codec, data_page_version=version, write_page_checksum=True, **small, **options
    )
    return sink.getvalue()


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    for version in ("1.0", "2.0"):
        for codec in CODECS:
            yield f"pyarrow {codec} {version}", by_pyarrow(codec, version)
        yield f"pyarrow plain {version}", by_pyarrow("zstd", version, use_dictionary=False)
    yield "pyarrow delta", by_pyarrow("zstd", "2.0", use_dictionary=False, column_encoding=DELTA)
    path = folder / "other.parquet"
    for codec in ("uncompressed", "zstd", "snappy"):
        parquet_file(path, ROWS, by="polars", compression=codec, row_group_size=250)
        yield f"polars {codec}", thrift.with_checksums(path.read_bytes())
        parquet_file(
            path, ROWS, by="duckdb", compression=codec, parquet_version="V1" if codec == "zstd" else "V2"
        )
        yield f"duckdb {codec}", thrift.with_checksums(path.read_bytes())


DELTA = {
    name: "DELTA_BYTE_ARRAY" if name == "text" else "DELTA_BINARY_PACKED" for name in ("id", "k", "text")
}


def scanned(path: Path, names: list[str]) -> pa.Table:
    """Columns as scans and filters read them."""
    groups = range(len(reader_of(path).group_rows))
    return pa.concat_tables(pa.table(read(path, names, group=group)) for group in groups)


def of_page(path: Path, page: thrift.Page, data: bytes) -> str:
    """The message for a page of a file with these bytes."""
    expected = thrift.get(page.header, 4) & 0xFFFFFFFF
    found = zlib.crc32(data[page.body : page.stop])
    what = f"CRC-32 of a page of column {page.column}"
    return f"{path}: offset {page.at}: {what}: expected {expected:08x}, found {found:08x}"


def test_a_changed_bit_in_any_page_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    for name, data in written(tmp_path):
        path.write_bytes(data)
        assert scanned(path, ROWS.column_names).num_rows == N_ROWS, name
        seen: set[tuple[str, object]] = set()
        for page in thrift.pages_of(data):
            kind = page.column, thrift.get(page.header, 1)
            if page.body == page.stop or kind in seen:
                continue
            seen.add(kind)
            damaged = bytearray(data)
            damaged[page.stop - 1] ^= 0x10
            path.write_bytes(damaged)
            with pytest.raises(CorruptDataError) as caught:
                scanned(path, [page.column.partition(".")[0]])
            assert str(caught.value) == of_page(path, page, damaged), name


def test_pages_without_checksum_are_read(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "data.parquet")
    assert scanned(tmp_path / "data.parquet", ROWS.column_names).num_rows == N_ROWS


def test_only_pages_of_wanted_rows_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    data = bytearray(by_pyarrow("zstd", "1.0", use_dictionary=False))
    third = [page for page in thrift.pages_of(data) if page.column == "id"][2]
    data[third.body] ^= 1
    path.write_bytes(data)
    columns = reader_of(path).columns(0, ["id"], N_ROWS, use_threads=False)
    assert columns.read(0, 200, None)["id"].to_pylist() == list(range(200))
    with pytest.raises(CorruptDataError, match="CRC-32 of a page of column id"):
        columns.read(200, 50, None)


def test_the_distinct_values_of_a_dictionary_page_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(ROWS.select(["k"]), path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    page = next(iter(thrift.pages_of(data)))
    data[page.stop - 1] ^= 1
    path.write_bytes(data)
    with open_source(str(path)) as source, pytest.raises(CorruptDataError) as caught:
        DictionaryPages(source, pq.read_metadata(path)).values(0, 0, pa.int32())
    assert str(caught.value) == of_page(path, page, data)


def test_what_pyarrow_reads_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    data = bytearray(by_pyarrow("zstd", "1.0"))
    page = next(page for page in thrift.pages_of(data) if page.column == "text")
    data[page.stop - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptDataError) as caught, reading(str(path)):
        list(reader_of(path).batches(0, ["text"], 100, use_threads=False))
    assert str(caught.value) == of_page(path, page, data)


HEADER: thrift.Struct = [(1, 5, 2), (7, 12, [(1, 5, 1), (2, 5, 0)])]
SUMS = """
import random, sys, zlib
if sys.argv[1] != "fast":
    sys.modules["isal"] = sys.modules["zlib_ng"] = None
from puffin_fast._kernels import checksum
from puffin_fast._kernels.parquet.page_sums import PageSums
from tests.kit import thrift
chance = random.Random(1)
n = 0
for size in [*range(300), 4095, 4096, 65535, 1 << 20]:
    data = chance.randbytes(size)
    sum = zlib.crc32(data)
    sum -= sum >> 31 << 32
    for change in (0, 1):
        fields = [(1, 5, 2), (2, 5, size), (3, 5, size), (4, 5, sum ^ change), (7, 12, [(1, 5, 1), (2, 5, 0)])]
        try:
            page = thrift.encode(thrift.STRUCT, fields) + data
            for step in (1 << 30, 1 + size // 3):
                sums = PageSums(page, n_values=1, path=None, column="x", start=0)
                for at in range(step, len(page), step):
                    sums.check(at)
                sums.check(len(page))
        except ValueError:
            n += 1
print(n)
"""


@pytest.mark.parametrize("level", ["fast", "portable", "avx2"])
def test_the_sum_of_any_number_of_bytes_is_zlibs(level: str) -> None:
    environment = os.environ | ({} if level == "fast" else {"PUFFIN_FAST_SIMD": level})
    ran = subprocess.run(
        [sys.executable, "-c", SUMS, level], check=True, capture_output=True, text=True, env=environment
    )
    assert int(ran.stdout) == 304


def test_bytes_that_are_no_page_are_not_compared() -> None:
    for data in (b"", b"\0", b"PAR1" * 9, thrift.encode(thrift.STRUCT, [*HEADER, (2, 5, 9), (3, 5, 9)])):
        sums = PageSums(data, n_values=1, path=None, column="x", start=0)
        assert sums.check(len(data)) == (not data)


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_changed_bit_in_any_part_of_a_long_column_chunk_is_found(
    tmp_path: Path, codec: str, is_remote: bool
) -> None:
    path = tmp_path / "data.parquet"
    chance = random.Random(0)
    rows = pa.table(
        {"n": [[chance.getrandbits(60) for _ in range(100)] for _ in range(1500)], "m": [[1]] * 1500}
    )
    pq.write_table(
        rows,
        path,
        compression=codec,
        use_dictionary=False,
        data_page_size=150_000,
        write_batch_size=100,
        write_page_checksum=True,
    )
    data = path.read_bytes()
    pages = list(thrift.pages_of(data))
    assert len(pages) >= 6
    assert pages[-1].stop > 2 * PIECE
    for page in pages:
        at = chance.randrange(page.body, page.stop)
        damaged = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        path.write_bytes(damaged)
        with ArrowFile(path, str(path), is_remote=is_remote) as file:
            other = "m" if page.column.startswith("n") else "n"
            assert file.read_row_group(0, columns=[other]).equals(rows.select([other]))
            with pytest.raises(CorruptDataError) as caught:
                file.read_row_group(0)
            assert str(caught.value) == of_page(path, page, damaged)


def test_a_page_header_that_cannot_be_read_does_not_hide_the_pages_after_it(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    data = bytearray(by_pyarrow("zstd", "1.0", use_dictionary=False))
    page = [page for page in thrift.pages_of(data) if page.column == "items.list.element"][1]
    data[page.at] = 0  # the end of an empty header
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=r"pages of column items\.list\.element: expected \d+ values"):
        scanned(path, ["items"])


def test_a_file_whose_footer_contradicts_itself_is_compared_by_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(by_pyarrow("zstd", "1.0"))
    page = next(page for page in thrift.pages_of(path.read_bytes()) if page.column == "items.list.element")
    for is_damaged in (False, True):
        data = bytearray(path.read_bytes())
        data[page.stop - 1] ^= is_damaged
        path.write_bytes(data)
        with ArrowFile(path, str(path)) as file, mock.patch.object(ChunkPlaces, "of", return_value=None):
            if is_damaged:
                with pytest.raises(OSError, match="CRC"):
                    file.read()
            else:
                assert file.read().equals(ROWS)
