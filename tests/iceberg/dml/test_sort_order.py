"""New rows are written in the table's sort order, by whichever verb, and their data files are marked with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)

from puffin_fast import iceberg
from puffin_fast.rows.rewrite import sorted_rows
from tests.iceberg.dml.example_rows import SCHEMA, of, row
from tests.kit.tables import iceberg_table, parts, path_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

XS = [1.5, None, math.nan, -0.0, 0.0, -2.5, math.inf, -math.inf]
ROWS = [{**row(id, f"g{id % 3}"), "x": XS[id * 5 % 8]} for id in range(40)]


def ordered(table: Table, *fields: SortField) -> SortOrder:
    """Gives a table a sort order."""
    with iceberg.v3_metadata(table.catalog), table.update_sort_order() as change:
        for field in fields:
            name = table.schema().find_column_name(field.source_id)
            add = change.asc if field.direction == SortDirection.ASC else change.desc
            add(name, field.transform, field.null_order)
    return table.sort_order()


def of_column(
    table: Table, name: str, transform: Any = None, direction: str = "asc", nulls: str = ""
) -> SortField:
    null_order = {"null_order": NullOrder(f"nulls-{nulls}")} if nulls else {}
    source = table.schema().find_field(name).field_id
    return SortField(
        source, transform=transform or IdentityTransform(), direction=SortDirection(direction), **null_order
    )


def data_files(table: Table) -> list[Any]:
    return [task.data for task in iceberg.plan_files(table).tasks]


def stored(entry: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path_of(entry.file_path)).to_pylist()
    return found


def is_in_order(rows: list[dict[str, Any]]) -> bool:
    """By s.a descending with nulls last, then x ascending with nulls first, from -0.0 to 0.0 and NaN at the end."""

    def key(found: dict[str, Any]) -> tuple[Any, ...]:
        a, x = found["s"] and found["s"]["a"], found["x"]
        of_x = (0,) if x is None else (1, math.isnan(x), x if x == x else 0.0, math.copysign(1.0, x))
        return a is None, -(a or 0), *of_x

    keys = [key(found) for found in rows]
    return keys == sorted(keys)


VERBS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: iceberg.append(table, of(ROWS)),
    "append of a stream": lambda table: iceberg.append(table, of(ROWS).to_reader(max_chunksize=7)),
    "upsert": lambda table: iceberg.upsert(table, of([{**found, "tags": []} for found in ROWS[10:30]]), "id"),
    "overwrite": lambda table: iceberg.overwrite(table, of(ROWS), "id < 20"),
    "dynamic_partition_overwrite": lambda table: iceberg.dynamic_partition_overwrite(table, of(ROWS)),
    "update": lambda table: iceberg.update(table, "id > 5", {"g": "g1"}),
    "transaction": lambda table: in_transaction(table),
    "rewrite_data_files": lambda table: iceberg.rewrite_data_files(table, min_input_files=2),
    "maintain": lambda table: iceberg.maintain(table, iceberg.MaintenancePolicy(min_input_files=2)),
}


def in_transaction(table: Table) -> None:
    with iceberg.transaction(table) as change:
        change.append(of(ROWS))
        change.update("id > 5", {"g": "g1"})


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",), ("bucket[3](id)",)], ids=["flat", "by value", "by bucket"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_writes_rows_in_the_order_of_the_table(
    verb: str,
    spec: tuple[str, ...],
    version: int,
    racing: SqlCatalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if verb.startswith("dynamic") and spec != ("g",):
        pytest.skip("for partitions by value")
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 1000)
    table = iceberg_table(racing, parts(of(ROWS), 2), version=2, partition=spec)
    order = ordered(
        table, of_column(table, "s.a", direction="desc", nulls="last"), of_column(table, "x", nulls="first")
    )
    if version == 3:
        iceberg.upgrade(table)
    before = {entry.file_path for entry in data_files(table)}
    VERBS[verb](table)
    entries = [entry for entry in data_files(table) if entry.file_path not in before]
    assert entries
    for entry in entries:
        assert is_in_order(stored(entry))
        assert entry.sort_order_id == order.order_id
    assert all(entry.sort_order_id == 0 for entry in data_files(table) if entry.file_path in before)
    assert not iceberg.verify(table, level="rows")


INTEGERS = [5, -(2**63), 2**63 - 1, -(2**63) + 1, 0, None, -1, 17, 5]
TRANSFORMS: list[tuple[str, Transform[Any, Any], Callable[[Any], Any]]] = [
    ("n", IdentityTransform(), lambda n: n),
    ("n", TruncateTransform(10), lambda n: n // 10),
    ("n", BucketTransform(4), None),
    ("n", VoidTransform(), lambda n: 0),
    ("text", TruncateTransform(2), lambda text: text[:2]),
    ("amount", TruncateTransform(50), lambda amount: int(amount * 100) // 50),
    ("time", DayTransform(), lambda time: time // 86_400_000_000),
    ("a.b", IdentityTransform(), lambda n: n),
]


@pytest.mark.parametrize(
    ("name", "transform", "function"), TRANSFORMS, ids=[f"{t}({n})" for n, t, _ in TRANSFORMS]
)
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("nulls", ["first", "last"])
def test_every_transform_orders_rows(
    nulls: str, direction: str, name: str, transform: Any, function: Any, racing: SqlCatalog
) -> None:
    """Also those whose truncated value would not fit their type."""
    n = len(INTEGERS)
    rows = pa.table(
        {
            "id": range(n),
            "n": pa.array(INTEGERS, pa.int64()),
            "text": ["b\u00e4c", "b\u00e4a", None, "", "b", "z\U0001f600x", "z\U0001f600a", "a", "b"],
            "amount": pa.array(
                [None, *map(Decimal, ("-99.99", "99.99", "0.49", "-0.01", "0.50", "7", "0", "1"))],
                pa.decimal128(4, 2),
            ),
            "time": pa.array([0, -1, None, 10**15, -(10**15), 86_400_000_000, 1, 2, 3], pa.timestamp("us")),
            "a.b": [*range(n, 1, -1), None],
        }
    )
    table = iceberg.create_table(racing, "n.t", rows.schema)
    order = ordered(
        table, of_column(table, name, transform, direction, nulls), of_column(table, "id", direction="desc")
    )
    iceberg.append(table, rows)
    (entry,) = data_files(table)
    assert entry.sort_order_id == order.order_id
    values = rows[name].cast(pa.int64()).to_pylist() if name == "time" else rows[name].to_pylist()
    kind = table.schema().find_type(table.schema().find_field(name).field_id)
    function = function or transform.transform(kind)
    sign, null = 1 if direction == "asc" else -1, -1 if nulls == "first" else 1

    def compare(one: int, two: int) -> int:
        a, b = values[one], values[two]
        if isinstance(transform, VoidTransform) or (a is None and b is None):
            return two - one
        if a is None or b is None:
            return null * ((a is None) - (b is None))
        a, b = function(a), function(b)
        return sign * ((a > b) - (a < b)) or two - one

    assert [found["id"] for found in stored(entry)] == sorted(range(n), key=cmp_to_key(compare))


def test_rows_keep_their_order_in_a_table_without_one(racing: SqlCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    iceberg.append(table, of(ROWS[::-1]))
    (entry,) = data_files(table)
    assert [found["id"] for found in stored(entry)] == [found["id"] for found in ROWS[::-1]]
    assert entry.sort_order_id == 0
