"""Files whose stored Arrow schema has dictionaries, and whose pages PyArrow does not decode to dictionaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin_fast import delta, iceberg
from tests.conftest import require_module
from tests.kit.tables import sqlite_catalog

ROWS = pa.table(
    {
        "id": range(6),
        "s": pa.array(["a", "b", "a", None, "c", "b"]).dictionary_encode(),
        "l": pa.array([["x"], None, ["y", "x"], [], ["z"], ["x"]]),
        "n": pa.array([1, 2, 1, None, 3, 2]).dictionary_encode(),
    }
)
PLAIN = ROWS.set_column(1, "s", ROWS["s"].cast(pa.string())).set_column(3, "n", ROWS["n"].cast(pa.int64()))


@pytest.fixture(params=["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    encodings = {"s": request.param, "l.list.element": request.param, "n": "DELTA_BINARY_PACKED"}
    pq.write_table(ROWS, path, use_dictionary=False, column_encoding=encodings, row_group_size=4)
    with pytest.raises(OSError, match="Not yet implemented"):
        pq.read_table(path)
    assert pl.read_parquet(path)["s"].cast(pl.String).to_list() == PLAIN["s"].to_pylist()
    assert duckdb.sql(f"SELECT s FROM '{path}'").fetchall() == [(text,) for text in PLAIN["s"].to_pylist()]
    return path


def test_iceberg(file: Path, tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = catalog.create_table("n.t", PLAIN.schema)
    table.add_files([str(file)])
    found = iceberg.scan(table, "s = 'b'", selected_fields=("id", "s", "n")).to_arrow().to_pydict()
    assert found == {"id": [1, 5], "s": ["b", "b"], "n": [2, 2]}
    assert iceberg.scan(table, "s is null").to_arrow()["id"].to_pylist() == [3]
    catalog.close()


def test_delta(file: Path, tmp_path: Path) -> None:
    deltalake: Any = require_module("deltalake")
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, PLAIN)
    delta.enable(path)
    (target,) = Path(path).glob("*.parquet")
    log = Path(path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(
        log.read_text().replace(f'"size":{target.stat().st_size}', f'"size":{file.stat().st_size}')
    )
    target.write_bytes(file.read_bytes())
    assert delta.scan(path).to_arrow().to_pydict() == PLAIN.to_pydict()
    delta.delete(path, "s = 'a'")
    delta.update(path, "s = 'b'", {"n": 7})
    rows = sorted(delta.scan(path).to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["s"], row["n"]) for row in rows] == [
        (1, "b", 7),
        (3, None, None),
        (4, "c", 3),
        (5, "b", 7),
    ]
    assert delta.verify(path, level="files") == []
