"""Pruning by columns of bounds excludes the same files as pruning file by file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.types import LongType, StringType

from puffin_fast import delta
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from puffin_fast.delta.scans.statistics import UNKNOWN, Statistics
from puffin_fast.rows.filters.filters import RowFilter
from tests.delta.tables import write_lines

STATISTICS: dict[str, dict[str, Any]] = {
    "low": {"minValues": {"i": 0, "t": "a"}, "maxValues": {"i": 9, "t": "c"}, "nullCount": {"i": 0, "t": 0}},
    "high": {
        "minValues": {"i": 90, "t": "x"},
        "maxValues": {"i": 99, "t": "z"},
        "nullCount": {"i": 1, "t": 3},
    },
    "nulls": {"minValues": {"i": 5}, "maxValues": {"i": 5}, "nullCount": {"i": 0, "t": 10}},
    "only nulls": {"minValues": {}, "maxValues": {}, "nullCount": {"i": 10, "t": 10}},
    "only a count": {},
}


def metadata_of(**kinds: str) -> dict[str, Any]:
    """The metadata of a table with some columns, partitioned by ``p``."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"id": "x", "schemaString": schema, "partitionColumns": ["p"], "configuration": {}}


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a table whose files have statistics of all kinds; there are no files."""
    root = tmp_path_factory.mktemp("t")
    adds = []
    for name, stats in STATISTICS.items():
        for part in ("1", "2", None):
            add = {"path": f"{name} {part}".replace(" ", "-"), "size": 5, "modificationTime": 1}
            add |= {"partitionValues": {"p": part}, "dataChange": True}
            adds.append({"add": add | {"stats": json.dumps({"numRecords": 10} | stats)}})
    (root / "_delta_log").mkdir()
    write_lines(root, 0, [PROTOCOL, {"metaData": metadata_of(i="long", t="string", p="integer")}, *adds])
    return root


@pytest.mark.parametrize(
    ("row_filter", "decides"),
    [
        ("i < 5", True),
        ("i <= -1", True),
        ("i > 9 and i < 90", True),
        ("i = 5 or t = 'y'", True),
        ("t >= 'd'", True),
        ("t != 'a' and i > 50", True),
        ("not (i < 50)", True),
        ("i in (-1, 50, 200)", True),
        ("t in ('b', 'y')", True),
        ("t is null", True),
        ("t is not null and i = 5", True),
        ("t like 'y%'", True),
        ("t not like 'y%'", False),
        ("i not in (1, 2)", False),
    ],
)
def test_bounds_of_all_files_leave_out_what_those_of_each_file_do(
    row_filter: str, decides: bool, table: Path
) -> None:
    base = DeltaTable.of(delta.snapshot(table))
    matcher = RowFilter.bind(row_filter, base.schema.schema)
    may_match = _InclusiveMetricsEvaluator(base.schema.schema, matcher.expression).eval
    every = [task.data for task in plan_files(base, metrics=True)]
    expected = [data.file_path for data in every if may_match(data)]  # type: ignore[arg-type]
    found = [task.data.file_path for task in delta.scan(table, row_filter).tasks()]
    assert found == expected
    assert (len(expected) < len(every)) == decides


@pytest.mark.parametrize(
    ("row_filter", "left"),
    [
        ("p = 2", {"low-2", "high-2", "nulls-2", "only-nulls-2", "only-a-count-2"}),
        ("p > 1 and i = 95", {"high-2", "only-a-count-2"}),
        ("p in (1, 7) and t = 'b'", {"low-1", "only-a-count-1"}),
        ("p is null and i < 5", {"low-None", "only-a-count-None"}),
    ],
)
def test_partition_values_leave_out_files(row_filter: str, left: set[str], table: Path) -> None:
    found = {Path(task.data.file_path).name for task in delta.scan(table, row_filter).tasks()}
    assert found == left


@pytest.mark.parametrize("indent", [None, 2])
def test_statistics_may_have_line_feeds_and_may_be_missing_in_any_chunk(indent: int | None) -> None:
    """What writers indent is longer than a block of Arrow's reader, which ends at a line feed."""
    texts: list[str | None] = [
        json.dumps({"minValues": {"i": n}, "maxValues": {"i": n + 5}, "nullCount": {"i": 0}}, indent=indent)
        for n in range(20_000)
    ]
    texts[7], texts[9], texts[19_000] = None, "", "{}"
    stats = pa.chunked_array([texts[:9], [], texts[9:10], texts[10:]], pa.string())
    found = Statistics.of(stats, {1: (("i",), LongType())}, "table")
    expected = [None if n in (7, 9, 19_000) else n for n in range(20_000)]
    assert found.lower[1].to_pylist() == expected
    assert found.upper[1].to_pylist() == [None if n is None else n + 5 for n in expected]
    assert (found.n_rows == UNKNOWN).all()


def test_bounds_of_texts_that_were_cut_off_hold_for_all_characters() -> None:
    texts = ["a\ufffd", "\ufffd", "a\ufffdb", "a", None, "a\x7f", "a\U0010ffff"]
    stats = pa.chunked_array([[json.dumps({"maxValues": {"t": text}}) for text in texts]], pa.string())
    found = Statistics.of(stats, {1: (("t",), StringType())}, "table").upper[1].to_pylist()
    assert found == ["a\U0010ffff", "\U0010ffff", *texts[2:]]


@pytest.mark.parametrize("first", [True, False])
def test_partition_values_are_read_wherever_a_commit_has_its_metadata(first: bool, tmp_path: Path) -> None:
    """Metadata is looked for in the first 64 KiB of a commit, then among its actions."""
    actions: list[dict[str, Any]] = []
    for n in range(600):
        add = {
            "path": f"{n:0200}",
            "size": 5,
            "partitionValues": {"p": str(n % 3)},
            "stats": '{"numRecords":1}',
        }
        actions.append({"add": add})
    actions.insert(0 if first else len(actions), {"metaData": metadata_of(i="integer", p="integer")})
    (tmp_path / "_delta_log").mkdir()
    write_lines(tmp_path, 0, [*actions, PROTOCOL])
    found = [int(Path(task.data.file_path).name) for task in delta.scan(tmp_path, "p = 2").tasks()]
    assert found == list(range(2, 600, 3))
