"""A table in two catalogs, of which one is stale or both went on: the files of the other state stay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from puffin_fast import PositionBitmap, iceberg
from puffin_fast.errors import ConflictError
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.spark.dataframe.job_files import remove_job_files
from tests.iceberg.conftest import set_properties
from tests.kit.faults import RacingCatalog
from tests.kit.tables import iceberg_table, path_of

AT_ONCE = timedelta()
AT_ONCE_FAILING = {"commit.retry.num-retries": "1", "commit.retry.max-wait-ms": "1"}
SCHEMA = pa.schema([("id", pa.int64())])


def ids(first: int) -> pa.Table:
    return pa.table({"id": range(first, first + 10)}, SCHEMA)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("n")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture(params=["", "elsewhere"])
def both(
    request: pytest.FixtureRequest, racing: RacingCatalog, other: SqlCatalog, tmp_path: Path
) -> tuple[Table, Table]:
    """The table of a catalog, and that of another one in which it was registered."""
    place = {"write.metadata.path": f"file://{tmp_path}/{request.param}"} if request.param else {}
    table = iceberg_table(racing, [ids(0), ids(10)], properties={**AT_ONCE_FAILING, **place})
    return table, other.register_table("n.t", table.metadata_location)


def is_refused(stale: Table, newer: Table) -> None:
    """Checks that no file is removed, and that all snapshots can be read."""

    def there() -> set[Path]:
        return {path for path in path_of(newer.location()).parent.parent.rglob("*") if path.is_file()}

    before = there()
    assert iceberg.orphan_files(stale, older_than=AT_ONCE).num_rows == 0
    for dry_run in (True, False):
        with pytest.raises(ConflictError, match="another catalog") as refused:
            iceberg.remove_orphan_files(stale, older_than=AT_ONCE, dry_run=dry_run)
    assert newer.metadata_location.rpartition("/")[2] in str(refused.value)
    policy = iceberg.MaintenancePolicy(steps=("clean",), clean_older_than=timedelta())
    with pytest.raises(ConflictError, match="another catalog"):
        iceberg.maintain(stale, policy)
    assert there() == before
    is_whole(newer)


def is_whole(table: Table) -> None:
    table.refresh()
    for snapshot in table.metadata.snapshots:
        iceberg.scan(table, snapshot_id=snapshot.snapshot_id).to_arrow()
    assert iceberg.verify(table) == []


def in_new_folder(folder: str) -> Callable[[Table], None]:
    def run(table: Table) -> None:
        set_properties(table, {"write.metadata.path": f"{table.location()}/{folder}"})
        iceberg.append(table, ids(20))

    return run


NEWER: dict[str, Callable[[Table], object]] = {
    "a commit": lambda table: iceberg.delete(table, "id = 0"),
    "commits": lambda table: [iceberg.delete(table, f"id = {number}") for number in range(3)],
    "no snapshot": lambda table: set_properties(table, {"a": "b"}),
    "a new folder of metadata": in_new_folder("m"),
    "a new folder below that of metadata": in_new_folder("metadata/new"),
    "a new folder far below": in_new_folder("a/b/m"),
}


@pytest.mark.parametrize("name", NEWER)
def test_files_of_a_newer_state_stay(name: str, both: tuple[Table, Table]) -> None:
    newer, stale = both
    NEWER[name](newer)
    is_refused(stale, newer)
    assert iceberg.orphan_files(newer, older_than=AT_ONCE).num_rows == 0
    stray = path_of(newer.location()) / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    found = iceberg.orphan_files(stale, older_than=AT_ONCE)["path"].to_pylist()
    assert [path_of(path) for path in found] == [stray]
    removed = iceberg.remove_orphan_files(newer, older_than=AT_ONCE, dry_run=False)
    assert removed.files.num_rows == 1


def test_files_of_other_commits_stay_after_commits_through_the_stale_catalog(
    both: tuple[Table, Table],
) -> None:
    newer, stale = both
    iceberg.append(newer, ids(20))
    iceberg.append(newer, ids(30))
    for number in range(4):
        iceberg.delete(stale, f"id = {number}")
    is_refused(stale, newer)
    is_refused(newer, stale)


def test_expiry_through_the_stale_catalog_keeps_what_the_newer_state_needs(both: tuple[Table, Table]) -> None:
    newer, stale = both
    iceberg.overwrite(stale, ids(100))
    iceberg.append(newer, ids(20))
    iceberg.append(newer, ids(30))
    done = iceberg.expire_snapshots(stale, older_than=timedelta())
    assert len(done.snapshot_ids) == 2
    assert done.data_files == done.manifest_lists == 0
    assert all("the catalog does not have" in sentence for sentence in done.not_removed)
    assert done.not_removed
    is_whole(newer)
    is_whole(stale)


def test_a_job_keeps_its_files_of_the_newer_state(both: tuple[Table, Table]) -> None:
    newer, stale = both
    run = "nightly-0123456789ab"
    folder = path_of(newer.location()) / "data" / run
    folder.mkdir()
    data = iceberg.plan_files(newer).tasks[0].data
    path = f"{folder}/{run}-00000-1-0000.puffin"
    (vector,) = write_vectors(path, [(data.file_path, PositionBitmap.from_positions([1]))])
    entry = vector_entry(vector, data, vector.file_size)
    commit(newer, Changes(added=(entry,)), base=newer.current_snapshot())
    assert remove_job_files(stale, "nightly") == []
    is_whole(newer)


def test_a_lost_race_is_no_other_catalog(racing: RacingCatalog) -> None:
    table = iceberg_table(racing, ids(0))
    rival = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(rival, ids(10)))
    iceberg.append(table, ids(20))
    iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    is_whole(table)


def test_metadata_of_a_killed_writer_keeps_its_files_until_it_is_removed_by_hand(
    both: tuple[Table, Table], caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot be told from the state of another catalog, whatever was committed since."""
    killed, table = both
    iceberg.append(killed, ids(20))
    iceberg.append(table, ids(20))
    with caplog.at_level(logging.WARNING, "puffin_fast"):
        found = iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    assert found.files.num_rows == 0
    assert killed.metadata_location in caplog.text
    path_of(killed.metadata_location).unlink()
    found = iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    assert found.files.num_rows in (1, 3)  # manifests outside of the location are not listed
    is_whole(table)


def clean_all(table: Table) -> None:
    """Expires and removes all that the functions allow, in the order of `maintain` and by themselves."""
    policy = iceberg.MaintenancePolicy(expire_older_than=timedelta(), clean_older_than=timedelta())
    before = table.refresh().metadata_location
    try:
        iceberg.maintain(table, policy)
    except ConflictError:
        assert table.refresh().metadata_location == before
    with suppress(ConflictError):
        iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)
    iceberg.expire_snapshots(table, older_than=timedelta())
    with suppress(ConflictError):
        iceberg.remove_orphan_files(table, older_than=AT_ONCE, dry_run=False)


@pytest.mark.parametrize("by", ["puffin_fast", "pyiceberg"])
@pytest.mark.parametrize(
    ("order", "properties"),
    [
        ("bb", {}),
        ("bb", {"write.metadata.compression-codec": "gzip"}),
        ("ab", {}),
        ("ba", {}),
        ("bbaa", {}),
        ("baa", {}),
        ("bba", {}),
        ("baaa", {"write.metadata.previous-versions-max": "1"}),
        ("bbaaa", {"write.metadata.previous-versions-max": "1"}),
        ("bpaaaa", {"write.metadata.previous-versions-max": "1"}),
        ("pa", {}),
    ],
)
def test_clean_up_of_one_catalog_keeps_the_diverged_state_of_the_other(
    order: str, properties: dict[str, str], by: str, racing: RacingCatalog, other: SqlCatalog
) -> None:
    """In the order, "a" and "b" are commits through the two catalogs, and "p" one of b that changes a property."""
    properties = {**AT_ONCE_FAILING, **properties}
    version, appender = (2, "pyiceberg") if by == "pyiceberg" else (3, "us")
    a = iceberg_table(racing, ids(0), version=version, properties=properties, by=appender)
    b = other.register_table("n.t", a.metadata_location)
    for number, who in enumerate(order, 1):
        table = a if who == "a" else b
        if who == "p":
            set_properties(b, {"a": str(number)})
        elif by == "pyiceberg":
            table.append(ids(10 * number))
        else:
            iceberg.overwrite(table, ids(10 * number))
    there = iceberg.scan(b).to_arrow().sort_by("id")
    listed = iceberg.orphan_files(a, older_than=AT_ONCE)["path"].to_pylist()
    assert b.metadata_location not in listed
    clean_all(a)
    assert iceberg.scan(other.load_table("n.t")).to_arrow().sort_by("id") == there
    is_whole(b)
    is_whole(a)
    if "a" in order:  # else the state of a is an earlier one of b, which may expire
        clean_all(b)
        is_whole(a)
        is_whole(b)


def test_metadata_before_the_log_is_an_orphan(
    racing: RacingCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a file between it and the log was removed, it may be another catalog's, and is kept."""
    once = {"write.metadata.previous-versions-max": "1"}
    table = iceberg.create_table(racing, "n.t", SCHEMA, properties=once)
    locations = [table.metadata_location]
    for number in range(5):
        iceberg.append(table, ids(number))
        locations.append(table.metadata_location)
    assert iceberg.orphan_files(table, older_than=AT_ONCE)["path"].to_pylist() == sorted(locations[:4])
    assert "does not have" not in caplog.text
    path_of(locations[2]).unlink()
    assert iceberg.orphan_files(table, older_than=AT_ONCE)["path"].to_pylist() == [locations[3]]
    assert locations[1] in caplog.text
    is_whole(table)
