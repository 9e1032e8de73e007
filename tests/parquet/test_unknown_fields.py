"""Fields that no specification has are skipped in footers and page headers, as PyArrow, DuckDB and Java skip them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast._io import open_source
from puffin_fast._kernels.parquet import footers, pages
from puffin_fast.columns.plain_types import plain
from puffin_fast.parquet.dictionary_pages import DictionaryPages
from puffin_fast.parquet.footer import Footer
from puffin_fast.parquet.thrift import ThriftReader
from tests.kit import thrift
from tests.kit.tables import parquet_file
from tests.parquet.files import few_columns, reader_of

N_ROWS = 500
ROWS = few_columns(N_ROWS).select(["id", "k", "text", "x"])
WITHOUT_UUIDS = [kind for kind in thrift.KINDS if kind != thrift.UUID]
"""Not all readers know the newest kind."""


WRITERS: dict[str, dict[str, Any]] = {
    "PyArrow": {"row_group_size": 200, "data_page_size": 500, "write_batch_size": 100},
    "PyArrow, pages of version 2": {"row_group_size": 200, "data_page_version": "2.0", "compression": "zstd"},
    "Polars": {"by": "polars", "row_group_size": 200},
    "DuckDB": {"by": "duckdb"},
}


def rewritten(data: bytes, seed: int, kinds: Any) -> bytes:
    chance = random.Random(seed)

    def change(header: thrift.Struct, page: bytes) -> thrift.Struct:
        return thrift.with_unknown_fields(chance, header, kinds)

    data = thrift.with_page_headers(data, change)
    return thrift.with_footer(data, thrift.with_unknown_fields(chance, thrift.footer_of(data), kinds))


@pytest.mark.parametrize("writer", WRITERS)
def test_unknown_fields_change_nothing(tmp_path: Path, writer: str) -> None:
    path = parquet_file(tmp_path / "data.parquet", ROWS, **WRITERS[writer])
    data = path.read_bytes()
    assert thrift.with_footer(data, thrift.footer_of(data)) == data
    for seed in range(8):
        path.write_bytes(rewritten(data, seed, WITHOUT_UUIDS if seed % 2 else thrift.KINDS))
        assert pq.read_table(path).num_rows == N_ROWS
        if seed % 2:
            (counted,) = duckdb.sql(f"SELECT count(*), sum(id) FROM '{path}'").fetchall()
            assert counted == (N_ROWS, sum(range(N_ROWS)))
        reader = reader_of(path)
        assert reader._footer.status == 0
        found = []
        for group, n_rows in enumerate(reader.group_rows):
            assert set(reader.chunks.pages_of(group, ROWS.column_names)) == set(ROWS.column_names)
            columns = reader.columns(group, ROWS.column_names, N_ROWS, use_threads=False)
            rows = columns.read(0, n_rows, None)
            found.append(pa.table({name: plain(rows[name]) for name in ROWS.column_names}))
            assert set(columns._pages) == set(ROWS.column_names)  # none was left to PyArrow
        assert pa.concat_tables(found).cast(ROWS.schema).equals(ROWS)


def test_files_with_unknown_fields_of_one_layout_are_opened_by_pyarrow_once(tmp_path: Path) -> None:
    for n in range(2):
        path = tmp_path / f"{n}.parquet"
        pq.write_table(ROWS.slice(n), path)
        footer = [*thrift.footer_of(path.read_bytes()), (-16384, thrift.LIST, (thrift.I32, [1, 2]))]
        path.write_bytes(thrift.with_footer(path.read_bytes(), footer))
    readers = [reader_of(tmp_path / f"{n}.parquet") for n in range(2)]
    assert "_file" not in vars(readers[1])


def test_a_short_field_that_is_no_bound_contradicts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(ROWS.select(["id"]), path)

    def longer(fields: thrift.Struct, *numbers: int) -> thrift.Struct:
        """The same with an unknown text in the struct at the end of the path."""
        if not numbers:
            return [*fields, (-1, thrift.BINARY, b"a"), (9, thrift.BINARY, b"")]
        return [
            (one, kind, value)
            if one != numbers[0]
            else (one, kind, longer(value, *numbers[1:]))
            if kind == thrift.STRUCT
            else (one, kind, (thrift.STRUCT, [longer(item, *numbers[1:]) for item in value[1]]))
            for one, kind, value in fields
        ]

    data = path.read_bytes()
    path.write_bytes(thrift.with_footer(data, longer(thrift.footer_of(data), 4, 1, 3, 12)))
    assert reader_of(path)._footer.status == 0


def test_the_distinct_values_of_a_dictionary_page_are_found_among_unknown_fields(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(ROWS.select(["k"]), path)
    data = path.read_bytes()
    for seed in range(10):
        path.write_bytes(rewritten(data, seed, thrift.KINDS))
        with open_source(str(path)) as source:
            found = DictionaryPages(source, pq.read_metadata(path)).values(0, 0, pa.int32())
        assert found is not None
        assert sorted(found.to_pylist()) == [1, 2, 3, 4, 5, 6]


def test_structs_of_unknown_fields_are_read_up_to_thrifts_depth(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(ROWS.select(["k"]), path)
    data, leaves = path.read_bytes(), footers_leaves(path)
    for depth, is_read in ((40, True), (200, False)):
        inner: Any = []
        for _ in range(depth):
            inner = [(1, thrift.STRUCT, inner)]
        stored = thrift.encode(thrift.STRUCT, [*thrift.footer_of(data), (-7, thrift.STRUCT, inner)])
        assert (footers.read_groups(stored, leaves)[0] == 0) == is_read
        assert (footers.find_groups(stored) is not None) == is_read
        if is_read:
            assert 4 in ThriftReader(stored).struct()
        else:
            with pytest.raises(ValueError, match="deeper"):
                ThriftReader(stored).struct()


def footers_leaves(path: Path) -> Any:
    with pq.ParquetFile(path) as file:
        return Footer.of(
            file, thrift.encode(thrift.STRUCT, thrift.footer_of(path.read_bytes()))
        ).layout.leaves


@pytest.mark.parametrize("kind", thrift.KINDS)
def test_a_field_of_each_kind_that_ends_early_is_refused(kind: int) -> None:
    header = [(1, 5, 2), (2, 5, 10), (3, 5, 10), (7, 12, [(1, 5, 1), (2, 5, 0)])]
    chance = random.Random(kind)
    for _ in range(20):
        field = (-16384, kind, thrift.any_value(chance, kind))
        whole = thrift.encode(thrift.STRUCT, [*header, field])
        assert pages.page_header(whole, 0)[:4] == (2, 10, 10, 1)
        assert pages.page_header(whole, 0)[-1] == len(whole)
        for stop in range(len(whole)):
            with pytest.raises(ValueError, match="not a page"):
                pages.page_header(whole[:stop], 0)
