"""Plans of Delta tables: the columns agree with the tasks."""

from __future__ import annotations

import gc
import pickle
import weakref
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from puffin_fast import delta
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from tests.delta.tables import Golden, alter
from tests.kit.tables import delta_table

NAMES = "file_path", "size", "n_rows", "vector_path", "offset", "length", "cardinality"


def columns_of(tasks: Any) -> list[dict[str, Any]]:
    of_data = attrgetter("file_path", "file_size_in_bytes", "record_count")
    of_vector = attrgetter("file_path", "content_offset", "content_size_in_bytes", "record_count")
    rows = [(*of_data(task.data), *(of_vector(task.vector) if task.vector else [None] * 4)) for task in tasks]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def test_the_files_of_each_golden_table_are_those_of_its_tasks(table: Path) -> None:
    scan = delta.scan(table)
    files = scan.files()
    assert files.schema.names == list(NAMES)
    assert files.to_pylist() == columns_of(scan.tasks())
    assert scan.count() == scan.to_arrow().num_rows


def test_the_files_of_a_filter_are_those_of_its_tasks(table: Path) -> None:
    scan = delta.scan(table, "id >= 500 or id is null")
    assert scan.files().to_pylist() == columns_of(scan.tasks())
    nothing = delta.scan(table, "id is null and id is not null")
    assert (nothing.files().num_rows, len(nothing.tasks())) == (0, 0)


def test_a_group_of_tasks_ends_with_the_table(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = columns_of(delta.scan(table).tasks())
    for size in (1, 2, 3):
        monkeypatch.setattr("puffin_fast.delta.scans.tasks._GROUP", size)
        for scan in (delta.scan(table), delta.scan(table, "id is not null")):
            tasks = scan.tasks()
            assert columns_of(tasks) == expected
            assert columns_of([tasks[at] for at in range(len(tasks))][::-1]) == expected[::-1]
            assert [task.row for task in tasks] == list(range(len(expected)))


def test_row_counts_that_the_log_lacks_are_in_tasks_and_columns(golden: Golden) -> None:
    table = golden("hand_prefix")
    expected = columns_of(delta.scan(table).tasks())
    alter(table, "add", lambda add: add.update(stats="{}"), 2)
    for text in ("id >= 0", "id is not null"):
        scan = delta.scan(table, text)
        assert scan.files()["n_rows"].to_pylist() == [row["n_rows"] for row in expected]
        assert columns_of(scan.tasks()) == expected


def test_a_plan_is_freed_without_a_collection(table: Path) -> None:
    gc.collect()
    gc.disable()
    try:
        tasks = plan_files(DeltaTable.of(delta.snapshot(table)))
        reference = weakref.ref(tasks)
        list(tasks)
        del tasks
        assert reference() is None
    finally:
        gc.enable()


def test_vectors_of_a_table_without_vectors_are_no_rows(tmp_path: Path) -> None:
    delta_table(tmp_path, {"id": [1, 2, 3]}, by="deltalake")
    assert delta.vectors(tmp_path).num_rows == 0
    assert delta.scan(tmp_path).files()["vector_path"].to_pylist() == [None]


@pytest.mark.parametrize("use", ["count", "files", "to_arrow"])
def test_a_scan_is_pickled_after_it_was_used(golden: Golden, use: str) -> None:
    scan = delta.scan(golden("hand_inline"), "id > 5")
    getattr(scan, use)()
    copy = pickle.loads(pickle.dumps(scan))
    assert copy.count() == scan.count() > 0
    assert copy.to_arrow().equals(scan.to_arrow())
    assert copy.files().equals(scan.files())
