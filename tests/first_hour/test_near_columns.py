"""An unknown name of a column is answered by a near one, in each argument."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import puffin_fast as pf

NEAR = {
    "scan of an unknown column": lambda table, rows: pf.iceberg.scan(table, selected_fields=("custmer",)),
    "delete_keys by an unknown column": lambda table, rows: pf.iceberg.delete_keys(table, rows, ["custmer"]),
    "upsert by an unknown column": lambda table, rows: pf.iceberg.upsert(table, rows, ["custmer"]),
    "update of an unknown column": lambda table, rows: pf.iceberg.update(table, "id = 1", {"custmer": "x"}),
    "a sort by an unknown column": lambda table, rows: pf.iceberg.rewrite_data_files(
        table, sort_by=["custmer"]
    ),
    "counts of an unknown column": lambda table, rows: pf.iceberg.collect_ndv(table, ["custmer"]),
    "given rows with an unknown column": lambda table, rows: pf.iceberg.append(
        table, rows.rename_columns(["id", "custmer"])
    ),
    "a filter of an unknown column": lambda table, rows: pf.iceberg.scan(table, "CUSTOMER = 'x'"),
}


@pytest.mark.parametrize("call", NEAR.values(), ids=NEAR)
def test_an_unknown_column_is_answered_by_a_near_one(catalog: Any, call: Any) -> None:
    rows = pa.table({"id": [1], "customer": ["a"]})
    table = pf.iceberg.create_table(catalog, "shop.near", rows.schema)
    pf.iceberg.append(table, rows)
    with pytest.raises(
        pf.PuffinFastError, match=r"no column \w+; did you mean customer; (the table|it) has id"
    ):
        call(table, rows)
