"""Planning: which deletes apply to which data file, and which files a filter prunes."""

from __future__ import annotations

import datetime
import gc
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable, Table

from puffin_fast._run.gc_pause import paused_gc
from puffin_fast.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.manifest import (
    ADDED,
    ManifestEntry,
    read_manifest,
    write_manifest,
)
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.iceberg.scans.scan import scan
from tests.iceberg.plan.planned import IO, data, equal, positions, table_of, vector


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


def test_two_vectors_for_one_file_are_an_error_that_names_both(tmp_path: Path) -> None:
    table = table_of(
        tmp_path, data("a", 1), vector("a", 2, "one.puffin"), vector("a", 3, "two.puffin", content_offset=77)
    )
    with pytest.raises(CorruptDataError, match=r"^a: .*one\.puffin offset 4 and two\.puffin offset 77"):
        plan_files(table)


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


def test_unknown_snapshots_and_invalid_arguments_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, data("a", 1))
    with pytest.raises(NotFoundError, match="7"):
        plan_files(table, snapshot_id=7)
    with pytest.raises(NotFoundError, match="side"):
        plan_files(table, branch="side")
    with pytest.raises(NotFoundError, match="at or before 5"):
        plan_files(table, as_of=5)
    with pytest.raises(InvalidInputError, match="one of"):
        plan_files(table, snapshot_id=1, branch="main")
    with pytest.raises(InvalidInputError, match="time zone"):
        plan_files(table, as_of=datetime.datetime(2020, 1, 1))
    with pytest.raises(NotFoundError, match="nope"):
        plan_files(table, row_filter="nope = 1")
    with pytest.raises(InvalidInputError):
        plan_files(table, row_filter="id = ")
    table.metadata = table.metadata.model_copy(update={"format_version": 4})
    with pytest.raises(UnsupportedError, match="4"):
        plan_files(table)


def test_a_vector_without_referenced_data_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match="referenced_data_file"):
        plan_files(table_of(tmp_path, data("a", 1), vector("a", 2, referenced_data_file=None)))


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
    rows = pa.table({"id": [1]})
    table = racing.create_table("n.t", rows.schema, properties={"format-version": "1"})
    table.append(rows)
    table.append(rows)
    file = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(file.read_text())
    del document["table-uuid"]
    file.write_text(json.dumps(document))
    old = StaticTable.from_metadata(table.metadata_location)
    assert len(plan_files(old, as_of=old.metadata.snapshot_log[-1].timestamp_ms).tasks) == 2


def test_many_vectors_are_found_without_their_bounds(tmp_path: Path) -> None:
    """Java and DuckDB write vectors without bounds; planning must not compare each data file with each vector."""
    n = 3000
    table = table_of(
        tmp_path,
        *(data(f"d{i}", 1, status=ADDED) for i in range(n)),
        *(vector(f"d{i}", 2, f"v{i}") for i in range(n)),
    )
    assert applied(table) == {f"d{i}": [f"v{i}"] for i in range(n)}


@pytest.mark.parametrize("columns", [1, 9, 30])
def test_entries_are_read_without_metrics_for_any_number_of_columns(tmp_path: Path, columns: int) -> None:
    counts = dict.fromkeys(range(columns), 5)
    bounds = {number: bytes(8) for number in range(columns)}
    entry = ManifestEntry(
        1, None, None, None, 0, "file:///a.parquet", "PARQUET", 0, (), 5, 100,
        column_sizes=counts, value_counts=counts, null_value_counts=counts,
        lower_bounds=bounds, upper_bounds=bounds, split_offsets=[4],
    )  # fmt: skip
    metadata = table_of(tmp_path).metadata
    manifest = write_manifest(
        IO, f"file://{tmp_path}/m.avro", metadata=metadata, spec=metadata.spec(), content=0, snapshot_id=1,
        entries=[entry, replace(entry, file_path="file:///b.parquet")],
    )  # fmt: skip
    whole = read_manifest(IO, manifest)
    assert [found.lower_bounds for found in whole] == [bounds, bounds]
    nothing = dict.fromkeys(
        (
            "column_sizes",
            "value_counts",
            "null_value_counts",
            "nan_value_counts",
            "lower_bounds",
            "upper_bounds",
        )
    )
    assert read_manifest(IO, manifest, metrics=False) == [replace(found, **nothing) for found in whole]


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
