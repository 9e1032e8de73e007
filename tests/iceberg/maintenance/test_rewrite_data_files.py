"""Rewrites of data files do not change rows and row ids, also with concurrent commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from puffin_fast import iceberg
from puffin_fast.errors import (
    ConflictError,
    InvalidInputError,
    JobInterruptedError,
    NotFoundError,
    UnsupportedError,
)
from puffin_fast.iceberg.commit.request import Request
from puffin_fast.iceberg.compat.table_metadata import v3_metadata
from puffin_fast.iceberg.maintenance.rewrite_job import run_rewrite
from puffin_fast.iceberg.maintenance.rewritten_groups import GroupWriter, RewrittenGroup
from puffin_fast.rows.rewrite.file_groups import RewriteTerms
from tests.iceberg.conftest import files_of, local, rows_of, rows_of_duckdb
from tests.iceberg.dml.example_rows import SCHEMA, START, N, check, made, of, row
from tests.iceberg.maintenance.delete_files import delete_by_file
from tests.iceberg.maintenance.rewritten import ALL, is_sound, lineage
from tests.nanoseconds import nanosecond_types
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.compat.working_table import WorkingTable
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from tests.iceberg.conftest import RacingCatalog


def ids(table: Table) -> list[int]:
    return [found["id"] for found in lineage(table)]


def summary(table: Table) -> Any:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.summary


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_no_row_changes(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    version: int,
    spec: tuple[str, ...],
) -> None:
    table = made(shared_catalog, namespace, version=version, spec=spec)
    iceberg.delete(table, "id < 10 or id = 33")
    iceberg.update(table, "id = 50", {"x": None})
    before = lineage(table)
    done = iceberg.rewrite_data_files(table, **ALL)
    rows = [{**r, "x": None} if r["id"] == 50 else r for r in START if not (r["id"] < 10 or r["id"] == 33)]
    check(table, duckdb_iceberg, rows)
    assert lineage(table) == before
    n_files = 3 if spec else 1
    assert (done.data_files, done.data_files_written) == (10 if spec else 4, n_files)
    assert (done.rows, done.rows_purged, done.attempts) == (N - 11, 12, 1)
    assert done.deletes_removed > 0
    assert iceberg.deletes(table).num_rows == 0
    assert summary(table).operation.value == "replace"
    assert summary(table)["total-records"] == str(N - 11)
    assert summary(table)["total-delete-files"] == "0"
    tasks = iceberg.plan_files(table).tasks
    assert sorted(task.data.partition for task in tasks) == sorted(
        [("g0",), ("g1",), ("g2",)] if spec else [()]
    )
    assert sum(task.data.file_size_in_bytes for task in tasks) == done.n_bytes
    assert is_sound(table)
    again = iceberg.rewrite_data_files(table, **ALL)
    assert (again.snapshot_id, again.data_files, again.attempts) == (None, 0, 0)
    iceberg.update(table, "id = 40", {"x": 0.0})  # the new files take deletes as others do
    iceberg.delete(table, "id = 41")
    assert [r["id"] for r in rows_of(table).to_pylist()] == [r["id"] for r in rows if r["id"] != 41]


def test_only_files_that_are_worth_it_are_rewritten(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    first = iceberg.plan_files(table, row_filter="id = 3").tasks[0].data.file_path
    iceberg.delete(table, "id < 7 or id = 30")
    keep = {task.data.file_path for task in iceberg.plan_files(table).tasks} - {first}
    assert iceberg.rewrite_data_files(table, min_deleted=0.36).snapshot_id is None
    assert iceberg.rewrite_data_files(table, "id > 20").snapshot_id is None
    assert iceberg.rewrite_data_files(table, "ID < 20", case_sensitive=False).data_files == 1
    assert {task.data.file_path for task in iceberg.plan_files(table).tasks} > keep
    # three small files: joined from three on, unless none is small
    assert iceberg.rewrite_data_files(table, min_input_files=4).snapshot_id is None
    assert iceberg.rewrite_data_files(table, min_input_files=3, min_file_size=0).snapshot_id is None
    assert iceberg.rewrite_data_files(table, min_input_files=3).data_files == 3
    assert ids(table) == [i for i in range(7, N) if i != 30]


def test_a_filter_does_not_hide_deletes(shared_catalog: SqlCatalog, namespace: str) -> None:
    """A file is rewritten whole, with the deletes of rows that the filter does not select."""
    table = made(shared_catalog, namespace, spec=("g",))
    iceberg.delete(table, "id < 30")
    assert iceberg.rewrite_data_files(table, "g = 'g1' and id = 31", min_deleted=0.1).data_files == 1
    assert ids(table) == list(range(30, N))


def test_files_have_the_target_size(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = iceberg.create_table(shared_catalog, f"{namespace}.t", pa.schema([("id", pa.int64())]))
    for first in range(0, 6000, 1000):
        iceberg.append(table, pa.table({"id": range(first, first + 1000)}))
    iceberg.delete(table, "id >= 2500")
    before = lineage(table)
    size = max(task.data.file_size_in_bytes for task in iceberg.plan_files(table).tasks)
    done = iceberg.rewrite_data_files(table, target_file_size=2 * size, min_input_files=2)
    tasks = iceberg.plan_files(table).tasks
    # two whole files fill one; half a file and three dead ones go together
    assert sorted(task.data.record_count for task in tasks) == [500, 2000]
    assert (done.data_files, done.data_files_written) == (3, 2)  # the delete dropped the dead ones
    iceberg.delete(table, "id < 1000")
    # a file above the target size is divided
    done = iceberg.rewrite_data_files(table, target_file_size=size // 4, min_deleted=0.5, min_file_size=0)
    counts = [t.data.record_count for t in iceberg.plan_files(table, row_filter="id < 2000").tasks]
    assert (done.data_files, sum(counts), len(counts)) == (1, 1000, done.data_files_written)
    assert max(counts) - min(counts) <= len(counts)
    assert len(counts) > 1
    assert lineage(table) == before[1000:]
    assert is_sound(table)


def test_rows_keep_the_order_of_their_commits(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    iceberg.delete(table, "id = 21")
    iceberg.rewrite_data_files(table, min_input_files=2)
    assert iceberg.scan(table).to_arrow()["id"].to_pylist() == [i for i in range(N) if i != 21]


@pytest.mark.parametrize("version", [2, 3])
def test_a_dry_run_counts_and_writes_nothing(
    shared_catalog: SqlCatalog, namespace: str, version: int
) -> None:
    table = made(shared_catalog, namespace, version=version)
    iceberg.delete(table, "id < 10")
    before, files = table.metadata_location, files_of(table)
    dry = iceberg.rewrite_data_files(table, **ALL, dry_run=True)
    assert (dry.snapshot_id, dry.data_files, dry.rows, dry.rows_purged) == (None, 3, N - 10, 10)
    assert (table.refresh().metadata_location, files_of(table)) == (before, files)
    done = iceberg.rewrite_data_files(table, **ALL)
    assert (done.data_files, done.rows, done.n_bytes_before) == (3, N - 10, dry.n_bytes_before)


def test_empty_tables_one_row_and_no_row_left(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = iceberg.create_table(shared_catalog, f"{namespace}.t", SCHEMA)
    assert iceberg.rewrite_data_files(table).snapshot_id is None
    for number in range(2):
        iceberg.append(table, of([row(number)]))
    assert iceberg.rewrite_data_files(table, min_input_files=2).rows == 2
    delete_equal(table, [1], [(0,), (1,)])  # drops no data file
    assert iceberg.rewrite_data_files(table, min_input_files=2).snapshot_id is None
    iceberg.append(table, of([row(2)]))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.rows, done.rows_purged, done.data_files_written) == (1, 2, 1)
    delete_equal(table, [1], [(2,)])
    iceberg.append(table, of([row(3)]))
    delete_equal(table, [1], [(3,)])
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.rows, done.rows_purged, done.data_files_written) == (0, 2, 0)
    assert (ids(table), iceberg.plan_files(table).tasks) == ([], [])
    assert (rows_of(table).num_rows, is_sound(table)) == (0, True)


@pytest.mark.parametrize("version", [2, 3])
def test_equality_and_shared_position_deletes_are_applied(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection, version: int
) -> None:
    table = made(shared_catalog, namespace, version=2)
    paths = [task.data.file_path for task in iceberg.plan_files(table).tasks]
    delete_by_file(table, [(path, 3) for path in paths])
    if version == 3:
        iceberg.upgrade(table)
    delete_equal(table, [1], [(5,), (25,)])
    before = lineage(table)
    # one file of three: the others need both delete files
    assert iceberg.rewrite_data_files(table, "id < 20", min_deleted=0).snapshot_id is None
    one = iceberg.rewrite_data_files(table, "id < 40", **ALL)
    assert (one.data_files, one.deletes_removed) == (2, 0)
    assert [r["id"] for r in before] == ids(table)
    iceberg.append(table, of([row(5)]))  # newer than the equality deletes
    last = iceberg.rewrite_data_files(table, **ALL)
    assert (last.data_files, last.deletes_removed) == (3, 2)
    gone = {3, 23, 43, 5, 25}
    check(table, duckdb_iceberg, [r for r in START if r["id"] not in gone] + [row(5)])
    if version == 3:
        kept = {r["id"]: r for r in lineage(table)}
        assert [kept[r["id"]] for r in before] == before
    assert is_sound(table)


def test_old_specs_and_schemas(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(shared_catalog, namespace, spec=("g",))
    with v3_metadata(shared_catalog):
        with table.update_spec() as update:
            update.remove_field("g")
            update.add_field("id", BucketTransform(2), "b")  # type: ignore[no-untyped-call]
        with table.update_schema() as change:
            change.add_column("new", IntegerType())
            change.rename_column("g", "other")
            change.delete_column("tags")
            change.move_first("x")
    later = (
        of([row(i) for i in range(100, 110)]).drop_columns(["tags"]).rename_columns(["id", "other", "x", "s"])
    )
    for _ in range(2):
        iceberg.append(table, later.append_column("new", pa.array(range(10), pa.int32())))
    iceberg.delete(table, "id = 100 or id < 5")
    before, schema = rows_of(table), table.schema()
    own = sorted(map(repr, lineage(table)))
    specs = {(t.data.spec_id, t.data.partition) for t in iceberg.plan_files(table).tasks}
    iceberg.rewrite_data_files(table, **ALL)
    tasks = iceberg.plan_files(table).tasks
    assert sorted(map(repr, lineage(table))) == own
    assert {(task.data.spec_id, task.data.partition) for task in tasks} == specs
    assert len(tasks) == len(specs)
    assert table.schema() == schema
    assert sorted(map(repr, rows_of(table).to_pylist())) == sorted(map(repr, before.to_pylist()))
    found = rows_of_duckdb(duckdb_iceberg, table).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, before.to_pylist()))
    assert iceberg.scan(table, "other = 'g1' and id < 20").to_arrow().num_rows == 5


def test_nanoseconds_keep_their_bounds(shared_catalog: SqlCatalog, namespace: str) -> None:
    kinds = pa.schema([("id", pa.int64()), ("t", pa.timestamp("ns"))])
    table = iceberg.create_table(shared_catalog, f"{namespace}.t", kinds, types=nanosecond_types(kinds))
    for first in (0, 10):
        times = pa.array([1_700_000_000_000_000_001 + first + i for i in range(10)], pa.timestamp("ns"))
        iceberg.append(table, pa.table({"id": range(first, first + 10), "t": times}))
    before = [task.data for task in iceberg.plan_files(table, metrics=True).tasks]
    iceberg.rewrite_data_files(table, **ALL)
    (task,) = iceberg.plan_files(table, metrics=True).tasks
    assert (task.data.lower_bounds or {})[2] == min((data.lower_bounds or {})[2] for data in before)
    assert (task.data.upper_bounds or {})[2] == max((data.upper_bounds or {})[2] for data in before)


def test_a_column_with_the_name_of_a_metadata_column(shared_catalog: SqlCatalog, namespace: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "_pos", StringType()))
    with v3_metadata(shared_catalog):  # `create_table` refuses these names
        table = shared_catalog.create_table(f"{namespace}.t", schema, properties={"format-version": "3"})
    for number in range(2):
        iceberg.append(table, pa.table({"id": [number], "_pos": ["x"]}))
    assert iceberg.rewrite_data_files(table, **ALL).rows == 2
    assert iceberg.scan(table).to_arrow().to_pylist() == [{"id": n, "_pos": "x"} for n in range(2)]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "_row_id", StringType()))
    with v3_metadata(shared_catalog):
        table = shared_catalog.create_table(f"{namespace}.u", schema, properties={"format-version": "3"})
    with pytest.raises(UnsupportedError, match="_row_id"):
        iceberg.rewrite_data_files(table)


def test_a_job_is_done_once_and_on_its_branch(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    head = table.current_snapshot()
    assert head is not None
    with v3_metadata(shared_catalog):
        table.manage_snapshots().create_branch(head.snapshot_id, "b").commit()
    first = iceberg.rewrite_data_files(table, **ALL, branch="b", job_id="j")
    again = iceberg.rewrite_data_files(table, **ALL, branch="b", job_id="j")
    assert (again.repeated, again.snapshot_id, again.data_files) == (True, first.snapshot_id, 0)
    assert len(iceberg.plan_files(table).tasks) == 3
    assert len(iceberg.plan_files(table, branch="b").tasks) == 1
    assert lineage(table, branch="b") == lineage(table)
    with pytest.raises(NotFoundError, match="twig"):
        iceberg.rewrite_data_files(table, branch="twig")


def test_a_row_that_the_schema_does_not_allow_changes_nothing(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    table = made(shared_catalog, namespace)
    with v3_metadata(shared_catalog), table.update_schema(allow_incompatible_changes=True) as change:
        change.update_column("tags", required=True)
    files = files_of(table)
    with pytest.raises(InvalidInputError, match="tags is required"):
        iceberg.rewrite_data_files(table, **ALL)
    assert files_of(table) == files


@pytest.mark.parametrize("version", [2, 3])
def test_several_commits_keep_what_is_done(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, version: int
) -> None:
    table = made(racing, "n", version=version, spec=("g",))
    iceberg.delete(table, "id < 10 or id = 41")
    before, n_before = lineage(table), len(table.metadata.snapshots)
    other = racing.load_table("n.t")
    racing.before = [lambda: iceberg.delete(other, "id = 30")]
    done = iceberg.rewrite_data_files(table, **ALL, max_commits=2)
    assert (done.commits, done.data_files, done.attempts) == (2, 9, 3)
    assert len(table.metadata.snapshots) == n_before + 3
    assert lineage(table) == [found for found in before if found["id"] != 30]
    assert is_sound(table)
    assert (
        iceberg.rewrite_data_files(table, **ALL, max_commits=5).commits <= 1
    )  # of the file with the new delete
    check(table, duckdb_iceberg, [r for r in START if r["id"] >= 10 and r["id"] not in (30, 41)])


@pytest.mark.parametrize("interrupted", [0, 1])
def test_an_interrupted_part_names_the_commits_of_earlier_parts(
    racing: RacingCatalog, interrupted: int
) -> None:
    table = made(racing, "n", spec=("g",))
    before, n_parts = ids(table), count()

    def write(
        table: WorkingTable, head: Snapshot, groups: Sequence[Sequence[FileTask]], target: int
    ) -> Iterator[RewrittenGroup]:
        if next(n_parts) == interrupted:
            raise JobInterruptedError("the job was cancelled")
        yield from map(GroupWriter(table, head.sequence_number or 0, target, 1).write, groups)

    terms = RewriteTerms(AlwaysTrue(), **ALL, max_commits=3)
    with pytest.raises(JobInterruptedError, match="the job was cancelled") as caught:
        run_rewrite(table, terms, Request(verb="rewrite_data_files"), write, None, dry_run=False)
    head = racing.load_table("n.t").current_snapshot()
    earlier = f"; earlier parts are committed up to snapshot {head.snapshot_id if head else None}"
    assert str(caught.value) == f"the job was cancelled{earlier * interrupted}"
    assert ids(racing.load_table("n.t")) == before


def test_a_part_that_conflicts_is_left_out(racing: RacingCatalog) -> None:
    table = made(racing, "n", spec=("g",))
    before, other = ids(table), racing.load_table("n.t")
    first = iceberg.plan_files(table).tasks[0].data.partition[0]
    racing.before = [lambda: iceberg.delete(other, f"g = '{first}'")]
    done = iceberg.rewrite_data_files(table, **ALL, max_commits=3)
    assert (done.commits, done.data_files, done.data_files_left_out) == (2, 6, 3)
    assert ids(table) == [id for id in before if START[id]["g"] != first]
    with pytest.raises(InvalidInputError, match="max_commits"):
        iceberg.rewrite_data_files(table, max_commits=2, job_id="one")


# Other commits come first ----------------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the groups that are read and written."""
    found: list[int] = []
    write = GroupWriter.write

    def counted(self: GroupWriter, tasks: Any) -> Any:
        found.append(len(tasks))
        return write(self, tasks)

    monkeypatch.setattr(GroupWriter, "write", counted)
    return found


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_a_row_deleted_meanwhile_stays_deleted(
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    reads: list[int],
    version: int,
    spec: tuple[str, ...],
) -> None:
    table = made(racing, "n", version=version, spec=spec)
    iceberg.delete(table, "id in (1, 2, 5, 22, 57)")
    before = {r["id"]: r for r in lineage(table)}
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "id in (0, 3, 21, 59)"))
    done = iceberg.rewrite_data_files(table, **ALL)
    assert (done.attempts, done.deletes_moved, done.data_files_left_out) == (2, 4, 0)
    assert sum(reads) == done.data_files  # each file once
    gone = {1, 2, 5, 22, 57, 0, 3, 21, 59}
    check(table, duckdb_iceberg, [r for r in START if r["id"] not in gone])
    assert lineage(table) == [r for i, r in before.items() if i not in gone]
    assert is_sound(table)
    assert iceberg.orphan_files(table, older_than=timedelta(seconds=-5)).num_rows == 0
    iceberg.delete(table, "id = 30")
    assert ids(table) == [i for i in range(N) if i not in gone | {30}]


def test_deletes_of_two_races_and_of_each_position(racing: RacingCatalog) -> None:
    """Each row of the table is deleted in its own race, whichever rows were deleted before."""
    table = made(racing, "n")
    iceberg.delete(table, "id in (0, 1, 19, 20, 30, 39, 58)")
    live = ids(table)
    for victim in live[::4]:
        other = racing.load_table("n.t")
        racing.before.append(lambda other=other, victim=victim: iceberg.delete(other, f"id = {victim}"))  # type: ignore[misc]
        done = iceberg.rewrite_data_files(table, min_deleted=0, min_input_files=2)
        assert done.data_files > 0
        live.remove(victim)
        assert ids(table) == live
    other = racing.load_table("n.t")
    iceberg.append(other, of([row(100)]))

    def twice() -> None:
        iceberg.delete(other, f"id = {live[0]}")
        racing.before.append(lambda: iceberg.delete(other, f"id = {live[1]}"))

    racing.before.append(twice)
    done = iceberg.rewrite_data_files(table, **ALL)
    assert done.attempts >= 2
    assert ids(table)[0] in (live[1], live[2])
    racing.before.clear()
    assert is_sound(table)


def test_appends_and_updates_that_race_in(racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection) -> None:
    table = made(racing, "n")
    iceberg.delete(table, "id < 8")
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.append(other, of([row(100)])))
    done = iceberg.rewrite_data_files(table, min_deleted=0.2)
    assert (done.attempts, done.data_files, done.deletes_moved) == (2, 1, 0)
    rows = [*START[8:], row(100)]
    check(table, duckdb_iceberg, rows)
    racing.before.append(lambda: iceberg.update(other, "id in (10, 30)", {"x": pc.field("x") + 1}))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.attempts, done.deletes_moved) == (2, 2)
    rows = [{**r, "x": r["x"] + 1} if r["id"] in (10, 30) else r for r in rows]
    check(table, duckdb_iceberg, rows)
    assert [r["_row_id"] for r in lineage(table)] == [*range(8, N), N]
    assert is_sound(table)


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_that_race_in_apply_to_the_new_files(racing: RacingCatalog, version: int) -> None:
    table = made(racing, "n", version=version)
    delete_equal(table, [1], [(4,)])
    other = racing.load_table("n.t")
    racing.before.append(lambda: delete_equal(other, [1], [(5,), (45,)]))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.attempts, done.rows_purged, done.deletes_moved, done.deletes_removed) == (2, 1, 0, 1)
    assert ids(table) == [i for i in range(N) if i not in (4, 5, 45)]


@pytest.mark.parametrize("equal", [False, True], ids=["positions", "equality deletes"])
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_replace_and_expire_what_was_read(
    racing: RacingCatalog, version: int, equal: bool
) -> None:
    """The delete files that said which rows were not live are gone when the rewrite compares."""
    table = made(racing, "n", version=version)
    if equal:
        delete_equal(table, [1], [(4,)])
    iceberg.delete(table, "id in (1, 22)")
    other = racing.load_table("n.t")

    def delete_and_expire() -> None:
        iceberg.delete(other, "id in (2, 23)")
        iceberg.expire_snapshots(other, older_than=timedelta(), retain_last=1)

    racing.before.append(delete_and_expire)
    done = iceberg.rewrite_data_files(table, **ALL)
    assert (done.attempts, done.deletes_moved, done.data_files_left_out) == (2, 2, 0)
    gone = {1, 22, 2, 23, *([4] if equal else [])}
    assert ids(table) == [i for i in range(N) if i not in gone]
    assert is_sound(table)


def test_a_data_file_that_expires_while_it_is_read(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rewrite is planned again on the newer head. Without one, the file is lost, and the error says so."""
    table = made(racing, "n", version=2)
    other, write = racing.load_table("n.t"), GroupWriter.write
    path = iceberg.plan_files(table, row_filter="id = 3").tasks[0].data.file_path

    def raced(self: GroupWriter, group: Any) -> RewrittenGroup:
        monkeypatch.setattr(GroupWriter, "write", write)
        iceberg.delete(other, "id < 20")
        iceberg.expire_snapshots(other, older_than=timedelta(), retain_last=1)
        return write(self, group)

    monkeypatch.setattr(GroupWriter, "write", raced)
    iceberg.rewrite_data_files(table, **ALL)
    assert not local(path).exists()
    assert ids(table) == list(range(20, N))
    (lost,) = {task.data.file_path for task in iceberg.plan_files(table, row_filter="id = 30").tasks}
    iceberg.delete(table, "id = 31")
    local(lost).unlink()
    with pytest.raises(NotFoundError, match="the snapshot that is read lists it"):
        iceberg.rewrite_data_files(table, min_deleted=0.001)


def test_deletes_of_other_kinds_that_race_in(racing: RacingCatalog) -> None:
    table = made(racing, "n", version=2)
    paths = [task.data.file_path for task in iceberg.plan_files(table).tasks]
    delete_by_file(table, [(path, 0) for path in paths])
    other = racing.load_table("n.t")
    racing.before.append(lambda: delete_by_file(other, [(paths[0], 1), (paths[1], 0), (paths[2], 19)]))
    before = set(ids(table))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.attempts, done.deletes_moved) == (2, 2)
    assert before - set(ids(table)) == before - {r["id"] for r in iceberg.scan(other).to_arrow().to_pylist()}
    assert len(ids(table)) == N - 5
    assert is_sound(table)


def test_equality_deletes_that_are_converted_meanwhile(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    delete_equal(table, [1], [(4,), (44,)])
    before = lineage(table)
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.convert_equality_deletes(other))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.attempts, done.deletes_moved, done.data_files_left_out) == (2, 0, 0)
    assert lineage(table) == before
    assert is_sound(table)


def test_a_rewrite_that_races_a_rewrite(racing: RacingCatalog, reads: list[int]) -> None:
    table = made(racing, "n")
    iceberg.delete(table, "id < 8")
    before = lineage(table)
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.rewrite_data_files(other, **ALL))
    with pytest.raises(ConflictError, match="all 3 data files"):
        iceberg.rewrite_data_files(table, **ALL)
    assert sum(reads) == 6
    other.refresh()
    assert racing.load_table("n.t").metadata == other.metadata
    assert lineage(other) == before
    assert iceberg.orphan_files(other, older_than=timedelta(seconds=-5)).num_rows == 0


def test_a_group_whose_file_is_removed_meanwhile_is_left_out(racing: RacingCatalog) -> None:
    table = made(racing, "n", spec=("g",))
    iceberg.delete(table, "id < 8")
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "g = 'g1' and id < 20"))  # drops a data file
    done = iceberg.rewrite_data_files(table, **ALL)
    assert (done.data_files, done.data_files_left_out, done.data_files_written) == (6, 3, 2)
    assert ids(table) == [i for i in range(8, N) if not (i % 3 == 1 and i < 20)]
    assert iceberg.orphan_files(table, older_than=timedelta(seconds=-5)).num_rows == 0
    assert is_sound(table)


ROLLBACKS: dict[str, Callable[[Table], Any]] = {
    "vector": lambda table: iceberg.delete(table, "id in (2, 3)"),
    "equality": lambda table: delete_equal(table, [1], [(2,), (3,)]),
}


@pytest.mark.parametrize("kind", ROLLBACKS)
def test_deletes_that_are_undone_meanwhile(racing: RacingCatalog, kind: str) -> None:
    """The rows are live again, but the new files do not have them."""
    table = made(racing, "n")
    start = table.metadata.current_snapshot_id
    assert start is not None
    ROLLBACKS[kind](table)
    other = racing.load_table("n.t")

    def roll_back() -> None:
        with v3_metadata(racing):
            other.manage_snapshots().set_current_snapshot(start).commit()

    racing.before.append(roll_back)
    with pytest.raises(ConflictError, match="all 3 data files"):
        iceberg.rewrite_data_files(table, min_input_files=2)
    assert ids(racing.load_table("n.t")) == list(range(N))


def test_older_equality_deletes_that_come_back_meanwhile(racing: RacingCatalog) -> None:
    """They do not apply to the new files, whose data sequence number is that of a later snapshot."""
    table = made(racing, "n")
    start = table.metadata.current_snapshot_id
    delete_equal(table, [1], [(2,), (3,)])
    table.refresh()
    deleted = table.metadata.current_snapshot_id
    assert start is not None
    assert deleted is not None
    other = racing.load_table("n.t")

    def set_head(snapshot_id: int) -> None:
        with v3_metadata(racing):
            other.refresh().manage_snapshots().set_current_snapshot(snapshot_id).commit()

    set_head(start)
    iceberg.append(table, of([row(100)]))
    racing.before.append(lambda: set_head(deleted))
    with pytest.raises(ConflictError, match="all 3 data files"):
        iceberg.rewrite_data_files(table, "id < 60", min_input_files=2)
    assert ids(racing.load_table("n.t")) == [i for i in range(N) if i not in (2, 3)]


@pytest.mark.parametrize("options", [{}, {"sort_by": ["x"]}, {"max_commits": 3}], ids=str)
@pytest.mark.parametrize("verb", ["append", "delete"])
def test_row_ids_that_are_assigned_meanwhile(
    racing: RacingCatalog, verb: str, options: dict[str, Any]
) -> None:
    """A table of version 2 that was upgraded has no row ids before its next snapshot."""
    table = made(racing, "n", version=2, spec=("g",))
    iceberg.delete(table, "id = 7")
    iceberg.upgrade(table)
    other, meanwhile = racing.load_table("n.t"), list[Any]()

    def change() -> None:
        iceberg.append(other, of([row(100)])) if verb == "append" else iceberg.delete(other, "id = 8")
        meanwhile.extend(lineage(other))

    racing.before.append(change)
    done = iceberg.rewrite_data_files(table, min_input_files=2, **options)
    assert (done.data_files, done.data_files_left_out) == (9, 0)
    assert done.attempts == (2 if done.commits == 1 else 1 + done.commits)
    assert lineage(table) == meanwhile
    assert iceberg.verify(table) == []
    paths = iceberg.scan(table, selected_fields=("_file",)).to_arrow()["_file"].unique()
    live = {local(path) for path in paths.to_pylist()}
    before = {path for path in files_of(table) if path.suffix == ".parquet"}
    iceberg.expire_snapshots(table, older_than=timedelta(), retain_last=1)
    assert {path for path in files_of(table) if path.suffix == ".parquet"} == live < before


def test_a_group_without_a_data_file_is_left_out_though_row_ids_were_assigned(racing: RacingCatalog) -> None:
    table = made(racing, "n", version=2)
    iceberg.upgrade(table)
    other = racing.load_table("n.t")
    racing.before.append(lambda: iceberg.delete(other, "id < 20"))
    with pytest.raises(ConflictError, match="all 3 data files"):
        iceberg.rewrite_data_files(table, min_input_files=2)
    assert ids(other.refresh()) == list(range(20, N))


def test_a_table_without_row_ids_gets_those_that_any_commit_assigns(racing: RacingCatalog) -> None:
    table = made(racing, "n", version=2)
    iceberg.upgrade(table)
    iceberg.rewrite_data_files(table, min_input_files=2)
    found = lineage(table)
    assert [r["_row_id"] for r in found] == list(range(N))
    assert [r["_last_updated_sequence_number"] for r in found] == [i // 20 + 1 for i in range(N)]


def test_an_upgrade_that_races_in(racing: RacingCatalog) -> None:
    table = made(racing, "n", version=2)
    other = racing.load_table("n.t")
    files = {path for path in files_of(table) if path.suffix == ".parquet"}
    racing.before.append(lambda: iceberg.upgrade(other))
    with pytest.raises(ConflictError, match="format version from 2 to 3"):
        iceberg.rewrite_data_files(table, min_input_files=2)
    assert {path for path in files_of(table) if path.suffix == ".parquet"} == files
    assert ids(other) == list(range(N))


@pytest.mark.jar
@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_the_same_rows_and_lineage(
    shared_catalog: SqlCatalog, namespace: str, iceberg_spark: SparkSession, version: int
) -> None:
    table = made(shared_catalog, namespace, version=version, spec=("g",))
    iceberg.delete(table, "id < 10 or id = 33")
    iceberg.update(table, "id = 50", {"x": None})
    name = f"{shared_catalog.name}.{namespace}.t"

    def found() -> list[Any]:
        columns = ", _row_id, _last_updated_sequence_number" if version == 3 else ""
        iceberg_spark.sql(f"REFRESH TABLE {name}")
        rows: list[Any] = (
            iceberg_spark.sql(f"SELECT *{columns} FROM {name} ORDER BY id").toArrow().to_pylist()
        )
        return rows

    before = found()
    assert iceberg.rewrite_data_files(table, **ALL).data_files > 3
    assert found() == before
    iceberg_spark.sql(f"DELETE FROM {name} WHERE id IN (40, 41)")
    iceberg_spark.sql(f"UPDATE {name} SET x = 0 WHERE id = 42")
    table.refresh()
    before = found()
    iceberg.rewrite_data_files(table, **ALL)
    assert found() == before
    assert [r["id"] for r in before] == ids(table)
