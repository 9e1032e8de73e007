"""The cost of a table's columns is linear: with twice as many, no verb takes more than about twice as many steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin_fast import iceberg
from puffin_fast.parquet import footer
from tests.kit.steps import steps_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N = 120


def rows_of(n_columns: int, first: int = 0) -> pa.Table:
    ids = pa.array(range(first, first + 50), pa.int64())
    return pa.table({"id": ids, **{f"c{at}": pa.array([float(at)] * 50) for at in range(n_columns)}})


# in one thread: two that open files at the same time both compute what the second finds in a cache otherwise
VERBS: dict[str, Callable[[Table, int], object]] = {
    "scan of few columns": lambda table, n: iceberg.scan(
        table, selected_fields=("id", "c7"), threads=1
    ).to_arrow(),
    "scan of all columns": lambda table, n: iceberg.scan(table, threads=1).to_arrow(),
    "scan by an expression": lambda table, n: iceberg.scan(
        table, pc.field("c1") > 0, ("id",), threads=1
    ).to_arrow(),
    "scan without case": lambda table, n: iceberg.scan(
        table,
        "ID < 70",
        [name.upper() for name in rows_of(n).column_names],
        case_sensitive=False,
        threads=1,
    ).to_arrow(),
    "count": lambda table, n: iceberg.scan(table, "id < 70 and c1 > 0", threads=1).count(),
    "append": lambda table, n: iceberg.append(table, rows_of(n, 100)),
    "update": lambda table, n: iceberg.update(table, "id < 5", {"c1": 2.5}, threads=1),
    "update of all columns": lambda table, n: iceberg.update(
        table, "id < 5", {f"c{at}": 2.5 for at in range(n)}, threads=1
    ),
    "upsert": lambda table, n: iceberg.upsert(table, rows_of(n).slice(5, 5), join_cols=["id"], threads=1),
    "upsert of many columns": lambda table, n: iceberg.upsert(
        table,
        rows_of(n, 5).slice(0, 5),
        join_cols=["id"],
        update_columns=rows_of(n).column_names[1:],
        when_not_matched_insert_all=False,
        threads=1,
    ),
    "upsert by many columns": lambda table, n: iceberg.upsert(
        table,
        rows_of(n, 10).slice(0, 5).append_column("gone", pa.array([True] * 5)),
        join_cols=rows_of(n).column_names,
        delete_column="gone",
        threads=1,
    ),
    "delete": lambda table, n: iceberg.delete(table, "id = 20", threads=1),
    "compact": lambda table, n: iceberg.compact(table, threads=1),
    "changes": lambda table, n: iceberg.changes(table, threads=1).to_arrow(),
    "verify": lambda table, n: iceberg.verify(table, level="rows", threads=1),
    "rewrite": lambda table, n: iceberg.rewrite_data_files(table, min_input_files=2, threads=1),
    "ndv": lambda table, n: iceberg.collect_ndv(table, ["id", "c1"], threads=1),
}


def test_verbs_take_a_linear_number_of_steps(
    shared_catalog: SqlCatalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: dict[str, list[int]] = {verb: [] for verb in VERBS}
    for n in (10, N, 2 * N):  # the first fills caches
        table = iceberg.create_table(shared_catalog, f"{namespace}.t{n}", rows_of(n).schema)
        for first in (0, 50):
            iceberg.append(table, rows_of(n, first))
        for verb, run in VERBS.items():
            monkeypatch.setattr(footer, "_layouts", {})
            steps[verb].append(steps_of(partial(run, table, n)))
    for verb, (fixed, once, twice) in steps.items():
        assert twice - fixed < 2.2 * (once - fixed) + 10_000, (verb, fixed, once, twice)
