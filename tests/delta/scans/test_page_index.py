"""Delta tables: filters and keys find the same rows with page indexes and dictionaries as in all pages."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import delta
from puffin_fast.parquet import column_chunks
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.rows import by_us

N = 4_000
FILTERS = (
    "id = 1234",
    "id in (5, 6, 3999) and code is not null",
    "price between 10.5 and 11",
    "text = '00000777' or id < 3",
    "code = 31",
    "place.x > 1990.5",
    "code is null and id > 3900",
)


def made(folder: Path) -> str:
    rng = np.random.default_rng(2)
    numbers = np.arange(N)
    place = pa.struct([("x", pa.float64()), ("y", pa.int32())])
    rows = pa.table(
        {
            "id": numbers,
            "price": pa.array([Decimal(int(at)).scaleb(-2) for at in numbers], pa.decimal128(12, 2)),
            "text": [f"{at:08}" for at in numbers],
            "code": pa.array(rng.integers(0, 40, N) * 2, mask=rng.random(N) < 0.1),
            "place": pa.array([{"x": at / 2, "y": None} for at in range(N)], place),
        }
    )
    properties = deltalake.WriterProperties(data_page_size_limit=1_000, write_batch_size=50)
    configuration = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(folder, rows, writer_properties=properties, configuration=configuration)
    return str(folder)


def use(patch: pytest.MonkeyPatch, *, indexes: bool) -> None:
    patch.setattr(column_chunks, "LEAST_PICKED", 0 if indexes else 1 << 60)
    if not indexes:
        patch.setattr(ParquetReader, "has_dictionaries", False)


def test_filters_find_the_rows_of_all_pages(tmp_path: Path) -> None:
    table, left_out = made(tmp_path / "t"), 0
    for text in FILTERS:
        found = []
        for indexes in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                use(patch, indexes=indexes)
                found.append(by_us(table, row_filter=text))
                if indexes:
                    explained = delta.scan(table, text).explain()
                    left_out += any(explained[step].rows for step in ("page index", "dictionaries"))
        assert found[0] == found[1], text
    assert left_out >= len(FILTERS) - 1


def test_verbs_change_the_same_rows(tmp_path: Path) -> None:
    found = []
    for indexes in (True, False):
        table = made(tmp_path / str(indexes))
        with pytest.MonkeyPatch.context() as patch:
            use(patch, indexes=indexes)
            delta.delete_keys(table, pa.table({"id": [7, 1999, 10_000]}), "id")
            prices = pa.array([Decimal("12.34"), Decimal("0.01")], pa.decimal128(12, 2))
            delta.delete_keys(table, pa.table({"price": prices}), "price")
            delta.delete(table, "code = 12 and id < 900")
            delta.update(table, "text = '00002222'", {"code": 1})
            delta.delete(table, "id between 100 and 140")
        found.append(by_us(table))
    assert found[0] == found[1]
    assert N - 80 < len(found[0]) < N - 40
