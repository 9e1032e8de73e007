"""Dictionary pages: the values of a chunk where its encodings leave no doubt, and nothing elsewhere."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast.iceberg.datafile import dictionary_pages
from puffin_fast.iceberg.datafile.dictionary_pages import dictionary_values

DAY = datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, -5, 2**31 - 1]),
    "long": (pa.int64(), [1, -5, 2**63 - 1]),
    "float": (pa.float32(), [0.5, -0.0]),
    "double": (pa.float64(), [0.5, float("inf")]),
    "date": (pa.date32(), [DAY.date(), datetime.date(1969, 1, 1)]),
    "time": (pa.time64("us"), [DAY.time()]),
    "timestamp": (pa.timestamp("us"), [DAY]),
    "string": (pa.string(), ["", "a", "é" * 50]),
    "binary": (pa.binary(), [b"", b"\0\1", b"x" * 300]),
    "small_decimal": (pa.decimal128(9, 2), [decimal.Decimal("-1.25"), decimal.Decimal("7.00")]),
    "decimal": (pa.decimal128(18, 2), [decimal.Decimal("-1.25"), decimal.Decimal("9999999999.99")]),
}
ROWS = pa.table({name: pa.array([None, *values * 40], kind)[:41] for name, (kind, values) in COLUMNS.items()})


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's writer, which writes no entries that no row has for plain arrays."""
    monkeypatch.setattr(dictionary_pages, "TRUSTED_WRITERS", ("parquet-cpp",))


def written(path: Path, rows: pa.Table = ROWS, **options: Any) -> pq.FileMetaData:
    settings: dict[str, Any] = {"version": "1.0", "store_decimal_as_integer": True, "compression": "zstd"}
    pq.write_table(rows, path, **{**settings, **options})
    return pq.read_metadata(path)


class Reader:
    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()

    def __call__(self, offset: int, n_bytes: int) -> bytes:
        return self.data[offset : offset + n_bytes]


def of(path: Path, footer: pq.FileMetaData, name: str, reader: Reader | None = None) -> pa.Array | None:
    at = footer.schema.names.index(name)
    kind = pq.read_schema(path).field(name).type
    return dictionary_values(reader or Reader(path), footer.created_by, footer.row_group(0).column(at), kind)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli"])
def test_the_page_holds_the_values_of_the_chunk(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "f.parquet"
    footer = written(path, compression=compression)
    found = 0
    for name, (kind, values) in COLUMNS.items():
        array = of(path, footer, name)
        if array is None:
            continue
        found += 1
        assert array.type == pq.read_schema(path).field(name).type
        assert array.cast(kind).to_pylist() == pa.array(values, kind).to_pylist()
    assert found >= len(COLUMNS) - 1  # version 1 of Parquet has no microseconds of some types


def test_data_pages_that_are_not_dictionary_encoded_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    numbers = pa.table({"n": list(range(100_000))})
    assert of(path, written(path, numbers, use_dictionary=False), "n") is None
    assert (
        of(path, written(path, numbers, dictionary_pagesize_limit=4096), "n") is None
    )  # falls back to plain
    assert (
        of(path, written(path, ROWS.select(["int"]), version="2.6"), "int") is None
    )  # encodings do not tell
    footer = written(path)
    chunk = footer.row_group(0).column(0)
    assert dictionary_values(Reader(path), "parquet-go", chunk, pa.int32()) is None
    assert dictionary_values(Reader(path), None, chunk, pa.int32()) is None
    assert dictionary_values(Reader(path), footer.created_by, chunk, pa.uint32()) is None


def test_a_damaged_page_is_reported_when_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    footer = written(path, compression="none")
    for name in ("int", "string", "decimal"):
        expected = of(path, footer, name)
        assert expected is not None
        chunk = footer.row_group(0).column(footer.schema.names.index(name))
        reader = Reader(path)
        good = reader.data
        for at in range(chunk.dictionary_page_offset, chunk.dictionary_page_offset + 12):
            for bit in range(8):
                reader.data = good[:at] + bytes([good[at] ^ (1 << bit)]) + good[at + 1 :]
                found = of(path, footer, name, reader)
                assert found is None or isinstance(found, pa.Array)
        for n in range(40):
            reader.data = good[: chunk.dictionary_page_offset + n]
            found = of(path, footer, name, reader)
            assert found is None or found.equals(expected)
