"""The memory of a rewrite is bounded by row groups, however many a data file has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from puffin_fast import iceberg
from tests.kit.memory import MIB, peak_growth
from tests.kit.tables import iceberg_table, sqlite_catalog

ROW_GROUP, BATCH = 32 * MIB, 10 * MIB
"""Bytes of a row group, and of a batch of 131,072 rows with their row lineage."""

SCHEMA = pa.schema([(f"c{at}", pa.int64()) for at in range(8)])
ROWS = ROW_GROUP // (8 * len(SCHEMA))
ROW_GROUPS = 4
PAGES = 3 * MIB * len(SCHEMA)
"""Bytes of the decompressed pages of each column, of 1 MiB: its dictionary, and the pages of a batch."""

SETUP = """
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from puffin_fast import iceberg
from puffin_fast.iceberg.dml import data_files

data_files.ROW_GROUP_BYTES = {row_group}
catalog = SqlCatalog("c", uri="sqlite:///{folder}/c.db", warehouse="file://{folder}/wh")
table = catalog.load_table("n.t")
"""

ACTION = """
done = iceberg.rewrite_data_files(table, min_deleted=0.1, threads=1)
assert done.data_files == 1 and done.rows > 1_000_000, done
n_bytes = pa.default_memory_pool().max_memory()
assert n_bytes < {limit}, n_bytes
"""


def test_a_thread_holds_three_row_groups_at_most(tmp_path: Path) -> None:
    """One is read as stored, one is collected, one is encoded, and pages; by Arrow's allocator, which has all of it.

    The limit is 140 MiB; six runs each held 73.
    """
    numbers = np.random.default_rng(1)
    catalog = sqlite_catalog(tmp_path)
    table = iceberg_table(catalog, SCHEMA, properties={"write.parquet.row-group-limit": str(ROWS)})
    batches = (
        pa.record_batch([pa.array(numbers.integers(0, 1 << 62, ROWS)) for _ in SCHEMA], schema=SCHEMA)
        for _ in range(ROW_GROUPS)
    )
    iceberg.append(table, pa.RecordBatchReader.from_batches(SCHEMA, batches))
    iceberg.delete(table, f"c0 < {1 << 60}")
    catalog.engine.dispose()
    peak_growth(
        SETUP.format(folder=tmp_path, row_group=ROW_GROUP),
        ACTION.format(limit=3 * ROW_GROUP + 2 * BATCH + PAGES),
    )
