"""Other engines read the Delta tables that this package changed: DuckDB, deltalake, Polars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import delta
from tests.conftest import require_module
from tests.delta.conftest import TABLES
from tests.delta.tables import Golden, ids, ids_of_others
from tests.kit.rows import by_polars
from tests.kit.tables import delta_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@pytest.mark.parametrize("name", [name for name in TABLES if name != "hand_native"])
def test_every_reader_reads_the_same_rows_after_every_kind_of_delete(
    name: str, golden: Golden, duckdb_delta: DuckDBPyConnection
) -> None:
    table = golden(name)

    def agreed() -> set[int]:
        rows = ids(table)
        assert ids_of_others(duckdb_delta, table) == [rows, rows]
        if name.startswith(
            "hand"
        ):  # Polars 2.1 ignores vectors of percent-encoded paths, and refuses features
            assert [row["id"] for row in by_polars(table, "id")] == rows
        return set(rows)

    before = agreed()
    assert delta.delete(table, "id >= 100 and id < 150").rows_deleted == len(before & set(range(100, 150)))
    after = agreed()
    assert after == before - set(range(100, 150))
    delta.delete_keys(table, pa.table({"id": [2, 3, 8, 9, 5000]}), "id")
    assert agreed() == after - {2, 3, 8, 9}
    rows = delta.scan(table, "id < 60", ("_file", "_pos")).to_arrow()
    delta.delete_positions(table, rows.rename_columns(["file_path", "pos"]))
    assert agreed() == {i for i in after if i >= 60}
    delta.delete(table, "id >= 0")
    assert agreed() == set()


def test_a_table_of_deltalake_takes_vectors(tmp_path: Path, duckdb_delta: DuckDBPyConnection) -> None:
    rows = pa.table({"id": pa.array(range(1000), pa.int64()), "day": [f"d {i % 4}" for i in range(1000)]})
    delta_table(tmp_path, rows, partition=["day"], by="deltalake")
    table: Any = require_module("deltalake").DeltaTable(str(tmp_path))
    assert delta.enable(table) == 1
    assert delta.delete(table, "id < 10 or day = 'd 3'").rows_deleted == 250 + 8
    wanted = [i for i in range(10, 1000) if i % 4 != 3]
    assert ids_of_others(duckdb_delta, tmp_path) == [wanted, wanted]
    assert sorted(delta.scan(table).to_arrow()["id"].to_pylist()) == wanted
    table.update_incremental()
    assert table.version() == 2
