"""Filters and keys find the same rows with the page index of Parquet files as in all their pages."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import puffin_fast as pf
from puffin_fast._io.source import Source
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.parquet import column_chunks, page_index
from puffin_fast.rows.files import parquet
from puffin_fast.rows.files.parquet import ParquetReader
from puffin_fast.rows.files.reader import OpenedFile
from puffin_fast.rows.filters.bounds import Range
from tests.kit.tables import table_of_files
from tests.seeds import seeds
from tests.thrift import STRUCT, Reader, encode, footer_of, get

N = 3000
DAY = dt.date(2020, 1, 1)


def values(rng: random.Random) -> dict[str, pa.Array]:
    """Columns of every type, in clusters, so that bounds of pages exclude some; with nulls, NaN and -0.0."""
    spread = rng.choice([1, 50, 4000])
    numbers = [at + rng.randint(-spread, spread) for at in range(N)]
    if rng.random() < 0.3:
        rng.shuffle(numbers)
    same = rng.choice(["", "long" * 40])
    nulls = rng.choice([0.0, 0.1, 0.9])

    def column(make: Any, kind: pa.DataType) -> pa.Array:
        block = rng.randrange(N)
        cells = [None if rng.random() < nulls or block <= at < block + 400 * (nulls > 0) else make(n)
                 for at, n in enumerate(numbers)]  # fmt: skip
        return pa.array(cells, kind)

    def number(n: int) -> float:
        return rng.choice([float("nan"), -0.0, 0.0]) if n % 9 == 0 else n / 4

    return {
        "i": column(lambda n: n, pa.int32()),
        "l": column(lambda n: n * 10**12, pa.int64()),
        "f": column(number, pa.float32()),
        "d": column(number, pa.float64()),
        "s": column(lambda n: f"{same}é{n:06}", pa.string()),
        "b": column(lambda n: n.to_bytes(4, "big", signed=True) + b"\xff" * (n % 70), pa.binary()),
        "x": column(lambda n: n.to_bytes(4, "big", signed=True), pa.binary(4)),
        "n": column(lambda n: Decimal(n).scaleb(-2), pa.decimal128(rng.choice([9, 18, 20]), 2)),
        "o": column(lambda n: n > N // 2, pa.bool_()),
        "t": column(lambda n: DAY + dt.timedelta(n), pa.date32()),
        "m": column(lambda n: n * 10**9, pa.timestamp("us")),
        "u": column(lambda n: f"{same}{n % 5}", pa.string()),
    }


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"'{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str | dt.date) else str(value)


def predicate(rng: random.Random, columns: dict[str, pa.Array]) -> str:
    name = rng.choice([*columns])
    known = [value for value in columns[name].to_pylist() if value is not None and value == value]
    some = sorted(rng.sample(known, min(3, len(known))))
    if not some or rng.random() < 0.1:
        return f"{name} is {rng.choice(['', 'not '])}null"
    if name == "o":
        return f"o = {str(some[0]).lower()}"
    if rng.random() < 0.2:
        return f"{name} {rng.choice(['', 'not '])}in ({', '.join(map(literal, some))})"
    if rng.random() < 0.2:
        return f"{name} between {literal(some[0])} and {literal(some[-1])}"
    return f"{name} {rng.choice(['=', '<', '<=', '>', '>=', '<>', '='])} {literal(some[0])}"


def row_filter(rng: random.Random, columns: dict[str, pa.Array]) -> str:
    parts = [predicate(rng, columns) for _ in range(rng.choice([1, 1, 2, 3]))]
    text = parts[0]
    for part in parts[1:]:
        text = f"({text}) {rng.choice(['and', 'or'])} {rng.choice(['', 'not '])}({part})"
    return text


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


def write(rng: random.Random, path: Path, rows: pa.Table) -> None:
    pq.write_table(
        rows,
        path,
        write_page_index=True,
        compression=rng.choice(["zstd", "snappy", "none", "gzip"]),
        use_dictionary=rng.choice([True, False]),
        data_page_size=rng.choice([1, 500, 4000, 1 << 20]),
        write_batch_size=rng.choice([1, 7, 100]),
        row_group_size=rng.choice([N, N // 2, 700]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        store_decimal_as_integer=rng.choice([True, False]),
    )


@pytest.mark.parametrize("seed", seeds(6))
def test_filters_find_the_rows_of_all_pages(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, seed: int
) -> None:
    rng = random.Random(seed)
    columns = values(rng)
    rows = pa.table(columns)
    path = tmp_path / "a.parquet"
    write(rng, path, rows)
    table = table_of_files(catalog, path)
    for _ in range(12):
        both(table, reads, row_filter(rng, columns))


@pytest.mark.parametrize("seed", seeds(3))
def test_pages_that_are_requested_are_those_of_all_wanted_rows(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "is_remote", lambda *_: True)
    monkeypatch.setattr(page_index, "_SMALL", 0)
    monkeypatch.setattr(column_chunks, "AHEAD_BYTES", [0, 1 << 14, 1 << 20][seed % 3])
    options = {**(OpenedFile.batches.__kwdefaults__ or {}), "batch_rows": 300}
    monkeypatch.setattr(OpenedFile.batches, "__kwdefaults__", options)
    monkeypatch.setattr(ParquetReader, "batches", None)  # of PyArrow
    rng = random.Random(seed)
    columns = values(rng)
    rows = pa.table(columns)
    path = tmp_path / "a.parquet"
    write(rng, path, rows)
    table = table_of_files(catalog, path)
    for _ in range(6):
        both(table, reads, row_filter(rng, columns))


@pytest.mark.parametrize("seed", seeds(3))
def test_deletes_by_keys_and_filters_hit_the_same_rows(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, seed: int
) -> None:
    rng = random.Random(seed)
    columns = values(rng)
    rows = pa.table(columns)
    found = []
    name = rng.choice(["i", "l", "s", "b", "n", "t", "m", "d"])
    known = pc.unique(columns[name].drop_null()).to_pylist()
    keys = pa.array(rng.sample(known, min(3, len(known))), columns[name].type)
    text, upserted = row_filter(rng, columns), rows.slice(rng.randrange(N), 2)
    for index in (True, False):
        reads.by(index=index)
        path = tmp_path / f"{index}.parquet"
        write(random.Random(seed), path, rows)
        table = table_of_files(catalog, path)
        pf.iceberg.delete(table, text)
        pf.iceberg.delete_keys(table, keys, name)
        if not upserted["i"].null_count and upserted["i"][0] != upserted["i"][1]:
            pf.iceberg.upsert(table, upserted, "i", duplicate_keys="replace")
        left = pf.iceberg.scan(table).to_arrow()
        found.append(sorted(map(str, left.to_pylist())))
    assert found[0] == found[1], (name, keys, text)


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


@pytest.mark.parametrize("seed", seeds(1))
def test_damaged_offset_indexes_are_refused_or_change_nothing(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.parquet"
    rows = clustered(path, n=2000)
    table = table_of_files(catalog, path)
    reads.by(index=True)
    whole = path.read_bytes()
    for _ in range(40):
        data = bytearray(whole)
        start, n_bytes = offset_index(path, rng.choice([0, 1, 2]))
        data[start + rng.randrange(n_bytes)] = rng.randrange(256)
        path.write_bytes(data)
        low = rng.randrange(2000)
        try:
            found = pf.iceberg.scan(table, row_filter=f"id between {low} and {low + 3}").to_arrow()
        except PuffinFastError:
            continue
        finally:
            path.write_bytes(whole)
        assert found.equals(rows.slice(low, 4).cast(found.schema))


def by_arrow_rs(rows: pa.Table, path: Path) -> None:
    folder = path.parent / "delta"
    properties = deltalake.WriterProperties(data_page_size_limit=2000, write_batch_size=100)
    deltalake.write_deltalake(folder, rows, writer_properties=properties)
    (written,) = folder.glob("*.parquet")
    written.rename(path)


def by_polars(rows: pa.Table, path: Path) -> None:
    polars.from_arrow(rows).write_parquet(path, data_page_size=2000, statistics="full")  # type: ignore[union-attr]


def by_duckdb(rows: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("t", rows)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


@pytest.mark.parametrize("write_file", [by_arrow_rs, by_polars, by_duckdb])
def test_files_of_other_writers_have_the_same_rows(
    tmp_path: Path, catalog: InMemoryCatalog, reads: Reads, write_file: Any
) -> None:
    rng = random.Random(4)
    columns = values(rng) | {"key": pa.array(np.arange(N)), "x": pa.array([b"same"] * N)}
    columns["s"] = pa.array(
        [f"{'long' * 30}{at // 7:06}\U0010ffff" for at in range(N)]
    )  # bounds are truncated
    rows = pa.table(columns)
    path = tmp_path / "a.parquet"
    write_file(rows, path)
    table = table_of_files(catalog, path)
    for text in (
        "key = 1234",
        "key between 700 and 720 and i is not null",
        f"s = '{columns['s'][99]}'",
        "d > 500",
    ):
        both(table, reads, text)
    for _ in range(10):
        both(table, reads, row_filter(rng, columns))
    if write_file is by_arrow_rs:
        assert any(spans is not None for spans in reads.spans)
