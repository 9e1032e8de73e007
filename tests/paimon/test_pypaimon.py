"""Paimon tables through pypaimon: accelerated scans, deletes, conversion of vectors.

pypaimon needs an older PyArrow than the other tests: ``make test-paimon`` runs these in an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin_fast import PositionBitmap, arrow, dv, errors, paimon
from puffin_fast.paimon.compat import WorkingTable
from puffin_fast.paimon.snapshot_files import SnapshotFiles
from tests.kit.mounts import may_mount, run_read_only
from tests.paimon.tables import APPEND, append, ids, rewrite, state, write

pytestmark = pytest.mark.pypaimon

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon"
ANSWERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())


def content(table: Path) -> tuple[list[int], list[tuple[str, int]]]:
    """The live rows, and the vectors in the form in which they are stored."""
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": str(table.parents[1])})
    found = paimon.vectors(table)
    versions = zip(found["file_name"].to_pylist(), found["version"].to_pylist(), strict=True)
    return ids(catalog.get_table(f"d.{table.name}")), sorted(versions)


# Scans -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_accelerated_scans_read_the_live_rows(name: str, catalog: Any, accelerated: None) -> None:
    found = ids(catalog.get_table(f"d.{name}"))
    if name == "pk_v2":  # every tenth row deleted, then every 77th written again
        assert found == sorted({i for i in range(300) if i % 10} | set(range(0, 300, 77)))
    else:
        assert found == sorted(set(found))
        gone = sum(len(file["deleted"]) for file in ANSWERS[name]["files"].values())
        assert len(found) == 300 - gone


def test_the_acceleration_ends_with_the_last_undo(catalog: Any) -> None:
    table = catalog.get_table("d.app_v2")
    first, second = paimon.accelerate(), paimon.accelerate()
    first.undo()
    first.undo()
    assert len(ids(table)) == 257
    second()
    with pytest.raises(RuntimeError, match="magic"):
        ids(table)


def test_another_pypaimon_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from pypaimon.deletionvectors.apply_deletion_vector_reader import ApplyDeletionVectorReader

    from puffin_fast.paimon import compat

    monkeypatch.setattr(compat, "KNOWN_VERSIONS", ("1.0",))
    with pytest.raises(errors.UnsupportedError, match=r"expected 1\.0\.x"):
        paimon.accelerate()
    monkeypatch.undo()
    monkeypatch.setattr(ApplyDeletionVectorReader, "read_arrow_batch", lambda self, other: None)
    with pytest.raises(errors.UnsupportedError, match="read_arrow_batch"):
        paimon.accelerate()


@pytest.mark.parametrize("form", ["1", "2"])
def test_batches_of_a_file_are_filtered_by_position(form: str, catalog: Any, accelerated: None) -> None:
    """Batches without a live row, with live rows only, and vectors that end before the file does."""
    rows = pa.table({"id": pa.array(range(10_000), pa.int64())})
    options = {"deletion-vectors.bitmap64": str(form == "2").lower(), "read.batch-size": "1000"}
    table = append(catalog, "d.batches", rows, **options)
    deleted = {*range(1000, 3000), 5, 999, 3000, *range(4000, 5000, 3)}
    (name,) = (file.name for file in WorkingTable(table).files())
    assert paimon.delete_positions(table, {name: sorted(deleted)}).rows_deleted == len(deleted)
    assert ids(table) == [i for i in range(10_000) if i not in deleted]
    predicate = table.new_read_builder().new_predicate_builder().greater_than("id", 4990)
    builder = table.new_read_builder().with_filter(predicate)
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())["id"].to_pylist()
    assert sorted(found) == [i for i in range(4991, 10_000) if i not in deleted]
    assert set(paimon.vectors(table.table_path)["version"].to_pylist()) == {int(form)}


# Deletes -----------------------------------------------------------------------------------------------------


def test_columns_that_were_renamed_are_found(catalog: Any, accelerated: None) -> None:
    """Also if another one has the old name now."""
    from pypaimon.schema.data_types import AtomicType
    from pypaimon.schema.schema_change import SchemaChange

    append(
        catalog,
        "d.renamed",
        pa.table({"id": pa.array(range(60), pa.int64()), "n": pa.array(range(60), pa.int64())}),
    )
    catalog.alter_table("d.renamed", [SchemaChange.rename_column("n", "m")], False)
    catalog.alter_table("d.renamed", [SchemaChange.add_column("n", AtomicType("BIGINT"))], False)
    table = catalog.get_table("d.renamed")
    assert paimon.delete(table, "m = 50").rows_deleted == 1
    assert paimon.delete(table, "n = 3").rows_deleted == 0
    assert paimon.delete(table, "n IS NULL AND m < 5").rows_deleted == 5
    write(
        table,
        pa.table(
            {
                "id": pa.array([60], pa.int64()),
                "m": pa.array([7], pa.int64()),
                "n": pa.array([999], pa.int64()),
            }
        ),
    )
    assert paimon.delete(table, "n = 999").rows_deleted == 1
    assert ids(table) == [number for number in range(5, 60) if number != 50]


def test_a_partition_that_is_not_a_number_is_refused_and_nothing_changes(
    catalog: Any, warehouse: Path
) -> None:
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "p": [1.0, float("nan")] * 2})
    table = append(catalog, "d.nan", rows, partition_keys=["p"])
    before = state(warehouse)
    with pytest.raises(errors.UnsupportedError, match=r"partition \(nan,\)"):
        paimon.delete(table, "id = 1")
    assert state(warehouse) == before


@pytest.mark.parametrize("name", APPEND)
def test_a_delete_takes_its_rows_and_no_others(name: str, catalog: Any, accelerated: None) -> None:
    table = catalog.get_table(f"d.{name}")
    before, old = ids(table), paimon.vectors(table.table_path)
    counted = paimon.delete(table, "id < 50 AND id >= 10", dry_run=True)
    assert paimon.vectors(table.table_path) == old
    done = paimon.delete(table, "id < 50 AND id >= 10")
    kept = [i for i in before if not 10 <= i < 50]
    assert ids(table) == kept
    assert done.rows_deleted == counted.rows_deleted == len(before) - len(kept) > 0
    assert done.commit.id == table.snapshot_manager().get_latest_snapshot().id
    new = paimon.vectors(table.table_path)
    assert sum(new["cardinality"].to_pylist()) - sum(old["cardinality"].to_pylist()) == done.rows_deleted
    again = paimon.delete(table, "id < 50 AND id >= 10")
    assert (again.commit.id, again.rows_deleted) == (None, 0)
    builder = table.new_read_builder().new_predicate_builder()
    last = paimon.delete(table.table_path, builder.is_in("id", [1, 2, 3, 299]))
    assert ids(table) == [i for i in kept if i not in (1, 2, 3, 299)]
    assert last.vectors_written == last.data_files


def test_pypaimon_reads_what_was_deleted_through_version_1(catalog: Any) -> None:
    table = catalog.get_table("d.app_v1_part")
    before = ids(table)
    paimon.delete(table, "part = 1 AND id < 100")
    assert ids(table) == [i for i in before if not (i % 3 == 1 and i < 100)]


def test_vectors_that_stay_are_carried_over(catalog: Any, accelerated: None) -> None:
    table = catalog.get_table("d.app_v2")
    old = {row["file_name"]: row["blob"] for row in paimon.vectors(table.table_path).to_pylist()}
    name = sorted(old)[0]
    positions = set(arrow.decode(pa.array([old[name]], pa.large_binary())).to_pylist()[0])
    free = next(i for i in range(50) if i not in positions)
    assert paimon.delete_positions(table, {f"/any/folder/{name}": [free, free]}).rows_deleted == 1
    new = {row["file_name"]: row["blob"] for row in paimon.vectors(table.table_path).to_pylist()}
    assert set(new) == set(old)
    assert {file for file in old if new[file] != old[file]} == {name}


def test_a_table_without_vectors_and_a_whole_file_work(catalog: Any, accelerated: None) -> None:
    table = append(catalog, "d.fresh", pa.table({"id": pa.array(range(100), pa.int64())}))
    assert paimon.delete(table, "id >= 0").rows_deleted == 100
    assert ids(table) == []
    empty = append(catalog, "d.none", pa.table({"id": pa.array([], pa.int64())}))
    assert paimon.delete(empty, "id >= 0").commit.id is None


VALUES = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "n": pa.array([None, 1, 2, 3, None, 5, 6, 7, 8, 9, 10, None], pa.int32()),
        "t": ["ab", None, "abc", "b%", "xab", "", None, "ABC", "a_c", "zz", "ab\n", "b"],
        "d": [None if i % 4 == 0 else Decimal(i) / 4 for i in range(12)],
        "day": [None if i == 3 else date(2024, 1, 1 + i) for i in range(12)],
    },
    schema=pa.schema(
        [
            ("id", pa.int64()),
            ("n", pa.int32()),
            ("t", pa.string()),
            ("d", pa.decimal128(10, 2)),
            ("day", pa.date32()),
        ]
    ),
)
Row = dict[str, Any]


@pytest.mark.parametrize(
    ("make", "matches"),
    [
        (lambda b: b.equal("n", 5), lambda r: r["n"] == 5),
        (lambda b: b.not_equal("n", 5), lambda r: r["n"] not in (None, 5)),
        (lambda b: b.is_in("n", [1, None, 9]), lambda r: r["n"] in (1, 9)),
        (lambda b: b.is_not_in("n", [1, 9]), lambda r: r["n"] not in (None, 1, 9)),
        (lambda b: b.is_not_in("n", [1, None]), lambda r: False),
        (lambda b: b.equal("n", None), lambda r: False),
        (lambda b: b.is_null("n"), lambda r: r["n"] is None),
        (lambda b: b.is_not_null("t"), lambda r: r["t"] is not None),
        (lambda b: b.between("n", 2, 6), lambda r: r["n"] is not None and 2 <= r["n"] <= 6),
        (lambda b: b.not_between("n", 2, 6), lambda r: r["n"] is not None and not 2 <= r["n"] <= 6),
        (lambda b: b.startswith("t", "ab"), lambda r: (r["t"] or "").startswith("ab")),
        (lambda b: b.endswith("t", "c"), lambda r: (r["t"] or "").endswith("c")),
        (lambda b: b.contains("t", "%"), lambda r: "%" in (r["t"] or "")),
        (lambda b: b.like("t", "a_c"), lambda r: r["t"] in ("abc", "a_c")),
        (lambda b: b.less_than("d", Decimal("1.50")), lambda r: r["d"] is not None and r["d"] < 1.5),
        (lambda b: b.greater_or_equal("day", date(2024, 1, 8)), lambda r: r["id"] >= 7),
        (
            lambda b: b.or_predicates(
                [b.equal("id", 0), b.and_predicates([b.is_null("t"), b.less_than("n", 3)])]
            ),
            lambda r: r["id"] in (0, 1),
        ),
    ],
)
def test_predicates_mean_what_sql_says(
    make: Callable[[Any], Any], matches: Callable[[Row], bool], catalog: Any, accelerated: None
) -> None:
    table = append(catalog, "d.values", VALUES)
    predicate = make(table.new_read_builder().new_predicate_builder())
    done = paimon.delete(table, predicate)
    expected = [row["id"] for row in VALUES.to_pylist() if not matches(row)]
    assert ids(table) == expected
    assert done.rows_deleted == VALUES.num_rows - len(expected)


NAN = float("nan")
FLOATS = [None, NAN, -0.0, 0.0, 1.5, 5.0]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(
    ("make", "matches"),
    [
        (lambda b: b.is_in("x", [0.0]), lambda x: x == 0),
        (lambda b: b.is_in("x", [-0.0, 5.0]), lambda x: x in (0.0, 5.0)),
        (lambda b: b.is_in("x", [NAN, 1.5]), lambda x: x == 1.5),
        (lambda b: b.is_not_in("x", [0.0]), lambda x: x != 0),
        (lambda b: b.is_not_in("x", [-0.0, NAN]), lambda x: x != 0),
        (lambda b: b.equal("x", -0.0), lambda x: x == 0),
        (lambda b: b.not_equal("x", 5.0), lambda x: x != 5),
        (lambda b: b.between("x", -1.0, 0.0), lambda x: x == 0),
        (lambda b: b.not_between("x", 0.0, 5.0), lambda x: x != x),
        (lambda b: b.greater_than("x", -0.0), lambda x: x > 0),
        (lambda b: b.and_predicates([b.not_equal("x", 5.0), b.is_not_in("x", [0.0])]), lambda x: x not in (0, 5)),
    ],
)  # fmt: skip
def test_floats_are_compared_as_in_filters_of_iceberg(
    make: Callable[[Any], Any], matches: Callable[[float], bool], partitioned: bool, catalog: Any
) -> None:
    """Each value in a file of its own, so that bounds could exclude it."""
    values = [None, -0.0, 1.5, 5.0] if partitioned else FLOATS  # pypaimon takes two zeros for one partition
    kinds = {"id": pa.int64(), "x": pa.float64()}
    rows = [pa.table({"id": [at], "x": [value]}, pa.schema(kinds)) for at, value in enumerate(values)]
    table = append(catalog, "d.floats", rows[0], partition_keys=["x"] if partitioned else [])
    for one in rows[1:]:
        write(table, one)
    if not partitioned:
        write(table, pa.table({"id": [6, 7], "x": [5.0, NAN]}, pa.schema(kinds)))
        values = [*values, 5.0, NAN]
    paimon.delete(table, make(table.new_read_builder().new_predicate_builder()))
    expected = [at for at, value in enumerate(values) if value is None or not matches(value)]
    with paimon.accelerate():
        assert ids(table) == expected


@pytest.mark.parametrize("form", ["parquet", "avro", "orc"])
def test_filters_by_columns_that_no_file_has_are_evaluated(
    form: str, catalog: Any, accelerated: None
) -> None:
    from pypaimon.schema.data_types import AtomicType
    from pypaimon.schema.schema_change import SchemaChange

    rows = pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a", "b"] * 3})
    append(catalog, "d.parts", rows, partition_keys=["p"], **{"file.format": form})
    catalog.alter_table("d.parts", [SchemaChange.add_column("late", AtomicType("BIGINT"))], False)
    table = catalog.get_table("d.parts")
    builder = table.new_read_builder().new_predicate_builder()
    assert paimon.delete(table, builder.equal("late", 1)).rows_deleted == 0
    either = builder.or_predicates([builder.equal("p", "a"), builder.is_not_null("late")])
    assert paimon.delete(table, either).rows_deleted == 3
    assert ids(table) == [1, 3, 5]
    assert paimon.delete(table, builder.is_null("late")).rows_deleted == 3


def test_vectors_are_those_of_a_path_or_of_a_table(catalog: Any, warehouse: Path) -> None:
    for name in APPEND:
        table = catalog.get_table(f"d.{name}")
        assert paimon.vectors(table) == paimon.vectors(warehouse / "d.db" / name)
        oldest = min(
            int(file.name.rpartition("-")[2]) for file in (warehouse / "d.db" / name / "snapshot").glob("s*")
        )
        assert paimon.vectors(table, snapshot_id=oldest).num_rows <= paimon.vectors(table).num_rows
    with pytest.raises(errors.InvalidInputError, match="expected the path of a table or a table of pypaimon"):
        paimon.vectors(catalog)


JOBS_ON_TABLES: tuple[Callable[[Any], object], ...] = (
    lambda table: paimon.delete(table, "id = 1"),
    lambda table: paimon.delete_positions(table, {}),
    paimon.convert_vectors,
)


def test_a_table_at_an_older_state_has_its_vectors_and_is_not_written(
    catalog: Any, warehouse: Path, accelerated: None
) -> None:
    table = catalog.get_table("d.app_v2")
    snapshots = {n: table.snapshot_manager().get_snapshot_by_id(n) for n in (2, 3, 4)}
    expected = {n: paimon.vectors(warehouse / "d.db" / "app_v2", snapshot_id=n) for n in snapshots}
    assert [one.num_rows for one in expected.values()] == [0, 2, 2]
    assert expected[3] != expected[4]
    table.tag_manager().create_tag(snapshots[3], "three")
    time = str(snapshots[2].time_millis)
    states = [
        (table.copy(options), number)
        for options, number in [
            ({"scan.tag-name": "three"}, 3),
            ({"scan.version": "three"}, 3),
            ({"scan.version": "3"}, 3),
            ({"scan.snapshot-id": "2"}, 2),
            ({"scan.timestamp-millis": time}, 2),
            ({"scan.snapshot-id": "4"}, 4),
        ]
    ]
    (warehouse / "d.db" / "app_v2" / "snapshot" / "snapshot-3").rename(
        warehouse / "aside"
    )  # the tag keeps it
    states += [(table.copy({"scan.tag-name": "three"}), 3), (table._copy_with_snapshot(snapshots[3]), 3)]
    (warehouse / "aside").rename(warehouse / "d.db" / "app_v2" / "snapshot" / "snapshot-3")
    for opened, number in states:
        before = state(warehouse)
        assert paimon.vectors(opened) == expected[number], opened.options.options
        assert paimon.vectors(opened, snapshot_id=4) == expected[4]
        assert not paimon.verify(opened)
        live = {row["file_name"]: row["cardinality"] for row in expected[number].to_pylist()}
        assert len(ids(opened)) == 300 - sum(live.values())
        for job in JOBS_ON_TABLES:
            with pytest.raises(errors.UnsupportedError, match=r"older state \(scan\..* open it without"):
                job(opened)
        assert state(warehouse) == before


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"scan.tag-name": "none"}, errors.NotFoundError, "'none' doesn't exist"),
        ({"scan.snapshot-id": "9"}, errors.NotFoundError, "'9' doesn't exist"),
        ({"scan.timestamp-millis": "5"}, errors.NotFoundError, "earlier than or equal to 5"),
        ({"scan.version": "none"}, errors.NotFoundError, "version for none"),
        ({"scan.timestamp": "noon"}, errors.InvalidInputError, "noon"),
        ({"scan.tag-name": "a", "scan.snapshot-id": "2"}, errors.InvalidInputError, "Only one"),
        ({"incremental-between-timestamp": "1,2"}, errors.UnsupportedError, "no single snapshot"),
        ({"scan.file-creation-time-millis": "1"}, errors.UnsupportedError, "no single snapshot"),
    ],
)
def test_scan_options_without_a_snapshot_are_refused(
    options: dict[str, str], error: type[Exception], named: str, catalog: Any
) -> None:
    table = catalog.get_table("d.app_v2").copy(options)
    for job in JOBS_ON_TABLES:
        with pytest.raises(errors.UnsupportedError, match="older state"):
            job(table)
    for job in (paimon.vectors, paimon.verify):
        with pytest.raises(error, match=f"opened with {min(options)}.*{named}"):
            job(table)


@pytest.mark.parametrize("how", ["name", "option"])
def test_a_branch_is_read_and_written_and_no_other(how: str, catalog: Any, accelerated: None) -> None:
    table = catalog.get_table("d.app_v2")
    before = paimon.vectors(table)
    table.tag_manager().create_tag(table.snapshot_manager().get_snapshot_by_id(3), "three")
    table.branch_manager().create_branch("b", "three")
    branch = catalog.get_table("d.app_v2$branch_b") if how == "name" else table.copy({"branch": "b"})
    assert paimon.vectors(branch) == paimon.vectors(table, snapshot_id=3)
    live = ids(branch)
    assert paimon.delete(branch, "id = 11 OR id = 12").rows_deleted == 2
    assert ids(branch) == [i for i in live if i not in (11, 12)]
    assert not paimon.verify(branch)
    assert paimon.vectors(table) == before


# Conversion --------------------------------------------------------------------------------------------------


def test_conversion_leaves_the_rows_and_one_version(catalog: Any, accelerated: None) -> None:
    table = catalog.get_table("d.app_mix")
    before, old = ids(table), paimon.vectors(table.table_path)
    assert sorted(old["version"].to_pylist()) == [1, 2]
    dry = paimon.convert_vectors(table, dry_run=True)
    assert (dry.vectors_written, dry.commit.id) == (1, None)
    assert paimon.vectors(table.table_path) == old
    done = paimon.convert_vectors(table)
    assert (done.vectors_written, done.rows_deleted) == (1, 0)
    new = paimon.vectors(table.table_path)
    assert new["version"].to_pylist() == [2, 2]
    assert ids(table) == before
    assert paimon.convert_vectors(table).commit.id is None
    with pytest.raises(errors.UnsupportedError, match="bitmap64"):
        paimon.convert_vectors(table, version=1)
    with pytest.raises(errors.InvalidInputError, match="1 or 2"):
        paimon.convert_vectors(table, version=3)


# What is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "predicate", "error", "named"),
    [
        ("pk_v2", "id = 1", errors.UnsupportedError, "compaction"),
        ("app_v2", "nothing = 1", errors.PuffinFastError, "nothing"),
        ("app_v2", "id =", errors.InvalidInputError, "id ="),
        ("app_v2", "", errors.InvalidInputError, "empty"),
        ("app_v2", 5, errors.InvalidInputError, "row_filter"),
        ("app_v9", "id = 1", errors.NotFoundError, "app_v9"),
    ],
)
def test_refusals_name_their_reason_and_leave_the_table(
    name: str, predicate: Any, error: type[Exception], named: str, warehouse: Path, accelerated: None
) -> None:
    before = state(warehouse)
    with pytest.raises(error, match=named):
        paimon.delete(warehouse / "d.db" / name, predicate)
    assert state(warehouse) == before


def test_tables_and_positions_that_cannot_be_are_refused(catalog: Any, warehouse: Path) -> None:
    table = catalog.get_table("d.app_v2")
    plain = append(catalog, "d.plain", pa.table({"id": [1, 2]}), **{"deletion-vectors.enabled": "false"})
    before = state(warehouse)
    (name, *_) = paimon.vectors(table.table_path)["file_name"].to_pylist()
    with pytest.raises(errors.UnsupportedError, match="not enabled"):
        paimon.delete(plain, "id = 1")
    with pytest.raises(errors.InvalidInputError, match=r"positions below 150 .* found 100000"):
        paimon.delete_positions(table, {name: [100_000]})
    with pytest.raises(errors.NotFoundError, match="data-none"):
        paimon.delete_positions(table, {"data-none": [1]})
    with pytest.raises(errors.InvalidInputError, match="expected a table"):
        paimon.delete(5, "id = 1")
    assert state(warehouse) == before


@pytest.mark.parametrize("name", APPEND)
def test_positions_beyond_a_file_are_refused_and_nothing_changes(
    name: str, warehouse: Path, accelerated: None
) -> None:
    folder = warehouse / "d.db" / name
    versions = {row["index_file"]: row["version"] for row in paimon.vectors(folder).to_pylist()}
    positions = PositionBitmap.from_positions([1, 5000])
    records = {file: dv.paimon.encode(positions, version=version) for file, version in versions.items()}
    for file, record in records.items():
        (folder / "index" / file).write_bytes(b"\1" + record)

    def edit(entry: dict[str, Any]) -> None:
        length = len(records[entry["_FILE_NAME"]])
        for one in entry["_DELETIONS_VECTORS_RANGES"]:
            one.update(f1=1, f2=length, _CARDINALITY=2)

    rewrite(folder, edit)
    before = state(warehouse)
    with pytest.raises(errors.CorruptDataError, match=r"positions below .* found 5000") as caught:
        paimon.delete(folder, "id >= 0")
    assert "index-" in str(caught.value.path)
    assert state(warehouse) == before


def test_a_delete_is_an_overwrite_that_counts_physical_rows(catalog: Any, accelerated: None) -> None:
    table = catalog.get_table("d.app_v2")
    old = table.snapshot_manager().get_latest_snapshot()
    paimon.delete(table, "id < 50")
    new = table.snapshot_manager().get_latest_snapshot()
    assert (new.commit_kind, new.total_record_count) == ("OVERWRITE", old.total_record_count)


def test_another_commit_on_the_same_vectors_is_a_conflict(
    catalog: Any, warehouse: Path, monkeypatch: pytest.MonkeyPatch, accelerated: None
) -> None:
    table = catalog.get_table("d.app_v2")
    before, commit, others = ids(table), WorkingTable.commit, iter(["id = 11"])

    def late(self: WorkingTable, added: Any, removed: Any) -> int:
        if (other := next(others, None)) is not None:
            paimon.delete(table.table_path, other)
        return commit(self, added, removed)

    monkeypatch.setattr(WorkingTable, "commit", late)
    files = set((warehouse / "d.db" / "app_v2" / "index").iterdir())
    with pytest.raises(errors.ConflictError, match="outdated"):
        paimon.delete(table, "id = 12")
    assert ids(table) == [i for i in before if i != 11]
    assert len(set((warehouse / "d.db" / "app_v2" / "index").iterdir()) - files) == 1
    assert paimon.delete(table, "id = 12").rows_deleted == 1


def test_first_vectors_of_a_file_conflict_too(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, accelerated: None
) -> None:
    table = append(catalog, "d.fresh", pa.table({"id": pa.array(range(100), pa.int64())}))
    commit, others = WorkingTable.commit, iter(["id = 11"])

    def late(self: WorkingTable, added: Any, removed: Any) -> int:
        if (other := next(others, None)) is not None:
            paimon.delete(table, other)
        return commit(self, added, removed)

    monkeypatch.setattr(WorkingTable, "commit", late)
    with pytest.raises(errors.ConflictError):
        paimon.delete(table, "id = 12")
    assert ids(table) == [i for i in range(100) if i != 11]


def test_racing_deletes_lose_nothing(catalog: Any, warehouse: Path, accelerated: None) -> None:
    table = append(catalog, "d.race", pa.table({"id": pa.array(range(100), pa.int64())}))
    path = warehouse / "d.db" / "race"

    def one(number: int) -> int:
        for _ in range(50):
            try:
                return paimon.delete(path, f"id = {number}").rows_deleted
            except errors.ConflictError:
                continue
        raise AssertionError("never committed")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(0, 100, 10))) == [1] * 10
    assert ids(table) == [i for i in range(100) if i % 10]


READ_ONLY = """
import sys
from puffin_fast import errors, paimon
from tests.paimon.test_pypaimon import JOBS
from pathlib import Path
table = Path(sys.argv[1])
print(paimon.vectors(table).num_rows)
for name, job in JOBS.items():
    try:
        job(table)
    except errors.InvalidInputError as error:
        print(name, "Read-only" in str(error) and str(table) in str(error))
"""


@pytest.mark.skipif(not may_mount(), reason="needs unshare and user namespaces to mount a folder read-only")
@pytest.mark.parametrize("folder", ["", "manifest", "snapshot"])
def test_a_table_on_read_only_storage_is_read_and_writes_are_refused(folder: str, warehouse: Path) -> None:
    """pypaimon keeps the manifests of a snapshot that was refused, as it does after each failure."""
    table = warehouse / "d.db" / "app_mix"
    before = state(warehouse)
    found = run_read_only(table / folder, READ_ONLY, table)
    assert found == ["2", *(f"{name} True" for name in JOBS)]
    after = state(warehouse)
    assert {path: data for path, data in after.items() if path in before} == before
    new = {path.parent.name for path in after.keys() - before.keys()}
    assert new == ({"manifest"} if folder == "snapshot" else set())


def _before(call: Callable[..., Any], other: Callable[[], object]) -> Callable[..., Any]:
    """A call before which something else happens once, if it gives a snapshot its name."""
    others = iter([other])

    def late(*args: Any) -> Any:
        if Path(args[-1]).name.startswith("snapshot-") and (first := next(others, None)) is not None:
            first()
        return call(*args)

    return late


def test_a_snapshot_of_another_process_is_not_renamed_over(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, accelerated: None
) -> None:
    """pypaimon looks for the snapshot and renames under a lock that other processes do not see."""
    from pypaimon.filesystem.local_file_io import LocalFileIO

    table = append(catalog, "d.race", pa.table({"id": pa.array(range(100), pa.int64())}))
    monkeypatch.setattr(LocalFileIO, "RENAME_LOCK", threading.RLock())
    done: list[int | None] = []

    def other() -> None:
        done.append(paimon.delete(table, "id = 11").commit.id)

    monkeypatch.setattr(Path, "rename", _before(Path.rename, other))
    monkeypatch.setattr(os, "link", _before(os.link, other))
    with pytest.raises(errors.ConflictError, match="outdated"):
        paimon.delete(table, "id = 12")
    assert done == [2]
    assert ids(table) == [i for i in range(100) if i != 11]
    assert paimon.delete(table, "id = 12").commit.id == 3


@pytest.mark.parametrize("renamed", [True, False])
def test_a_snapshot_that_others_rename_over_is_not_ours(renamed: bool, tmp_path: Path) -> None:
    """Java and pypaimon write a temporary file, look, and rename."""
    from pypaimon.common.file_io import create_temp_path
    from pypaimon.common.options import Options
    from pypaimon.filesystem.local_file_io import LocalFileIO

    path = tmp_path / "snapshot-7"
    temporary = Path(create_temp_path(str(path)))
    temporary.write_text("theirs")

    def end() -> None:
        while not path.exists():
            time.sleep(0.001)
        temporary.rename(path) if renamed else temporary.unlink()

    files = SnapshotFiles(LocalFileIO(str(tmp_path), Options({})))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(end)
        assert files.try_to_write_atomic(str(path), "ours") is not renamed
        ended.result()
    assert path.read_text() == ("theirs" if renamed else "ours")
    assert files.written == (None if renamed else 7)
    assert not files.try_to_write_atomic(str(path), "again")


KILLED = """
import sys
from pathlib import Path
from puffin_fast import paimon
from puffin_fast.paimon.compat import WorkingTable
from tests.kit.faults import kill_at_each_step
from tests.paimon.test_pypaimon import JOBS

WorkingTable, paimon.delete  # imported before the first fork
warehouse, copies, job, name = sys.argv[1:]
kill_at_each_step(Path(warehouse), Path(copies), lambda copy: JOBS[job](copy / "d.db" / name))
"""
JOBS: dict[str, Callable[[Path], object]] = {
    "delete": lambda table: paimon.delete(table, "id < 50 AND id >= 10"),
    "delete_positions": lambda table: paimon.delete_positions(
        table, {name: [1, 2] for name in paimon.vectors(table)["file_name"].to_pylist()}
    ),
    "convert_vectors": paimon.convert_vectors,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("delete", "app_v1_part"),
        ("delete_positions", "app_mix"),
        ("convert_vectors", "app_mix"),
    ],
)
def test_a_killed_job_is_whole_or_not_there(
    job: str, name: str, warehouse: Path, tmp_path: Path, accelerated: None
) -> None:
    command = [sys.executable, "-c", KILLED, str(warehouse), str(tmp_path / "copies"), job, name]
    root = Path(__file__).parents[2]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(root)}, check=True, timeout=900)
    tables = [
        tmp_path / "copies" / str(step + 1) / warehouse.name / "d.db" / name
        for step in range(len(list((tmp_path / "copies").iterdir())))
    ]
    assert len(tables) >= 6  # index file, index manifest, manifests, snapshot
    before, after = content(warehouse / "d.db" / name), content(tables[-1])
    assert before != after
    happened = [content(table) == after for table in tables]
    assert happened == sorted(happened)
    assert all(content(table) in (before, after) for table in tables)
    for table in (tables[0], tables[happened.index(True) - 1]):
        JOBS[job](table)
        assert content(table) == after


def test_the_command_line_takes_a_path(warehouse: Path, accelerated: None) -> None:
    from click.testing import CliRunner

    from puffin_fast.cli import main

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)

    table = warehouse / "d.db" / "app_mix"
    done = run("delete", table, "--row-filter", "id < 20", "--output", "json")
    assert json.loads(done.stdout)[0]["rows_deleted"] == 18
    assert run("delete", table, "--row-filter", "id < 20", "--branch", "b").exit_code == 1
    assert "--job-id" in run("delete", table, "--row-filter", "id < 20", "--job-id", "b").stderr
    assert "compaction" in run("delete", warehouse / "d.db" / "pk_v2", "--row-filter", "id < 20").stderr
    converted = run("convert", table, "--to", "paimon-v2", "--output", "json")
    assert json.loads(converted.stdout)[0]["to"] == "paimon-v2"
    assert set(paimon.vectors(table)["version"].to_pylist()) == {2}
    assert "paimon-v1" in run("convert", table, "--to", "iceberg").stderr
    assert run("convert", table).exit_code == 2
