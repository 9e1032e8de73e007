"""Bloom filters of any writer never hide a row, and save reading where a value is not there."""

from __future__ import annotations

import datetime
import decimal
import os
import random
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin_fast._kernels.parquet import bloom
from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import PuffinFastError
from puffin_fast.parquet import footer
from puffin_fast.parquet.bloom_filters import BloomFilter, Hashes, hash_of_least, least_bits
from puffin_fast.parquet.column_layout import Layout
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.tables import parquet_file
from tests.parquet.files import columns_of_numbers, reader_of

N, GROUP = 30_000, 10_000


def filter_of(reader: ParquetReader, group: int, name: str) -> tuple[Layout, BloomFilter] | None:
    layout = reader.layout_of(name)
    filter = None if layout is None else reader.bloom_filter(group, name)
    return None if layout is None or filter is None else (layout, filter)


def rows() -> pa.Table:
    """Odd numbers only, with nulls."""
    rng = np.random.default_rng(7)
    return columns_of_numbers(2 * rng.integers(0, 1 << 29, N) + 1, rng.random(N) < 0.05)


FILTERS = deltalake.BloomFilterProperties(True, fpp=0.01, ndv=GROUP)
WITH_FILTERS: dict[str, Any] = {
    "row_group_size": GROUP,
    "bloom_filter_options": {name: {"ndv": GROUP, "fpp": 0.01} for name in rows().column_names},
}
WRITERS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "PyArrow": ([], WITH_FILTERS),
    "PyArrow, decimals as integers": ([], WITH_FILTERS | {"store_decimal_as_integer": True}),
    "DuckDB": (  # makes filters for column chunks with a dictionary only
        ["time", "tz", "fixed"],
        {
            "by": "duckdb",
            "row_group_size": GROUP,
            "dictionary_size_limit": 1_000_000,
            "bloom_filter_false_positive_ratio": 0.01,
        },
    ),
    "arrow-rs": (
        ["time", "fixed"],
        {
            "by": "arrow-rs",
            "default_column_properties": deltalake.ColumnProperties(bloom_filter_properties=FILTERS),
            "max_row_group_size": GROUP,
        },
    ),
}
"""The columns that a writer does not get, and its options."""


@pytest.fixture(params=WRITERS.values(), ids=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    left_out, options = request.param
    return parquet_file(tmp_path / "a.parquet", rows().drop_columns(left_out), **options)


def changed(values: pa.Array) -> pa.Array:
    """Values of the same type that the columns do not have: even numbers, and longer texts."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return pa.array([value + decimal.Decimal("0.01") for value in values.to_pylist()], kind)
    if pa.types.is_string(kind):
        return pc.binary_join_element_wise(values, "!", "")
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([bytes([value[0] ^ 0x80, *value[1:]]) for value in values.to_pylist()], kind)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pc.add(values.view(width), pa.scalar(1, width)).view(kind)


def test_a_filter_has_each_value_and_few_others(path: Path) -> None:
    reader, file = reader_of(path), pq.ParquetFile(path)
    assert reader.has_bloom_filters
    n_filters = 0
    for group in range(file.num_row_groups):
        columns = file.read_row_group(group)
        for name in columns.column_names:
            found = filter_of(reader, group, name)
            if found is None:
                continue
            n_filters += 1
            layout, filter = found
            stored = plain(columns[name].combine_chunks()).drop_null()
            there = Hashes.of(stored, layout)
            assert there is not None, name
            assert there.fits.all()
            assert filter.contains(there.hashes).all(), name
            for some in (there.hashes[:1], there.hashes[:3]):  # read by blocks
                assert filter.contains(some).all()
            absent = Hashes.of(changed(stored.unique()), layout)
            assert absent is not None
            assert np.mean(filter.contains(absent.hashes)) < 0.03, name
    assert n_filters >= 3 * (len(file.schema_arrow.names) - 3)


def test_hashes_are_those_of_the_specification() -> None:
    """Of xxHash's specification, with seed 0; texts of each length are compared by the writers above."""
    texts = [b"", b"a", b"abc", b"Nobody inspects the spammish repetition"]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    found = np.empty(len(texts), np.uint64)
    bloom.hash_texts(offsets, b"".join(texts), found)
    assert [f"{n:x}" for n in found.tolist()] == [
        "ef46db3751d8e999",
        "d24ec4f1a98c6e5b",
        "44bc2cf5ad770999",
        "fbcea83c8a378bf1",
    ]


def test_values_that_a_promoted_column_cannot_have_stored_are_absent(tmp_path: Path) -> None:
    reader = reader_of(
        parquet_file(tmp_path / "p.parquet", rows(), **WITH_FILTERS, store_decimal_as_integer=True)
    )
    file = pq.ParquetFile(tmp_path / "p.parquet").read_row_group(0)
    for name, wider, beyond in (
        ("int", pa.int64(), 1 << 40),
        ("d9", pa.decimal128(20, 2), decimal.Decimal(1 << 40)),
        ("d18", pa.decimal128(38, 2), decimal.Decimal(10**30)),
    ):
        found = filter_of(reader, 0, name)
        assert found is not None
        layout, filter = found
        values = pa.concat_arrays([file[name].combine_chunks().cast(wider), pa.array([beyond], wider)])
        hashes = Hashes.of(values, layout)
        assert hashes is not None
        assert hashes.fits[:-1].all()
        assert not hashes.fits[-1]
        assert (hashes.is_null | filter.contains(hashes.hashes))[:-1].all()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("day", pa.timestamp("us")),
        ("ts", pa.timestamp("ns")),
        ("d9", pa.decimal128(9, 3)),
        ("long", pa.float64()),
        ("long", pa.string()),
        ("text", pa.int64()),
        ("fixed", pa.binary(4)),
    ],
)
def test_a_filter_is_not_asked_for_values_of_another_type(
    tmp_path: Path, name: str, kind: pa.DataType
) -> None:
    found = filter_of(reader_of(parquet_file(tmp_path / "p.parquet", rows(), **WITH_FILTERS)), 0, name)
    assert found is not None
    assert Hashes.of(pa.nulls(3, kind), found[0]) is None


def test_a_changed_header_is_refused_or_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    pq.write_table(rows().select(["long"]).slice(0, 1000), path, bloom_filter_options={"long": {"ndv": 1000}})
    place = pq.ParquetFile(path).metadata.row_group(0).column(0)
    data = path.read_bytes()
    start, end = place.bloom_filter_offset, place.bloom_filter_offset + place.bloom_filter_length
    known = bloom.header(data[start : start + 64])
    assert known is not None
    size = known[0]
    assert known == (size, end - start - size)
    chance = random.Random(0)
    n_same = 0
    for _ in range(500):
        mutated = bytearray(data[start : start + size])
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(size)] = chance.randrange(256)
        (tmp_path / "m.parquet").write_bytes(data[:start] + mutated + data[start + size :])
        found = filter_of(reader_of(tmp_path / "m.parquet"), 0, "long")
        n_same += found is not None and found[1].n_bytes == known[1]
        assert found is None or found[1].n_bytes == known[1]
    assert n_same < 125
    for n in range(size):
        assert bloom.header(data[start : start + n]) is None


def test_lengths_are_checked() -> None:
    with pytest.raises(ValueError, match="room for 1 hashes"):
        bloom.hash_fixed(bytes(16), 8, np.empty(1, np.uint64))
    with pytest.raises(ValueError, match="offsets 0 and 5"):
        bloom.hash_texts(np.array([0, 5]), b"abc", np.empty(1, np.uint64))
    for blocks, is_whole in ((b"", True), (bytes(32), False)):
        with pytest.raises(ValueError, match="answers for 2 hashes"):
            bloom.contains(blocks, np.zeros(2, np.uint64), np.empty(2, np.uint8), is_whole=is_whole)


def test_dates_before_1970_and_negative_numbers_are_found(tmp_path: Path) -> None:
    table = pa.table(
        {
            "long": [-5, -1, 0, 7],
            "day": [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), None, datetime.date(9999, 12, 31)],
            "price": pa.array(
                [decimal.Decimal("-0.01"), decimal.Decimal("-99.99"), None, 0], pa.decimal128(4, 2)
            ),
        }
    )
    for as_integer in (True, False):
        pq.write_table(
            table,
            tmp_path / "n.parquet",
            bloom_filter_options=dict.fromkeys(table.column_names, True),
            store_decimal_as_integer=as_integer,
        )
        reader = reader_of(tmp_path / "n.parquet")
        for name in table.column_names:
            found = filter_of(reader, 0, name)
            assert found is not None
            hashes = Hashes.of(plain(table[name].combine_chunks()).drop_null(), found[0])
            assert hashes is not None
            assert found[1].contains(hashes.hashes).all()


Asked = dict[str, pa.Array]
"""Rows of some columns."""


def question(reader: ParquetReader, asked: Asked) -> bloom.FileQuestion:
    columns = []
    for name, values in asked.items():
        layout = reader.layout_of(name)
        hashes = None if layout is None else Hashes.of(values, layout)
        found = reader.layout.column(name, views=False)
        assert hashes is not None
        assert found is not None
        columns.append((found[0], found[1].stored, hashes.hashes, hashes.kinds()))
    assert reader.layout.parts is not None
    n_rows = len(next(iter(asked.values())))
    return bloom.FileQuestion(
        *reader.layout.parts, reader.layout.leaves, [(n_rows, least_bits(n_rows), columns)]
    )


def lacks(reader: ParquetReader, group: int, asked: Asked) -> bool:
    """Whether the filters of a row group have none of some rows, each column by a call of its own."""
    there = np.ones(len(next(iter(asked.values()))), np.bool_)
    for name, values in asked.items():
        found = filter_of(reader, group, name)
        hashes = None if found is None else Hashes.of(values, found[0])
        if found is None or hashes is None:
            continue
        layout, filter = found
        least = hash_of_least(reader.chunk(group, name), layout)
        is_sound = least is None or bool(filter.contains(least)[0])
        if is_sound and filter.pays(len(there), reader.group_rows[group]):
            there &= hashes.is_null | hashes.fits & filter.contains(hashes.hashes)
    return not there.any()


def one_by_one(path: Path, asked: Asked, n_rows: int) -> tuple[tuple[int, int | None], ...] | None:
    """What `FileQuestion.excludes` says of a file, by a call for each filter."""
    try:
        reader = reader_of(path)
        groups = range(len(reader.group_rows)) if reader.n_rows == n_rows else range(0)
        is_excluded = all(lacks(reader, group, asked) for group in groups if reader.group_rows[group])
    except PuffinFastError:
        return None
    if not groups or not is_excluded:
        return None
    return tuple((n, reader.bytes_of(group)) for group, n in enumerate(reader.group_rows))


def some_rows(chance: random.Random, table: pa.Table) -> Asked:
    """Some rows of one or two columns; most of them are not in the table."""
    names = chance.sample(table.column_names, chance.choice([1, 1, 2]))
    at = [chance.randrange(len(table)) for _ in range(chance.choice([1, 1, 3, 40]))]
    found = {}
    for name in names:
        values = plain(table[name].take(at).combine_chunks())
        others = changed(values.fill_null(table[name].drop_null()[0])).to_pylist()
        absent = pa.array([None if chance.random() < 0.1 else value for value in others], values.type)
        found[name] = values if chance.random() < 0.1 else absent
    return found


def test_a_file_is_excluded_by_one_call_if_each_of_its_filters_says_so(path: Path) -> None:
    file, chance, n_excluded = pq.read_table(path), random.Random(3), 0
    reader_of(path)  # remembers the layout
    reader = reader_of(path)
    names = [name for name in file.column_names if filter_of(reader, 0, name)]
    table = file.select(names)
    for _ in range(150):
        asked = some_rows(chance, table)
        found = question(reader, asked).excludes(path, N)
        assert found == one_by_one(path, asked, N)
        n_excluded += found is not None
        assert question(reader, asked).excludes(path, N - 1) is None
    assert n_excluded > 30


def test_a_damaged_file_is_not_excluded_by_one_call_unless_it_is_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footer, "_layouts", {})  # those of other tests could displace the layout of this file
    path, chance = tmp_path / "d.parquet", random.Random(5)
    pq.write_table(
        rows().select(["long", "d38", "text"]).slice(0, 900),
        path,
        row_group_size=300,
        bloom_filter_options={name: {"ndv": 300, "fpp": 0.01} for name in ("long", "d38", "text")},
    )
    reader, table, data = reader_of(path), pq.read_table(path), path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    heads = [reader.chunk(group, name).bloom for group in range(3) for name in table.column_names]
    n_same = n_refused = 0
    for number in range(1200):
        asked = some_rows(chance, table)
        asking = question(reader, asked)
        if number % 8 == 0:
            mutated = data[: chance.randrange(len(data))] + data[len(data) - chance.randrange(12) :]
        else:
            changes = bytearray(data)
            for _ in range(chance.choice([1, 1, 3])):
                first, n = chance.choice([(start, len(data) - start), (chance.choice(heads), 40)])
                changes[first + chance.randrange(n)] = chance.choice([0, 1, 255, chance.randrange(256)])
            mutated = bytes(changes)
        (tmp_path / "m.parquet").write_bytes(mutated)
        found = asking.excludes(tmp_path / "m.parquet", 900)
        assert found in (None, one_by_one(tmp_path / "m.parquet", asked, 900)), number
        n_same += found is not None
        n_refused += found is None
    assert min(n_same, n_refused) > 100


def test_what_is_no_file_is_not_excluded(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "p.parquet", rows(), **WITH_FILTERS)
    reader = reader_of(path)
    asked = question(reader, {"long": pa.array([2])})
    for name in (path, str(path)):
        found = asked.excludes(name, N)
        assert found is not None
        assert [n_rows for n_rows, _ in found] == [GROUP] * 3
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(path.read_bytes()[-7:])
    for name in ("pipe", "empty", "short", "missing", "."):
        assert asked.excludes(tmp_path / name, N) is None


def test_rows_that_are_asked_are_checked() -> None:
    for columns in ([(1, 8, bytes(8), b"1")], [(0, 8, bytes(9), b"1")], [(0, 8, bytes(8), b"")]):
        with pytest.raises(ValueError, match="bytes of hashes for 1 rows"):
            bloom.FileQuestion(b"", b"", np.zeros(4, np.int32), [(1, 0.0, columns)])
