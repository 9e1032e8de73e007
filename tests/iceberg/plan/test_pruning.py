"""Pruning many files at once by their bounds has the same result as evaluating the files one by one."""

from __future__ import annotations

import datetime
import operator
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, Not, Or
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import MonthTransform, Transform, TruncateTransform, YearTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, PrimitiveType

from puffin_fast.errors import NotFoundError
from puffin_fast.iceberg import FileTask, delete, plan_files, scan
from puffin_fast.iceberg.manifest import ManifestEntry
from puffin_fast.iceberg.manifest.columns import FileColumns
from puffin_fast.rows.filters import pruning
from tests.iceberg.plan.planned import data, equal, positions, table_of, vector
from tests.kit.faults import RacingCatalog

N = 80


def metrics(rng: random.Random) -> dict[str, Any]:
    """Random metrics for id, k, x and s: all, some, none, or bounds of a narrower type."""
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field_id, form in ((1, "<q"), (1, "<i"), (2, "<i"), (3, "<d"), (3, "<f")):
        if rng.random() < 0.6:
            low = rng.randrange(-20, 20)
            lower[field_id], upper[field_id] = (struct.pack(form, b) for b in (low, low + rng.randrange(10)))
    if rng.random() < 0.8:
        low_text, high_text = sorted(rng.choice(["", "a", "ab", "b", "ü", "漢", "z"]) for _ in range(2))
        lower[4], upper[4] = low_text.encode(), high_text.encode()
    for bounds in (lower, upper):
        if bounds and rng.random() < 0.1:
            del bounds[rng.choice(list(bounds))]
    has_values = {*lower, *upper}  # a column with a bound has a value that is not null
    nulls = {
        field_id: rng.choice([0, 3, 3 if field_id in has_values else 10])
        for field_id in range(1, 5)
        if rng.random() < 0.7
    }
    return {
        "lower_bounds": rng.choice([lower, lower, lower, None]),
        "upper_bounds": rng.choice([upper, upper, upper, None]),
        "value_counts": rng.choice([dict.fromkeys(range(1, 5), 10), None]),
        "null_value_counts": rng.choice([nulls, None]),
        "column_sizes": {1: 50},
        "split_offsets": rng.choice([[4], [4, 100], None]),
    }


@pytest.fixture
def table(tmp_path: Path) -> Table:
    rng = random.Random(7)
    entries: list[ManifestEntry] = [data(f"d{i}", 3, **metrics(rng)) for i in range(N)]
    entries += [vector(f"d{i}", 4, f"v{i}") for i in range(0, N, 2)]
    entries += [positions(f"p{i}", 4, (f"d{i}", f"d{i}")) for i in range(1, N, 4)]
    entries += [positions(f"r{i}", 4, referenced_data_file=f"d{i}") for i in range(3, N, 8)]
    entries += [positions("all", 5), equal("e", 6)]
    rng.shuffle(entries)
    return table_of(tmp_path, *entries)


TEXTS = [
    "id < 3", "id <= -5", "id > 17", "id >= 4", "id == 7", "id != 7", "id in (1, 15)", "id not in (1, 2)",
    "k < 0", "k == 3", "k in (-19, -18)", "x < 0", "x >= 5", "x is nan", "x is not nan", "k is null",
    "id is not null", "s == 'ab'", "s < 'b'", "s > 'ü'", "s >= 'z'", "s <= ''", "s == ''", "s like 'a%'",
    "s not like 'a%'", "s in ('b', '漢')", "k < 3000000000", "id > 9223372036854775806",
]  # fmt: skip


def outcome(tasks: Sequence[FileTask]) -> list[tuple[Any, ...]]:
    return [
        (
            task.data.file_path,
            task.data.lower_bounds,
            task.data.null_value_counts,
            task.data.split_offsets,
            task.data.first_row_id,
            [entry.file_path for entry in task.deletes],
        )
        for task in tasks
    ]


def filters() -> list[Any]:
    rng = random.Random(11)
    single = [*map(parse, TEXTS), AlwaysTrue(), AlwaysFalse()]
    pairs = [rng.choice([And, Or])(*rng.sample(single, 2)) for _ in range(15)]
    return [*single, *pairs, *map(Not, rng.sample(pairs, 5))]


def test_both_ways_of_pruning_select_the_same_files_and_deletes(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    decide: Callable[..., Any] = pruning.BoundsPruner.decide

    def counted(self: Any, files: FileColumns) -> Any:
        mask, is_decided = decide(self, files)
        seen.append((int(mask.sum()), len(mask)))
        return mask, is_decided

    monkeypatch.setattr(pruning.BoundsPruner, "decide", counted)
    fast = [outcome(plan_files(table, row_filter=filter).tasks) for filter in filters()]
    assert len(seen) > 30
    assert sum(selected for selected, _ in seen) < sum(n for _, n in seen) * 0.95

    def undecided(_: Any, files: FileColumns) -> tuple[Any, Any]:
        return np.ones(len(files), np.bool_), np.zeros(len(files), np.bool_)

    monkeypatch.setattr(pruning.BoundsPruner, "decide", undecided)
    slow = [outcome(plan_files(table, row_filter=filter).tasks) for filter in filters()]
    assert fast == slow
    lengths = {len(found) for found in slow}
    assert min(lengths) == 0
    assert max(lengths) == N
    assert len(lengths) > 10


def test_a_filter_that_prunes_all_files_reads_no_delete_manifest(tmp_path: Path) -> None:
    bounds = {"lower_bounds": {1: struct.pack("<q", 5)}, "upper_bounds": {1: struct.pack("<q", 9)}}
    table = table_of(tmp_path, data("d", 1, **bounds), vector("d", 2))
    (tmp_path / "0-1.avro").unlink()
    assert plan_files(table, row_filter="id > 9").tasks == []
    with pytest.raises(NotFoundError, match=r"0-1\.avro"):
        plan_files(table, row_filter="id > 8")


@pytest.mark.parametrize(
    ("filter", "bounds"),
    [
        ("id = 7", {1: b""}),
        ("id > 7", {1: b"\x00" * 5}),
        ("k in (1, 2)", {2: b"\x00"}),
        ("k <= 0", {2: b"\x01" * 8}),
        ("x >= 0", {3: b"\x00" * 6}),
        ("s = 'ü'", {4: b"\xc3"}),
        ("s like 'ü%'", {4: b"\xff\xfe"}),
    ],
)
def test_bounds_that_are_not_values_of_the_type_prune_no_file(
    tmp_path: Path, filter: str, bounds: dict[int, bytes]
) -> None:
    upper = {field_id: bound + b"\xff" for field_id, bound in bounds.items()}
    table = table_of(tmp_path, data("d", 1, lower_bounds=bounds, upper_bounds=upper))
    assert [task.data.file_path for task in plan_files(table, row_filter=filter).tasks] == ["d"]


@pytest.mark.parametrize(
    "filter",
    ["day < '0001-01-01'", "day > '9999-12-31'", "day <= '0001-01-01'", "day = '9999-12-31'"],
)
@pytest.mark.parametrize("transform", [MonthTransform(), YearTransform()], ids=str)
def test_a_filter_may_compare_with_the_first_and_the_last_date(
    racing: RacingCatalog, filter: str, transform: Transform[Any, Any]
) -> None:
    schema = Schema(NestedField(1, "day", DateType()))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
    table = racing.create_table("n.t", schema, partition_spec=spec, properties={"format-version": "2"})
    days = [datetime.date.min, datetime.date.max]
    table.append(pa.table({"day": days}))
    op, text = filter.split()[1:]
    wanted = datetime.date.fromisoformat(text.strip("'"))
    tests = {"<": operator.lt, ">": operator.gt, "<=": operator.le, "=": operator.eq}
    assert scan(table, filter).to_arrow()["day"].to_pylist() == [d for d in days if tests[op](d, wanted)]


@pytest.mark.parametrize(
    ("type", "bits", "later"),
    [(IntegerType(), 32, None), (LongType(), 64, None), (IntegerType(), 32, LongType())],
)
def test_the_least_integers_are_found_in_the_partition_to_which_they_wrapped(
    racing: RacingCatalog, type: PrimitiveType, bits: int, later: PrimitiveType | None
) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, TruncateTransform(10), "p"))
    schema = Schema(NestedField(1, "n", type))
    table = racing.create_table("n.t", schema, partition_spec=spec, properties={"format-version": "2"})
    numbers = [-(1 << bits - 1), 1 - (1 << bits - 1), -5, 0, (1 << bits - 1) - 1]
    table.append(pa.table({"n": numbers}, schema.as_arrow()))
    assert {task.file.partition[0] for task in table.scan().plan_files()} >= {
        (1 << bits - 1) - numbers[0] % 10
    }
    if later is not None:
        with table.update_schema() as update:
            update.update_column("n", later)
    for filter, rows in {
        f"n = {numbers[0]}": 1,
        "n < 0": 3,
        f"n <= {numbers[1]}": 2,
        f"n in (0, {numbers[1]})": 2,
    }.items():
        assert scan(table, filter).to_arrow().num_rows == rows, filter
    assert delete(table, "n < 0").rows_deleted == 3
