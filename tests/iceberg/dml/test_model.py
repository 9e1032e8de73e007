"""Random operations on small tables: each snapshot has the same rows as a list at that time.

Tables are partitioned or not, and change that and their columns in between.

``PUFFIN_FAST_OPERATIONS`` says how many there are in all, 50 to a table; 100 by default.
`seeds` may say how many tables there are, and the first one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from puffin_fast import iceberg
from puffin_fast.iceberg.index import lookup
from puffin_fast.key_index import making
from tests.iceberg.conftest import rows_of_duckdb
from tests.iceberg.dml.model import Machine
from tests.seeds import seeds

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog

EACH = 50
SEEDS = seeds(max(1, int(os.environ.get("PUFFIN_FAST_OPERATIONS", "100")) // EACH))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_snapshot_reads_as_the_list_was(
    racing: SqlCatalog, duckdb_iceberg: DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)  # candidates narrow small data files, too
    monkeypatch.setattr(making, "REMAINDER_BITS", 1)  # hashes of keys collide
    monkeypatch.setattr(making, "_LEAST_HASH_BITS", 0)
    machine = Machine(racing, seed)
    try:
        for _ in range(EACH):
            machine.step()
        for snapshot_id in machine.snapshots:
            machine.same(snapshot_id)
        table, rows = machine.table, machine.branches["main"]
        expected = machine.arrow(sorted(rows.values(), key=lambda row: row["row"]))
        plain = expected.schema
        iceberg.upgrade(table)
        iceberg.convert_equality_deletes(table)  # PyIceberg reads none; to DuckDB null does not equal null
        foreign = rows_of_duckdb(duckdb_iceberg, table, order="row")
        assert foreign.cast(plain).equals(expected), "DuckDB reads other rows"
        assert table.scan().to_arrow().cast(plain).sort_by("row").equals(expected), (
            "PyIceberg reads other rows"
        )
    except BaseException as error:
        error.add_note("\n".join(machine.log))
        raise
