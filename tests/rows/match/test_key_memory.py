"""The memory of a delete or upsert by many keys of one integer column.

Measured: 32 bytes and 30 bytes.
"""

from __future__ import annotations

from pathlib import Path

from tests.kit.memory import peak_growth
from tests.kit.tables import iceberg_table, sqlite_catalog

N = 4_000_000

SETUP = """
import numpy as np, pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from puffin_fast import iceberg

catalog = SqlCatalog("c", uri="sqlite:///{folder}/c.db", warehouse="file://{folder}/wh")
table = catalog.load_table("n.t")
numbers = np.random.default_rng(2).permutation({n})
keys = pa.table({{"id": numbers, "v": numbers}})
iceberg.delete_keys(table, keys.slice(0, 1), dry_run=True, join_cols="id")
"""


def _made(folder: Path) -> str:
    """Makes a table with few of the keys; returns the statements that load it and make the keys."""
    catalog = sqlite_catalog(folder)
    iceberg_table(catalog, {"id": range(0, 2 * N, N // 10), "v": range(20)})
    catalog.engine.dispose()
    return SETUP.format(folder=folder, n=N)


def test_a_key_to_delete_takes_forty_bytes_at_most(tmp_path: Path) -> None:
    action = "assert iceberg.delete_keys(table, keys, 'id').rows_deleted == 10"
    assert peak_growth(_made(tmp_path), action) < 40 * N


def test_a_row_to_upsert_takes_eighty_bytes_beside_it_at_most(tmp_path: Path) -> None:
    action = "assert iceberg.upsert(table, keys, 'id', when_not_matched_insert_all=False).rows_updated == 9"
    assert peak_growth(_made(tmp_path), action) < 80 * N
