"""Arguments of public functions: one name each, wrong values refused by name, dry runs, tags, points in time."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError
from tests.iceberg.conftest import unchanged
from tests.iceberg.verbs import REWRITES, ROWS, WRITES
from tests.kit.tables import iceberg_table

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tests.kit.faults import RacingCatalog

TIMED = ROWS.append_column("ts", pa.array([0] * 100, pa.timestamp("us")))

COMMITTING = (
    "append", "compact", "convert_equality_deletes", "convert_position_deletes", "delete", "delete_keys",
    "delete_positions", "dynamic_partition_overwrite", "overwrite", "repair", "rewrite_data_files",
    "rewrite_manifests", "transaction", "update", "upsert",
)  # fmt: skip
READING = ("deletes", "plan_files", "report", "scan", "verify")
ON_SPARK = (
    "compact",
    "convert_equality_deletes",
    "convert_position_deletes",
    "delete",
    "delete_keys",
    "scan",
)


def names_of(verb: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(verb).parameters)


def test_verbs_of_one_kind_take_the_same_arguments() -> None:
    for verb in COMMITTING:
        assert {"branch", "job_id", "snapshot_properties", "dry_run"} <= names_of(getattr(iceberg, verb)), (
            verb
        )
    for verb in READING:
        assert {"snapshot_id", "branch", "tag", "as_of"} <= names_of(getattr(iceberg, verb)), verb


def test_spark_jobs_take_the_arguments_of_their_python_counterparts() -> None:
    spark = pytest.importorskip("puffin_fast.spark")
    pytest.importorskip("pyspark")
    only_here = {"threads", "workers", "keys", "string_views"}  # Spark has one type of text
    for verb in ON_SPARK:
        assert names_of(getattr(iceberg, verb)) - only_here <= names_of(getattr(spark, verb)), verb


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """Two data files of 50 rows, one of them with a deletion vector, and the tag ``first``."""
    made = iceberg_table(racing, ROWS.slice(0, 50))
    first = made.metadata.current_snapshot_id
    assert first is not None
    with iceberg.v3_metadata(racing):
        made.manage_snapshots().create_tag(first, "first").commit()
    iceberg.append(made, ROWS.slice(50))
    iceberg.delete(made, "id = 3")
    return made


def delete_in_transaction(table: Table, *, dry_run: bool) -> None:
    with iceberg.transaction(table, dry_run=dry_run) as tx:
        tx.append(ROWS)
        tx.delete("id < 60")


def overwrite_partitions(table: Table, **options: Any) -> None:
    with pytest.raises(InvalidInputError, match="expected a partitioned table"):
        iceberg.dynamic_partition_overwrite(table, ROWS, **options)


VERBS: dict[str, Callable[..., Any]] = (
    WRITES
    | REWRITES
    | {
        "dynamic_partition_overwrite": overwrite_partitions,
        "rewrite_manifests": iceberg.rewrite_manifests,
        "transaction": delete_in_transaction,
        "upgrade": iceberg.upgrade,
    }
)


@pytest.mark.parametrize("version", [2, 3])
def test_a_dry_run_writes_nothing(racing: RacingCatalog, table: Table, version: int) -> None:
    assert VERBS.keys() == {*COMMITTING, "upgrade"}
    verbs = {*VERBS}
    if version == 2:
        table = iceberg_table(racing, ROWS, name="n.old", version=2)
        verbs -= {"compact", "convert_equality_deletes", "convert_position_deletes", "repair"}
    for verb in verbs:
        with unchanged(table):
            VERBS[verb](table, dry_run=True)
    with unchanged(table), pytest.raises(InvalidInputError):
        iceberg.append(table, pa.table({"nothing": [1]}), dry_run=True)


@pytest.mark.parametrize("verb", READING)
def test_a_tag_is_read_by_its_own_argument(table: Table, verb: str) -> None:
    job = getattr(iceberg, verb)
    job(table, tag="first")
    assert iceberg.scan(table, tag="first").count() == 50
    for wrong, error, said in (
        ({"branch": "first"}, InvalidInputError, "'first': expected a branch, found a tag"),
        ({"tag": "main"}, InvalidInputError, "'main': expected a tag, found a branch"),
        ({"tag": "second"}, NotFoundError, "tag 'second': not found; the table has first"),
        ({"branch": "main", "tag": "first"}, InvalidInputError, "found branch and tag"),
    ):
        with pytest.raises(error, match=said):
            job(table, **wrong)


def test_a_point_in_time_is_milliseconds_a_datetime_or_text(table: Table) -> None:
    last = table.metadata.snapshot_log[-1]
    at = datetime.fromtimestamp(last.timestamp_ms / 1000 + 1, UTC)
    for as_of in (last.timestamp_ms, at, at.isoformat(), at.isoformat(" "), "2100-01-01T00:00Z"):
        assert iceberg.scan(table, as_of=as_of).count() == 99
    with pytest.raises(NotFoundError, match="at or before"):
        iceberg.scan(table, as_of="1970-01-02T00:00+01:00")


FLAG: list[Any] = ["false", None, 1, "", []]
NAME: list[Any] = ["", "  ", 5, ["x"], {}, b"x"]
NO_ROWS: list[Any] = [
    pl.Series("id", [1]), pd.Series([1], name="id"), pa.array([1]), pa.chunked_array([[1]]), [1], "ns.t", None,
]  # fmt: skip
NAMES: list[Any] = ["id", 5, True, [5], [None], b"id", {"id": 1}]

WRONG: dict[str, list[Any]] = {
    "log_predicate": [None, 1, "yes"],
    "as_of": [
        "",
        "x",
        1.5,
        True,
        [],
        {},
        "2030-01-01",
        "2030-01-01T00:00:00",
        date(2030, 1, 1),
        datetime(2030, 1, 1),
    ],
    "branch": NAME,
    "catalog": ["shop", None, 5],
    "changes": [1, 1.5, [], {}, None],
    "case_sensitive": FLAG,
    "columns": [*NAMES, []],
    "from_snapshot_id_exclusive": ["1", True, 1.5, [], {}, ""],
    "from_timestamp_exclusive": ["", "x", 1.5, True, [], {}],
    "to_snapshot_id_inclusive": ["1", True, 1.5, [], {}, ""],
    "to_timestamp_inclusive": ["", "x", 1.5, True, [], {}],
    "data": NO_ROWS,
    "data_files": FLAG,
    "delete_column": NAME,
    "deletes": NO_ROWS,
    "dry_run": FLAG,
    "duplicate_keys": [None, 5, "", "merge", "Refuse", True, "refuse,replace"],
    "if_not_exists": FLAG,
    "incremental": ["yes", True, None, 5],
    "job_id": NAME,
    "file_paths": NAMES,
    "filesystem": [5, {}],
    "join_cols": [5, True, [], [5], [None], b"id", {"id": 1}],
    "keep": [5, True, "x", ["x"], [None]],
    "keys": ["ns.t", None],
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
    "table": ["ns.t", None, TIMED],
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
"""By the name of an argument."""

FUNCTIONS = [
    name
    for name in iceberg.__all__
    if inspect.isfunction(getattr(iceberg, name)) and name not in ("accelerate", "v3_metadata")
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_arguments_are_refused_by_name(racing: RacingCatalog, function: str) -> None:
    table = iceberg_table(racing, TIMED)
    iceberg.collect_ndv(table)
    none = pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())})
    given: dict[str, Any] = {
        "table": table,
        "catalog": racing,
        "name": "n.u",
        "schema": TIMED.schema,
        "data": TIMED,
        "keys": TIMED.slice(0, 1),
        "deletes": none,
        "row_filter": "id = 777",
        "values": {"id": 78},
        "left": (table, "id"),
        "right": (table, "id"),
    }
    call: Callable[..., Any] = getattr(iceberg, function)
    parameters = inspect.signature(call).parameters
    needed = {name: given[name] for name, p in parameters.items() if p.default is p.empty}
    if "join_cols" in parameters:
        needed["join_cols"] = "id"
    with unchanged(table):
        for name in parameters:
            for wrong in WRONG[name]:
                if wrong is None and parameters[name].default is None:
                    continue
                with pytest.raises(InvalidInputError) as caught:
                    call(**{**needed, name: wrong})
                shown = "filter" if name == "row_filter" else name.removesuffix("s")
                assert shown in str(caught.value), (name, wrong)
                if name in ("catalog", "data", "deletes", "keys", "table"):
                    assert str(caught.value).startswith(f"{name}: expected "), wrong
    assert not racing.table_exists("n.u")
