"""Lists and maps decoded from their pages are those that PyArrow reads, for any selection of rows."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast.columns.plain_types import plain
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet import column_chunks, list_pages
from puffin_fast.parquet.column_layout import ListLayout
from puffin_fast.parquet.list_pages import ListPages
from puffin_fast.parquet.page_codecs import PageError
from puffin_fast.parquet.page_index import Pages, Spans
from puffin_fast.rows.files import parquet
from tests.kit.arrays import random_array
from tests.kit.seeds import seeds
from tests.kit.tables import parquet_file
from tests.kit.thrift import I32, STRUCT, Struct, encode, footer_of, get, varint
from tests.parquet.files import reader_of

pytestmark = pytest.mark.usefixtures("least_in_pages")

N = 4_000


RECORD = pa.struct(
    [pa.field("a", pa.int64()), pa.field("b", pa.string(), nullable=False), pa.field("c", pa.float64())]
)
KINDS = {
    "numbers": pa.list_(pa.int64()),
    "texts": pa.list_(pa.string()),
    "flags": pa.list_(pa.bool_()),
    "decimals": pa.list_(pa.decimal128(30, 2)),
    "required": pa.list_(pa.field("element", pa.int32(), nullable=False)),
    "large": pa.large_list(pa.float64()),
    "map": pa.map_(pa.string(), pa.float64()),
    "records": pa.list_(RECORD),
    "map_of_records": pa.map_(pa.int64(), RECORD),
    "map_of_required": pa.map_(pa.string(), pa.field("value", RECORD, nullable=False)),
    "deep_records": pa.list_(
        pa.struct(
            [pa.field("p", pa.int32()), pa.field("q", RECORD), pa.field("r", pa.struct([RECORD.field(0)]))]
        )
    ),
    "required_records": pa.list_(pa.field("element", RECORD, nullable=False)),
}


@pytest.mark.parametrize("seed", seeds(6))
def test_lists_are_those_of_pyarrow(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    fields = [pa.field(name, kind, nullable=bool(rng.random() < 0.7)) for name, kind in KINDS.items()]
    columns = [random_array(rng, N, field.type, nullable=field.nullable) for field in fields]
    fields.append(pa.field("s", pa.struct([(name, KINDS[name]) for name in ("numbers", "map")])))
    columns.append(random_array(rng, N, fields[-1].type))
    table = pa.table(columns, pa.schema(fields))
    options: dict[str, Any] = {
        "use_dictionary": bool(rng.random() < 0.5),
        "data_page_version": str(rng.choice(["1.0", "2.0"])),
        "data_page_size": int(rng.choice([300, 5_000, 1 << 20])),
        "write_batch_size": 64,
        "compression": str(rng.choice(["none", "snappy", "zstd", "gzip"])),
        "row_group_size": int(rng.choice([N, 1500])),
    }
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, **options)
    reader, file = reader_of(path), pq.ParquetFile(path)
    names = [*KINDS, "s.numbers", "s.map"]
    for group, n_rows in enumerate(reader.group_rows):
        whole = file.read_row_group(group)
        found = reader.chunks.pages_of(group, names)
        assert set(found) == set(names)
        for name in names:
            top, *rest = name.split(".")
            expected = plain(whole[top].combine_chunks())
            pages, first = found[name], 0
            assert isinstance(pages, ListPages)
            while first < n_rows:
                some = int(rng.integers(1, n_rows - first + 1))
                share = rng.choice([0, 0.02, 0.5, 1])
                rows = np.flatnonzero(rng.random(some) < share).astype(np.int32)
                array = pages.read(first, some, None if share == 1 else rows)
                array.validate(full=True)
                wanted = expected.take(pa.array(rows + first))
                if rest:
                    assert array.is_valid().equals(wanted.is_valid())
                    wanted, array = wanted.field(rest[0]), array.field(0)
                assert array.equals(wanted), name
                first += some


def by_pyarrow(path: Path, table: pa.Table, rng: np.random.Generator) -> None:
    pq.write_table(
        table,
        path,
        write_page_index=True,
        data_page_version=str(rng.choice(["1.0", "2.0"])),
        data_page_size=int(rng.choice([1, 300, 5_000])),
        write_batch_size=int(rng.choice([1, 16])),
        use_dictionary=bool(rng.random() < 0.5),
        compression=str(rng.choice(["none", "snappy", "zstd", "gzip"])),
        row_group_size=int(rng.choice([N, 700])),
    )


def by_arrow_rs(path: Path, table: pa.Table, rng: np.random.Generator) -> None:
    limits = {
        "data_page_size_limit": int(rng.choice([1, 2_000])),
        "write_batch_size": int(rng.choice([1, 50])),
    }
    parquet_file(path, table, by="arrow-rs", **limits)


def by_polars(path: Path, table: pa.Table, rng: np.random.Generator) -> None:
    parquet_file(path, table, by="polars", data_page_size=int(rng.choice([100, 5_000])))


WRITERS = [by_pyarrow, by_pyarrow, by_arrow_rs, by_polars]


@pytest.mark.parametrize("is_remote", [False, True], ids=["local", "object store"])
@pytest.mark.parametrize("seed", seeds(8))
def test_lists_of_wanted_pages_are_those_of_pyarrow(
    seed: int, is_remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, n = np.random.default_rng(seed), 900
    write = WRITERS[seed % len(WRITERS)]
    names = ["numbers", "texts", "map", "records", "map_of_records"]
    if write is not by_pyarrow:
        names = ["numbers", "records"]
    columns = [random_array(rng, n, KINDS[name], nullable=bool(rng.random() < 0.7)) for name in names]
    columns.append(random_array(rng, n, pa.list_(pa.float32()), shares=[0, 0.2], lengths=(0, 99)))
    table, path = pa.table(columns, [*names, "vectors"]), tmp_path / "f.parquet"
    write(path, table, rng)
    monkeypatch.setattr(column_chunks, "LEAST_PICKED", 0)
    monkeypatch.setattr(column_chunks, "LEAST_REQUESTED", 0)
    monkeypatch.setattr(parquet, "is_remote", lambda *_: is_remote)
    monkeypatch.setattr(parquet, "PageError", ())  # no page is left to PyArrow because it was not as expected
    known: list[bool] = []
    given = list_pages._Leaf._given_page
    monkeypatch.setattr(list_pages._Leaf, "_given_page", lambda *found: known.append(True) or given(*found))
    reader, file = reader_of(path), pq.ParquetFile(path)
    for group, n_rows in enumerate(reader.group_rows):
        whole = file.read_row_group(group)
        for _ in range(4):
            share = rng.choice([0.002, 0.02, 0.5])
            picked = np.flatnonzero(rng.random(n_rows) < share)
            if not len(picked):
                continue
            wanted = None if rng.random() < 0.3 else Spans.of_rows(picked)
            found = reader.columns(
                group, table.column_names, n, use_threads=False, wanted=wanted, is_late=True
            )
            first = 0
            while first < n_rows:
                some = int(rng.integers(1, n_rows - first + 1))
                rows = picked[(picked >= first) & (picked < first + some)]
                if len(rows):
                    arrays = found.read(first, some, (rows - first).astype(np.int32))
                    for name in table.column_names:
                        arrays[name].validate(full=True)
                        assert arrays[name].equals(
                            plain(whole[name].combine_chunks()).take(pa.array(rows))
                        ), name
                first += some
    assert known or write is by_polars


def test_a_page_of_other_lists_than_its_index_states_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_chunks, "LEAST_PICKED", 0)
    path = tmp_path / "f.parquet"
    column = pa.array([[at, at + 1] for at in range(1000)])
    pq.write_table(
        pa.table({"v": column}),
        path,
        write_page_index=True,
        data_page_size=400,
        write_batch_size=10,
        use_dictionary=False,
    )
    chunk = reader_of(path)._footer.chunk(0, 0)
    data = path.read_bytes()
    index = data[chunk.offsets : chunk.offsets + chunk.offsets_bytes]
    pages = Pages.of(index, chunk, 1000)
    assert pages is not None
    first = int(pages.firsts[3])
    old, new = (varint(2 * number) for number in (first, first + 1))
    assert len(old) == len(new)
    assert index.count(b"\x16" + old) == 1
    path.write_bytes(data.replace(index, index.replace(b"\x16" + old, b"\x16" + new)))
    rows = np.array([first + 3], np.int32)
    columns = reader_of(path).columns(0, ["v"], 1000, use_threads=False, wanted=Spans.of_rows(rows))
    with pytest.raises(CorruptDataError, match="page index"):
        columns.read(0, 1000, rows)


def test_vectors_of_floats_are_read_by_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    column = random_array(rng, 3000, pa.list_(pa.float32()), lengths=(768, 768))
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": column}), path)
    reader = reader_of(path)
    rows = np.flatnonzero(rng.random(3000) < 0.01).astype(np.int32)
    assert reader.chunks.pages_of(0, ["v"])["v"].read(0, 3000, rows).equals(column.take(pa.array(rows)))


def test_lists_of_lists_are_left_to_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    column = pa.array([[[1], [2, 3]], None, []], pa.list_(pa.list_(pa.int64())))
    pq.write_table(pa.table({"l": column}), path)
    reader = reader_of(path)
    assert reader.chunks.pages_of(0, ["l"]) == {}
    assert reader.columns(0, ["l"], 10, use_threads=False).read(0, 3, None)["l"].equals(column)


def test_leaves_with_different_lists_are_refused() -> None:
    class Pages:
        """The levels of one page."""

        def __init__(self, starts: list[int], levels: list[int]) -> None:
            self.starts, self.levels = np.array(starts, np.int32), np.array(levels, np.uint8)
            self.n_rows = len(levels)

        def lists_at(self, row: int) -> tuple[int, int, Any]:
            return 0, len(self.levels), self.starts

        def decode(self, first: int, n_rows: int, rows: Any) -> tuple[pa.Array, Any]:
            chosen = slice(first, first + n_rows) if rows is None else rows
            return pa.array(np.arange(len(self.levels))[chosen]), self.levels[chosen]

    layout = ListLayout(pa.map_(pa.int64(), pa.int64()), 1, (0, 1), (), ())
    good = [0, 2, 3], [2, 2, 2, 0]
    bad: list[tuple[list[int], list[int]]] = [
        ([0, 2, 3], [2, 2, 2, 1]),  # empty, not null
        ([0, 2, 3], [2, 2, 2, 2]),
        ([0, 1, 3], [2, 2, 2, 0]),
        ([0, 2, 3], [2, 2, 2, 0, 2]),
        ([0, 2, 3], [2, 0, 2, 0]),
    ]
    leaves: list[Any] = [Pages(*good), Pages(*good)]
    assert ListPages(layout, [(leaf, None) for leaf in leaves]).read(0, 3, None).to_pylist() == [
        [(0, 0), (1, 1)],
        [(2, 2)],
        None,
    ]
    for other in bad:
        for pair in ([Pages(*good), Pages(*other)], [Pages(*other), Pages(*good)]):
            mixed: list[Any] = pair
            with pytest.raises(PageError):
                ListPages(layout, [(leaf, None) for leaf in mixed]).read(0, 3, None)
    longer: list[Any] = [Pages([0, 1], [2, 2]), Pages([0, 1], [2, 2, 2])]
    with pytest.raises(PageError):
        ListPages(layout, [(leaf, None) for leaf in longer]).read(0, 2, None)


def levels_of(levels: list[int]) -> bytes:
    body = b"".join(varint(2) + bytes([level]) for level in levels)
    return struct.pack("<I", len(body)) + body


def page_of(repeats: list[int], levels: list[int], numbers: list[int], *, encoding: int = 3) -> bytes:
    """A data page of version 1, not compressed; its header states an encoding of repetition levels."""
    body = levels_of(repeats) + levels_of(levels) + struct.pack(f"<{len(numbers)}q", *numbers)
    header = [(1, I32, len(repeats)), (2, I32, 0), (3, I32, 3), (4, I32, encoding)]
    sizes: Struct = [(number, I32, len(body)) for number in (2, 3)]
    return encode(STRUCT, [(1, I32, 0), *sizes, (5, STRUCT, header)]) + body


def write_pages(path: Path, column: pa.Array, chunk: bytes, n_levels: int) -> None:
    """Writes a file of one column of integers in lists whose pages are given."""
    pq.write_table(
        pa.table({"v": column}), path, use_dictionary=False, compression="none", store_schema=False
    )
    tree = footer_of(path.read_bytes())
    described = get(get(get(tree, 4)[1][0], 1)[1][0], 3)
    changed = {5: n_levels, 6: len(chunk), 7: len(chunk), 9: 4}
    described[:] = [(number, kind, changed.get(number, value)) for number, kind, value in described]
    footer = encode(STRUCT, tree)
    path.write_bytes(b"PAR1" + chunk + footer + struct.pack("<I", len(footer)) + b"PAR1")


def test_repetition_levels_in_another_encoding_are_left_to_pyarrow(tmp_path: Path) -> None:
    column = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))
    path = tmp_path / "f.parquet"
    levels: Any = ([0, 1, 0, 0, 0], [3, 3, 0, 1, 3], [1, 2, 3])
    for encoding, is_refused in ((3, False), (4, True), (99, True)):
        write_pages(path, column, page_of(*levels, encoding=encoding), 5)
        reader = reader_of(path)
        pages = reader.chunks.pages_of(0, ["v"])["v"]
        assert isinstance(pages, ListPages)
        if is_refused:
            with pytest.raises(PageError):
                pages.read(0, 4, None)
        else:
            assert pages.read(0, 4, None).equals(column)


def test_a_list_that_goes_on_in_the_last_page_is_whole(tmp_path: Path) -> None:
    column = pa.array([[1, 2], None, [], [0], [9], [3, 4, 5, 6]], pa.list_(pa.int64()))
    path = tmp_path / "f.parquet"
    chunk = page_of([0, 1, 0, 0, 0, 0, 0, 1], [3, 3, 0, 1, 3, 3, 3, 3], [1, 2, 0, 9, 3, 4])
    chunk += page_of([1, 1], [3, 3], [5, 6])
    write_pages(path, column, chunk, 10)
    assert pq.read_table(path)["v"].combine_chunks().equals(column)
    columns = reader_of(path).columns(0, ["v"], 100, use_threads=False)
    assert columns.read(0, 6, np.array([5], np.int32))["v"].equals(column.slice(5))
