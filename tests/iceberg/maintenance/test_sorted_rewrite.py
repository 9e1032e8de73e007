"""Rewrites with a sort order: the same rows in order, in bounded memory, also with concurrent deletes."""

from __future__ import annotations

import datetime
import itertools
import math
import operator
import random
import struct
import tempfile
import uuid
from decimal import Decimal
from functools import cmp_to_key, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, UnknownTransform

from puffin_fast import iceberg
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.rows.rewrite import sorted_rows
from puffin_fast.rows.rewrite.row_order import RowOrder
from tests.iceberg.dml.example_rows import START, check, made
from tests.iceberg.maintenance.maintained import ALL, lineage
from tests.kit.faults import RacingCatalog


@pytest.fixture(
    params=[128 << 20, 4000, 1], ids=["one run", "some runs", "a run for each batch"], autouse=True
)
def run_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found: int = request.param
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", found)
    return found


def in_file_order(table: Table) -> list[list[dict[str, Any]]]:
    """The rows of each data file, in the order of the file."""
    found = iceberg.scan(table, selected_fields=("*", "_file", "_pos")).to_arrow()
    rows = sorted(found.to_pylist(), key=lambda row: (row["_file"], row["_pos"]))
    files = {row["_file"]: list[dict[str, Any]]() for row in rows}
    for row in rows:
        files[row["_file"]].append(row)
    return [*files.values()]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_rows_are_sorted_and_do_not_change(
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    spec: tuple[str, ...],
) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    table = made(racing, "n", version=version, spec=spec)
    iceberg.delete(table, "id < 10 or id = 33")
    iceberg.update(table, "id in (20, 50)", {"x": None})
    before = lineage(table)
    done = iceberg.rewrite_data_files(table, **ALL, sort_by=["x desc nulls first", "id"])
    assert done.rows == len(before)
    assert lineage(table) == before
    for rows in in_file_order(table):
        keys = [(row["x"] is not None, -(row["x"] or 0), row["id"]) for row in rows]
        assert keys == sorted(keys)
    left = [{**r, "x": None} if r["id"] in (20, 50) else r for r in START if r["id"] >= 10 and r["id"] != 33]
    check(table, duckdb_iceberg, left)
    assert iceberg.verify(table) == []
    assert not [*scratch.iterdir()]


@pytest.mark.parametrize("version", [2, 3])
def test_concurrent_deletes_follow_the_rows(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, version: int
) -> None:
    table = made(racing, "n", version=version, spec=("g",))
    iceberg.delete(table, "id < 10")
    before, other = lineage(table), racing.load_table("n.t")
    racing.before = [lambda: iceberg.delete(other, "id in (11, 40, 58)")]
    done = iceberg.rewrite_data_files(table, **ALL, sort_by=["id desc"])
    assert (done.deletes_moved, done.commit.attempts) == (3, 2)
    assert lineage(table) == [row for row in before if row["id"] not in (11, 40, 58)]
    check(table, duckdb_iceberg, [r for r in START if r["id"] >= 10 and r["id"] not in (11, 40, 58)])
    assert iceberg.verify(table) == []


def test_files_of_a_partition_do_not_overlap_and_are_marked(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64()), ("k", pa.int64())]))
    numbers = random.Random(1)
    for first in range(0, 4000, 1000):
        ks = [numbers.randrange(500) for _ in range(1000)]
        iceberg.append(table, pa.table({"id": range(first, first + 1000), "k": ks}))
    with iceberg.v3_metadata(racing), table.update_sort_order() as change:
        change.asc("k", IdentityTransform())
    before = lineage(table)
    size = iceberg.plan_files(table).tasks[0].data.file_size_in_bytes
    order = table.sort_order()
    options: dict[str, Any] = {"target_file_size": size, "sort_by": order}
    done = iceberg.rewrite_data_files(table, **options)
    assert done.data_files_written > 2
    assert lineage(table) == before
    assert are_apart(table)
    assert {task.data.sort_order_id for task in iceberg.plan_files(table).tasks} == {order.order_id}
    assert iceberg.rewrite_data_files(table, **options, min_file_size=0).commit.id is None
    iceberg.append(table, pa.table({"id": [4000], "k": [7]}))  # sorted, and marked
    n_files = done.data_files_written + 1
    assert iceberg.rewrite_data_files(table, **options, min_file_size=0).commit.id is None
    assert not are_apart(table)
    assert iceberg.rewrite_data_files(table, **options, min_file_size=1 << 30).data_files == n_files
    assert are_apart(table)
    n_files = len(iceberg.plan_files(table).tasks)
    other = iceberg.rewrite_data_files(table, sort_by=["id"], target_file_size=size, min_file_size=0)
    assert other.data_files == n_files


def are_apart(table: Table) -> bool:
    """Whether the data files do not overlap; equal rows keep their order."""
    parts = sorted([(row["k"], row["id"]) for row in rows] for rows in in_file_order(table))
    rows = reduce(operator.iadd, parts, [])
    return rows == sorted(rows)


def total(value: float) -> int:
    """A number in the total order of IEEE 754."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ (2**63 - 1)


VALUES: list[tuple[pa.DataType, list[Any], Any]] = [
    (pa.float64(), [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, -2.5], total),
    (pa.float32(), [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.5], total),
    (pa.bool_(), [True, False], int),
    (pa.string(), ["", "a", "b", "\u00e4", "z\U0001f600", "a\0"], lambda text: text.encode()),
    (pa.binary(), [b"", b"a", b"\xff", b"a\0"], bytes),
    (pa.binary(3), [b"abc", b"\xff\0\0", b"\0\0\0"], bytes),
    (pa.uuid(), [uuid.UUID(int=at) for at in (0, 1, 1 << 127, 1 << 64)], lambda value: value.bytes),
    (pa.decimal128(20, 2), [Decimal("1.50"), Decimal("-3.25"), Decimal("0.00"), Decimal(10**15)], Decimal),
    (pa.date32(), [datetime.date(1960, 1, 1), datetime.date(2020, 1, 1)], lambda value: value.toordinal()),
    (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(y, 1, 1, tzinfo=datetime.UTC) for y in (1960, 2020)],
        None,
    ),
    (pa.time64("us"), [datetime.time(1), datetime.time(23)], None),
    (pa.int32(), [1, -1, 2**31 - 1, -(2**31)], int),
]


@pytest.mark.parametrize(("kind", "values", "key"), VALUES, ids=[str(kind) for kind, _, _ in VALUES])
def test_the_order_is_that_of_the_specification(
    racing: RacingCatalog, kind: pa.DataType, values: list[Any], key: Any
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", kind)])
    table = iceberg.create_table(racing, "n.t", schema)
    numbers = random.Random(str(kind))
    given = [numbers.choice([*values, None]) for _ in range(60)]
    for first in range(0, 60, 20):
        some = pa.array(given[first : first + 20], kind)
        iceberg.append(table, pa.table([pa.array(range(first, first + 20)), some], schema=schema))
    for text, sign, null in (
        ("v", 1, -1),
        ("v desc", -1, 1),
        ("v asc nulls last", 1, 1),
        ("v DESC NULLS FIRST", -1, -1),
    ):

        def compare(one: int, two: int, sign: int = sign, null: int = null) -> int:
            a, b = given[one], given[two]
            if a is None or b is None:
                return null * ((a is None) - (b is None))
            a, b = (a, b) if key is None else (key(a), key(b))
            return sign * (int(a > b) - int(a < b))

        iceberg.rewrite_data_files(table, sort_by=[text, "id"], min_input_files=2)
        (rows,) = in_file_order(table)
        assert [row["id"] for row in rows] == sorted(range(60), key=cmp_to_key(compare)), text


def test_transforms_and_nested_columns_are_sorted_by(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    schema = table.schema()
    a = schema.find_field("s.a").field_id
    bucket: Any = BucketTransform(4)
    order = SortOrder(
        SortField(a, transform=bucket, direction=SortDirection.DESC, null_order=NullOrder.NULLS_LAST),
        SortField(a, transform=IdentityTransform()),
    )
    iceberg.rewrite_data_files(table, sort_by=order, min_input_files=2)
    (rows,) = in_file_order(table)
    function = bucket.transform(schema.find_type(a))
    keys = [(-1, -1) if row["s"] is None else (function(row["s"]["a"]), row["s"]["a"]) for row in rows]
    assert [key[0] for key in keys] == sorted((key[0] for key in keys), reverse=True)
    assert all(one[1] <= two[1] for one, two in itertools.pairwise(keys) if one[0] == two[0])


def test_a_column_may_be_named_as_an_order_or_as_that_of_runs(racing: RacingCatalog) -> None:
    run = sorted_rows._INDEX
    rows = {"v desc": [3, 1, 2], "a.b": [1, 3, 2], run: [2, 1, 3]}
    table = iceberg.create_table(racing, "n.t", pa.table(rows).schema)
    for name, ids in (("v desc", [1, 2, 3]), ("a.b", [3, 2, 1]), (run, [1, 3, 2])):
        iceberg.overwrite(table, pa.table(rows).slice(0, 1))
        iceberg.append(table, pa.table(rows).slice(1))
        iceberg.rewrite_data_files(table, sort_by=[name], min_input_files=2)
        (found,) = in_file_order(table)
        assert [row["v desc"] for row in found] == ids


@pytest.mark.parametrize(
    ("sort_by", "error", "text"),
    [
        ("id", InvalidInputError, "sort_by: expected a sequence of names"),
        ([], InvalidInputError, "at least one column"),
        (SortOrder(), InvalidInputError, "at least one column"),
        ([3], InvalidInputError, "sort_by"),
        (["nope"], NotFoundError, "no column nope"),
        (["id down"], NotFoundError, "no column id down"),
        (["s"], InvalidInputError, "column s: .* has no order"),
        (["tags"], InvalidInputError, "column tags"),
        (SortOrder(SortField(99, transform=IdentityTransform())), NotFoundError, "field id 99"),
        (
            SortOrder(SortField(1, transform=UnknownTransform("zorder"))),
            UnsupportedError,
            "unknown transform",
        ),
    ],
)
def test_bad_orders_are_refused(
    racing: RacingCatalog, sort_by: Any, error: type[Exception], text: str
) -> None:
    table = made(racing, "n")
    with pytest.raises(error, match=text):
        iceberg.rewrite_data_files(table, sort_by=sort_by, dry_run=True)


def test_the_order_has_the_id_of_the_table(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
    with iceberg.v3_metadata(racing), table.update_sort_order() as change:
        change.desc("id", IdentityTransform())
    assert RowOrder.of(["id"], table.metadata).order_id is None
    assert RowOrder.of(["id desc"], table.metadata).order_id == table.sort_order().order_id
    assert RowOrder.of(["id desc nulls first"], table.metadata).order_id is None


def test_the_order_of_new_rows_is_that_of_the_table(racing: RacingCatalog) -> None:
    """None if it cannot be applied: its column was dropped, another engine knows the transform, or it is in a list."""
    table = made(racing, "n")
    assert RowOrder.of_table(table.metadata) is None
    for source, transform, is_found in (
        (1, IdentityTransform(), True),
        (99, IdentityTransform(), False),
        (1, UnknownTransform("zorder"), False),
        (table.schema().find_field("tags.element").field_id, IdentityTransform(), False),
        (table.schema().find_field("s").field_id, IdentityTransform(), False),
    ):
        order = SortOrder(SortField(source, transform=transform), order_id=7)
        orders = {"sort_orders": [*table.metadata.sort_orders, order], "default_sort_order_id": 7}
        found = RowOrder.of_table(table.metadata.model_copy(update=orders))
        assert (found is not None and found.order_id == 7) == is_found


def test_runs_in_files_hold_no_rows_in_memory(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    runs = [
        sorted_rows._Run.write(tmp_path / str(number), pa.table({"x": pa.array(range(100_000))}))
        for number in range(4)
    ]
    assert pa.total_allocated_bytes() - before < 1000
    assert all(run.rows.num_rows == 0 for run in runs)
