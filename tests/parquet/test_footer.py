"""Footers: what the kernel reads of row groups and column chunks is what PyArrow reads, whatever wrote the file."""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast._io import open_source
from puffin_fast.errors import CorruptDataError
from puffin_fast.parquet import footer as footers
from puffin_fast.parquet.footer import FileLayout, Footer, footer_bytes
from tests.kit.tables import parquet_file
from tests.parquet.files import CODECS, few_columns, reader_of

N_ROWS = 1_000
ROWS = few_columns(N_ROWS)
ENCODINGS = {
    name: 1 << number
    for number, name in enumerate(
        ["PLAIN", "", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY",
         "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"]
    )
}  # fmt: skip


def test_the_kernel_reads_what_pyarrow_reads(tmp_path: Path) -> None:
    for path in written(tmp_path):
        with open_source(str(path)) as source:
            data = footer_bytes(source, 8)
        stored = pq.ParquetFile(path)
        footer, metadata = Footer(data, FileLayout(stored)), stored.metadata
        assert (footer.status, footer.n_rows) == (0, metadata.num_rows), path
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        assert footer.group_rows == tuple(group.num_rows for group in groups)
        assert footer.metadata.equals(metadata)
        for number, group in enumerate(groups):
            for leaf in range(metadata.num_columns):
                chunk, column = footer.chunk(number, leaf), group.column(leaf)
                assert chunk.codec == column.compression, path
                assert chunk.encodings == sum(ENCODINGS[name] for name in column.encodings), path
                stated = column.num_values, column.total_uncompressed_size, column.total_compressed_size
                assert (chunk.n_values, chunk.raw_bytes, chunk.n_bytes) == stated
                starts = [column.data_page_offset]
                if column.has_dictionary_page:
                    starts.append(column.dictionary_page_offset)
                assert chunk.start == min(starts)


def test_files_of_one_layout_are_opened_by_pyarrow_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "_layouts", {})
    for n in range(3):
        pq.write_table(ROWS.slice(0, 10 * n), tmp_path / f"{n}.parquet", row_group_size=7)
    readers = [reader_of(tmp_path / f"{n}.parquet") for n in range(3)]
    assert ["_file" in vars(reader) for reader in readers] == [True, False, False]
    assert [reader.n_rows for reader in readers] == [0, 10, 20]
    assert [reader.group_rows for reader in readers] == [(0,), (7, 3), (7, 7, 6)]
    assert all(
        reader.schema.equals(pq.read_schema(reader.location), check_metadata=True) for reader in readers
    )
    for reader in readers[1:]:
        found = pa.Table.from_batches(reader.batches(0, ROWS.column_names, 100, use_threads=False))
        assert found.equals(ROWS.slice(0, 7).cast(found.schema))


def test_another_schema_writer_or_metadata_is_another_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "_layouts", {})
    tables = [
        ROWS,
        ROWS.select(["id", "k"]),
        ROWS.select(["id", "k"]).rename_columns(["id", "j"]),
        ROWS.select(["id", "k"]).cast(pa.schema([("id", pa.int64()), ("k", pa.date32())])),
        ROWS.select(["id"]).cast(pa.schema([("id", pa.timestamp("us"))])),
        ROWS.select(["id"]).cast(pa.schema([("id", pa.timestamp("us", "UTC"))])),
        ROWS.select(["id"]).cast(pa.schema([("id", pa.duration("us"))])),  # only in Arrow's schema
        ROWS.select(["id"]),
        ROWS.select(["id"]).replace_schema_metadata({"a": "b"}),
    ]
    for n, table in enumerate([*tables, *tables]):
        path = tmp_path / f"{n}.parquet"
        pq.write_table(table, path)
        found = reader_of(path).schema
        assert found.equals(pq.read_schema(path), check_metadata=True)
        assert found.types == table.schema.types
    assert len(footers._layouts) == len(tables)


def test_no_more_layouts_are_remembered_than_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footers, "_layouts", {})
    monkeypatch.setattr(footers, "_MOST_LAYOUTS", 3)
    for n in range(8):
        pq.write_table(pa.table({f"c{n}": [n]}), tmp_path / "x.parquet")
        assert reader_of(tmp_path / "x.parquet").schema.names == [f"c{n}"]
        assert len(footers._layouts) <= 3
    wide = pa.table({"x": [1]}).replace_schema_metadata({"long": "x" * footers._MOST_BYTES})
    before = dict(footers._layouts)
    pq.write_table(wide, tmp_path / "x.parquet")
    assert reader_of(tmp_path / "x.parquet").n_rows == 1
    assert footers._layouts == before


def test_threads_remember_layouts_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footers, "_layouts", {})
    monkeypatch.setattr(footers, "_MOST_LAYOUTS", 1000)
    files = []
    for n in range(500):
        pq.write_table(pa.table({f"c{n}": [n]}), sink := io.BytesIO())
        files.append(sink.getvalue())

    def names(file: bytes) -> list[str]:
        size = int.from_bytes(file[-8:-4], "little")
        opened = pq.ParquetFile(pa.BufferReader(file))
        return list(Footer.of(opened, file[-8 - size : -8]).layout.schema.names)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(names, files * 4)]
    finally:
        sys.setswitchinterval(interval)
    assert found == [[f"c{n}"] for n in range(len(files))] * 4


@pytest.mark.parametrize("end", [b"", b"PAR1", b"\xff\xff\xff\x7fPAR1", b"\0\0\0\0PAR1", b"PARF"])
def test_a_file_that_does_not_end_like_parquet_is_named(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "x.parquet"
    sink = io.BytesIO()
    pq.write_table(ROWS, sink)
    path.write_bytes(sink.getvalue()[:-8] + end)
    with pytest.raises(CorruptDataError, match=str(path)):
        reader_of(path)


def test_row_groups_with_other_rows_than_the_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(ROWS.select(["id"]).slice(0, 40), path, row_group_size=20)
    data = path.read_bytes()
    stated = b"\x16\x50\x19\x2c"  # 40 rows, two row groups
    assert data.count(stated) == 1
    reader_of(path)
    for damaged in (b"\x16\x4e\x19\x2c", b"\x16\x52\x19\x2c"):
        path.write_bytes(data.replace(stated, damaged))
        with pytest.raises(CorruptDataError, match=r"rows of all row groups: expected (39|41), found 40"):
            reader_of(path)


def test_a_column_chunk_costs_no_copy_of_the_footer(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{at}": [at, at + 1] for at in range(3000)}), path)
    with pq.ParquetFile(path) as file, path.open("rb") as stream:
        footer = Footer.of(file, footer_bytes(open_source(stream), 1 << 20))
    expected = [at.to_bytes(8, "little") for at in range(3000)]
    tracemalloc.start()
    try:
        assert [footer.chunk(0, leaf).least for leaf in range(3000)] == expected
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        footer.chunk(0, 0)
        assert tracemalloc.get_traced_memory()[1] - before < 10_000
    finally:
        tracemalloc.stop()


def written(folder: Path) -> Iterator[Path]:
    """Files of each codec and version, and of other layouts."""
    codecs = {"pyarrow": CODECS, "polars": ("uncompressed", *CODECS[1:])}
    codecs["duckdb"] = ("uncompressed", *CODECS[1:-1], "lz4_raw")
    versions: dict[str, list[dict[str, Any]]] = {
        "pyarrow": [{"data_page_version": version, "row_group_size": 300} for version in ("1.0", "2.0")],
        "polars": [{"row_group_size": 300}],
        "duckdb": [{"parquet_version": version, "row_group_size": 2048} for version in ("V1", "V2")],
    }
    for by, some in versions.items():
        for options in some:
            for codec in codecs[by]:
                yield parquet_file(folder / "f.parquet", ROWS, by=by, compression=codec, **options)
    for rows, options in (
        (ROWS, {"use_dictionary": False, "write_statistics": False}),
        (ROWS, {"write_page_index": True, "row_group_size": 37}),
        (ROWS.slice(0, 0), {}),
        (ROWS.select(["id", "k"]), {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}),
        (ROWS.select(["x"]), {"use_dictionary": False, "use_byte_stream_split": True}),
    ):
        yield parquet_file(folder / "f.parquet", rows, **options)
