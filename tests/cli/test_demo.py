"""The demo works twice in a row, and its check detects wrong rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.cli._demo_check import DisagreementError, check_rows, position_delete_bytes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog

CANCELLED = 8255
"""Flights of the year 2013 without a departure time."""


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_works_twice_in_a_row(tmp_path: Path) -> None:
    twice = """
from puffin_fast.cli import main
for _ in range(2):
    main(standalone_mode=False)
"""
    command = [sys.executable, "-c", twice, "demo", "--folder", str(tmp_path), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads("[" + done.stdout.replace("}\n{", "},\n{") + "]")
    assert len(runs) == 2
    for run in runs:
        first, second = run["tables"]
        assert (first["deleted"], first["rows left"]) == (CANCELLED, 336_776 - CANCELLED)
        assert second["deleted"] + second["rows left"] == 336_776
        assert second["vectors"] == second["data files"] == 12
        assert second["bytes of vectors"] < second["bytes as position deletes"]


@pytest.mark.parametrize("name", ["warehouse", "flights.parquet", "demo.png"])
def test_a_folder_with_other_files_is_refused_and_unchanged(
    tmp_path: Path, run: Callable[..., Result], name: str
) -> None:
    other = tmp_path / name
    other.write_text("data")
    result = run("demo", "--folder", tmp_path)
    assert (result.exit_code, f"found {name}" in result.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == [other]
    assert other.read_text() == "data"


def test_without_the_extra_no_file_is_written(
    tmp_path: Path, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb_extension_avro", None)  # as if it were not installed
    result = run("demo", "--folder", tmp_path / "new")
    assert (result.exit_code, "puffin-fast[demo]" in result.stderr) == (1, True)
    assert not (tmp_path / "new").exists()


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
