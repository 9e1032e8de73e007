"""Rows of every kind that a user may pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["a", "b", "c"]})


MADE: dict[str, Callable[[], Any]] = {
    "table": lambda: ROWS,
    "batches": ROWS.to_batches,
    "tables": lambda: [ROWS.slice(0, 1), ROWS.slice(1)],
    "generator": lambda: (batch for batch in ROWS.to_batches(max_chunksize=1)),
    "reader": ROWS.to_reader,
    "dataset": lambda: ds.dataset(ROWS),
    "scanner": lambda: ds.dataset(ROWS).scanner(),
    "dicts": ROWS.to_pylist,
    "columns": ROWS.to_pydict,
    "pandas": ROWS.to_pandas,
    "pandas, indexed": lambda: ROWS.to_pandas().set_index("id"),
    "pandas, indexed by a range": lambda: ROWS.to_pandas().set_index(pd.RangeIndex(1, 4, name="id"))[
        ["word"]
    ],
    "pandas, filtered": lambda: pd.DataFrame({"id": [0, 1, 2, 3], "word": [*"zabc"]}).query("id > 0"),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy": lambda: pl.DataFrame(ROWS).lazy(),
}
