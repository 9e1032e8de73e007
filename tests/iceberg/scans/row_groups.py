"""A table of one data file of ten row groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


N = 1000


ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "k": pa.array([None if i % 7 == 0 else i % 10 for i in range(N)], pa.int32()),
        "s": [f"s{i % 5}" for i in range(N)],
    }
)


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """ROWS in one file of ten row groups."""
    return iceberg_table(racing, ROWS, properties={"write.parquet.row-group-limit": "100"})
