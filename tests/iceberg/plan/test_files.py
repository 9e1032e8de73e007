"""Planning: which deletes apply to which data file, and which files a filter prunes."""

from __future__ import annotations

import datetime
import gc
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable, Table

from puffin_fast._process.gc_pause import paused_gc
from puffin_fast.errors import InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg import plan_files, scan
from tests.iceberg.plan.planned import data, equal, positions, table_of, vector
from tests.kit.cases import each
from tests.kit.tables import iceberg_table, path_of


def applied(table: Table, **named: Any) -> dict[str, list[str]]:
    return {
        task.data.file_path: [e.file_path for e in task.deletes] for task in plan_files(table, **named).tasks
    }


def test_position_deletes_apply_to_files_that_are_not_newer_and_equality_deletes_to_older_ones(
    tmp_path: Path,
) -> None:
    table = table_of(
        tmp_path,
        *(data(f"d{n}", n) for n in range(1, 5)),
        positions("p2", 2),
        positions("p3", 3),
        equal("e2", 2),
        equal("e3", 3),
    )
    assert applied(table) == {
        "d1": ["p2", "p3", "e2", "e3"],
        "d2": ["p2", "p3", "e3"],
        "d3": ["p3"],
        "d4": [],
    }


def test_a_vector_supersedes_position_deletes_but_not_equality_deletes(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        data("a", 1),
        data("b", 1),
        vector("a", 3),
        positions("p", 4),
        positions("pa", 4, ("a", "a")),
        equal("e", 2),
    )
    assert applied(table) == {"a": ["v.puffin", "e"], "b": ["p", "e"]}
    assert [e.file_path for e in plan_files(table).unused] == ["pa"]


def test_a_vector_older_than_its_data_file_does_not_apply(tmp_path: Path) -> None:
    table = table_of(tmp_path, data("a", 5), data("b", 2), vector("a", 4), vector("b", 2, "w.puffin"))
    assert applied(table) == {"a": [], "b": ["w.puffin"]}


def test_bounds_and_references_limit_the_data_files_of_position_deletes(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        *(data(path, 1) for path in ("a", "b", "c")),
        positions("one", 2, ("b", "b")),
        positions("range", 2, ("a", "b")),
        positions("named", 2, referenced_data_file="c"),
        positions("any", 2),
    )
    assert applied(table) == {"a": ["range", "any"], "b": ["one", "range", "any"], "c": ["named", "any"]}


def test_deletes_apply_within_equal_specs_and_partitions_including_nan(tmp_path: Path) -> None:
    nan = float("nan")
    table = table_of(
        tmp_path,
        data("one", 1, spec_id=1, partition=(1,)),
        data("null", 1, spec_id=1, partition=(None,)),
        data("nan", 1, spec_id=2, partition=(nan,)),
        data("half", 1, spec_id=2, partition=(0.5,)),
        data("plain", 1),
        positions("p-one", 2, spec_id=1, partition=(1,)),
        positions("p-null", 2, spec_id=1, partition=(None,)),
        positions("p-nan", 2, spec_id=2, partition=(nan,)),
        positions("p-plain", 2),
        equal("e-one", 2, spec_id=1, partition=(1,)),
        equal("e-nan", 2, spec_id=2, partition=(nan,)),
    )
    assert applied(table) == {
        "one": ["p-one", "e-one"],
        "null": ["p-null"],
        "nan": ["p-nan", "e-nan"],
        "half": [],
        "plain": ["p-plain"],
    }


@pytest.mark.parametrize(("spec_id", "partition"), [(0, ()), (3, (None,))])
def test_equality_deletes_of_an_unpartitioned_spec_apply_everywhere(
    tmp_path: Path, spec_id: int, partition: tuple[Any, ...]
) -> None:
    table = table_of(
        tmp_path,
        data("one", 1, spec_id=1, partition=(1,)),
        data("plain", 1),
        equal("e", 2, spec_id=spec_id, partition=partition),
        positions("p", 2, spec_id=spec_id, partition=partition),
    )
    assert applied(table) == {"one": ["e"], "plain": ["p", "e"] if spec_id == 0 else ["e"]}


def test_a_filter_prunes_data_files_by_partition_and_metrics_but_deletes_only_by_partition(
    tmp_path: Path,
) -> None:
    def bounds(low: int, high: int) -> dict[str, Any]:
        return {
            "lower_bounds": {1: struct.pack("<q", low)},
            "upper_bounds": {1: struct.pack("<q", high)},
            "value_counts": {1: 10},
            "null_value_counts": {1: 0},
        }

    table = table_of(
        tmp_path,
        *(data(f"d{k}", 1, spec_id=1, partition=(k,), **bounds(k * 10, k * 10 + 9)) for k in range(4)),
        data("plain", 1, **bounds(0, 5)),
        *(vector(f"d{k}", 2, f"v{k}", spec_id=1, partition=(k,), **bounds(500, 500)) for k in range(4)),
    )
    assert applied(table, row_filter="k = 2") == {"d2": ["v2"], "plain": []}
    assert applied(table, row_filter="k = 2 and id < 6") == {"plain": []}
    assert applied(table, row_filter=EqualTo("id", 15)) == {"d1": ["v1"]}
    assert applied(table, row_filter="K = 3", case_sensitive=False) == {"d3": ["v3"], "plain": []}
    assert applied(table, row_filter="false") == {}
    assert plan_files(table, metrics=True).tasks[0].data.lower_bounds == {1: struct.pack("<q", 0)}
    assert plan_files(table).tasks[0].data.lower_bounds is None


@each(
    ("options", "error", "said"),
    [
        ({"snapshot_id": 7}, NotFoundError, "7"),
        ({"branch": "side"}, NotFoundError, "side"),
        ({"as_of": 5}, NotFoundError, "at or before 5"),
        ({"snapshot_id": 1, "branch": "main"}, InvalidInputError, "one of"),
        ({"as_of": datetime.datetime(2020, 1, 1)}, InvalidInputError, "time zone"),
        ({"row_filter": "nope = 1"}, NotFoundError, "nope"),
        ({"row_filter": "id = "}, InvalidInputError, "literal"),
    ],
)
def test_unknown_snapshots_and_invalid_arguments_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        plan_files(table_of(tmp_path, data("a", 1)), **options)


def test_a_table_of_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, data("a", 1))
    table.metadata = table.metadata.model_copy(update={"format_version": 4})
    with pytest.raises(UnsupportedError, match="4"):
        plan_files(table)


@pytest.mark.parametrize("version", [1, 2])
def test_tables_without_snapshots_and_of_old_versions_are_planned(racing: SqlCatalog, version: int) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = racing.create_table("n.t", rows.schema, properties={"format-version": str(version)})
    assert plan_files(table).tasks == []
    table.append(rows)
    table.append(rows)
    tasks = plan_files(table).tasks
    assert [task.data.sequence_number for task in tasks] == ([0, 0] if version == 1 else [2, 1])
    theirs = sorted(task.file.file_path for task in table.scan().plan_files())
    assert sorted(task.data.file_path for task in tasks) == theirs


def test_a_table_of_version_1_may_have_no_uuid(racing: SqlCatalog) -> None:
    table = iceberg_table(racing, [pa.table({"id": [1]})] * 2, version=1, by="pyiceberg")
    file = path_of(table.metadata_location)
    document = json.loads(file.read_text())
    del document["table-uuid"]
    file.write_text(json.dumps(document))
    old = StaticTable.from_metadata(table.metadata_location)
    assert len(plan_files(old, as_of=old.metadata.snapshot_log[-1].timestamp_ms).tasks) == 2


def test_nested_gc_pauses_restore_the_collector_in_any_order() -> None:
    assert gc.isenabled()
    first, second = paused_gc(), paused_gc()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    gc.disable()
    try:
        with pytest.raises(KeyError), paused_gc():
            raise KeyError
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_scan_refuses_an_encrypted_data_file(tmp_path: Path) -> None:
    table = table_of(tmp_path, data("d", 1, key_metadata=b"k"))
    with pytest.raises(UnsupportedError, match="d: PARQUET, encrypted"):
        scan(table).to_arrow()
