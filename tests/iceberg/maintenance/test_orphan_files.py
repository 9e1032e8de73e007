"""A file that a table needs is never listed or removed as an orphan, however its location is spelt."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import PositionBitmap, delta, iceberg
from puffin_fast._io.folder import files_below
from puffin_fast.errors import ConflictError, InvalidInputError
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.maintenance import unknown_metadata
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.spark.dataframe.job_files import job_files, remove_job_files
from tests.iceberg.conftest import local
from tests.kit.tables import sqlite_catalog

orphan_module = import_module("puffin_fast.iceberg.maintenance.orphan_files")
AT_ONCE = timedelta()


def linked(root: Path) -> str:
    (root / "data").mkdir(parents=True)
    (root / "alias").symlink_to("data")
    return f"file://{root}/alias"


def linked_from_outside(root: Path) -> str:
    root.mkdir(parents=True)
    root.with_name("outside").symlink_to(root)
    return f"file://{root.with_name('outside')}/data"


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "slashes": lambda root: f"file://{root}//data",
    "dot": lambda root: f"file://{root}/./data",
    "dots": lambda root: f"file://{root}/data/../data",
    "one slash": lambda root: f"file:{root}/data",
    "no scheme": lambda root: f"{root}/data",
    "end": lambda root: f"file://{root}/data///",
    "link": linked,
    "link from outside": linked_from_outside,
}


def with_deletes(catalog: SqlCatalog, root: Path, data_path: str) -> Table:
    """A table of two data files with a vector each, some of whose files no head needs."""
    schema = pa.schema([("id", pa.int64())])
    properties = {"write.data.path": data_path}
    table = iceberg.create_table(catalog, "n.t", schema, location=f"file://{root}", properties=properties)
    for first in (0, 100):
        iceberg.append(table, pa.table({"id": range(first, first + 100)}))
    for condition in ("id < 10", "id > 150"):
        iceberg.delete(table, condition)
    return table


def orphans(table: Table, **options: Any) -> list[str]:
    found: list[str] = iceberg.orphan_files(table, older_than=AT_ONCE, **options)["path"].to_pylist()
    return found


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_the_data_path_makes_a_live_file_an_orphan(
    spelling: str, racing: SqlCatalog, tmp_path: Path
) -> None:
    root = tmp_path / "wh" / "t"
    table = with_deletes(racing, root, SPELLINGS[spelling](root))
    assert orphans(table) == []
    (root / "data" / "orphan.puffin").write_bytes(b"x")
    assert [local(path) for path in orphans(table)] == [root / "data" / "orphan.puffin"]
    for path in orphans(table, keep=[]):
        local(path).unlink()
    assert set(iceberg.scan(table).to_arrow()["id"].to_pylist()) == set(range(10, 151))
    assert iceberg.verify(table) == []


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_the_data_path_removes_a_jobs_live_files(
    spelling: str, racing: SqlCatalog, tmp_path: Path
) -> None:
    root = tmp_path / "wh" / "t"
    table = with_deletes(racing, root, SPELLINGS[spelling](root))
    run = "nightly-0123456789ab"
    folder = root / "data" / run
    folder.mkdir()
    live, orphan = (folder / f"{run}-00000-{attempt}-0000.puffin" for attempt in (1, 2))
    orphan.write_bytes(b"")
    named = f"{root}/data/{run}/{live.name}"
    iceberg.append(table, pa.table({"id": [1000, 1001]}))
    (data,) = (task.data for task in iceberg.plan_files(table).tasks if task.data.record_count == 2)
    (vector,) = write_vectors(named, [(data.file_path, PositionBitmap.from_positions([1]))])
    entry = vector_entry(vector, data, vector.file_size)
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())
    assert len(job_files(table, "nightly")) == 2
    assert [Path(local(path)).name for path in remove_job_files(table, "nightly")] == [orphan.name]
    assert live.exists()


def test_no_file_is_removed_if_the_table_cannot_be_loaded(tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    catalog = SqlCatalog("c", uri=f"sqlite:///{database}?timeout=0.05", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    run = "nightly-0123456789ab"
    stray = Path(local(table.location())) / "data" / run / f"{run}-00000-1-0000.puffin"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"")
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ConflictError, match=r"n\.t: the catalog's database is busy"):
        remove_job_files(table, "nightly")
    other.close()
    assert stray.exists()
    assert [Path(local(path)) for path in remove_job_files(table, "nightly")] == [stray]
    catalog.close()


def test_needed_files_are_recognized_in_any_spelling(tmp_path: Path) -> None:
    run = "nightly-0123456789ab"
    kept, orphan = (tmp_path / f"{run}-00000-{attempt}-0000.puffin" for attempt in (1, 2))
    for path in (kept, orphan):
        path.write_bytes(b"")
    spelling = f"file:{kept.parent}/.//{kept.name}"
    assert remove_job_files(tmp_path, "nightly", keep=[spelling]) == [str(orphan)]


def test_links_out_of_the_table_are_not_followed(racing: SqlCatalog, tmp_path: Path) -> None:
    root = tmp_path / "wh" / "t"
    table = with_deletes(racing, root, f"file://{root}/data")
    outside = tmp_path / "outside"
    outside.mkdir()
    run = "nightly-0123456789ab"
    foreign = outside / f"{run}-00000-1-0000.puffin"
    foreign.write_bytes(b"x")
    (root / "data" / "elsewhere").symlink_to(outside)
    (root / "data" / run).symlink_to(outside)
    (root / "data" / "link.puffin").symlink_to(foreign)
    (root / "data" / "loop").symlink_to(root)
    assert orphans(table) == []
    assert remove_job_files(table, "nightly") == []
    assert foreign.exists()


def test_the_files_of_a_table_below_another_are_not_its_orphans(racing: SqlCatalog, tmp_path: Path) -> None:
    outer = with_deletes(racing, tmp_path / "wh", f"file://{tmp_path}/wh/data")
    schema = pa.schema([("id", pa.int64())])
    inner = iceberg.create_table(racing, "n.inner", schema, location=f"file://{tmp_path}/wh/n/inner")
    iceberg.append(inner, pa.table({"id": [1]}))
    assert orphans(outer) == []
    (tmp_path / "wh" / "n" / "orphan").write_bytes(b"x")
    assert orphans(outer) == [f"file://{tmp_path}/wh/n/orphan"]


@pytest.mark.parametrize("metadata", ["inner/md", "inner", "inner/deep/metadata"])
def test_a_table_below_another_may_have_its_metadata_in_any_folder(
    metadata: str, racing: SqlCatalog, tmp_path: Path
) -> None:
    outer = with_deletes(racing, tmp_path / "t", f"file://{tmp_path}/t/data")
    inner = iceberg.create_table(
        racing,
        "n.inner",
        pa.schema([("id", pa.int64())]),
        location=f"file://{tmp_path}/t/inner",
        properties={"write.metadata.path": f"file://{tmp_path}/t/{metadata}"},
    )
    iceberg.append(inner, pa.table({"id": [1]}))
    (tmp_path / "t" / "orphan").write_bytes(b"x")
    (tmp_path / "t" / metadata / "orphan").write_bytes(b"x")
    assert orphans(outer) == [f"file://{tmp_path}/t/orphan"]
    assert orphans(inner) == [f"file://{tmp_path}/t/{metadata}/orphan"]


def test_a_delta_table_in_the_folder_of_a_table_has_no_orphans(racing: SqlCatalog, tmp_path: Path) -> None:
    table = with_deletes(racing, tmp_path / "t", f"file://{tmp_path}/t/data")
    delta.from_iceberg(table)
    delta.delete(tmp_path / "t", "id < 20")
    (tmp_path / "t" / "metadata" / "orphan.avro").write_bytes(b"x")
    assert orphans(table) == [f"file://{tmp_path}/t/metadata/orphan.avro"]


@pytest.mark.parametrize(
    "log", ["_delta_log/0.json", ".hoodie/h", "_versions/1.manifest", "snapshot/snapshot-1"]
)
def test_the_files_of_a_table_of_another_format_below_are_not_orphans(
    log: str, racing: SqlCatalog, tmp_path: Path
) -> None:
    table = with_deletes(racing, tmp_path / "t", f"file://{tmp_path}/t/data")
    for path in (f"other/{log}", "other/p=1/part.parquet", "otherwise"):
        (tmp_path / "t" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / path).write_bytes(b"x")
    assert orphans(table) == [f"file://{tmp_path}/t/otherwise"]


def test_the_location_is_listed_once_and_again_before_files_are_removed(
    racing: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_deletes(racing, tmp_path / "root", f"file://{tmp_path}/root/data")
    orphan = tmp_path / "root/data/orphan.parquet"
    orphan.touch()
    listed: list[object] = []

    def counted(root: str, **options: Any) -> Any:
        listed.append(root)
        return files_below(root, **options)

    for module in (orphan_module, unknown_metadata):
        monkeypatch.setattr(module, "files_below", counted)
    assert str(orphan) in "".join(orphans(table))
    assert len(listed) == 1
    iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    assert not orphan.exists()
    assert len(listed) == 3


def test_the_version_hint_is_needed(racing: SqlCatalog, tmp_path: Path) -> None:
    table = with_deletes(racing, tmp_path / "wh" / "t", f"file://{tmp_path}/wh/t/data")
    (tmp_path / "wh" / "t" / "metadata" / "version-hint.text").write_text("1")
    assert orphans(table) == []


@pytest.mark.parametrize("file_io", ["pyarrow.PyArrowFileIO", "fsspec.FsspecFileIO"])
def test_young_files_are_not_listed_through_any_file_io(file_io: str, tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", **{"py-io-impl": f"pyiceberg.io.{file_io}"})
    catalog.create_namespace("n")
    table = with_deletes(catalog, tmp_path / "t", f"{tmp_path}/t/data")
    old, young = (tmp_path / "t" / "data" / name for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"x")
    os.utime(old, (1e9, 1e9))
    assert iceberg.orphan_files(table)["path"].to_pylist() == [f"file://{old}"]
    catalog.engine.dispose()


def test_files_may_vanish_while_they_are_listed(
    racing: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes a file between the listing of its folder and the question how old it is."""
    table = with_deletes(racing, tmp_path / "t", f"{tmp_path}/t/data")
    stays, vanishes = (tmp_path / "t" / "data" / name for name in ("stays", "vanishes"))
    for path in (stays, vanishes):
        path.write_bytes(b"x")
        os.utime(path, (1e9, 1e9))
    scandir, removed = os.scandir, list[Path]()

    def listed(folder: Any) -> Any:
        found = list(scandir(folder))
        if Path(folder) == vanishes.parent and vanishes.exists():
            vanishes.unlink()
            removed.append(vanishes)
        return iter(found)

    monkeypatch.setattr(os, "scandir", listed)
    assert iceberg.orphan_files(table)["path"].to_pylist() == [f"file://{stays}"]
    assert removed


def test_files_of_another_table_in_the_same_location_are_no_orphans(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    tables = []
    for name in ("a", "b"):
        table = iceberg.create_table(
            catalog, f"n.{name}", pa.schema([("id", pa.int64())]), location=f"file://{tmp_path}/same"
        )
        iceberg.append(table, pa.table({"id": range(100)}))
        iceberg.delete(table, "id < 10")
        tables.append(table)
    for table in tables:
        assert iceberg.orphan_files(table, older_than=AT_ONCE).num_rows == 0
    orphan = tmp_path / "same" / "data" / "orphan.parquet"
    orphan.write_bytes(b"")
    (found,) = iceberg.orphan_files(tables[0], older_than=AT_ONCE)["path"].to_pylist()
    assert found == f"file://{orphan}"


def test_files_of_another_table_whose_metadata_is_young_are_no_orphans(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    tables = [
        iceberg.create_table(
            catalog, name, pa.schema([("id", pa.int64())]), location=f"file://{tmp_path}/same"
        )
        for name in ("n.a", "n.b")
    ]
    for path in (tmp_path / "same" / "metadata").iterdir():
        os.utime(path, (1e9, 1e9))
    iceberg.append(tables[1], pa.table({"id": range(100)}))
    for path in (tmp_path / "same" / "data").iterdir():
        os.utime(path, (1e9, 1e9))
    assert iceberg.orphan_files(tables[0]).num_rows == 0
    catalog.engine.dispose()


def test_files_of_a_table_that_was_dropped_are_no_orphans_of_its_successor(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    first = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    iceberg.append(first, pa.table({"id": range(10)}))
    location = first.metadata_location
    catalog.drop_table("n.t")
    second = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    assert iceberg.orphan_files(second, older_than=AT_ONCE).num_rows == 0
    assert iceberg.scan(catalog.register_table("n.again", location)).to_arrow().num_rows == 10


def test_files_of_an_older_state_of_another_table_are_no_orphans(tmp_path: Path) -> None:
    """Another catalog may have the older state, which does not know that its snapshots have expired."""
    catalog = sqlite_catalog(tmp_path)
    mine, other = (
        iceberg.create_table(
            catalog, name, pa.schema([("id", pa.int64())]), location=f"file://{tmp_path}/same"
        )
        for name in ("n.a", "n.b")
    )
    iceberg.append(other, pa.table({"id": range(100)}))
    stale = other.refresh().metadata_location
    for path in (tmp_path / "same").rglob("*"):
        os.utime(path, (1e9, 1e9))
    iceberg.overwrite(other, pa.table({"id": range(5)}))
    catalog.drop_table("n.b")
    newer = catalog.register_table("n.newer", other.metadata_location)
    with iceberg.v3_metadata(catalog):
        newer.maintenance.expire_snapshots().by_id(newer.snapshots()[0].snapshot_id).commit()
    assert iceberg.orphan_files(mine, older_than=AT_ONCE).num_rows == 0
    assert iceberg.scan(catalog.register_table("n.stale", stale)).count() == 100
    catalog.engine.dispose()


def test_ages_that_would_remove_files_of_other_commits_are_refused(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = iceberg.create_table(catalog, "n.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidInputError, match="expected a timedelta, found 0"):
        iceberg.orphan_files(table, older_than=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="older_than: expected a timedelta that is not negative"):
        iceberg.remove_orphan_files(table, older_than=timedelta(days=-1))
