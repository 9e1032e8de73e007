"""`maintain` and `rewrite_data_files` keep the key indexes that a property names."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from puffin_fast import errors, iceberg
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.index import build, segment_maker
from puffin_fast.iceberg.index.properties import KEY_INDEXES, indexed_columns
from puffin_fast.iceberg.maintenance import rewrite_job
from puffin_fast.rows.keys import key_columns
from tests.iceberg.conftest import refused
from tests.iceberg.index.indexed_tables import numbers, rows
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table


def table_of(catalog: RacingCatalog, named: str | None, n_files: int) -> Table:
    """A table of some data files of ten rows; a property names its indexes."""
    properties = {} if named is None else {KEY_INDEXES: named}
    parts = [rows(at * 10, at * 10 + 10) for at in range(n_files)]
    return iceberg_table(catalog, parts or rows(0, 1).schema, properties=properties)


def test_maintain_keeps_the_indexes_that_a_property_names(racing: RacingCatalog) -> None:
    table = table_of(racing, "n; s , i;", 0)
    policy = iceberg.MaintenancePolicy(expire_older_than=datetime.timedelta(0), retain_last=1)
    assert iceberg.maintain(table, policy).key_indexes == ()
    for at in range(6):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    dry = iceberg.maintain(table, policy, dry_run=True).key_indexes
    assert [(index.columns, index.commit.id is not None) for index in dry] == [
        (("n",), False),
        (("s", "i"), False),
    ]
    found = iceberg.maintain(table, policy).key_indexes
    assert [(index.columns, index.data_files, index.data_files_left) for index in found] == [
        (("n",), 1, 0),
        (("s", "i"), 1, 0),
    ]
    assert len(table.metadata.snapshots) == 1
    assert not any(index.commit.id for index in iceberg.maintain(table, policy).key_indexes)
    iceberg.append(table, rows(100, 110))
    assert [index.data_files_read for index in iceberg.maintain(table, policy).key_indexes] == [1, 1]


def test_a_rewrite_keeps_the_indexes_that_a_property_names(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, Any]]
) -> None:
    table = table_of(racing, "n; s,i; id", 4)
    assert iceberg.rewrite_data_files(table, min_input_files=2).key_indexes == ()  # none exists
    iceberg.index_keys(table, "n")
    iceberg.index_keys(table, ["s", "i"])
    for at in range(4, 8):
        iceberg.append(table, rows(at * 10, at * 10 + 10))
    iceberg.delete(table, "n in (5, 45)")
    opened.clear()
    with monkeypatch.context() as patch:
        patch.setattr(build, "MOST_SEGMENTS", 1)
        done = iceberg.rewrite_data_files(table, "n >= 40", min_deleted=1, min_input_files=2)
    assert [(one.columns, one.data_files_read, one.data_files_left) for one in done.key_indexes] == [
        (("n",), 1, 0),
        (("s", "i"), 1, 0),
    ]
    assert done.notes == ()
    paths = [path for path, _ in opened]
    assert set(paths[-2:]) <= {task.file.file_path for task in table.scan().plan_files()} - set(paths[:4])
    assert iceberg.index_keys(table, "n").commit.id is None
    assert iceberg.verify(table, level="rows") == []
    assert iceberg.delete_keys(table, [5, 6, 46, 79], "n").rows_deleted == 3
    iceberg.compact(table)
    assert iceberg.report(table).key_indexes["share_of_rows"].to_pylist() == [1.0, 1.0]


def test_a_rewrite_is_committed_though_its_index_is_not(racing: RacingCatalog) -> None:
    table = table_of(racing, "n", 4)
    iceberg.index_keys(table, "n")

    def fail() -> None:
        raise OSError("the disk is full")

    racing.before.append(lambda: racing.before.append(fail))
    before = racing.load_table("n.t").metadata.current_snapshot_id
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert done.commit.id == racing.load_table("n.t").metadata.current_snapshot_id != before
    assert (done.key_indexes, len(done.notes)) == ((), 1)
    with v3_metadata(racing), table.update_schema() as update:
        update.rename_column("n", "m")
    iceberg.append(table, rows(40, 50).rename_columns({"n": "m"}))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert ([index.columns for index in done.key_indexes], done.notes) == ([("m",)], ())
    with v3_metadata(racing), table.update_schema() as update:
        update.rename_column("m", "n")
    assert numbers(table) == list(range(50))
    assert iceberg.delete_keys(table, [5], "n").rows_deleted == 1


def test_a_rewrite_is_committed_though_reading_its_keys_raises_an_error_of_another_library(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(racing, "n", 2)
    iceberg.index_keys(table, "n")

    def lost(*_: Any) -> None:
        raise RuntimeError("an executor was lost")

    monkeypatch.setattr(segment_maker, "key_words", lost)
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.data_files, done.key_indexes) == (2, ())
    assert "an executor was lost" in done.notes[0]


def test_a_cancelled_index_says_that_the_rewrite_is_committed(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(racing, None, 2)

    def cancelled(*_: Any, **__: Any) -> None:
        raise errors.JobInterruptedError("Spark's job was cancelled, nothing was committed")

    monkeypatch.setattr(rewrite_job, "extend_indexes", cancelled)
    with pytest.raises(errors.JobInterruptedError) as caught:
        iceberg.rewrite_data_files(table, min_input_files=2)
    head = table.refresh().current_snapshot()
    assert head is not None
    assert str(caught.value) == (
        f"the rewritten data files are committed up to snapshot {head.snapshot_id}; "
        "the key indexes do not have them, because Spark's job was cancelled"
    )


@pytest.mark.parametrize("named", ["n,", " n ; ", ";n;;", "n, ,"])
def test_separators_of_the_property_name_no_column(named: str) -> None:
    schema = Schema(NestedField(1, "n", LongType()))
    assert indexed_columns({KEY_INDEXES: named}, schema) == [["n"]]


@pytest.mark.parametrize(
    ("change", "kept", "dropped"),
    [
        (lambda update: update.rename_column("n", "key"), [("key",), ("s", "i")], ""),
        (lambda update: update.rename_column("i", "j"), [("n",), ("s", "j")], ""),
        (lambda update: update.delete_column("n"), [("s", "i")], "n: column n was dropped"),
        (lambda update: update.delete_column("i"), [("n",)], "s, i: column i was dropped"),
        (lambda update: update.delete_column("s").delete_column("n"), [], "n: column n was dropped"),
    ],
)
def test_indexes_outlive_changes_of_their_columns(
    change: Any, kept: list[tuple[str, ...]], dropped: str, racing: RacingCatalog
) -> None:
    """A renamed column is found by its field id; an index of a dropped one is left out."""
    table, policy = table_of(racing, "n; s, i", 1), iceberg.MaintenancePolicy(min_input_files=2)
    iceberg.maintain(table, policy)
    with v3_metadata(racing), table.update_schema() as update:
        change(update)
    iceberg.append(table, iceberg.scan(table).to_arrow())
    assert [one.split(": ")[0] for one in iceberg.report(table).advice] == ["index_keys" for _ in kept]
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert dropped in " ".join(done.notes)
    assert [index.columns for index in done.key_indexes] == kept
    for dry_run in (True, False):
        found = iceberg.maintain(table, policy, dry_run=dry_run)
        assert [index.columns for index in found.key_indexes] == kept
        assert dropped in " ".join(found.notes)
        assert bool(found.notes) == bool(dropped)
    assert {*iceberg.report(table).key_indexes["columns"].to_pylist()} == {", ".join(names) for names in kept}
    assert not iceberg.verify(table, level="rows")


def test_an_index_of_a_geometry_is_left_out(racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier releases took geometries for keys."""
    point = bytes([1, 1, *[0] * 19])
    given = pa.table({"n": [1, 2], "g": [point, point]})
    with pytest.warns(errors.EngineSupportWarning):
        table = iceberg.create_table(
            racing, "n.t", {"n": "long", "g": "geometry"}, properties={KEY_INDEXES: "g;n"}
        )
    iceberg.append(table, given)
    with monkeypatch.context() as patched:
        patched.setattr(key_columns, "UNORDERED", ())
        iceberg.index_keys(table, "g")
    iceberg.append(table, given)
    assert not iceberg.report(table).advice
    for done in (
        iceberg.rewrite_data_files(table, min_input_files=2),
        iceberg.maintain(table, iceberg.MaintenancePolicy(min_input_files=2)),
    ):
        assert "g is a geometry, which is no key" in " ".join(done.notes)
        assert {index.columns for index in done.key_indexes} <= {("n",)}
    assert iceberg.report(table).key_indexes["columns"].to_pylist() == ["n"]
    assert not iceberg.verify(table, level="rows")


def test_a_wrong_property_is_refused_before_the_first_step(racing: RacingCatalog) -> None:
    table = table_of(racing, "nothing", 1)
    with refused(table, errors.NotFoundError, r"puffin-fast.key-indexes: .*no column nothing"):
        iceberg.maintain(table)
