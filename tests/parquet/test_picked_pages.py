"""Rows of few pages are those of the whole column chunk, and the other pages are not read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from puffin_fast import errors
from puffin_fast._io.source import Source
from puffin_fast.parquet import column_chunks, page_codecs
from puffin_fast.parquet.page_index import PagePlaces, Spans
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.seeds import seeds

N = 20_000


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    texts = [f"{n:032x}" for n in rng.integers(0, 10**12, N).tolist()]
    return pa.table(
        {
            "text": pa.array(texts),
            "some": pa.array([None if at % 7 == 3 else text[-9:] for at, text in enumerate(texts)]),
            "few": pa.array([text[-1] for text in texts]),
            "flag": pa.array(rng.integers(0, 2, N).astype(bool)),
            "n": pa.array(rng.integers(0, 10**9, N)),
        }
    )


@pytest.fixture
def every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small column chunks are read in pages, and numbers are, too, by the code of texts."""
    monkeypatch.setattr(column_chunks, "LEAST_PICKED", 0)
    monkeypatch.setattr(column_chunks, "BYTES_PER_ROW", 0)
    monkeypatch.setattr(column_chunks, "reads_pages", lambda *_: False)


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    inner = Source.read_at

    def counted(self: Source, offset: int, length: int) -> bytes:
        counts.append(length)
        return inner(self, offset, length)

    monkeypatch.setattr(Source, "read_at", counted)
    return counts


def places_of(path: Path) -> list[PagePlaces]:
    """Where the pages are, as the builder of a key index learns it."""
    reader = ParquetReader(PyArrowFileIO(), f"file://{path}")
    found: list[PagePlaces] = []
    for group, n_rows in enumerate(reader.group_rows):
        columns = reader.columns(group, reader.schema.names, N, use_threads=False)
        columns.read(0, n_rows // 3, None)
        columns.read(n_rows // 3, n_rows - n_rows // 3, None)
        found += columns.places()
    return found


def read(path: Path, rows: list[int], *, wanted: bool, places: Sequence[PagePlaces] = ()) -> dict[str, Any]:
    reader = ParquetReader(PyArrowFileIO(), f"file://{path}")
    reader.chunks.places = {chunk[0]: chunk for chunk in places}
    found: dict[str, list[Any]] = {name: [] for name in reader.schema.names}
    first = 0
    for group, n_rows in enumerate(reader.group_rows):
        here = np.array([row - first for row in rows if first <= row < first + n_rows], np.int32)
        if len(here):
            columns = reader.columns(
                group,
                reader.schema.names,
                N,
                use_threads=False,
                wanted=Spans.of_rows(here) if wanted else None,
            )
            half = n_rows // 2
            for start, count in ((0, half), (half, n_rows - half)):
                some = here[(here >= start) & (here < start + count)] - np.int32(start)
                if len(some):
                    for name, array in columns.read(start, count, some).items():
                        found[name] += array.to_pylist()
        first += n_rows
    return found


@pytest.mark.usefixtures("every_column")
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("dictionaries", [True, False])
def test_rows_of_picked_pages_are_those_of_the_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, codec: str, dictionaries: bool
) -> None:
    monkeypatch.setattr(ParquetReader, "batches", None)  # of PyArrow
    path = tmp_path / "a.parquet"
    pq.write_table(
        table(), path, compression=codec, use_dictionary=dictionaries, data_page_version=version,
        data_page_size=4096, write_batch_size=500, row_group_size=N // 2, dictionary_pagesize_limit=50_000,
    )  # fmt: skip
    rng = np.random.default_rng(7)
    for count in (1, 2, 40):
        rows = sorted({0, N - 1, *rng.integers(0, N, count).tolist()})
        assert read(path, rows, wanted=True) == read(path, rows, wanted=False)
        assert read(path, rows, wanted=True) == table().take(rows).to_pydict()
        places = places_of(path)
        assert len(places) == 2 * table().num_columns
        assert read(path, rows, wanted=True, places=places) == table().take(rows).to_pydict()


def test_texts_are_decompressed_as_far_as_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the texts at the start of a page are longer than those at its end, and the estimate is too low."""
    lengths = [200] * 3000 + [8] * 17_000
    texts = [f"{at * 7919 % N:0{n}x}" for at, n in enumerate(lengths)]
    rows = pa.table({"text": texts, "reverse": texts[::-1]})
    sizes: list[int] = []
    inner = page_codecs._zstd_part

    def counted(data: Any, n_bytes: int, least: int) -> Any:
        found = inner(data, n_bytes, least)
        sizes.append(len(memoryview(found)) * 100 // n_bytes)
        return found

    monkeypatch.setattr(page_codecs, "_zstd_part", counted)
    for dictionaries in (True, False):
        path = tmp_path / f"{dictionaries}.parquet"
        pq.write_table(rows, path, compression="zstd", use_dictionary=dictionaries, row_group_size=N)
        places = places_of(path)
        for row in (0, 100, 2900, 5000, N - 3100, N - 1):
            expected = rows.take([row]).to_pydict()
            assert read(path, [row], wanted=True, places=places) == expected
    assert min(sizes) < 40


@pytest.mark.usefixtures("every_column")
def test_wrong_places_of_the_pages_that_are_read_give_no_other_row(tmp_path: Path) -> None:
    """They are found by the footer or by the header of a page, and the column chunk is read whole or refused."""
    path = tmp_path / "a.parquet"
    some = table().select(["text", "some", "n"])
    pq.write_table(some, path, data_page_size=8192, write_batch_size=500, dictionary_pagesize_limit=50_000)
    rows = [17, 9_000, N - 1]
    expected, places = some.take(rows).to_pydict(), places_of(path)
    for seed in seeds(200):
        rng = np.random.default_rng(seed)
        wrong = [list(chunk) for chunk in places]
        chunk = wrong[rng.integers(len(wrong))]
        at, other = rng.integers(len(chunk), size=2)
        change = rng.integers(4)
        if change == 0:
            chunk[at] += int(rng.integers(-500, 500))
        elif (
            change == 1 and (at - other) % 2
        ):  # rows that two pages exchange are not found if neither is read
            chunk[at], chunk[other] = chunk[other], chunk[at]
        elif change == 2:
            del chunk[2:4]
        else:  # the sums stay as they are
            moved, at = int(rng.integers(1, 400)), int(2 + rng.integers(2))
            chunk[at - 4], chunk[at] = chunk[at - 4] - moved, chunk[at] + moved
        try:
            assert read(path, rows, wanted=True, places=wrong) == expected
        except errors.CorruptDataError:
            assert wrong != places


def test_other_pages_are_not_read(tmp_path: Path, n_read: list[int]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        table().select(["text"]), path, use_dictionary=False, data_page_size=4096, write_batch_size=100
    )
    assert read(path, [N // 2], wanted=True) == table().select(["text"]).take([N // 2]).to_pydict()
    assert sum(n_read) < path.stat().st_size // 4


@pytest.mark.usefixtures("every_column")
def test_a_damaged_page_is_refused_as_in_the_whole_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        table().select(["text"]), path, use_dictionary=False, compression="none", data_page_size=4096,
        write_batch_size=100, write_page_checksum=True,
    )  # fmt: skip
    data = bytearray(path.read_bytes())
    at = bytes(data).index(table()["text"][50].as_py().encode())
    data[at] ^= 1
    path.write_bytes(data)
    for wanted in (True, False):
        with pytest.raises(errors.CorruptDataError):
            read(path, [50], wanted=wanted)
    assert read(path, [N - 1], wanted=True) == table().select(["text"]).take([N - 1]).to_pydict()
