"""Commits: two writers, lost races, unknown outcomes, and what is left in the folder afterwards."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from puffin_fast.errors import (
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    PuffinFastError,
    UnsupportedError,
)
from puffin_fast.iceberg.commit.changes import Changes
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.commit.request import head_of
from puffin_fast.iceberg.dml.delete import delete
from puffin_fast.iceberg.dml.tables import append, create_table
from puffin_fast.iceberg.manifest import read_manifest_list
from puffin_fast.iceberg.plan.files import plan_files
from puffin_fast.iceberg.scans.scan import scan
from tests.iceberg.commit.writers import ROWS, Unsure, broken, other, reachable, table
from tests.iceberg.conftest import RacingCatalog, current_snapshot, files_of, local, rows_of, set_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["table"]


def ids(table: Table) -> list[int]:
    found: list[int] = rows_of(table)["id"].to_pylist()
    return found


def tidy(table: Table) -> bool:
    """No file of the folder is an orphan, metadata files of lost races aside: those are the catalog's."""
    orphans = files_of(table) - reachable(table)
    return all(path.name.endswith(".metadata.json") for path in orphans)


def test_an_append_beside_a_delete_is_no_conflict(racing: RacingCatalog, table: Table) -> None:
    racing.before.append(lambda: append(other(racing), pa.table({"id": [500], "half": [9]})))
    done = delete(table, "id < 10")
    assert done.attempts == 2
    assert ids(table) == [*range(10, 100), 500]
    numbers = [snapshot.sequence_number for snapshot in table.metadata.snapshots]
    assert numbers == sorted(set(numbers))
    assert tidy(table)


@pytest.mark.parametrize(("level", "left"), [("serializable", []), ("snapshot", [5])])
def test_rows_that_came_in_meanwhile_go_too_unless_isolation_is_snapshot(
    racing: RacingCatalog, table: Table, level: str, left: list[int]
) -> None:
    set_properties(table, {"write.delete.isolation-level": level})
    racing.before.append(lambda: append(other(racing), pa.table({"id": [5], "half": [9]})))
    delete(table, "id < 10")
    assert ids(table) == [*left, *range(10, 100)]
    assert tidy(table)


def test_deletes_from_different_data_files_stand_beside_each_other(
    racing: RacingCatalog, table: Table
) -> None:
    racing.before.append(lambda: delete(other(racing), "id = 99"))
    assert delete(table, "id < 10").attempts == 2
    assert ids(table) == list(range(10, 99))
    assert tidy(table)


@pytest.mark.parametrize("theirs", ["id = 20", "half = 0"], ids=["vector", "dropped"])
@pytest.mark.parametrize("ours", ["id < 10", "half = 0"], ids=["vector", "dropped"])
def test_deletes_from_the_same_data_file_conflict(
    racing: RacingCatalog, table: Table, ours: str, theirs: str
) -> None:
    racing.before.append(lambda: delete(other(racing), theirs))
    with pytest.raises(ConflictError, match="another commit"):
        delete(table, ours)
    table.refresh()
    assert ids(table) == [i for i in range(100) if (i != 20 if theirs == "id = 20" else i >= 50)]
    assert tidy(table)


@pytest.mark.parametrize("theirs", ["id = 20", "half = 0"], ids=["vector", "dropped"])
@pytest.mark.parametrize("ours", ["id < 10", "half = 0"], ids=["vector", "dropped"])
def test_conflicting_deletes_merge_when_asked(
    racing: RacingCatalog, table: Table, ours: str, theirs: str
) -> None:
    racing.before.append(lambda: delete(other(racing), theirs))
    done = delete(table, ours, on_conflict="merge")
    gone = {20 if theirs == "id = 20" else None, *(range(50) if "half = 0" in (ours, theirs) else range(10))}
    assert ids(table) == [i for i in range(100) if i not in gone]
    assert (done.snapshot_id is None) == (theirs == "half = 0")
    assert tidy(table)


def test_a_race_that_does_not_end_is_a_conflict_and_leaves_nothing(
    racing: RacingCatalog, table: Table
) -> None:
    def again() -> None:
        append(other(racing), ROWS.slice(99))
        racing.before.append(again)

    racing.before.append(again)
    with pytest.raises(ConflictError):
        delete(table, "id < 10")
    racing.before = []
    table.refresh()
    assert len(table.metadata.snapshots) == 2 + 5
    assert set(range(10)) <= set(ids(table))
    assert tidy(table)


def test_a_job_that_another_process_finished_meanwhile_is_a_no_op(
    racing: RacingCatalog, table: Table
) -> None:
    racing.before.append(lambda: delete(other(racing), "id < 10", job_id="j"))
    done = delete(table, "id < 10", job_id="j")
    assert (done.repeated, done.rows_deleted) == (True, 0)
    assert ids(table) == list(range(10, 100))
    assert tidy(table)


def test_a_commit_that_happened_though_the_answer_was_lost_is_a_success(
    racing: RacingCatalog, table: Table
) -> None:
    racing.after.append(broken)
    done = delete(table, "id < 10")
    assert done.snapshot_id == table.metadata.current_snapshot_id
    assert ids(table) == list(range(10, 100))
    assert tidy(table)


@pytest.mark.parametrize("retries", ["0", "4"])
def test_a_commit_that_happened_though_the_catalog_refused_it_is_a_success(
    racing: RacingCatalog, retries: str
) -> None:
    """A request that something between repeated: the second was refused, for the first had come through."""
    properties = {"commit.retry.num-retries": retries, "commit.retry.min-wait-ms": "1"}
    table = create_table(racing, "n.patient", ROWS.schema, properties=properties)
    append(table, ROWS)

    def refused() -> None:
        raise CommitFailedException("another commit came first: your own")

    racing.after.append(refused)
    done = delete(table, "id < 10")
    assert done.snapshot_id == table.metadata.current_snapshot_id
    assert ids(table) == list(range(10, 100))
    assert tidy(table)


def test_an_outcome_that_nobody_knows_removes_nothing(racing: RacingCatalog, table: Table) -> None:
    class Silent(RacingCatalog):
        """Neither commits nor loads answer any more once a commit was tried."""

        lost = False

        def commit_table(self, table: Table, requirements: Any, updates: Any) -> Any:
            super().commit_table(table, requirements, updates)
            self.lost = True
            raise Unsure("the connection broke")

        def load_table(self, identifier: Any) -> Table:
            if self.lost:
                broken()
            return super().load_table(identifier)

    silent = Silent("racing", **racing.properties)
    mine = silent.load_table("n.t")
    with pytest.raises(CommitUnknownError, match="No file was removed"):
        delete(mine, "id < 10")
    silent.engine.dispose()
    table.refresh()
    assert ids(table) == list(range(10, 100))  # the commit had happened, and needs its files


def test_a_commit_whose_metadata_cannot_be_written_leaves_the_table_and_no_files(
    racing: RacingCatalog, table: Table
) -> None:
    before = files_of(table)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    racing._write_metadata = full_disk  # type: ignore[method-assign]
    with pytest.raises(PuffinFastError, match="No space left"):
        delete(table, "id < 10")
    assert files_of(table) == before


def test_a_place_that_takes_no_files_is_our_error_and_leaves_nothing(
    racing: RacingCatalog, table: Table
) -> None:
    a_file = racing.properties["uri"].removeprefix("sqlite:///")
    set_properties(table, {"write.data.path": f"file://{a_file}/x"})
    before = files_of(table)
    with pytest.raises(PuffinFastError):
        delete(table, "id < 10")
    with pytest.raises(PuffinFastError, match="could not be written"):
        append(table, ROWS)
    assert files_of(table) == before
    assert ids(racing.load_table("n.t")) == list(range(100))


def test_manifests_that_lose_nothing_are_kept(table: Table) -> None:
    for key in (3, 60, 4):
        delete(table, f"id = {key}")
    lists = [
        {m.path for m in read_manifest_list(table.io, s.manifest_list) if m.content == 0}
        for s in table.metadata.snapshots
    ]
    assert lists[1] == lists[2] == lists[3] == lists[4]
    last = current_snapshot(table)
    deletes = [m for m in read_manifest_list(table.io, last.manifest_list) if m.content == 1]
    assert sorted((m.added_files_count, m.existing_files_count, m.deleted_files_count) for m in deletes) == [
        (1, 0, 0),
        (1, 0, 1),
    ]


def test_rows_keep_their_ids_when_their_manifest_is_rewritten(racing: RacingCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    table = create_table(racing, "n.p", schema, partition_spec=["part"])
    append(table, pa.table({"id": list(range(90)), "part": [i % 3 for i in range(90)]}, schema))
    first = {t.data.file_path: t.data.first_row_id for t in plan_files(table).tasks}
    delete(table, "part = 1")
    after = {t.data.file_path: t.data.first_row_id for t in plan_files(table).tasks}
    assert len(after) == 2
    assert after.items() <= first.items()
    append(table, pa.table({"id": [1], "part": [1]}, schema))
    ranges = sorted((t.data.first_row_id, t.data.record_count) for t in plan_files(table).tasks)
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges))
    assert table.metadata.next_row_id >= sum(ranges[-1])


def test_one_commit_never_brings_two_vectors_for_a_data_file(table: Table) -> None:
    delete(table, "id = 1")
    vector = next(task.vector for task in plan_files(table).tasks if task.vector is not None)
    with pytest.raises(InvalidInputError, match="two vectors"):
        Changes(added=(vector, vector))


def test_removing_a_file_that_is_not_there_is_a_conflict(racing: RacingCatalog, table: Table) -> None:
    base = head_of(table.metadata)
    gone = plan_files(table).tasks[0].data
    before = files_of(table)
    gone.file_path += "x"
    with pytest.raises(ConflictError, match="expected a live file"):
        commit(table, Changes(removed=(gone,)), base=base)
    assert files_of(table) == before


def test_a_static_table_takes_no_commits(table: Table) -> None:
    from pyiceberg.table import StaticTable

    fixed = StaticTable.from_metadata(table.metadata_location)
    before = files_of(table)
    with pytest.raises(UnsupportedError, match="NoopCatalog"):
        commit(fixed, Changes(removed=(plan_files(table).tasks[0].data,)), base=head_of(fixed.metadata))
    assert files_of(table) == before


@pytest.mark.parametrize("stated", ["n/a", "", "1.5", "9" * 5000, "٣", "-1"])
def test_a_total_that_is_no_count_is_not_carried_on(shared_catalog: Any, namespace: str, stated: str) -> None:
    table = create_table(shared_catalog, f"{namespace}.t", pa.schema([("id", pa.int64())]))
    append(table, pa.table({"id": [1, 2]}))
    file = local(table.metadata_location)
    document = json.loads(file.read_text())
    document["snapshots"][-1]["summary"]["total-records"] = stated
    file.write_text(json.dumps(document))
    table = shared_catalog.load_table(f"{namespace}.t")
    append(table, pa.table({"id": [3]}))
    delete(table, "id = 1")
    assert sorted(scan(table).to_arrow()["id"].to_pylist()) == [2, 3]
    assert "total-records" not in table.metadata.snapshots[-1].summary.additional_properties
