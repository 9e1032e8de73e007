"""Plans of Delta tables: the columns agree with the tasks, and wrong descriptors are refused when files are planned."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import delta, errors
from puffin_fast.delta.scans.plan import DeltaTable, plan_files
from tests.delta.tables import alter

NAMES = "file_path", "size", "n_rows", "vector_path", "offset", "length", "cardinality"


def columns_of(tasks: Any) -> list[dict[str, Any]]:
    rows = []
    for task in tasks:
        vector = task.vector
        where = (
            (None,) * 4
            if vector is None
            else (
                vector.file_path,
                vector.content_offset,
                vector.content_size_in_bytes,
                vector.record_count,
            )
        )
        data = task.data.file_path, task.data.file_size_in_bytes, task.data.record_count
        rows.append(dict(zip(NAMES, (*data, *where), strict=True)))
    return rows


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


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"storageType": "x"}, "storage type: expected u, p or i, found 'x'"),
        ({"storageType": "uu"}, "storage type: expected u, p or i, found 'uu'"),
        ({"storageType": None}, "storage type|descriptor"),
        ({"pathOrInlineDv": None}, "pathOrInlineDv"),
        ({"pathOrInlineDv": "short"}, "Z85|UUID"),
        ({"sizeInBytes": -1}, "sizeInBytes"),
        ({"sizeInBytes": None}, "sizeInBytes"),
        ({"cardinality": -1}, "cardinality"),
        ({"offset": -1}, "offset of a descriptor: expected at least 0, found -1"),
    ],
)
def test_a_wrong_descriptor_is_refused_before_a_task_is_requested(
    wrong: dict[str, Any], match: str, golden: Callable[[str], Path]
) -> None:
    table = golden("hand_prefix")
    alter(table, "add", lambda add: add["deletionVector"].update(wrong), 2)
    with pytest.raises(errors.PuffinFastError, match=match) as caught:
        delta.scan(table).tasks()
    assert str(table) in str(caught.value)
    with pytest.raises(errors.PuffinFastError, match=match):
        delta.vectors(table)


def test_row_counts_that_the_log_lacks_are_in_tasks_and_columns(golden: Callable[[str], Path]) -> None:
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
    import deltalake

    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1, 2, 3]}))
    assert delta.vectors(tmp_path).num_rows == 0
    assert delta.scan(tmp_path).files()["vector_path"].to_pylist() == [None]


@pytest.mark.parametrize("use", ["count", "files", "to_arrow"])
def test_a_scan_is_pickled_after_it_was_used(golden: Callable[[str], Path], use: str) -> None:
    scan = delta.scan(golden("hand_inline"), "id > 5")
    getattr(scan, use)()
    copy = pickle.loads(pickle.dumps(scan))
    assert copy.count() == scan.count() > 0
    assert copy.to_arrow().equals(scan.to_arrow())
    assert copy.files().equals(scan.files())
