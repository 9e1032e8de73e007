"""Every argument of every public function refuses values of another type or range by name, and nothing is written."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError
from tests.iceberg.conftest import files_of

if TYPE_CHECKING:
    from tests.iceberg.conftest import RacingCatalog

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "ts": pa.array([0] * 10, pa.timestamp("us"))})

FLAG: list[Any] = ["false", None, 1, "", []]
NAME: list[Any] = ["", "  ", 5, ["x"], {}, b"x"]
NAMES: list[Any] = ["id", 5, True, [5], [None], b"id", {"id": 1}]

WRONG: dict[str, list[Any]] = {
    "as_of": ["", "x", 1.5, True, [], {}],
    "branch": NAME,
    "changes": [1, 1.5, [], {}, None],
    "case_sensitive": FLAG,
    "columns": [*NAMES, []],
    "from_snapshot_id_exclusive": ["1", True, 1.5, [], {}, ""],
    "from_timestamp_exclusive": ["", "x", 1.5, True, [], {}],
    "to_snapshot_id_inclusive": ["1", True, 1.5, [], {}, ""],
    "to_timestamp_inclusive": ["", "x", 1.5, True, [], {}],
    "data_files": FLAG,
    "delete_column": NAME,
    "dry_run": FLAG,
    "duplicate_keys": [None, 5, "", "merge"],
    "if_not_exists": FLAG,
    "incremental": ["yes", True, None, 5],
    "job_id": NAME,
    "file_paths": NAMES,
    "filesystem": [5, {}],
    "join_cols": [5, True, [], [5], [None], b"id", {"id": 1}],
    "keep": [5, True, "x", ["x"], [None]],
    "left": [None, 5, "x", [], (None,), ("n.t", 5)],
    "limit": ["3", -1, 1.5, True, math.nan, [], b"3"],
    "location": NAME,
    "max_commits": ["3", -1, 0, 1.5, None, True, []],
    "metrics": FLAG,
    "min_deleted": [-1, 1.5, "0.5", None, True, math.nan, []],
    "min_file_size": ["3", -1, 1.5, True, []],
    "min_input_files": [None, "3", 1, 1.5, True, []],
    "net": FLAG,
    "n_std_dev": [0, 4, "2", 1.5, None],
    "name": [None, 5, "", " ", "t", ".t", "n.", [], [5], ["t"], b"n.t"],
    "null_safe": FLAG,
    "older_than": [5, None, "1 day"],
    "on_conflict": [None, 5, "", "replace"],
    "order_column": NAME,
    "partition_spec": [*NAMES, None, ["day(id)"], ["bucket[0](id)"], ["day(ts)", "hour(ts)"]],
    "policy": [None, 5, "nightly", {}],
    "properties": [5, "x", ["x"], [("a", "b")], {"a": 1}, {"a": None}, {1: "a"}],
    "retain_last": ["3", 0, 1.5, True, []],
    "right": [None, 5, "x", [], (None,), ("n.t", 5)],
    "row_filter": [None, 5, [], {}, b"id = 1", "", "id ="],
    "level": [None, "all", 5, True],
    "types": [5, "id", ["id"], {"id": 5}, {"id": "datetime"}],
    "schema": [None, 5, "id long", [], {}, {"id": "number"}],
    "selected_fields": [*NAMES, None],
    "share": [-1, 1.5, "0.5", None, True, math.nan, []],
    "skip_unchanged": FLAG,
    "snapshot_id": ["1", True, 1.5, [], {}, ""],
    "snapshot_ids": [5, True, "1", b"1", [None], ["1"], [1.5]],
    "snapshot_properties": [5, "x", ["x"], {"a": 1}, {1: "a"}],
    "sort_by": [*NAMES, []],
    "sort_order": NAMES,
    "storage_options": [5, "x", ["x"], {"a": 1}, {1: "a"}],
    "string_views": FLAG,
    "superseded": FLAG,
    "tag": NAME,
    "target_file_size": ["3", -1, 0, 1.5, True, []],
    "threads": ["2", -1, 0, 1.5, True, math.nan, []],
    "workers": ["2", 2, True, [], ThreadPoolExecutor],
    "update_columns": [*NAMES, []],
    "updates": FLAG,
    "values": [None, 5, "id", [], {}, {5: 1}, {"id": "x"}, {"id": [1]}, {"id": {1}}],
    "when_matched_update_all": FLAG,
    "when_not_matched_insert_all": FLAG,
}
"""By the name of an argument. `table`, `catalog` and rows: tests/iceberg/dml/test_given_arguments.py."""

ROWS_OR_TABLES = {"catalog", "data", "deletes", "keys", "table"}
FUNCTIONS = [
    name
    for name in iceberg.__all__
    if inspect.isfunction(getattr(iceberg, name)) and name not in ("accelerate", "v3_metadata")
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_arguments_are_refused_by_name(racing: RacingCatalog, function: str) -> None:
    table = iceberg.create_table(racing, "n.t", ROWS.schema)
    iceberg.append(table, ROWS)
    iceberg.collect_ndv(table)
    none = pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())})
    given: dict[str, Any] = {
        "table": table,
        "catalog": racing,
        "name": "n.u",
        "schema": ROWS.schema,
        "data": ROWS,
        "keys": ROWS.slice(0, 1),
        "deletes": none,
        "row_filter": "id = 77",
        "values": {"id": 78},
        "left": (table, "id"),
        "right": (table, "id"),
    }
    call: Callable[..., Any] = getattr(iceberg, function)
    parameters = inspect.signature(call).parameters
    needed = {name: given[name] for name, p in parameters.items() if p.default is p.empty}
    if "join_cols" in parameters:
        needed["join_cols"] = "id"
    before, location = files_of(table), table.metadata_location
    for name in parameters.keys() - ROWS_OR_TABLES:
        for wrong in WRONG[name]:
            if wrong is None and parameters[name].default is None:
                continue
            with pytest.raises(InvalidInputError) as caught:
                call(**{**needed, name: wrong})
            shown = "filter" if name == "row_filter" else name.removesuffix("s")
            assert shown in str(caught.value), (name, wrong)
    assert files_of(table) == before
    assert table.refresh().metadata_location == location
    assert not racing.table_exists("n.u")
