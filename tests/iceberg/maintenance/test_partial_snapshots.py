"""A catalog that answers with the snapshots of branches and tags only does not make us forget the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from puffin_fast import PositionBitmap, iceberg
from puffin_fast.errors import CommitUnknownError, InvalidInputError, UnsupportedError
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.puffin.vectors import write_vectors
from puffin_fast.spark.dataframe.job_files import remove_job_files
from tests.iceberg.rest_proxy import Proxy, proxy
from tests.kit.tables import path_of

AT_ONCE = timedelta()
SCHEMA = pa.schema([("id", pa.int64())])

pytestmark = pytest.mark.jar


def ids(first: int) -> pa.Table:
    return pa.table({"id": range(first, first + 10)}, SCHEMA)


@pytest.fixture
def whole(rest_catalog: RestCatalog, rest_namespace: str) -> Table:
    """A table, as a catalog with all snapshots loads it: four on main, one of a tag, and one that only its id names."""
    table = iceberg.create_table(rest_catalog, f"{rest_namespace}.t", SCHEMA)
    iceberg.append(table, ids(0), job_id="first")
    iceberg.append(table, ids(10))
    with table.manage_snapshots() as manage:
        manage.create_tag(table.metadata.current_snapshot_id, "second")
        manage.create_branch(table.metadata.current_snapshot_id, "audit")
    iceberg.append(table, ids(100), branch="audit")
    rest_catalog.commit_table(table, (), (RemoveSnapshotRefUpdate.model_validate({"ref-name": "audit"}),))
    table.refresh()
    iceberg.delete(table, "id = 3")
    iceberg.delete(table, "id = 4")
    assert len(table.metadata.snapshots) == 5
    return table


@pytest.fixture
def server(rest_catalog: RestCatalog) -> Iterator[Proxy]:
    with proxy(rest_catalog.properties["uri"]) as server:
        yield server


@pytest.fixture(params=["asked", "unasked"])
def partial(request: pytest.FixtureRequest, whole: Table, server: Proxy) -> Table:
    """The same table, from a client that asks for the snapshots of refs, and from a server that gives no others."""
    catalog = server.catalog()
    if request.param == "asked":
        uri = whole.catalog.properties["uri"]
        catalog = RestCatalog("refs", uri=uri, **{"snapshot-loading-mode": "refs"})
    table = catalog.load_table(whole.name())
    assert len(table.metadata.snapshots) == 2
    return table


def orphans(found: pa.Table) -> list[str]:
    """The paths of orphan files; not the checksums that Hadoop writes beside files of the server."""
    return [path for path in found["path"].to_pylist() if not path.endswith(".crc")]


def snapshots(table: Table) -> list[Snapshot]:
    """All snapshots, the oldest first."""
    return sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)


def counts(table: Table) -> list[int]:
    """The number of rows of each snapshot; all their files are read."""
    found = snapshots(table.refresh())
    return [iceberg.scan(table, snapshot_id=s.snapshot_id).to_arrow().num_rows for s in found]


ALL = [10, 20, 30, 19, 18]


def test_files_of_all_snapshots_are_needed(whole: Table, partial: Table) -> None:
    stray = path_of(whole.location()) / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    removed = iceberg.remove_orphan_files(partial, older_than=AT_ONCE, dry_run=False)
    assert [path_of(path) for path in orphans(removed.files)] == [stray]
    policy = iceberg.MaintenancePolicy(steps=("clean",), clean_older_than=timedelta())
    again = iceberg.maintain(partial, policy).orphan_files
    assert again is not None
    assert orphans(again.files) == []
    assert counts(whole) == ALL


def test_a_job_keeps_its_files_of_old_snapshots(whole: Table, partial: Table) -> None:
    run = "nightly-0123456789ab"
    folder = path_of(whole.location()) / "data" / run
    folder.mkdir()
    data = iceberg.plan_files(whole).tasks[0].data
    paths = [str(folder / f"{run}-00000-{attempt}-0000.puffin") for attempt in (1, 2)]
    vectors = [
        write_vectors(path, [(data.file_path, PositionBitmap.from_positions([0, 3, 4]))])[0] for path in paths
    ]
    removed = tuple(task.vector for task in iceberg.plan_files(whole).tasks if task.vector is not None)
    entry = vector_entry(vectors[0], data, vectors[0].file_size)
    commit(whole, Changes(added=(entry,), removed=removed), base=whole.current_snapshot())
    iceberg.delete(whole, "id = 5")
    assert [path_of(path) for path in remove_job_files(partial, "nightly")] == [Path(paths[1])]
    assert counts(whole) == [*ALL, 17, 16]


def test_expiry_keeps_as_many_snapshots_as_it_is_told(whole: Table, partial: Table) -> None:
    planned = iceberg.expire_snapshots(partial, older_than=timedelta(), retain_last=2, dry_run=True)
    done = iceberg.expire_snapshots(partial, older_than=timedelta(), retain_last=2)
    assert len(planned.snapshot_ids) == len(done.snapshot_ids) == 2
    assert planned.manifest_lists == done.manifest_lists == 2
    assert counts(whole) == [20, 19, 18]
    assert iceberg.verify(whole) == []


def test_a_job_is_not_repeated_whose_snapshot_is_not_in_the_answer(whole: Table, partial: Table) -> None:
    iceberg.append(partial, ids(0), job_id="first")
    with (
        pytest.raises(InvalidInputError, match="expected a job of transaction"),
        iceberg.transaction(partial, job_id="first") as tx,
    ):
        tx.append(ids(0))
    assert counts(whole) == ALL


def test_old_snapshots_are_found_by_id_and_by_time(whole: Table, partial: Table) -> None:
    first, *_ = snapshots(whole)
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    assert iceberg.scan(partial, snapshot_id=first.snapshot_id).count() == 10
    assert iceberg.scan(partial, as_of=moment).count() == 10
    assert iceberg.report(partial).snapshots.num_rows == 4


def test_statistics_go_on_from_those_of_old_snapshots(whole: Table, server: Proxy) -> None:
    first, *_ = snapshots(whole)
    iceberg.collect_ndv(whole, ["id"], snapshot_id=first.snapshot_id)
    partial = server.catalog().load_table(whole.name())
    assert iceberg.ndv(partial)["ndv"].to_pylist() == [10]
    done = iceberg.collect_ndv(partial, ["id"])
    assert (done.ndv, done.data_files_read) == ({"id": 20}, 1)
    assert iceberg.collect_ndv(partial, ["id"], snapshot_id=first.snapshot_id).commit.id is None
    whole.refresh()
    assert len(whole.metadata.statistics) == 2


@pytest.mark.parametrize("retries", ["0", "4"])
def test_a_commit_that_was_made_and_refused_is_found_below_another(
    retries: str, whole: Table, server: Proxy
) -> None:
    with whole.transaction() as change:
        change.set_properties({"commit.retry.num-retries": retries, "commit.retry.min-wait-ms": "0"})
    partial = server.catalog().load_table(whole.name())
    server.refused.append(lambda: iceberg.delete(whole.refresh(), "id = 5"))
    done = iceberg.append(partial, ids(200))
    assert done is not None
    assert counts(whole) == [*ALL, 28, 27]
    assert whole.metadata.current_snapshot().parent_snapshot_id == done.commit.id  # type: ignore[union-attr]
    assert orphans(iceberg.orphan_files(whole, older_than=AT_ONCE)) == []
    assert iceberg.verify(whole) == []


def test_a_commit_that_was_made_and_refused_is_found_after_its_snapshot_expired(
    whole: Table, server: Proxy
) -> None:
    def on_top() -> None:
        iceberg.delete(whole.refresh(), "id = 5")
        iceberg.delete(whole, "id = 6")
        iceberg.expire_snapshots(whole, older_than=timedelta())

    server.refused.append(on_top)
    done = iceberg.append(server.catalog().load_table(whole.name()), ids(200))
    assert done is not None
    assert counts(whole) == [20, 26]
    assert orphans(iceberg.orphan_files(whole, older_than=AT_ONCE)) == []


def test_a_lost_race_is_known_as_one_after_the_winner_has_expired(whole: Table, server: Proxy) -> None:
    with whole.manage_snapshots() as manage:
        manage.create_tag(whole.metadata.current_snapshot_id, "base")

    def win() -> None:
        iceberg.delete(whole.refresh(), "id = 5")
        iceberg.delete(whole, "id = 6")
        iceberg.expire_snapshots(whole, older_than=timedelta())

    server.before.append(win)
    iceberg.append(server.catalog().load_table(whole.name()), ids(200))
    assert counts(whole) == [20, 18, 16, 26]
    assert orphans(iceberg.orphan_files(whole, older_than=AT_ONCE)) == []


@pytest.mark.parametrize("verb", ["expire", "collect"])
def test_other_changes_that_were_made_and_refused_keep_their_files(
    verb: str, whole: Table, server: Proxy
) -> None:
    partial = server.catalog().load_table(whole.name())
    server.refused.append(lambda: iceberg.delete(whole.refresh(), "id = 5"))
    if verb == "expire":
        done = iceberg.expire_snapshots(partial, older_than=timedelta())
        assert len(done.snapshot_ids) == 3
        assert counts(whole) == [20, 18, 17]
    else:
        assert iceberg.collect_ndv(partial, ["id"]).statistics_path is not None
        whole.refresh()
        assert all(path_of(file.statistics_path).exists() for file in whole.metadata.statistics)
    assert orphans(iceberg.orphan_files(whole, older_than=AT_ONCE)) == []


def test_what_cannot_be_known_is_refused(whole: Table, server: Proxy) -> None:
    server.names_file = False
    partial = server.catalog().load_table(whole.name())
    first, *_ = snapshots(whole)
    for job in (
        lambda: iceberg.remove_orphan_files(partial, older_than=AT_ONCE, dry_run=False),
        lambda: iceberg.expire_snapshots(partial, older_than=timedelta()),
        lambda: iceberg.append(partial, ids(0), job_id="first"),
        lambda: iceberg.scan(partial, snapshot_id=first.snapshot_id),
        lambda: iceberg.scan(partial, as_of=first.timestamp_ms),
        lambda: iceberg.collect_ndv(partial, ["id"]),
    ):
        with pytest.raises(UnsupportedError, match="may lack snapshots"):
            job()
    assert counts(whole) == ALL
    server.refused.append(lambda: iceberg.delete(whole.refresh(), "id = 5"))
    with pytest.raises(CommitUnknownError):
        iceberg.append(partial, ids(200))
    assert counts(whole) == [*ALL, 28, 27]
    assert iceberg.verify(whole) == []
