"""The demo works twice in a row, and its check detects wrong rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from examples.demo.__main__ import main
from examples.demo.check import DisagreementError, check_rows, position_delete_bytes
from puffin_fast.bitmap import PositionBitmap

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog

ROOT = Path(__file__).parents[2]

CANCELLED = 8255
"""Flights of the year 2013 without a departure time."""


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_works_twice_in_a_row(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo", "--folder", str(tmp_path), "--json"]
    runs = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout))
    for run in runs:
        first, second = run["tables"]
        assert (first["deleted"], first["rows left"]) == (CANCELLED, 336_776 - CANCELLED)
        assert second["deleted"] + second["rows left"] == 336_776
        assert second["vectors"] == second["data files"] == 12
        assert second["bytes of vectors"] < second["bytes as position deletes"]


@pytest.mark.parametrize("name", ["warehouse", "flights.parquet", "demo.png"])
def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path: Path, name: str) -> None:
    other = tmp_path / name
    other.write_text("data")
    result = CliRunner().invoke(main, ["--folder", str(tmp_path)])
    assert (result.exit_code, f"found {name}" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == [other]
    assert other.read_text() == "data"


@pytest.mark.parametrize("wrong", [["id < 5"], ["id < 5", "id >= 0"]])
def test_the_check_detects_rows_that_should_be_deleted(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    tmp_path: Path,
    wrong: list[str],
) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    source = tmp_path / "source.parquet"
    pq.write_table(rows, source)
    table = shared_catalog.create_table(f"{namespace}.t", rows.schema)
    table.append(rows)
    assert set(check_rows(duckdb_iceberg, table, [source], ["false"]).values()) == {10}
    with pytest.raises(DisagreementError, match=r"PyIceberg: expected [05] rows .* found 10 with"):
        check_rows(duckdb_iceberg, table, [source], wrong)


def test_the_check_detects_a_row_that_occurs_twice(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection, tmp_path: Path
) -> None:
    source = tmp_path / "source.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3]}), source)
    table = shared_catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 2]}))
    with pytest.raises(DisagreementError, match="found 3 with"):
        check_rows(duckdb_iceberg, table, [source], ["false"])


def test_position_deletes_are_written_as_iceberg_has_them(tmp_path: Path) -> None:
    size = position_delete_bytes([("a", PositionBitmap.from_positions([3, 1]))], tmp_path / "deletes")
    (file,) = (tmp_path / "deletes").iterdir()
    assert file.stat().st_size == size
    assert pq.read_table(file).to_pylist() == [{"file_path": "a", "pos": 1}, {"file_path": "a", "pos": 3}]
