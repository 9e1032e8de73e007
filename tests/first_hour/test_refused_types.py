"""Columns of types that no table has: no table is created, and the error says what to store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import puffin_fast as pf

REFUSED = {
    "timedelta of pandas": (
        pd.DataFrame({"a": pd.to_timedelta([1], unit="s")}),
        "store durations as integers",
    ),
    "duration": (pa.table({"a": pa.array([1], pa.duration("s"))}), "store durations as integers"),
    "interval": (
        pa.table({"a": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}),
        "columns of their own",
    ),
    "decimal of 40 digits": (pa.table({"a": pa.nulls(1, pa.decimal256(40, 2))}), "at most 38 digits"),
    "union": (
        pa.table({"a": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}),
        "a column of its own",
    ),
    "period of pandas": (
        pd.DataFrame({"a": pd.period_range("2026-01", periods=2, freq="M")}),
        "column a: pandas.period, which no Iceberg type represents",
    ),
    "interval of pandas": (pd.DataFrame({"a": pd.interval_range(0, 2)}), "column a: pandas.interval"),
}


@pytest.mark.parametrize(("rows", "advice"), REFUSED.values(), ids=REFUSED)
def test_no_table_is_made_of_a_type_that_it_cannot_hold(
    catalog: Any, tmp_path: Path, rows: Any, advice: str
) -> None:
    with pytest.raises(pf.InvalidInputError, match=advice):
        pf.iceberg.create_table(catalog, "shop.refused", rows)
    assert catalog.list_tables("shop") == []
    with pytest.raises(pf.InvalidInputError, match=advice):
        pf.delta.create_table(tmp_path / "d", rows)
    assert not (tmp_path / "d").exists()
