"""Expired snapshots leave the metadata, and only the files that nothing else needs leave the storage."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from puffin_fast import iceberg
from puffin_fast.errors import ConflictError, InvalidInputError, NotFoundError, UnsupportedError
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.maintenance import expire_snapshots as module
from puffin_fast.iceberg.maintenance.removal import inside
from puffin_fast.iceberg.manifest import ADDED
from tests.iceberg.conftest import current_snapshot, refused, rows_of_duckdb, set_properties
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, parquet_file, parts, path_of, table_of_files

AT_ONCE = timedelta()


def files(table: Table) -> set[Path]:
    return {
        path
        for path in path_of(table.location()).rglob("*")
        if path.is_file() and path.suffix not in (".json", ".crc")
    }


def ids(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.metadata.snapshots]


def rows(table: Table, **which: Any) -> list[int]:
    return sorted(iceberg.scan(table, **which).to_arrow()["id"].to_pylist())


@contextmanager
def manage(table: Table) -> Iterator[ManageSnapshots]:
    with iceberg.v3_metadata(table.catalog), table.manage_snapshots() as change:
        yield change


@pytest.fixture
def table(racing: RacingCatalog) -> Table:
    """Six snapshots: two appends, two deletes, a rewrite and another delete."""
    table = iceberg_table(racing, parts(pa.table({"id": range(200)}), 2))
    iceberg.delete(table, "id < 60")
    iceberg.collect_ndv(table)
    iceberg.delete(table, "id > 190")
    iceberg.rewrite_data_files(table, min_deleted=0.5, min_file_size=0)
    iceberg.delete(table, "id = 70")
    return table


def test_all_but_the_head_expire_and_no_file_is_left_behind(
    table: Table, duckdb_iceberg: duckdb.DuckDBPyConnection
) -> None:
    before, live = files(table), rows(table)
    dry = iceberg.expire_snapshots(table, older_than=AT_ONCE, dry_run=True)
    assert (files(table), len(ids(table))) == (before, 6)
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert len(done.snapshot_ids) == 5
    assert ids(table) == [table.metadata.current_snapshot_id]
    assert (dry.n_bytes, dry.data_files, dry.manifests) == (done.n_bytes, done.data_files, done.manifests)
    assert (done.data_files, done.delete_files, done.manifest_lists, done.statistics_files) == (1, 1, 5, 1)
    assert done.not_removed == ()
    assert len(before) - len(files(table)) == 8 + done.manifests
    assert rows(table) == live
    assert iceberg.verify(table) == []
    assert iceberg.orphan_files(table, older_than=AT_ONCE).num_rows == 0
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == live
    assert not iceberg.expire_snapshots(table, older_than=AT_ONCE).snapshot_ids


def test_every_snapshot_that_stays_can_be_read(table: Table) -> None:
    was = {id: rows(table, snapshot_id=id) for id in ids(table)}
    for keep in (4, 2, 1):
        iceberg.expire_snapshots(table, older_than=AT_ONCE, retain_last=keep)
        assert len(ids(table)) == keep
        for id in ids(table):
            assert rows(table, snapshot_id=id) == was[id]


def test_branches_and_tags_keep_their_snapshots_until_their_own_age(table: Table) -> None:
    first, second, third, *_ = ids(table)
    with manage(table) as change:
        change.create_tag(first, "kept")
        change.create_tag(second, "old", max_ref_age_ms=1)
        change.create_branch(third, "audit", min_snapshots_to_keep=2)
    was = rows(table)
    time.sleep(0.01)
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert done.references == ("old",)
    assert set(ids(table)) == {first, second, third, table.metadata.current_snapshot_id}
    assert "old" not in table.refs()
    assert iceberg.scan(table, tag="kept").count() == 100
    assert iceberg.scan(table, branch="audit").count() == 140
    assert rows(table) == was


def test_the_properties_of_the_table_are_the_default(table: Table) -> None:
    assert not iceberg.expire_snapshots(table).snapshot_ids  # five days
    set_properties(
        table, {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "3"}
    )
    time.sleep(0.01)
    assert len(iceberg.expire_snapshots(table).snapshot_ids) == 3
    assert len(ids(table)) == 3


def test_given_snapshots_expire_and_no_others(table: Table) -> None:
    chosen, live = ids(table)[1:3], rows(table)
    assert iceberg.expire_snapshots(table, snapshot_ids=chosen).snapshot_ids == tuple(chosen)
    assert len(ids(table)) == 4
    assert rows(table) == live


def test_files_elsewhere_are_not_removed(racing: RacingCatalog, tmp_path: Path) -> None:
    foreign = tmp_path / "other" / "f.parquet"
    foreign.parent.mkdir()
    table = table_of_files(racing, parquet_file(foreign, pa.table({"id": range(10)})))
    iceberg.delete(table, "id < 5")
    iceberg.rewrite_data_files(table, min_deleted=0.05, min_file_size=0)
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert foreign.exists()
    assert [str(foreign) in sentence for sentence in done.not_removed] == [True]
    assert (done.data_files, done.delete_files, rows(table)) == (0, 1, [5, 6, 7, 8, 9])


@pytest.mark.parametrize("folder", ["data/inner", "inner"])
def test_files_of_a_table_below_the_location_are_not_removed(racing: RacingCatalog, folder: str) -> None:
    """They were registered in the outer table, too."""
    schema = pa.schema([("id", pa.int64())])
    outer = racing.create_table("n.outer", schema, properties={"format-version": "2"})
    inner = iceberg.create_table(racing, "n.inner", schema, location=f"{outer.location()}/{folder}")
    iceberg.append(inner, pa.table({"id": range(10)}))
    (shared,) = (task.data.file_path for task in iceberg.plan_files(inner).tasks)
    outer.add_files([shared])
    iceberg.append(outer, pa.table({"id": range(10, 20)}))
    iceberg.delete(outer, "id < 5 or id = 10")
    iceberg.rewrite_data_files(outer, min_deleted=0.05, min_file_size=0)
    dry = iceberg.expire_snapshots(outer, older_than=AT_ONCE, dry_run=True)
    done = iceberg.expire_snapshots(outer, older_than=AT_ONCE)
    assert rows(inner) == list(range(10))
    assert [sentence for sentence in done.not_removed if shared in sentence] == [*done.not_removed]
    assert (dry.data_files, done.data_files, rows(outer)) == (1, 1, [*range(5, 10), *range(11, 20)])


def test_files_are_kept_beside_a_delta_table_in_the_same_folder(table: Table) -> None:
    log = path_of(table.location()) / "_delta_log"
    log.mkdir()
    (log / "00000000000000000000.json").write_text("{}")
    kept = {path for path in files(table) if path.suffix == ".parquet"}
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert kept <= files(table)
    assert done.data_files == 0
    assert done.manifests > 0
    assert all("another table" in sentence for sentence in done.not_removed)


def test_the_location_need_not_exist(racing: RacingCatalog, tmp_path: Path) -> None:
    paths = {"write.data.path": f"file://{tmp_path}/d", "write.metadata.path": f"file://{tmp_path}/m"}
    table = iceberg_table(racing, [{"id": [1]}] * 3, properties=paths)
    shutil.rmtree(path_of(table.location()), ignore_errors=True)
    assert iceberg.expire_snapshots(table, older_than=AT_ONCE).manifest_lists == 2
    assert rows(table) == [1, 1, 1]


def test_no_other_file_is_removed_where_pyiceberg_takes_a_name_for_another(
    racing: RacingCatalog, tmp_path: Path
) -> None:
    """PyIceberg takes ``a#b`` for ``a``."""
    table = iceberg_table(racing, {"id": range(5)})
    (live,) = (task.data for task in iceberg.plan_files(table).tasks)
    unassigned = dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"))
    odd = replace(live, file_path=f"{live.file_path}#1", status=ADDED, **unassigned)
    shutil.copy(path_of(live.file_path), path_of(odd.file_path))
    commit(table, Changes(added=(odd,)), base=table.current_snapshot())
    (added,) = (t.data for t in iceberg.plan_files(table).tasks if t.data.file_path == odd.file_path)
    commit(table, Changes(removed=(added,)), base=table.current_snapshot())
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert [odd.file_path in sentence for sentence in done.not_removed] == [True]
    assert rows(table) == list(range(5))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"older_than": 3}, InvalidInputError, "older_than: expected a timedelta"),
        ({"older_than": timedelta(-1)}, InvalidInputError, "older_than: expected a timedelta that is not"),
        ({"retain_last": 0}, InvalidInputError, "retain_last"),
        ({"snapshot_ids": "12"}, InvalidInputError, "snapshot_ids: expected ids"),
        ({"snapshot_ids": [True]}, InvalidInputError, "snapshot_ids"),
        ({"snapshot_ids": [1]}, NotFoundError, "no snapshot 1"),
        ({"snapshot_ids": [1], "retain_last": 1}, InvalidInputError, "expected neither"),
        ({"dry_run": "no"}, InvalidInputError, "dry_run"),
    ],
)
def test_bad_arguments_are_refused(
    table: Table, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with refused(table, error, text):
        iceberg.expire_snapshots(table, **arguments)


def test_the_snapshot_of_a_branch_or_tag_is_refused(table: Table) -> None:
    with manage(table) as change:
        change.create_tag(ids(table)[0], "release")
    for id, text in ((ids(table)[0], "tag release"), (ids(table)[-1], "branch main")):
        with pytest.raises(InvalidInputError, match=text):
            iceberg.expire_snapshots(table, snapshot_ids=[id])


def test_properties_that_forbid_it_or_are_wrong_are_refused(table: Table) -> None:
    set_properties(table, {"history.expire.min-snapshots-to-keep": "many"})
    with pytest.raises(InvalidInputError, match="expected a positive integer, found 'many'"):
        iceberg.expire_snapshots(table)
    set_properties(table, {"gc.enabled": "false"})  # another table may have the files
    for verb in (iceberg.expire_snapshots, iceberg.remove_orphan_files):
        with pytest.raises(UnsupportedError, match=r"gc\.enabled"):
            verb(table)


def test_a_missing_manifest_of_a_snapshot_that_stays_changes_nothing(table: Table) -> None:
    head = current_snapshot(table)
    path_of(head.manifests(table.io)[0].manifest_path).unlink()
    with refused(table, NotFoundError):
        iceberg.expire_snapshots(table, older_than=AT_ONCE)


def test_a_missing_manifest_list_of_an_expired_snapshot_is_said(table: Table) -> None:
    path_of(table.metadata.snapshots[0].manifest_list).unlink()
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert len(ids(table)) == 1
    assert "not listed" in done.not_removed[0]


def test_a_tag_made_meanwhile_keeps_its_snapshot(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    first, send = ids(table)[0], module.commit_expiry
    other = table.catalog.load_table("n.t")

    def tagged_first(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(module, "commit_expiry", send)
        with manage(other) as change:
            change.create_tag(first, "late")
        send(*arguments, **options)

    monkeypatch.setattr(module, "commit_expiry", tagged_first)
    iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert set(ids(table)) == {first, table.metadata.current_snapshot_id}
    assert iceberg.scan(table, tag="late").count() == 100


def test_commits_that_always_come_first_leave_everything(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, send = table.catalog.load_table("n.t"), module.commit_expiry
    set_properties(other, {"commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "1"})

    def beaten(*arguments: Any, **options: Any) -> None:
        iceberg.append(other, pa.table({"id": [1000]}))
        send(*arguments, **options)

    monkeypatch.setattr(module, "commit_expiry", beaten)
    with pytest.raises(ConflictError):
        iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert len(ids(other.refresh())) == 8
    assert iceberg.verify(other) == []


@pytest.mark.jar
def test_a_rest_catalog_expires_snapshots_with_their_statistics(
    rest_catalog: RestCatalog, rest_namespace: str
) -> None:
    table = iceberg.create_table(rest_catalog, f"{rest_namespace}.t", pa.schema([("id", pa.int64())]))
    for first in (0, 100, 200):
        iceberg.append(table, pa.table({"id": range(first, first + 100)}))
        iceberg.collect_ndv(table, ["id"])
    with table.manage_snapshots() as manage:
        manage.create_tag(ids(table)[0], "first")
    before = files(table)
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    fresh = rest_catalog.load_table(f"{rest_namespace}.t")
    assert len(done.snapshot_ids) == 1
    assert len(fresh.metadata.snapshots) == len(fresh.metadata.statistics) == 2
    assert (done.statistics_files, done.manifest_lists, done.data_files) == (1, 1, 0)
    assert len(before) - len(files(fresh)) == 2
    assert iceberg.scan(fresh, tag="first").count() == 100
    assert iceberg.verify(fresh) == []


def test_snapshots_that_another_process_expires_meanwhile_are_no_error(
    racing: RacingCatalog, table: Table
) -> None:
    live, other = rows(table), racing.load_table("n.t")
    racing.before.append(lambda: iceberg.expire_snapshots(other, older_than=AT_ONCE, retain_last=2))
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert len(done.snapshot_ids) == 1
    assert ids(table) == [table.metadata.current_snapshot_id]
    assert rows(table) == live
    assert iceberg.verify(table) == []


def dotted(root: Path) -> str:
    (root / "x").mkdir()
    return f"file://{root}/x/../t"


def dotted_behind_a_link(root: Path) -> str:
    (root / "elsewhere" / "x").mkdir(parents=True)
    (root / "x").symlink_to("elsewhere/x")
    return f"file://{root}/x/../t"


@pytest.mark.parametrize("spelling", [dotted, dotted_behind_a_link])
def test_locations_with_dots_are_cleaned_as_others(
    spelling: Callable[[Path], str], racing: RacingCatalog, tmp_path: Path
) -> None:
    location = spelling(tmp_path)
    table = iceberg.create_table(racing, "n.dots", pa.schema([("id", pa.int64())]), location=location)
    for first in (0, 100):
        iceberg.overwrite(table, pa.table({"id": range(first, first + 100)}))
    there = set(Path(location.removeprefix("file://"), "data").iterdir())
    done = iceberg.expire_snapshots(table, older_than=AT_ONCE)
    assert (done.data_files, done.manifest_lists, done.not_removed) == (1, 1, ())
    assert len(there) - len(list(Path(location.removeprefix("file://"), "data").iterdir())) == 1
    assert rows(table) == list(range(100, 200))


@pytest.mark.parametrize(
    ("location", "path", "is_inside"),
    [
        ("s3://b/t", "s3://b/t/data/f", True),
        ("s3://b/x/../t", "s3://b/x/../t/data/f", True),
        ("s3://b/x/../t", "s3://b/x/..//t/./data/f", True),
        ("s3://b/x/../t", "s3://b/t/data/f", False),  # another key
        ("s3://b/t", "s3://b/t/../u/data/f", False),
        ("s3://b/t", "s3://b/x/../t/data/f", False),
        ("s3://b/x/../t", "s3://b/x/../t/../u/f", False),
        ("file:///w/x/../t", "file:/w/x/../t/data/f", True),
        ("/w/x/../t", "file:///w/t/data/f", True),
        ("/w/t", "/w/t/data/../../u/f", False),
        ("/w/t", "/w/u/../t/f", True),
    ],
)
def test_only_files_below_the_location_are_inside(
    location: str, path: str, is_inside: bool, table: Table
) -> None:
    table.metadata = table.metadata.model_copy(update={"location": location, "properties": {}})
    assert inside(table, [path]) == (([path], []) if is_inside else ([], [path]))
