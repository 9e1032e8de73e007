"""Row groups that dictionaries leave out have no row that matches: scans and verbs find the same rows without them."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.parquet import column_chunks
from puffin_fast.rows.files.parquet import ParquetReader
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N, N_FILES = 6_000, 6


def rows(seed: int) -> pa.Table:
    """Few values of each column, others in each file, between the same bounds."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([[0, 1_000], rng.choice(np.arange(seed, 1_000, N_FILES), 40)])
    picked = rng.choice(codes, N)
    mask = rng.random(N) < 0.1
    return pa.table(
        {
            "id": np.arange(N) + seed * N,
            "code": pa.array(picked, mask=mask),
            "text": pa.array([f"{at:04}" for at in picked], mask=mask),
            "price": pa.array([decimal.Decimal(int(at)).scaleb(-2) for at in picked], pa.decimal128(9, 2)),
            "x": picked.astype(np.float64),
            "point": [{"y": int(at)} for at in picked],
        }
    )


@pytest.fixture
def twins(shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Table, Table]:
    monkeypatch.setattr(column_chunks, "LEAST_PICKED", 1)
    every, limit = [rows(seed) for seed in range(N_FILES)], {"write.parquet.row-group-limit": "2000"}
    left, right = (
        iceberg_table(shared_catalog, every, name=f"{namespace}.{name}", properties=limit)
        for name in ("left", "right")
    )
    return left, right


def without(function: Any, *arguments: Any) -> Any:
    """Calls a function that asks no dictionaries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParquetReader, "has_dictionaries", False)
        return function(*arguments)


FILTERS = [
    *(f"code = {at}" for at in (1, 7, 500, 1_000, 2_000)),
    "code in (1, 8)",
    "code in (3, 9) or text = '0011'",
    "code = 7 and x > 0",
    "code is null or code = 3",
    "not code = 5",
    "text = '0005'",
    "text in ('0007', '0008', 'x')",
    "price = 0.13",
    "x = 9",
    "point.y = 10",
]


def test_scans_with_dictionaries_find_the_same_rows(twins: tuple[Table, Table]) -> None:
    table, _ = twins
    n_left_out = dict.fromkeys(FILTERS, 0)
    for row_filter in FILTERS:
        expected = without(iceberg.scan(table, row_filter).to_arrow)
        assert iceberg.scan(table, row_filter).to_arrow().equals(expected), row_filter
        n_left_out[row_filter] = iceberg.scan(table, row_filter).explain()["dictionaries"].row_groups or 0
    every = N_FILES * 3
    for row_filter in ("code = 1", "text = '0005'", "price = 0.13", "point.y = 10", "code = 7 and x > 0"):
        assert n_left_out[row_filter] >= every - 3
    assert n_left_out["code in (1, 8)"] >= every - 6
    for row_filter in ("code is null or code = 3", "not code = 5", "code = 1000"):
        assert n_left_out[row_filter] == 0


def test_verbs_with_dictionaries_change_the_same_rows(twins: tuple[Table, Table]) -> None:
    left, right = twins
    keys = pa.table({"code": [7, 8, None, 5_000], "text": ["0007", "0008", None, "x"]})
    for verb in (
        lambda table: iceberg.delete_keys(table, keys.select(["code"]).slice(0, 2), "code"),
        lambda table: iceberg.delete_keys(table, keys, ["code", "text"], null_safe=True),
        lambda table: iceberg.delete(table, "text in ('0100', '0101')"),
        lambda table: iceberg.update(table, "code = 9", {"text": "changed"}),
        lambda table: iceberg.upsert(
            table,
            rows(1).filter(pa.compute.field("code") == 13).slice(0, 1),
            "code",
            duplicate_keys="replace",
        ),
    ):
        verb(left)
        without(verb, right)
        found, expected = (iceberg.scan(table).to_arrow().sort_by("id") for table in twins)
        assert found.equals(expected)
    assert len(found) < N * N_FILES
