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

from puffin_fast import PositionBitmap, delta, iceberg, open_table
from puffin_fast._io.folder import files_below
from puffin_fast.errors import ConflictError, InvalidInputError, NotFoundError
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.maintenance import unknown_metadata
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.spark.dataframe.job_files import job_files, remove_job_files
from tests.iceberg.maintenance.maintained import kinds, puffins
from tests.kit.faults import RacingCatalog, failing
from tests.kit.tables import files_of, path_of

orphan_module = import_module("puffin_fast.iceberg.maintenance.orphan_files")
AT_ONCE = timedelta()
SCHEMA = pa.schema([("id", pa.int64())])
RUN = "nightly-0123456789ab"
"""A run of the job ``nightly``."""


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


def at(catalog: SqlCatalog, location: Path, name: str = "t", **properties: str) -> Table:
    """A table in a folder; `properties` have underscores in place of dots."""
    names = {key.replace("_", "."): value for key, value in properties.items()}
    return iceberg.create_table(catalog, f"n.{name}", SCHEMA, location=f"file://{location}", properties=names)


def with_deletes(catalog: SqlCatalog, root: Path, data_path: str | None = None) -> Table:
    """A table of two data files with a vector each, some of whose files no head needs."""
    table = at(catalog, root, write_data_path=data_path or f"file://{root}/data")
    for first in (0, 100):
        iceberg.append(table, pa.table({"id": range(first, first + 100)}))
    for condition in ("id < 10", "id > 150"):
        iceberg.delete(table, condition)
    return table


def write(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def make_old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1e9, 1e9))


def orphans(table: Table, **options: Any) -> list[str]:
    found: list[str] = iceberg.orphan_files(table, **{"older_than": AT_ONCE} | options)["path"].to_pylist()
    return found


def ids(table: Table) -> list[int]:
    return sorted(iceberg.scan(table).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_the_data_path_makes_a_live_file_an_orphan(
    spelling: str, racing: RacingCatalog, tmp_path: Path
) -> None:
    root = tmp_path / "wh" / "t"
    table = with_deletes(racing, root, SPELLINGS[spelling](root))
    assert orphans(table) == []
    write(root / "data" / "orphan.puffin")
    assert [path_of(path) for path in orphans(table)] == [root / "data" / "orphan.puffin"]
    for path in orphans(table, keep=[]):
        path_of(path).unlink()
    assert ids(table) == [*range(10, 151)]
    assert iceberg.verify(table) == []


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_the_data_path_removes_a_jobs_live_files(
    spelling: str, racing: RacingCatalog, tmp_path: Path
) -> None:
    root = tmp_path / "wh" / "t"
    table = with_deletes(racing, root, SPELLINGS[spelling](root))
    live, orphan = (root / "data" / RUN / f"{RUN}-00000-{attempt}-0000.puffin" for attempt in (1, 2))
    write(orphan)
    iceberg.append(table, pa.table({"id": [1000, 1001]}))
    (data,) = (task.data for task in iceberg.plan_files(table).tasks if task.data.record_count == 2)
    (vector,) = write_vectors(str(live), [(data.file_path, PositionBitmap.from_positions([1]))])
    entry = vector_entry(vector, data, vector.file_size)
    commit(table, Changes(added=(entry,)), base=table.current_snapshot())
    assert len(job_files(table, "nightly")) == 2
    assert [Path(path_of(path)).name for path in remove_job_files(table, "nightly")] == [orphan.name]
    assert live.exists()


def test_needed_files_are_recognized_in_any_spelling(tmp_path: Path) -> None:
    kept, orphan = (tmp_path / f"{RUN}-00000-{attempt}-0000.puffin" for attempt in (1, 2))
    write(kept, orphan)
    spelling = f"file:{kept.parent}/.//{kept.name}"
    assert remove_job_files(tmp_path, "nightly", keep=[spelling]) == [str(orphan)]


def test_no_file_is_removed_if_the_table_cannot_be_loaded(tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    catalog = SqlCatalog("c", uri=f"sqlite:///{database}?timeout=0.05", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("n")
    table = iceberg.create_table(catalog, "n.t", SCHEMA)
    stray = Path(path_of(table.location())) / "data" / RUN / f"{RUN}-00000-1-0000.puffin"
    write(stray)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ConflictError, match=r"n\.t: the catalog's database is busy"):
        remove_job_files(table, "nightly")
    other.close()
    assert stray.exists()
    assert [Path(path_of(path)) for path in remove_job_files(table, "nightly")] == [stray]
    catalog.close()


@pytest.mark.parametrize("file_io", ["pyarrow.PyArrowFileIO", "fsspec.FsspecFileIO"])
def test_every_file_io_lists_old_files_that_no_snapshot_needs(file_io: str, tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", **{"py-io-impl": f"pyiceberg.io.{file_io}"})
    catalog.create_namespace("n")
    table = with_deletes(catalog, tmp_path / "t", f"{tmp_path}/t/data")
    old, young, hint = (
        tmp_path / "t" / name for name in ("data/old", "data/young", "metadata/version-hint.text")
    )
    write(old, young, hint)
    make_old(old, hint)
    assert iceberg.orphan_files(table)["path"].to_pylist() == [f"file://{old}"]
    assert orphans(table, older_than=timedelta.max) == []
    found = iceberg.orphan_files(table, older_than=AT_ONCE).to_pylist()
    assert {(row["path"], row["n_bytes"]) for row in found} == {
        (f"file://{path}", 1) for path in (old, young)
    }
    young.unlink()
    old.unlink()
    assert iceberg.compact(table).puffin_files_removed == 2
    assert orphans(table) == []
    freed = orphans(table, keep=[])
    assert sum(path.endswith(".puffin") for path in freed) == 2
    assert not puffins(table) & set(freed)
    for path in freed:
        path_of(path).unlink()
    assert ids(table) == [*range(10, 151)]
    assert iceberg.verify(table) == []
    with pytest.raises(NotFoundError, match="no snapshot 17"):
        iceberg.orphan_files(table, keep=[17])
    path_of(puffins(table).pop()).unlink()
    assert kinds(table) == ["missing", "missing"]
    catalog.engine.dispose()


def test_orphan_files_are_removed_only_when_asked_and_after_another_listing(
    racing: RacingCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_deletes(racing, tmp_path / "t")
    live, orphan = files_of(table), tmp_path / "t/data/orphan.parquet"
    write(orphan)
    listed: list[object] = []

    def counted(root: str, **options: Any) -> Any:
        listed.append(root)
        return files_below(root, **options)

    for module in (orphan_module, unknown_metadata):
        monkeypatch.setattr(module, "files_below", counted)
    assert orphans(table) == [f"file://{orphan}"]
    assert len(listed) == 1
    dry = iceberg.remove_orphan_files(table, older_than=AT_ONCE)
    assert (dry.files["path"].to_pylist(), dry.n_bytes, dry.dry_run) == ([f"file://{orphan}"], 1, True)
    assert iceberg.remove_orphan_files(table, dry_run=False).files.num_rows == 0  # younger than three days
    assert orphan.exists()
    with failing("pyiceberg.io.pyarrow.PyArrowFileIO.delete", PermissionError("read-only")):
        kept = iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    assert (kept.files.num_rows, kept.n_bytes, kept.not_removed) == (0, 0, (f"file://{orphan}: read-only",))
    listed.clear()
    done = iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    assert (done.files.num_rows, done.n_bytes, done.not_removed, len(listed)) == (1, 1, (), 2)
    assert files_of(table) == live
    assert iceberg.verify(table) == []


def test_links_out_of_the_table_are_not_followed(racing: RacingCatalog, tmp_path: Path) -> None:
    root, outside = tmp_path / "wh" / "t", tmp_path / "outside"
    table = with_deletes(racing, root)
    foreign = outside / f"{RUN}-00000-1-0000.puffin"
    write(foreign)
    for name, target in (("elsewhere", outside), (RUN, outside), ("link.puffin", foreign), ("loop", root)):
        (root / "data" / name).symlink_to(target)
    assert orphans(table) == []
    assert remove_job_files(table, "nightly") == []
    assert foreign.exists()


def test_files_may_vanish_while_they_are_listed(
    racing: RacingCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes a file between the listing of its folder and the question how old it is."""
    table = with_deletes(racing, tmp_path / "t", f"{tmp_path}/t/data")
    stays, vanishes = (tmp_path / "t" / "data" / name for name in ("stays", "vanishes"))
    write(stays, vanishes)
    make_old(stays, vanishes)
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


def test_ages_that_would_remove_files_of_other_commits_are_refused(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    with pytest.raises(InvalidInputError, match="expected a timedelta, found 0"):
        iceberg.orphan_files(table, older_than=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="older_than: expected a timedelta that is not negative"):
        iceberg.remove_orphan_files(table, older_than=timedelta(days=-1))


# Other tables in the folder ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "metadata", "orphan"),
    [
        ("n/inner", "n/inner/metadata", "n/orphan"),
        ("inner", "inner/md", "orphan"),
        ("inner", "inner", "orphan"),
        ("inner", "inner/deep/metadata", "orphan"),
    ],
)
def test_a_table_below_another_may_have_its_metadata_in_any_folder(
    location: str, metadata: str, orphan: str, racing: RacingCatalog, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    outer = with_deletes(racing, root)
    inner = at(racing, root / location, "inner", write_metadata_path=f"file://{root}/{metadata}")
    iceberg.append(inner, pa.table({"id": [1]}))
    assert orphans(outer) == orphans(inner) == []
    write(root / orphan, root / metadata / "orphan")
    assert orphans(outer) == [f"file://{root}/{orphan}"]
    assert orphans(inner) == [f"file://{root}/{metadata}/orphan"]


def test_a_delta_table_in_the_folder_of_a_table_has_no_orphans(racing: RacingCatalog, tmp_path: Path) -> None:
    table = with_deletes(racing, tmp_path / "t")
    delta.from_iceberg(table)
    open_table(tmp_path / "t", format="Delta").delete("id < 20")
    write(tmp_path / "t" / "metadata" / "orphan.avro")
    assert orphans(table) == [f"file://{tmp_path}/t/metadata/orphan.avro"]


@pytest.mark.parametrize(
    "log", ["_delta_log/0.json", ".hoodie/h", "_versions/1.manifest", "snapshot/snapshot-1"]
)
def test_the_files_of_a_table_of_another_format_below_are_not_orphans(
    log: str, racing: RacingCatalog, tmp_path: Path
) -> None:
    table = with_deletes(racing, tmp_path / "t")
    write(*(tmp_path / "t" / path for path in (f"other/{log}", "other/p=1/part.parquet", "otherwise")))
    assert orphans(table) == [f"file://{tmp_path}/t/otherwise"]


def test_files_of_another_table_in_the_same_location_are_no_orphans(
    racing: RacingCatalog, tmp_path: Path
) -> None:
    mine, other = tables = [at(racing, tmp_path / "same", name) for name in "ab"]
    make_old(*files_of(mine))
    iceberg.append(other, pa.table({"id": range(100)}))
    make_old(*(tmp_path / "same" / "data").iterdir())
    assert iceberg.orphan_files(mine).num_rows == 0  # the other's metadata is young
    iceberg.append(mine, pa.table({"id": range(100)}))
    for table in tables:
        iceberg.delete(table, "id < 10")
    assert orphans(mine) == orphans(other) == []
    write(tmp_path / "same" / "data" / "orphan.parquet")
    assert orphans(mine) == [f"file://{tmp_path}/same/data/orphan.parquet"]


def test_files_of_a_table_that_was_dropped_are_no_orphans_of_its_successor(racing: RacingCatalog) -> None:
    first = iceberg.create_table(racing, "n.t", SCHEMA)
    iceberg.append(first, pa.table({"id": range(10)}))
    racing.drop_table("n.t")
    assert orphans(iceberg.create_table(racing, "n.t", SCHEMA)) == []
    assert ids(racing.register_table("n.again", first.metadata_location)) == [*range(10)]


def test_files_of_an_older_state_of_another_table_are_no_orphans(
    racing: RacingCatalog, tmp_path: Path
) -> None:
    """Another catalog may have the older state, which does not know that its snapshots have expired."""
    mine, other = (at(racing, tmp_path / "same", name) for name in "ab")
    iceberg.append(other, pa.table({"id": range(100)}))
    stale = other.refresh().metadata_location
    make_old(*files_of(mine))
    iceberg.overwrite(other, pa.table({"id": range(5)}))
    racing.drop_table("n.b")
    newer = racing.register_table("n.newer", other.metadata_location)
    with iceberg.v3_metadata(racing):
        newer.maintenance.expire_snapshots().by_id(newer.snapshots()[0].snapshot_id).commit()
    assert orphans(mine) == []
    assert ids(racing.register_table("n.stale", stale)) == [*range(100)]
