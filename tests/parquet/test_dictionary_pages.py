"""Dictionary pages are used only if all data pages of the chunk are certainly dictionary-encoded."""

from __future__ import annotations

import datetime
import decimal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import errors
from puffin_fast._io import Source
from puffin_fast.parquet import dictionary_pages
from puffin_fast.parquet.dictionary_pages import DictionaryPages
from tests.kit.damage import flipped_bits

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


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's writer also with byte arrays: it adds no entries that no row has for plain arrays."""
    monkeypatch.setattr(dictionary_pages, "TRUSTED_WRITERS", ("parquet-cpp",))


def written(path: Path, rows: pa.Table = ROWS, **options: Any) -> pq.FileMetaData:
    settings: dict[str, Any] = {"version": "1.0", "store_decimal_as_integer": True, "compression": "zstd"}
    pq.write_table(rows, path, **{**settings, **options})
    return pq.read_metadata(path)


class Reader(Source):
    """The bytes of a file, which tests change."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.data = path.read_bytes()

    def _read_size(self) -> int:
        return len(self.data)

    def _fetch(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


def of(
    path: Path, footer: pq.FileMetaData, name: str, reader: Reader | None = None, kind: Any = None
) -> pa.Array | None:
    at = footer.schema.names.index(name)
    return DictionaryPages(reader or Reader(path), footer).values(
        0, at, kind or pq.read_schema(path).field(name).type
    )


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli"])
def test_the_page_holds_the_values_of_the_chunk(tmp_path: Path, compression: str, version: str) -> None:
    path = tmp_path / "f.parquet"
    footer = written(path, compression=compression, version=version)
    found = 0
    for name, (kind, values) in COLUMNS.items():
        array = of(path, footer, name)
        if array is None:
            continue
        found += 1
        assert array.type == pq.read_schema(path).field(name).type
        assert array.cast(kind).to_pylist() == pa.array(values, kind).to_pylist()
    assert found >= len(COLUMNS) - 1  # version 1 of Parquet has no microseconds of some types


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_data_pages_that_are_not_dictionary_encoded_are_needed(tmp_path: Path, version: str) -> None:
    path = tmp_path / "f.parquet"
    numbers = pa.table({"n": list(range(100_000))})
    for settings in ({"use_dictionary": False}, {"dictionary_pagesize_limit": 4096}):
        footer = written(path, numbers, version=version, **settings)
        assert of(path, footer, "n") is None, settings
    assert of(path, written(path), "int", kind=pa.uint32()) is None


@pytest.mark.parametrize("data_page_version", ["1.0", "2.0"])
def test_encoding_stats_tell_what_the_list_of_encodings_leaves_open(
    tmp_path: Path, data_page_version: str
) -> None:
    path = tmp_path / "f.parquet"
    rows = pa.table({"few": [1, 2] * 50_000, "many": list(range(100_000))})
    footer = written(
        path, rows, version="2.6", dictionary_pagesize_limit=4096, data_page_version=data_page_version
    )
    encodings = [set(footer.row_group(0).column(at).encodings) for at in (0, 1)]
    assert encodings[0] == encodings[1] == {"PLAIN", "RLE", "RLE_DICTIONARY"}
    found = of(path, footer, "few")
    assert found is not None
    assert found.to_pylist() == [1, 2]
    assert of(path, footer, "many") is None


def test_unused_categories_do_not_count(tmp_path: Path) -> None:
    """Arrow writes all entries of a dictionary of strings, but of numbers only those that rows have."""
    path = tmp_path / "f.parquet"
    indices = pa.array([0, 1, None] * 40)
    entries = {
        "s": pa.array(["a", "b", "no row"]),
        "n": pa.array([1, 2, 3]),
        "fixed": pa.array([b"aa", b"bb", b"no"], pa.binary(2)),
        "price": pa.array([decimal.Decimal("-0.01"), decimal.Decimal(2), decimal.Decimal(3)], pa.decimal128(30, 2)),
    }  # fmt: skip
    rows = pa.table(
        {name: pa.DictionaryArray.from_arrays(indices, values) for name, values in entries.items()}
    )
    footer = written(path, rows, version="2.6")
    assert of(path, footer, "s", kind=pa.string()) is None
    for name in ("n", "fixed", "price"):
        found = of(path, footer, name, kind=entries[name].type)
        assert found is not None
        assert found.equals(entries[name][:2]), name


def test_files_of_other_writers_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.parquet"
    footer = written(path)
    assert of(path, footer, "int") is not None
    assert of(path, footer, "string") is None
    monkeypatch.setattr(dictionary_pages, "TRUSTED_WITH_NUMBERS", ("parquet-go ",))
    assert of(path, footer, "int") is None


def test_a_damaged_footer_gives_no_page(tmp_path: Path) -> None:
    """PyArrow read the footer before; of what is read again every byte may be another."""
    path = tmp_path / "f.parquet"
    footer = written(path, ROWS.select(["int"]), version="2.6", store_schema=False)
    expected = of(path, footer, "int")
    assert expected is not None
    reader = Reader(path)
    good = reader.data
    for reader.data in flipped_bits(good, len(good) - 8 - footer.serialized_size, len(good) - 8):
        found = of(path, footer, "int", reader)
        assert found is None or found.equals(expected)


@pytest.mark.usefixtures("trusted")
def test_a_damaged_page_is_reported_when_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    footer = written(path, compression="none")
    for name in ("int", "string", "decimal"):
        expected = of(path, footer, name)
        assert expected is not None
        chunk = footer.row_group(0).column(footer.schema.names.index(name))
        reader = Reader(path)
        good = reader.data
        start = chunk.dictionary_page_offset
        for reader.data in flipped_bits(good, start, start + 12):
            found = of(path, footer, name, reader)
            assert found is None or isinstance(found, pa.Array)
        for n in range(40):
            reader.data = good[: start + n]
            with suppress(errors.CorruptDataError):
                found = of(path, footer, name, reader)
                assert found is None or found.equals(expected)
