"""Columns decoded from their pages are bit-identical to those that PyArrow reads, for any selection of rows."""

from __future__ import annotations

import decimal
import functools
import os
import struct
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from puffin_fast._kernels.parquet import pages
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError, PuffinFastError
from puffin_fast.parquet import column_pages, page_codecs
from tests.conftest import require
from tests.kit.thrift import varint
from tests.parquet.files import read, read_by_pyarrow, reader_of

pytestmark = pytest.mark.usefixtures("least_in_pages")

N = 5_000

NAN = struct.unpack("<d", b"\x01\0\0\0\0\0\xf8\x7f")[0]  # with a payload


def decimals(rng: np.random.Generator, precision: int, scale: int) -> pa.Array:
    digits = [10 ** int(p) for p in rng.integers(0, precision + 1, N)]
    values = [int(rng.integers(-(1 << 62), 1 << 62)) * int(rng.integers(1, 1 << 62)) % top for top in digits]
    signs = rng.choice([-1, 1], N).tolist()
    context = decimal.Context(prec=76)
    return pa.array(
        [context.scaleb(decimal.Decimal(s * v), -scale) for s, v in zip(signs, values, strict=True)],
        pa.decimal128(precision, scale),
    )


@functools.cache
def columns(seed: int) -> dict[str, pa.Array]:
    """A column of each flat type, with the values that are easy to get wrong."""
    rng = np.random.default_rng(seed)
    few, many = rng.integers(0, 40, N), rng.integers(-(1 << 62), 1 << 62, N)
    floats = rng.choice([0.0, -0.0, float("inf"), -float("inf"), NAN, 1.5, 5e-324], N)
    words = [rng.bytes(int(n)).hex() for n in rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 40, 300], N)]
    return {
        "int": pa.array(few.astype(np.int32)),
        "int_plain": pa.array(many.astype(np.int32)),
        "long": pa.array(many),
        "runs": pa.array(np.repeat(rng.integers(0, 9, N // 50), 50)),
        "constant": pa.array(np.full(N, 7)),
        "float": pa.array(floats.astype(np.float32)),
        "double": pa.array(floats),
        "double_plain": pa.array(rng.standard_normal(N)),
        "boolean": pa.array(rng.random(N) < 0.5),
        "date": pa.array(many.astype(np.int32), pa.date32()),
        "time": pa.array(rng.integers(0, 86_400_000_000, N), pa.time64("us")),
        "timestamp": pa.array(many, pa.timestamp("us")),
        "timestamptz": pa.array(many, pa.timestamp("us", "UTC")),
        "timestamp_ns": pa.array(many, pa.timestamp("ns")),
        "timestamp_ms": pa.array(few, pa.timestamp("ms")),
        "decimal9": decimals(rng, 9, 2),
        "decimal18": decimals(rng, 18, 6),
        "decimal38": decimals(rng, 38, 10),
        "decimal20": decimals(rng, 20, 0),
        "string": pa.array([word[:7] for word in words]),
        "string_few": pa.array([f"value {n}" for n in few]),
        "large_string": pa.array(words, pa.large_string()),
        "string_view": pa.array(words, pa.string_view()),
        "dictionary": pa.array([f"{n}" for n in few]).dictionary_encode(),
        "binary": pa.array([word.encode() for word in words], pa.large_binary()),
        "fixed": pa.array([struct.pack("<iq", n, n) for n in few.tolist()], pa.binary(12)),
        "uuid": pa.array([uuid.UUID(int=n).bytes for n in (many & 0xFF).tolist()], pa.binary(16)),
        "int8": pa.array(few.astype(np.int8)),
        "uint32": pa.array(many.astype(np.uint32)),
        "list": pa.array([[n] * (n % 3) for n in few.tolist()]),
        "struct": pa.array([{"a": n} for n in few.tolist()]),
    }


ELSEWHERE = {"int8", "uint32", "struct"}
"""Columns that PyArrow reads."""


def with_nulls(array: pa.Array, share: float, rng: np.random.Generator) -> pa.Array:
    if not share:
        return array
    return pc.if_else(pa.array(rng.random(len(array)) >= share), plain(array), None)


def written(path: Path, seed: int, nulls: float, **options: Any) -> pa.Table:
    rng = np.random.default_rng(seed)
    table = pa.table({name: with_nulls(array, nulls, rng) for name, array in columns(seed).items()})
    if options.get("version") == "1.0":  # it has neither of the two
        table = table.drop_columns(["uint32", "timestamp_ns"])
    pq.write_table(table, path, **options)
    return table


def same(left: pa.Array, right: pa.Array) -> bool:
    """Whether the values are equal to the bit: NaN with its payload, and the sign of zero."""
    if left.type != right.type:
        return False
    if pa.types.is_floating(left.type):
        kind = pa.int32() if left.type == pa.float32() else pa.int64()
        left, right = left.view(kind), right.view(kind)
    return bool(left.equals(right))


def check(
    path: Path, names: Sequence[str], steps: Sequence[tuple[int, int, Any]], *, decoded: bool = True
) -> None:
    """Reads columns of each row group in steps, and compares the rows with PyArrow's."""
    reader = reader_of(path)
    for group, n_rows in enumerate(reader.group_rows):
        if not n_rows:
            continue
        if decoded:
            assert set(reader.chunks.pages_of(group, names)) == set(names) - ELSEWHERE
        found = reader.columns(group, names, 1000, use_threads=False)
        truth = {name: read_by_pyarrow(path, group, name) for name in names}
        for first, count, rows in steps:
            some = min(count, n_rows - first)
            if some <= 0:
                continue
            wanted = None if rows is None else rows[rows < some].astype(np.int32)
            answer = found.read(first, some, wanted)
            for name in names:
                part = truth[name].slice(first, some)
                part = part if wanted is None else part.take(pa.array(wanted))
                answer[name].validate(full=True)
                assert same(plain(answer[name]), part), (name, group, first)


def is_read_alike(path: Path, names: list[str]) -> bool:
    """Whether columns of a file that may be damaged are refused, or what PyArrow reads."""
    try:
        found = read(path, names)
    except PuffinFastError:
        return True
    try:
        return all(same(plain(found[name]), read_by_pyarrow(path, 0, name)) for name in names)
    except (pa.ArrowException, OSError):
        return False


EVERY = [
    (0, 900, None),
    (900, 1500, np.arange(0, 1500, 3)),
    (2600, 700, np.array([699])),
    (3300, 1, np.array([0])),
]
EVERY += [(4000, 1000, np.arange(990))]
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": {"use_dictionary": False},
    "page v2": {"data_page_version": "2.0"},
    "page v2 plain": {"data_page_version": "2.0", "use_dictionary": False, "compression": "zstd"},
    "dictionary overflow": {"dictionary_pagesize_limit": 200, "data_page_size": 500, "write_batch_size": 50},
    "small pages": {"data_page_size": 300, "write_batch_size": 64, "compression": "gzip"},
    "row groups": {"row_group_size": 1300, "compression": "none"},
    "lz4": {"compression": "lz4"},
    "zstd": {"compression": "zstd", "data_page_size": 2000},
    "brotli": {"compression": "brotli", "data_page_size": 2000},
    "version 1.0": {"version": "1.0"},
    "without Arrow's schema": {"store_schema": False},
    "decimals as integers": {"store_decimal_as_integer": True},
    "checksums": {"write_page_checksum": True},
}


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_wanted_rows_are_what_pyarrow_reads(tmp_path: Path, options: dict[str, Any], nulls: float) -> None:
    path = tmp_path / "data.parquet"
    table = written(path, 1, nulls, **options)
    names = list(table.schema.names)
    check(path, names, [(0, N, None)])
    check(path, names, EVERY)


NUMBERS = ["int", "int_plain", "long", "runs", "constant", "date", "time", "timestamp", "timestamptz"]
SPLIT = [*NUMBERS, "float", "double", "double_plain", "decimal38", "fixed", "uuid"]
DELTA_TEXTS = ["string", "string_few", "large_string", "string_view", "binary"]
ENCODED = {
    "numbers": ("DELTA_BINARY_PACKED", [*NUMBERS, "decimal9", "decimal18"]),
    "split": ("BYTE_STREAM_SPLIT", [*SPLIT, "decimal9", "decimal18"]),
    "lengths": ("DELTA_LENGTH_BYTE_ARRAY", DELTA_TEXTS),
    "prefixes": ("DELTA_BYTE_ARRAY", DELTA_TEXTS),
}


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(("encoding", "names"), ENCODED.values(), ids=ENCODED)
def test_delta_encodings_are_what_pyarrow_reads(
    tmp_path: Path, encoding: str, names: list[str], version: str, nulls: float
) -> None:
    path, rng = tmp_path / "data.parquet", np.random.default_rng(8)
    table = pa.table({name: with_nulls(columns(8)[name], nulls, rng) for name in names})
    for rows, page_bytes in (
        (table, 2000),
        (table.slice(0, 1), 2000),
        (table.slice(0, 0), 2000),
        (table, 1 << 20),
    ):
        pq.write_table(
            rows,
            path,
            use_dictionary=False,
            column_encoding=dict.fromkeys(names, encoding),
            data_page_version=version,
            data_page_size=page_bytes,
            store_decimal_as_integer=True,
            compression="zstd" if nulls else "none",
        )
        check(path, names, [(0, N, None)])
        check(path, names, EVERY)


def test_delta_encodings_in_lists_and_structs_are_what_pyarrow_reads(tmp_path: Path) -> None:
    path, n = tmp_path / "data.parquet", 300
    words = [[f"word {at}"] * (at % 40) if at % 7 else None for at in range(n)]
    table = pa.table(
        {
            "list": pa.array(words),
            "numbers": pa.array([[at * k for k in range(at % 40)] for at in range(n)]),
            "s": pa.array([{"x": at, "w": f"w{at}"} if at % 5 else None for at in range(n)]),
        }
    )
    encodings = {
        "list.list.element": "DELTA_BYTE_ARRAY",
        "numbers.list.element": "DELTA_BINARY_PACKED",
        "s.x": "BYTE_STREAM_SPLIT",
        "s.w": "DELTA_LENGTH_BYTE_ARRAY",
    }
    pq.write_table(table, path, use_dictionary=False, column_encoding=encodings, data_page_size=500)
    found = reader_of(path).columns(0, ["list", "numbers", "s.x", "s.w"], 1000, use_threads=False)
    for first, count, rows in ((0, 100, None), (100, 200, np.arange(0, 200, 9))):
        answer = found.read(first, count, None if rows is None else rows.astype(np.int32))
        part = table.slice(first, count)
        part = part if rows is None else part.take(rows)
        for name in ("list", "numbers"):
            assert answer[name].to_pylist() == part[name].to_pylist()
        for name in ("x", "w"):
            inner = pc.struct_field(answer[f"s.{name}"], name).to_pylist()
            assert inner == pc.struct_field(part["s"], name).to_pylist()


@pytest.mark.parametrize(("encoding", "names"), ENCODED.values(), ids=ENCODED)
def test_delta_pages_that_are_damaged_are_refused_or_what_pyarrow_reads(
    tmp_path: Path, encoding: str, names: list[str]
) -> None:
    """What only PyArrow refuses is decoded."""
    path, rng = tmp_path / "data.parquet", np.random.default_rng(9)
    names = names[:3]
    table = pa.table({name: columns(8)[name].slice(0, 200) for name in names})
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": dict.fromkeys(names, encoding)}
    pq.write_table(table, path, compression="none", **options)
    whole = path.read_bytes()
    stop = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for _ in range(300):
        data = bytearray(whole)
        for at in rng.integers(4, stop, int(rng.integers(1, 4))).tolist():
            data[at] = int(rng.choice([0, 1, 127, 128, 255, data[at] ^ 1 << int(rng.integers(8))]))
        path.write_bytes(data)
        for name in names:
            try:
                read_by_pyarrow(path, 0, name)
            except (pa.ArrowException, OSError):
                with suppress(PuffinFastError):
                    read(path, [name])
            else:
                assert is_read_alike(path, [name]), name


@pytest.mark.parametrize("number", [0, 1 << 59, (1 << 64) - 1])
@pytest.mark.parametrize("at", [0, 2])
def test_delta_blocks_of_impossible_sizes_are_refused(tmp_path: Path, number: int, at: int) -> None:
    path = tmp_path / "data.parquet"
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BINARY_PACKED"}}
    pq.write_table(pa.table({"x": range(1000, 1400)}, schema), path, compression="none", **options)
    data, found = path.read_bytes(), varint(number)
    start = data.index(b"\x80\x02\x04") + at  # 256 values in 4 miniblocks
    path.write_bytes(data[:start] + found + data[start + len(found) :])
    with pytest.raises(PuffinFastError):
        read(path, ["x"])


def test_delta_encodings_of_duckdb_are_what_pyarrow_reads(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    duckdb.sql(
        f"""COPY (SELECT i, i * 7919 % 100003 AS n, -i AS m, random() AS x, 'text ' || i AS w,
                  CASE WHEN i % 3 = 0 THEN NULL ELSE repeat('ab', i % 9) || i END AS v
           FROM range(50000) r(i)) TO '{path}'
           (FORMAT parquet, PARQUET_VERSION v2, DICTIONARY_SIZE_LIMIT 1, ROW_GROUP_SIZE 20000)"""
    )
    names = ["i", "n", "m", "x", "w", "v"]
    encodings = {one for at in range(6) for one in pq.read_metadata(path).row_group(0).column(at).encodings}
    assert encodings & {"DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY"}
    check(path, names, [(0, 20_000, None)])
    check(path, names, EVERY)


def test_deltas_of_duckdb_that_are_longer_than_the_integers_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    ends = "CASE WHEN hash(n) % 2 = 0 THEN -2147483648 ELSE 2147483647 END::INT AS i"
    duckdb.sql(
        f"COPY (SELECT {ends} FROM range({N}) r(n)) TO '{path}' "
        "(FORMAT parquet, PARQUET_VERSION v2, DICTIONARY_SIZE_LIMIT 1)"
    )
    with pytest.raises(OSError, match="InitBlock"):
        pq.read_table(path)
    wanted = [i for (i,) in duckdb.sql(f"SELECT i FROM '{path}'").fetchall()]
    assert read(path, ["i"])["i"].to_pylist() == wanted


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (
            {"x": pa.array([uuid.UUID(int=n).bytes for n in range(N)], pa.binary(16))},
            {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}},
        ),
        ({"x": pa.array(range(N), pa.timestamp("us"))}, {"use_deprecated_int96_timestamps": True}),
        ({"a.b": range(N), "a": [{"b": n} for n in range(N)]}, {}),
    ],
    ids=["another encoding", "INT96", "names that are not unique"],
)
def test_other_columns_are_left_to_pyarrow(
    tmp_path: Path, rows: dict[str, Any], options: dict[str, Any]
) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table(rows), path, **options)
    if not options.get("use_deprecated_int96_timestamps"):
        assert not reader_of(path).chunks.pages_of(0, [*rows])
    if "x" in rows:
        check(path, ["x"], EVERY, decoded=False)


@pytest.mark.parametrize("page_bytes", [1 << 12, 200_000, 1 << 22])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_pages_of_a_large_column_chunk_are_read_where_they_are_wanted(
    tmp_path: Path, codec: str, page_bytes: int
) -> None:
    rng, n = np.random.default_rng(page_bytes), 300_000
    numbers = rng.integers(0, 1 << 40, n)
    table = pa.table(
        {
            "plain": numbers,
            "nulls": pa.array(numbers, mask=rng.random(n) < 0.2),
            "few": numbers % 60_000,
            "flag": numbers % 3 == 0,
        }
    )
    path = tmp_path / "data.parquet"
    pq.write_table(
        table,
        path,
        compression=codec,
        data_page_size=page_bytes,
        write_page_checksum=True,
        use_dictionary=["few"],
        dictionary_pagesize_limit=1 << 22,
    )
    rows = np.sort(rng.choice(150_000, 40, replace=False))
    check(path, table.column_names, [(0, n, None)])
    check(path, table.column_names, [(0, 1000, None), (100_000, 150_000, rows), (299_999, 1, None)])


def test_pages_that_are_skipped_are_not_read(tmp_path: Path) -> None:
    path, n = tmp_path / "data.parquet", 1_000_000
    pq.write_table(pa.table({"c": np.arange(n)}), path, compression="none", use_dictionary=False)
    columns = reader_of(path).columns(0, ["c"], 1000, use_threads=False)
    before = n_bytes_read()
    assert columns.read(n - 2, 2, None)["c"].to_pylist() == [n - 2, n - 1]
    assert n_bytes_read() - before < path.stat().st_size // 3


def n_bytes_read() -> int:
    """Bytes that this process has read from files, as Linux counts them."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


@pytest.mark.parametrize(
    "options", [{"dictionary_pagesize_limit": 200}, {"data_page_version": "2.0"}, {"use_dictionary": False}]
)
def test_the_package_of_zstd_gives_what_the_systems_library_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    require("ZSTD" in page_codecs.KERNEL_CODECS, "libzstd.so.1", "apt-get install libzstd1")
    path = tmp_path / "data.parquet"
    names = list(written(path, 4, 0.2, compression="zstd", data_page_size=2000, **options).schema.names)
    check(path, names, EVERY)
    monkeypatch.delitem(page_codecs.KERNEL_CODECS, "ZSTD")
    check(path, names, EVERY)


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"compression": "gzip"}])
def test_rows_are_read_again_after_the_last_one(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "data.parquet"
    names = written(path, 6, 0.2, data_page_size=2000, **options).schema.names
    names = [name for name in names if name not in {*ELSEWHERE, "list"}]
    steps = [
        (0, N, None),
        (0, N, None),
        (N - 10, 10, np.array([2, 9])),
        (17, N - 17, np.arange(0, N - 17, 7)),
    ]
    check(path, names, steps)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("nulls", [0.0, 0.3])
def test_few_texts_do_not_keep_their_pages(tmp_path: Path, nulls: float, codec: str) -> None:
    n, path, rng = 30_000, tmp_path / "data.parquet", np.random.default_rng(8)
    texts = [f"{at}" * int(size) for at, size in enumerate(rng.integers(0, 60, n))]
    options: dict[str, Any] = {"compression": codec, "use_dictionary": False, "data_page_size": 100_000}
    pq.write_table(pa.table({"x": with_nulls(pa.array(texts), nulls, rng)}), path, **options)
    truth = read_by_pyarrow(path, 0, "x")
    for rows in (rng.integers(0, 10_000, 300), np.arange(0, 10_000, 11), np.arange(0, 10_000, 2)):
        found = reader_of(path).columns(0, ["x"], 1 << 17, use_threads=False, views=True)
        wanted = np.unique(rows).astype(np.int32)
        for first in (0, 10_000, 20_000):  # a page may go on in the next rows
            array = found.read(first, 10_000, wanted)["x"]
            array.validate(full=True)
            part = truth.slice(first, 10_000).take(pa.array(wanted))
            assert array.to_pylist() == part.to_pylist()
            if len(wanted) < 1000:
                assert array.get_total_buffer_size() < 2 * part.nbytes + 16 * len(wanted)


def test_columns_that_are_open_together_share_the_memory_of_pages(tmp_path: Path) -> None:
    n, path = 1_000, tmp_path / "data.parquet"
    numbers = np.random.default_rng(3).random(2_000)
    pq.write_table(pa.table({f"c{at}": numbers for at in range(n)}), path, compression="zstd")
    columns = reader_of(path).columns(0, [f"c{at}" for at in range(n)], 1 << 17, use_threads=False)
    before = resident_bytes()
    found = columns.read(0, len(numbers), None)
    assert all(len(array) == len(numbers) for array in found.values())
    assert resident_bytes() - before < n * (16_000 + 50_000)  # the tables of zstd alone have 150 KB


def resident_bytes() -> int:
    """Bytes of this process in memory, as Linux counts them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_threads_do_not_share_the_memory_of_pages(tmp_path: Path) -> None:
    names = ["int", "long", "double", "decimal38", "date"]
    paths = [tmp_path / f"{seed}.parquet" for seed in range(8)]
    for seed, path in enumerate(paths):
        written(path, seed, 0.1, compression="zstd" if seed % 2 else "snappy", data_page_size=2000)
    steps = [(first, 100, None) for first in range(0, N, 100)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: check(paths[n % 8], names, steps), range(32)))


@given(data=st.data(), seed=st.integers(0, 2))
def test_any_rows_of_any_pages(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int
) -> None:
    path = tmp_path_factory.mktemp("pages") / "data.parquet"
    rng = np.random.default_rng(seed)
    names = data.draw(st.lists(st.sampled_from(sorted(columns(0))), min_size=1, max_size=3, unique=True))
    nulls = data.draw(st.sampled_from([0.0, 0.01, 0.5, 0.99]))
    made = columns(seed)
    n_rows = data.draw(st.sampled_from([0, 1, 7, 8, 9, 1000, N]))
    table = pa.table({name: with_nulls(made[name], nulls, rng) for name in names}).slice(0, n_rows)
    pq.write_table(
        table,
        path,
        use_dictionary=data.draw(st.booleans()),
        data_page_size=data.draw(st.sampled_from([64, 1000, 1 << 20])),
        dictionary_pagesize_limit=data.draw(st.sampled_from([64, 1 << 20])),
        write_batch_size=data.draw(st.sampled_from([1, 37, 1024])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        row_group_size=data.draw(st.sampled_from([1, 999, 10**6])) if n_rows < 1000 else 10**6,
        compression=data.draw(st.sampled_from(["none", "snappy", "zstd"])),
    )
    steps: list[tuple[int, int, Any]] = []
    at = 0
    while at < n_rows:
        count = data.draw(st.integers(1, n_rows - at))
        share = data.draw(st.sampled_from([None, 0.0, 0.001, 0.1, 0.9]))
        rows = None if share is None else np.flatnonzero(rng.random(count) < share)
        if rows is None or len(rows):
            steps.append((at, count, rows))
        at += count
    check(path, names, steps)


ALL = ["int", "string_few", "string", "decimal38", "boolean", "double"]
NUMBERS = ["int", "decimal38", "boolean"]
SEVERAL = {"compression": "snappy", "data_page_size": 8, "write_batch_size": 10}


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (ALL, {"compression": "none"}),
        (ALL, {"compression": "zstd"}),
        (NUMBERS, SEVERAL),
        (NUMBERS, {**SEVERAL, "data_page_version": "2.0"}),
        (NUMBERS, {**SEVERAL, "compression": "zstd"}),
        (ALL, {"compression": "lz4", "data_page_version": "2.0"}),
        (ALL, {"compression": "gzip", "use_dictionary": False}),
    ],
    ids=["none", "zstd", "snappy", "snappy v2", "zstd pages", "lz4 v2", "gzip"],
)
def test_a_damaged_page_is_what_pyarrow_makes_of_it(
    tmp_path: Path, names: list[str], options: dict[str, Any]
) -> None:
    """Every byte of small column chunks is changed: never a crash, and either PyArrow's answer or its error."""
    path, damaged = tmp_path / "data.parquet", tmp_path / "damaged.parquet"
    made = columns(3)
    rng = np.random.default_rng(3)
    table = pa.table({name: with_nulls(made[name], 0.2, rng) for name in names}).slice(0, 20)
    pq.write_table(table, path, **options)
    raw = path.read_bytes()
    end = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    for at in range(4, end):
        damaged.write_bytes(raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :])
        assert is_read_alike(damaged, names), at


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: b"\xff" * len(body),
        lambda body: body[:5] + b"\x0e\0\0" * 9 + body[32:],
        lambda body: bytes(9),
    ],
    ids=["no length", "offset 0", "fewer bytes"],
)
def test_a_damaged_page_of_snappy_is_an_error_that_names_the_file(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": np.arange(N)}), path, use_dictionary=False, compression="snappy")
    raw = path.read_bytes()
    *_, n_header = pages.page_header(raw, 4)
    start, n_bytes = 4 + n_header, pages.page_header(raw, 4)[2]
    body = damage(raw[start : start + n_bytes])
    path.write_bytes(raw[:start] + body + raw[start + len(body) :])
    with pytest.raises(CorruptDataError, match=r"data\.parquet.*(?i:snappy)"):
        read(path, ["x"])


def test_a_page_that_cannot_be_decoded_is_read_by_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.parquet"
    written(path, 2, 0.1, data_page_size=500, write_batch_size=100)
    decode = column_pages.ColumnPages._decode

    def failing(self: Any, first: int, n_rows: int, rows: Any) -> Any:
        if first >= 900:
            raise page_codecs.PageError("a test")
        return decode(self, first, n_rows, rows)

    monkeypatch.setattr(column_pages.ColumnPages, "_decode", failing)
    check(path, ["long", "string", "boolean"], EVERY)


@pytest.mark.parametrize("n_bytes", [page_codecs._LARGE - 1, page_codecs._LARGE, 3 * page_codecs._LARGE])
def test_zstd_gives_the_declared_bytes_or_an_error(n_bytes: int) -> None:
    """Small and large pages, which have different decompressors, with and without their size in the frame."""
    data = np.random.default_rng(0).integers(0, 9, n_bytes, np.uint8).tobytes()
    decompress = page_codecs.CODECS["ZSTD"]
    for with_size in (True, False):
        frame = zstandard.ZstdCompressor(write_content_size=with_size, write_checksum=True).compress(data)
        assert bytes(decompress(memoryview(frame), n_bytes)) == data
        wrong = (frame[:-1], frame[: n_bytes // 9], frame + b"\0", frame[:-1] + bytes([frame[-1] ^ 1]), b"")
        for damaged in wrong:
            with pytest.raises((page_codecs.PageError, *page_codecs.CODEC_ERRORS)):
                decompress(memoryview(damaged), n_bytes)
        for declared in (n_bytes - 1, n_bytes + 1):
            try:
                found = decompress(memoryview(frame), declared)
            except (page_codecs.PageError, *page_codecs.CODEC_ERRORS):
                continue
            assert len(found) != declared


def test_a_header_may_cross_the_end_of_the_bytes_that_are_read_along_with_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_pages, "LEAST_IN_PAGES", 1)
    n, rng, path = 200_000, np.random.default_rng(1), tmp_path / "a.parquet"
    nulls = rng.random(n) < np.repeat(rng.random(n // 100), 100)
    numbers = pa.array(rng.integers(-(1 << 60), 1 << 60, n), mask=nulls)
    pq.write_table(
        pa.table({"n": numbers}), path, compression="none", use_dictionary=False, data_page_size=100,
        write_batch_size=20,
    )  # fmt: skip
    columns = reader_of(path).columns(0, ["n"], n, use_threads=False)
    whole: list[int] = []  # column chunks that are read at once, as those that are not of the expected form
    inner = os.pread

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        whole.append(length)
        return inner(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    assert columns.read(0, n, None)["n"].equals(numbers)
    assert not whole
