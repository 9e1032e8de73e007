"""The memory of a stream of wide rows is bounded by bytes, however few rows a row group has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from tests.kit.memory import MIB, peak_growth
from tests.kit.tables import iceberg_table, sqlite_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("body", pa.binary())])
ROW_GROUPS, ROWS = 48, 4
"""A row has 1 MiB: the file has 192 MiB in row groups of 4."""

SETUP = """
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from puffin_fast import iceberg

catalog = SqlCatalog("c", uri="sqlite:///{folder}/c.db", warehouse="file://{folder}/wh")
table = catalog.load_table("n.t")
"""

LIMIT = """
n_bytes = pa.default_memory_pool().max_memory()
assert n_bytes < {limit}, n_bytes
"""

SCAN = """
assert sum(batch.num_rows for batch in iceberg.scan(table, threads=1).to_batches()) == {rows}
"""

UPSERT = """
given = pa.table({{"id": pa.array(range({rows})), "body": pa.array([b""] * {rows})}})
assert iceberg.upsert(table, given, "id", threads=1, dry_run=True).rows_updated == {rows}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    numbers = np.random.default_rng(1)
    catalog = sqlite_catalog(folder)
    table = iceberg_table(catalog, SCHEMA, properties={"write.parquet.row-group-limit": str(ROWS)})
    batches = (
        pa.record_batch(
            [pa.array(range(at, at + ROWS)), pa.array([numbers.bytes(MIB) for _ in range(ROWS)])],
            schema=SCHEMA,
        )
        for at in range(0, ROW_GROUPS * ROWS, ROWS)
    )
    iceberg.append(table, pa.RecordBatchReader.from_batches(SCHEMA, batches))
    assert len(iceberg.plan_files(table).tasks) == 1
    catalog.engine.dispose()
    return folder


@pytest.mark.parametrize("action", [SCAN, UPSERT], ids=["scan", "upsert"])
def test_a_thread_holds_a_few_row_groups_of_wide_rows(folder: Path, action: str) -> None:
    """Six runs each held 24 MiB for the scan and 36 for the upsert."""
    action = action.format(rows=ROW_GROUPS * ROWS)
    peak_growth(SETUP.format(folder=folder), action + LIMIT.format(limit=96 * MIB))
