"""The columns of a plan are its tasks without metrics, and say which tasks metrics may prove."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from puffin_fast.iceberg import FileTask, plan_files
from puffin_fast.iceberg.manifest import ManifestEntry
from puffin_fast.iceberg.plan.tasks import Tasks
from puffin_fast.rows.filters.filters import RowFilter
from puffin_fast.rows.scan.bins import bins_of_tasks
from puffin_fast.rows.scan.finder import Finder
from puffin_fast.rows.tasks import METRICS, columns_of, distinct_files, named, total
from puffin_fast.spark.table import job
from puffin_fast.spark.table.job import (
    bins_of_files,
    bins_of_numbered,
    bins_of_shares,
    shares_of,
)
from puffin_fast.spark.table.search import bins_to_search
from tests.iceberg.plan.planned import IO, data, equal, positions, table_of, vector
from tests.kit.cases import each

NAMES = ["a", "b c", "d%20", "é", "\U0001f427", "q'\"\\", "\n\t", "x" * 300]
PARTITIONS: dict[int, list[tuple[Any, ...]]] = {
    0: [()],
    1: [(None,), (0,), (7,), (1 << 30,)],
    2: [(None,), (float("nan"),), (0.0,), (-0.0,), (1.5,)],
}
WITHOUT: dict[str, Any] = dict.fromkeys(METRICS)


def data_files(random: Random, n: int) -> list[ManifestEntry]:
    found = []
    for number in range(n):
        spec_id = random.choice([*PARTITIONS])
        low, rows = random.randrange(-5, 5), random.choice([1, 10, 1 << 40])
        high = low + random.randrange(4)
        fields: dict[str, Any] = {
            "record_count": rows,
            "file_size_in_bytes": random.choice([1, 1 << 20, 300 << 20]),
        }
        if random.random() < 0.8:
            counts = {1: rows, 2: rows}
            nulls = random.choice([0, 0, 1, rows])
            fields |= {
                "value_counts": counts,
                "null_value_counts": {1: nulls, 2: nulls},
                "lower_bounds": {1: struct.pack("<q", low), 2: struct.pack("<i", low)},
                "upper_bounds": {1: struct.pack("<q", high), 2: struct.pack("<i", high)},
                "column_sizes": {1: 5},
            }
            for name in ("lower_bounds", "upper_bounds"):
                if random.random() < 0.1:
                    fields[name] = None
        fields["split_offsets"] = random.choice([None, [4], [4, 100 << 20, 200 << 20]])
        fields["key_metadata"] = random.choice([None, None, b"", b"key"])
        fields["sort_order_id"] = random.choice([None, 0, 3])
        fields["partition"] = random.choice(PARTITIONS[spec_id])
        path = f"{number}/{random.choice(NAMES)}.parquet"
        found.append(data(path, random.randrange(1, 9), spec_id=spec_id, **fields))
    return found


def vectors_of(random: Random, files: list[ManifestEntry], share: float) -> list[ManifestEntry]:
    found = []
    for number, file in enumerate(files):
        if random.random() < share:
            fields: dict[str, Any] = {
                "content_offset": number * 50,
                "content_size_in_bytes": random.choice([40, 1 << 20]),
                "record_count": random.choice([1, file.record_count]),
                "spec_id": file.spec_id,
                "partition": file.partition,
            }
            found.append(vector(file.file_path, 9, random.choice(["v.puffin", "é.puffin"]), **fields))
    random.shuffle(found)
    return found


def bare(tasks: Any) -> list[FileTask]:
    return [
        replace(
            task,
            data=replace(task.data, **WITHOUT),
            vector=None if task.vector is None else replace(task.vector, **WITHOUT),
        )
        for task in tasks
    ]


def shown(tasks: Any) -> list[str]:
    """With `repr` of the values, NaN equals NaN, and -0.0 is not 0.0."""
    return [
        repr((task.data, task.vector, [*task.position_deletes], [*task.equality_deletes])) for task in tasks
    ]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_columns_of_a_plan_are_its_tasks(tmp_path: Path, seed: int, share: float) -> None:
    random = Random(f"{seed} {share}")
    files = data_files(random, random.choice([1, 3, 60]))
    table = table_of(tmp_path, *files, *vectors_of(random, files, share))
    expected = bare(plan_files(table, metrics=True).tasks)
    assert len(expected) == len(files)
    for metrics in (False, True):
        plan = plan_files(table, metrics=metrics)
        assert isinstance(plan.tasks, Tasks)
        found = columns_of(plan.tasks)
        assert shown(found) == shown(expected)
        assert not plan.tasks._made
        assert shown(columns_of(expected)) == shown(expected)
        for name in ("record_count", "file_size_in_bytes"):
            counted = {total(some, name) for some in (plan.tasks, found, expected)}
            assert counted == {sum(getattr(file, name) for file in files)}
        assert shown(named(found, [file.file_path for file in files])) == shown(
            named(expected, [file.file_path for file in files])
        )


@pytest.mark.parametrize("deletes", [False, True], ids=["vectors", "delete files"])
def test_bins_of_columns_are_those_of_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes: bool
) -> None:
    monkeypatch.setattr(job, "TASK_BYTES", 20 << 20)
    random = Random(5)
    files = data_files(random, 100)
    others = vectors_of(random, files, 0.5)
    if deletes:
        others += [positions("p", 9, spec_id=1, partition=(7,)), equal("e", 9, spec_id=3, partition=(None,))]
        others += [positions(f"p{n}", 9, (file.file_path,) * 2) for n, file in enumerate(files[:20])]
    tasks = plan_files(table_of(tmp_path, *files, *others)).tasks
    every = bare(tasks)
    assert isinstance(tasks, Tasks) is not deletes
    expected = [shown(some) for some in bins_of_tasks(every, lambda task: (task,), 20 << 20)]
    assert len(expected) > 10
    assert [shown(pickle.loads(pickle.dumps(some))) for some in bins_of_files(tasks)] == expected
    numbered = bins_of_numbered(range(100), tasks)
    assert [shown(task for _, task in some) for some in numbered] == expected
    assert [number for some in numbered for number, _ in some] == [*range(100)]
    by_spec = [task for some in bins_to_search(tasks) for task in some]
    assert shown(by_spec) == shown(sorted(every, key=lambda task: task.data.spec_id))
    shares = [
        share for some in bins_of_shares(shares_of(tasks)) for share in pickle.loads(pickle.dumps(some))
    ]
    of_file: dict[str, list[tuple[int, int]]] = {}
    for task, number, count in shares:
        of_file.setdefault(task.data.file_path, []).append((number, count))
    for file in files:
        groups = len(file.split_offsets or ()) or file.file_size_in_bytes >> 22
        count = max(1, min(groups, -(-file.file_size_in_bytes // (20 << 20))))
        assert of_file[file.file_path] == [(number, count) for number in range(count)]


FILTERS = [
    "id < 2", "id <= 2", "id > 0", "id >= -1", "id = 1", "id in (0, 1, 2)",
    "id != 1", "id not in (1, 2)", "id is null", "id is not null", "id > 0 and k < 3", "id > 3 or k <= 0",
    "not (id > 0 and k < 3)", "x > 1.0", "id > 100", "s = 'a'", "s like 'a%'", "true",
]  # fmt: skip


@each("text", FILTERS)
def test_files_that_metrics_prove_are_among_the_provable(tmp_path: Path, text: str) -> None:
    table = table_of(tmp_path, *data_files(Random(7), 300))
    matcher = RowFilter.bind(text, table.schema())
    finder = Finder(IO, table.metadata, matcher)
    tasks = plan_files(table, metrics=True).tasks
    found = set(finder.provable(tasks))
    proved = {at for at, task in enumerate(tasks) if finder.proves(task)}
    assert proved <= found
    assert found <= {*range(len(tasks))}
    if text in ("id < 2", "id = 1", "id > 0 and k < 3"):
        assert len(proved) > 0
        known = {
            at
            for at, task in enumerate(tasks)
            if task.data.lower_bounds and task.data.upper_bounds and not task.data.null_value_counts[1]
        }
        assert found & known == proved & known
    if text == "x > 1.0":
        assert not found
    assert {*finder.provable(list(tasks))} == {*range(len(tasks))}


def test_the_last_task_of_a_data_file_counts() -> None:
    tasks = columns_of([FileTask(data("a", 1)), FileTask(data("b", 1)), FileTask(data("a", 2))])
    assert [task.data.sequence_number for task in distinct_files(tasks)] == [2, 1]
    assert named(tasks, ["a"])[0].data.sequence_number == 2


def test_no_tasks_have_no_columns(tmp_path: Path) -> None:
    empty = plan_files(
        table_of(tmp_path, data("a", 1, lower_bounds={1: b"\0" * 8}, upper_bounds={1: b"\0" * 8})),
        row_filter="id > 5",
    ).tasks
    assert isinstance(empty, Tasks)
    for none in ([], columns_of([]), empty, columns_of(empty)):
        assert [*columns_of(none)] == []
        assert (bins_of_files(none), bins_of_shares(shares_of(none)), bins_to_search(none)) == ([], [], [])
        assert total(none, "record_count") == 0
        assert named(none, []) == []
        assert [*distinct_files(columns_of(none))] == []
