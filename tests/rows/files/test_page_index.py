"""Filters and keys find the same rows with the page index of Parquet files as in all their pages."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast._io.source import Source
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet import column_chunks
from puffin_fast.rows.files import parquet
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.filters.bounds import Range
from tests.kit.tables import parquet_file, table_of_files
from tests.kit.thrift import STRUCT, Reader, encode, footer_of, get

N = 3000


class Reads:
    """Bytes that are read of files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.spans: list[Any] = []
        inner = parquet.ParquetReader.spans_that_may_match

        def counted(reader: Any, *args: Any) -> Any:
            self.spans.append(inner(reader, *args))
            return self.spans[-1]

        monkeypatch.setattr(parquet.ParquetReader, "spans_that_may_match", counted)

    def by(self, *, index: bool) -> None:
        """Uses the index of all pages, or of none."""
        for name in ("LEAST_PICKED", "LEAST_REQUESTED"):
            self.monkeypatch.setattr(column_chunks, name, 0 if index else 1 << 60)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def both(table: Table, reads: Reads, text: str) -> pa.Table:
    found = []
    for index in (True, False):
        reads.by(index=index)
        found.append(pf.iceberg.scan(table, row_filter=text).to_arrow())
    assert found[0].equals(found[1]) or str(found[0].to_pylist()) == str(found[1].to_pylist()), text
    return found[0]


def clustered(path: Path, n: int = 20_000, **options: Any) -> pa.Table:
    rng = np.random.default_rng(3)
    rows = pa.table(
        {
            "id": pa.array(np.arange(n)),
            "text": pa.array([f"{number:040x}" for number in rng.integers(0, 1 << 60, n).tolist()]),
            "x": pa.array(rng.random(n)),
        }
    )
    options = {"use_dictionary": False, "data_page_size": 4000, "write_batch_size": 100, **options}
    pq.write_table(rows, path, write_page_index=True, **options)
    return rows


def test_a_point_filter_reads_one_page_of_each_column(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    rows = clustered(path, compression="none")
    table = table_of_files(catalog, path)
    monkeypatch.setattr(parquet, "is_remote", lambda *_: True)  # so that all reads are those of a `Source`
    counts: list[int] = []
    inner = Source.read_at

    def counted(self: Source, offset: int, length: int) -> bytes:
        if self.path.endswith("a.parquet"):
            counts.append(length)
        return inner(self, offset, length)

    monkeypatch.setattr(Source, "read_at", counted)
    monkeypatch.setattr(Source, "gap", 0)
    reads.by(index=True)
    found = pf.iceberg.scan(table, row_filter="id = 12345").to_arrow()
    assert found.equals(rows.slice(12345, 1).cast(found.schema))
    tails = 2 * parquet.TAIL_BYTES  # of the schema, and of the scan
    assert sum(counts) - tails < path.stat().st_size // 25
    (spans,) = reads.spans
    assert spans.n_rows < 1000


def test_small_pages_of_all_columns_are_requested_at_once(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    rows = clustered(path, compression="none", use_dictionary=["text"])
    table = table_of_files(catalog, path)
    monkeypatch.setattr(parquet, "is_remote", lambda *_: True)
    stop = ParquetReader(table.io, str(path)).chunk(0, "id").bounds  # indexes follow the pages
    waves: list[int] = []
    inner = Source.read_ranges

    def counted(self: Source, ranges: list[tuple[int, int]]) -> Any:
        ranges = [*ranges]
        if self.path.endswith("a.parquet"):
            waves.append(sum(start < stop for start, _ in ranges))  # those of pages
        return inner(self, ranges)

    monkeypatch.setattr(Source, "read_ranges", counted)
    reads.by(index=True)
    for at_once, expected in ((1 << 20, [4]), (0, [1, 3])):  # three columns, and a dictionary
        monkeypatch.setattr(column_chunks, "AHEAD_BYTES", at_once)
        waves.clear()
        found = pf.iceberg.scan(table, row_filter="id = 12345").to_arrow()
        assert found.equals(rows.slice(12345, 1).cast(found.schema))
        assert [n for n in waves if n] == expected


def test_a_large_dictionary_that_no_page_needs_delays_no_page(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    limit = 1 << 17  # after which the writer encodes pages without the dictionary
    rows = clustered(path, compression="none", use_dictionary=["text"], dictionary_pagesize_limit=limit)
    table = table_of_files(catalog, path)
    monkeypatch.setattr(parquet, "is_remote", lambda *_: True)
    monkeypatch.setattr(column_chunks, "AHEAD_BYTES", limit // 2)
    stop = ParquetReader(table.io, str(path)).chunk(0, "id").bounds
    waves: list[list[int]] = []
    inner = Source.read_ranges

    def counted(self: Source, ranges: list[tuple[int, int]]) -> Any:
        ranges = [*ranges]
        if self.path.endswith("a.parquet"):
            waves.append([n_bytes for start, n_bytes in ranges if start < stop])
        return inner(self, ranges)

    monkeypatch.setattr(Source, "read_ranges", counted)
    reads.by(index=True)
    for wanted, dictionaries in ((19_000, 0), (10, 1)):
        waves.clear()
        found = pf.iceberg.scan(table, row_filter=f"id = {wanted}").to_arrow()
        assert found.equals(rows.slice(wanted, 1).cast(found.schema))
        assert [len(wave) for wave in waves if wave] == [3, *[1] * dictionaries]
        assert sum(n >= limit for wave in waves for n in wave) == dictionaries


def test_pages_are_left_out_by_fields_of_structs(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads
) -> None:
    numbers = pa.array([None if at % 50 == 7 else at for at in range(N)], pa.int64())
    inner = pa.StructArray.from_arrays([numbers, numbers.cast(pa.string())], ["x", "text"])
    cells = pa.array(np.arange(N) % 40 == 3)
    rows = pa.table({"s": pc.if_else(cells, None, inner), "n": numbers})
    path = tmp_path / "a.parquet"
    pq.write_table(
        rows, path, write_page_index=True, data_page_size=500, write_batch_size=50, use_dictionary=False
    )
    table = table_of_files(catalog, path)
    for text in (
        "s.x = 100",
        "s.x < 90 or s.text = '2000'",
        "s.x is null and n < 50",
        "s.x > 2000 and n < 2100",
    ):
        assert both(table, reads, text).num_rows
    assert sum(spans is not None for spans in reads.spans) >= 3


@pytest.mark.parametrize("precision", [9, 18, 38])
@pytest.mark.parametrize("as_integer", [True, False])
def test_pages_are_left_out_by_decimals_and_booleans(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, precision: int, as_integer: bool
) -> None:
    prices = [None if at % 50 == 7 else Decimal(at - N // 2).scaleb(-2) for at in range(N)]
    rows = pa.table(
        {"n": pa.array(prices, pa.decimal128(precision, 2)), "o": pa.array([at > N // 2 for at in range(N)])}
    )
    path = tmp_path / "a.parquet"
    options: dict[str, Any] = {"write_batch_size": 10, "use_dictionary": False}
    pq.write_table(
        rows, path, write_page_index=True, data_page_size=20, store_decimal_as_integer=as_integer, **options
    )
    table = table_of_files(catalog, path)
    for text, n_rows, n_pages in (
        ("n = 1.25", 1, 1),
        ("n in (-14.99, 0, 1.25, 99)", 3, 3),
        ("n between -0.5 and 0.5", 99, 12),
        ("n <= -14.98", 3, 1),
        ("n > 14.9", 9, 2),
        ("o = true and n < 1", 97, 26),
        ("o = false and n > -1", 98, 26),
    ):
        assert both(table, reads, text).num_rows == n_rows, text
        spans = reads.spans[-2]
        assert spans is not None, text
        assert spans.n_rows <= 10 * n_pages, text
    assert both(table, reads, "n = 1.255").num_rows == 0
    keys = pa.array([Decimal("1.25"), Decimal("-3.00")], pa.decimal128(precision, 2))
    reads.by(index=True)
    assert pf.iceberg.delete_keys(table, keys, "n").rows_deleted == 2
    assert reads.spans[-1].n_rows <= 20


def test_explain_shows_what_pages_leave_out(tmp_path: Path, catalog: InMemoryCatalog, reads: Reads) -> None:
    path = tmp_path / "a.parquet"
    table = table_of_files(catalog, path, schema=clustered(path).schema)
    reads.by(index=True)
    found = pf.iceberg.scan(table, row_filter="id = 12345").explain()
    left_out = found["page index"]
    assert left_out.rows is not None
    assert left_out.n_bytes is not None
    assert left_out.rows + found.read.rows == 20_000
    assert found.read.rows < 1000
    assert left_out.n_bytes > 0.9 * path.stat().st_size / 3
    assert pf.iceberg.scan(table, row_filter="id < 0 or id = 30000").explain().read.rows == 0


def test_zero_bytes_at_the_end_of_a_value_count(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads
) -> None:
    path = tmp_path / "a.parquet"
    cells = [bytes([n]) * 2 for n in range(100)]
    rows = pa.table({"b": cells, "x": pa.array(cells, pa.binary(2)), "s": [cell.decode() for cell in cells]})
    pq.write_table(rows, path, write_page_index=True, data_page_size=1, write_batch_size=10)
    table = table_of_files(catalog, path)
    for text in ("b <= X'0000'", "x <= X'0000'", "s <= '\0\0'", "b < X'000000' and x < X'0001'"):
        assert both(table, reads, text).to_pylist() == rows.slice(0, 1).to_pylist(), text
    lows, high = np.array([b"a\0", b"a\0\0"], object), np.array([b"b"], object)
    assert Range(b"", b"a\0").between_each(lows, high).tolist() == [True, False]


def offset_index(path: Path, leaf: int) -> tuple[int, int]:
    """The offset and the bytes of an offset index."""
    chunk = get(get(footer_of(path.read_bytes()), 4)[1][0], 1)[1][leaf]
    return get(chunk, 4), get(chunk, 5)


def test_a_page_with_other_rows_than_its_index_states_is_refused(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads
) -> None:
    path = tmp_path / "a.parquet"
    clustered(path, n=2000)
    table = table_of_files(catalog, path)
    reads.by(index=True)
    assert pf.iceberg.scan(table, row_filter="id = 1005").count() == 1
    for leaf in (0, 1):
        start, n_bytes = offset_index(path, leaf)
        whole = path.read_bytes()
        tree = Reader(whole[start : start + n_bytes]).struct()
        pages = get(tree, 1)[1]
        at = max(at for at, page in enumerate(pages) if get(page, 3) <= 1005)
        pages[at] = [(n, kind, value + (n == 3)) for n, kind, value in pages[at]]
        changed = encode(STRUCT, tree)
        assert len(changed) == n_bytes
        path.write_bytes(whole[:start] + changed + whole[start + n_bytes :])
        with pytest.raises(CorruptDataError, match="page index"):
            pf.iceberg.scan(table, row_filter="id = 1005").to_arrow()
        path.write_bytes(whole)


@pytest.mark.parametrize("writer", ["arrow-rs", "polars"])
def test_bounds_that_a_writer_truncates_leave_out_no_row(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, writer: str
) -> None:
    texts = [f"{'long' * 30}{at // 7:06}\U0010ffff" for at in range(N)]
    rows, path = pa.table({"key": range(N), "s": texts}), tmp_path / "a.parquet"
    options = {
        "polars": {"data_page_size": 2000, "statistics": "full"},
        "arrow-rs": {"data_page_size_limit": 2000, "write_batch_size": 100},
    }
    parquet_file(path, rows, by=writer, **options[writer])
    table = table_of_files(catalog, path)
    for text, n_rows in {
        "key = 1234": 1,
        "key between 700 and 720 and s is not null": 21,
        f"s = '{texts[99]}'": 7,
        f"s > '{texts[N - 8]}'": N % 7 or 7,
    }.items():
        assert both(table, reads, text).num_rows == n_rows, text
    assert any(spans is not None for spans in reads.spans) or writer == "polars"
