"""Filters of texts find the same rows whether they are decided for each value of a dictionary or for each row."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import puffin_fast as pf
from puffin_fast.errors import PuffinFastError
from puffin_fast.parquet.column_pages import ColumnPages
from puffin_fast.rows.files.projection import FileSchema
from puffin_fast.rows.files.reader import DataFiles
from tests.kit.tables import table_of_files

N = 3000


class Coded:
    """How often texts were decoded to dictionary arrays, and whether they may be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allowed, self.batches, self.failed = True, 0, 0
        coded, column = ColumnPages._coded, FileSchema.text_column

        def counted(*args: Any) -> Any:
            self.failed += 1
            found = coded(*args)
            self.failed, self.batches = self.failed - 1, self.batches + 1
            return found

        monkeypatch.setattr(ColumnPages, "_coded", counted)
        monkeypatch.setattr(FileSchema, "text_column", lambda *args: column(*args) if self.allowed else None)

    def both(self, run: Callable[[], Any]) -> list[Any]:
        """The results of a call with dictionary arrays and without, or its errors."""
        found: list[Any] = []
        for self.allowed in (True, False):
            try:
                found.append(run())
            except PuffinFastError as error:
                found.append(type(error))
        self.allowed = True
        return found


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> Coded:
    return Coded(monkeypatch)


def test_dictionaries_are_used_where_all_pages_have_them(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    rows = pa.table({"id": range(N), "s": [None if at % 5 == 0 else f"text {at % 9}" for at in range(N)]})
    for name, used, options in (
        ("whole", True, {}),
        ("plain", False, {"use_dictionary": False}),
        ("mixed", None, {"dictionary_pagesize_limit": 20, "data_page_size": 100, "write_batch_size": 100}),
    ):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(rows, path, **options)
        table, coded.batches, coded.failed = table_of_files(catalog, path), 0, 0
        expected = [at for at in range(N) if at % 5 and at % 9 in (2, 8)]
        for text in ("s in ('text 2', 'text 8', 'x')", "s = 'text 2' or s like '%8'"):
            assert pf.iceberg.scan(table, row_filter=text).to_arrow()["id"].to_pylist() == expected
        if used is not None:
            assert (coded.batches > 0) == used
        coded.batches = 0
        assert pf.iceberg.scan(table, row_filter="s = 'text 2' or id < 3").count() == 3 + len(
            [at for at in range(3, N) if at % 5 and at % 9 == 2]
        )
        assert coded.batches == 0  # a condition of two columns is decided for rows


def test_pages_without_the_dictionary_are_read_in_another_way(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from puffin_fast.parquet.footer import Chunk

    monkeypatch.setattr(Chunk, "is_in_dictionary", None)  # as the footers of some writers leave it open
    rows = pa.table({"id": range(N), "s": [f"text {at // 3:05}" for at in range(N)]})
    path = tmp_path / "a.parquet"
    pq.write_table(rows, path, dictionary_pagesize_limit=2000, data_page_size=1000, write_batch_size=100)
    table = table_of_files(catalog, path)
    for limit in (100, 1 << 17):
        inner = DataFiles.open

        def opened(
            self: DataFiles, *args: Any, inner: Any = inner, limit: int = limit, **options: Any
        ) -> Any:
            found = inner(self, *args, **options)
            whole = type(found).batches
            monkeypatch.setattr(
                type(found), "batches", lambda self, *a, **o: whole(self, *a, **(o | {"batch_rows": limit}))
            )
            return found

        coded.failed = coded.batches = 0
        with monkeypatch.context() as patch:
            patch.setattr(DataFiles, "open", opened)
            found = pf.iceberg.scan(table, row_filter="s >= 'text 00050' and s <> 'text 00900'").to_arrow()
        assert found["id"].to_pylist() == [at for at in range(150, N) if at // 3 != 900]
        assert coded.failed > 0


@pytest.mark.slow
def test_texts_that_need_longer_offsets_than_their_type_has(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    path, n, size = tmp_path / "a.parquet", 33, 1 << 26
    texts = pa.DictionaryArray.from_arrays([0] * n, pa.array(["x" * size]))
    pq.write_table(pa.table({"s": texts}), path, dictionary_pagesize_limit=1 << 30, store_schema=False)
    (batch,) = pf.iceberg.scan(table_of_files(catalog, path), row_filter="s is not null").to_batches()
    assert coded.batches == 1
    column = batch.column("s")
    assert column.nbytes > n * size
    assert pc.all(pc.equal(pc.binary_length(column), size)).as_py()


def test_changed_bytes_are_refused_or_have_the_same_rows(
    tmp_path: Path, catalog: InMemoryCatalog, coded: Coded
) -> None:
    """Codes outside of the dictionary above all."""
    path = tmp_path / "a.parquet"
    rng = random.Random(1)
    values = [rng.choice(["a", "bb", None, "cc", "ddddddddddddddddd"]) for _ in range(60)]
    pq.write_table(
        pa.table({"s": values}), path, compression="none", write_statistics=False, store_schema=False
    )
    table, data = table_of_files(catalog, path), path.read_bytes()
    stop = pq.read_metadata(path).row_group(0).column(0).total_compressed_size + 4
    refused = 0
    for at in range(4, stop):
        for change in (1, 0x80, 0x0F):
            path.write_bytes(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
            for text in ("s in ('bb', 'ddddddddddddddddd')", "s is null", "not (s = 'a')"):

                def run(text: str = text) -> list[bytes]:
                    rows = pf.iceberg.scan(table, row_filter=text).to_arrow()
                    found: list[bytes] = rows["s"].cast(pa.large_binary()).to_pylist()
                    return found

                found = coded.both(run)
                assert found[0] == found[1], (at, change, text)
                refused += isinstance(found[0], type)
    assert refused > 100
    assert coded.batches > 0
