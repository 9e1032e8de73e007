"""Rewrites of data files do not change rows and row ids, also with concurrent commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

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
from tests.iceberg.conftest import current_snapshot, refused, rows_of
from tests.iceberg.dml.example_rows import SCHEMA, START, N, check, made, of, row
from tests.iceberg.maintenance.delete_files import delete_by_file
from tests.iceberg.maintenance.maintained import ALL, lineage
from tests.kit.nanoseconds import nanosecond_types
from tests.kit.rows import by_duckdb, by_pyiceberg
from tests.kit.tables import files_of, path_of
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import SparkSession

    from puffin_fast.iceberg.catalogs.working_table import WorkingTable
    from puffin_fast.iceberg.plan.delete_index import FileTask
    from tests.kit.faults import RacingCatalog


def ids(table: Table) -> list[int]:
    return [found["id"] for found in lineage(table)]


def summary(table: Table) -> Any:
    snapshot = current_snapshot(table)
    return snapshot.summary


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [(), ("g",)], ids=["flat", "partitioned"])
def test_no_row_changes(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, version: int, spec: tuple[str, ...]
) -> None:
    table = made(racing, "n", version=version, spec=spec)
    iceberg.delete(table, "id < 10 or id = 33")
    iceberg.update(table, "id = 50", {"x": None})
    before = lineage(table)
    done = iceberg.rewrite_data_files(table, **ALL)
    rows = [{**r, "x": None} if r["id"] == 50 else r for r in START if not (r["id"] < 10 or r["id"] == 33)]
    check(table, duckdb_iceberg, rows)
    assert lineage(table) == before
    n_files = 3 if spec else 1
    assert (done.data_files, done.data_files_written) == (10 if spec else 4, n_files)
    assert (done.rows, done.rows_purged, done.commit.attempts) == (N - 11, 12, 1)
    assert done.deletes_removed > 0
    assert iceberg.deletes(table).num_rows == 0
    assert summary(table).operation.value == "replace"
    assert summary(table)["total-records"] == str(N - 11)
    assert summary(table)["total-delete-files"] == "0"
    tasks = iceberg.plan_files(table).tasks
    assert sorted(task.data.partition for task in tasks) == sorted(
        [("g0",), ("g1",), ("g2",)] if spec else [()]
    )
    assert sum(task.data.file_size_in_bytes for task in tasks) == done.commit.n_bytes
    assert iceberg.verify(table) == []
    again = iceberg.rewrite_data_files(table, **ALL)
    assert (again.commit.id, again.data_files, again.commit.attempts) == (None, 0, 0)
    iceberg.update(table, "id = 40", {"x": 0.0})  # the new files take deletes as others do
    iceberg.delete(table, "id = 41")
    assert [r["id"] for r in by_pyiceberg(table)] == [r["id"] for r in rows if r["id"] != 41]


def test_only_files_that_are_worth_it_are_rewritten(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    first = iceberg.plan_files(table, row_filter="id = 3").tasks[0].data.file_path
    iceberg.delete(table, "id < 7 or id = 30")
    keep = {task.data.file_path for task in iceberg.plan_files(table).tasks} - {first}
    assert iceberg.rewrite_data_files(table, min_deleted=0.36).commit.id is None
    assert iceberg.rewrite_data_files(table, "id > 20").commit.id is None
    assert iceberg.rewrite_data_files(table, "ID < 20", case_sensitive=False).data_files == 1
    assert {task.data.file_path for task in iceberg.plan_files(table).tasks} > keep
    # three small files: joined from three on, unless none is small
    assert iceberg.rewrite_data_files(table, min_input_files=4).commit.id is None
    assert iceberg.rewrite_data_files(table, min_input_files=3, min_file_size=0).commit.id is None
    assert iceberg.rewrite_data_files(table, min_input_files=3).data_files == 3
    assert ids(table) == [i for i in range(7, N) if i != 30]


def test_a_filter_does_not_hide_deletes(racing: RacingCatalog) -> None:
    """A file is rewritten whole, with the deletes of rows that the filter does not select."""
    table = made(racing, "n", spec=("g",))
    iceberg.delete(table, "id < 30")
    assert iceberg.rewrite_data_files(table, "g = 'g1' and id = 31", min_deleted=0.1).data_files == 1
    assert ids(table) == list(range(30, N))


def test_files_have_the_target_size(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", pa.schema([("id", pa.int64())]))
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
    assert iceberg.verify(table) == []


def test_rows_keep_the_order_of_their_commits(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    iceberg.delete(table, "id = 21")
    iceberg.rewrite_data_files(table, min_input_files=2)
    assert iceberg.scan(table).to_arrow()["id"].to_pylist() == [i for i in range(N) if i != 21]


def test_empty_tables_one_row_and_no_row_left(racing: RacingCatalog) -> None:
    table = iceberg.create_table(racing, "n.t", SCHEMA)
    assert iceberg.rewrite_data_files(table).commit.id is None
    with pytest.raises(NotFoundError, match="twig"):
        iceberg.rewrite_data_files(table, branch="twig")
    for number in range(2):
        iceberg.append(table, of([row(number)]))
    assert iceberg.rewrite_data_files(table, min_input_files=2).rows == 2
    delete_equal(table, [1], [(0,), (1,)])  # drops no data file
    assert iceberg.rewrite_data_files(table, min_input_files=2).commit.id is None
    iceberg.append(table, of([row(2)]))
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.rows, done.rows_purged, done.data_files_written) == (1, 2, 1)
    delete_equal(table, [1], [(2,)])
    iceberg.append(table, of([row(3)]))
    delete_equal(table, [1], [(3,)])
    done = iceberg.rewrite_data_files(table, min_input_files=2)
    assert (done.rows, done.rows_purged, done.data_files_written) == (0, 2, 0)
    assert (ids(table), iceberg.plan_files(table).tasks) == ([], [])
    assert (rows_of(table).num_rows, iceberg.verify(table)) == (0, [])


@pytest.mark.parametrize("version", [2, 3])
def test_equality_and_shared_position_deletes_are_applied(
    racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection, version: int
) -> None:
    table = made(racing, "n", version=2)
    paths = [task.data.file_path for task in iceberg.plan_files(table).tasks]
    delete_by_file(table, [(path, 3) for path in paths])
    if version == 3:
        iceberg.upgrade(table)
    delete_equal(table, [1], [(5,), (25,)])
    before = lineage(table)
    # one file of three: the others need both delete files
    assert iceberg.rewrite_data_files(table, "id < 20", min_deleted=0).commit.id is None
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
    assert iceberg.verify(table) == []


def test_old_specs_and_schemas(racing: RacingCatalog, duckdb_iceberg: DuckDBPyConnection) -> None:
    table = made(racing, "n", spec=("g",))
    with v3_metadata(racing):
        with table.update_spec() as update:
            update.remove_field("g")
            update.add_field("id", BucketTransform(2), "b")
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
    assert sorted(map(repr, by_pyiceberg(table))) == sorted(map(repr, before.to_pylist()))
    found = by_duckdb(duckdb_iceberg, table)
    assert sorted(map(repr, found)) == sorted(map(repr, before.to_pylist()))
    assert iceberg.scan(table, "other = 'g1' and id < 20").to_arrow().num_rows == 5


def test_nanoseconds_keep_their_bounds(racing: RacingCatalog) -> None:
    kinds = pa.schema([("id", pa.int64()), ("t", pa.timestamp("ns"))])
    table = iceberg.create_table(racing, "n.t", kinds, types=nanosecond_types(kinds))
    for first in (0, 10):
        times = pa.array([1_700_000_000_000_000_001 + first + i for i in range(10)], pa.timestamp("ns"))
        iceberg.append(table, pa.table({"id": range(first, first + 10), "t": times}))
    before = [task.data for task in iceberg.plan_files(table, metrics=True).tasks]
    iceberg.rewrite_data_files(table, **ALL)
    (task,) = iceberg.plan_files(table, metrics=True).tasks
    assert (task.data.lower_bounds or {})[2] == min((data.lower_bounds or {})[2] for data in before)
    assert (task.data.upper_bounds or {})[2] == max((data.upper_bounds or {})[2] for data in before)


def test_a_column_with_the_name_of_a_metadata_column(racing: RacingCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "_pos", StringType()))
    with v3_metadata(racing):  # `create_table` refuses these names
        table = racing.create_table("n.t", schema, properties={"format-version": "3"})
    for number in range(2):
        iceberg.append(table, pa.table({"id": [number], "_pos": ["x"]}))
    assert iceberg.rewrite_data_files(table, **ALL).rows == 2
    assert iceberg.scan(table).to_arrow().to_pylist() == [{"id": n, "_pos": "x"} for n in range(2)]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "_row_id", StringType()))
    with v3_metadata(racing):
        table = racing.create_table("n.u", schema, properties={"format-version": "3"})
    with pytest.raises(UnsupportedError, match="_row_id"):
        iceberg.rewrite_data_files(table)


def test_a_row_that_the_schema_does_not_allow_changes_nothing(racing: RacingCatalog) -> None:
    table = made(racing, "n")
    with v3_metadata(racing), table.update_schema(allow_incompatible_changes=True) as change:
        change.update_column("tags", required=True)
    with refused(table, InvalidInputError, "tags is required"):
        iceberg.rewrite_data_files(table, **ALL)


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
    assert (done.commits, done.data_files, done.commit.attempts) == (2, 9, 3)
    assert len(table.metadata.snapshots) == n_before + 3
    assert lineage(table) == [found for found in before if found["id"] != 30]
    assert iceberg.verify(table) == []
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


class Race(NamedTuple):
    """What another writer commits while data files are rewritten, and what the rewrite makes of it."""

    meanwhile: Callable[[Table], Any]
    deletes_moved: int = 0
    gone: Sequence[int] = ()
    """Ids that no row has in the end."""
    before: Callable[[Table], Any] = lambda table: None
    left_out: int = 0
    versions: Sequence[int] = (2, 3)
    specs: Sequence[tuple[str, ...]] = ((),)


def delete(row_filter: str) -> Callable[[Table], Any]:
    return lambda table: iceberg.delete(table, row_filter)


def delete_by_id(*ids: int) -> Callable[[Table], Any]:
    return lambda table: delete_equal(table, [1], [(id,) for id in ids])


def delete_by_position(*positions: Sequence[int]) -> Callable[[Table], Any]:
    """Commits one file of position deletes, of some positions in each of the three data files."""

    def run(table: Table) -> None:
        paths = [
            iceberg.plan_files(table, row_filter=f"id = {id}").tasks[0].data.file_path for id in (0, 20, 40)
        ]
        delete_by_file(
            table, [(path, at) for path, some in zip(paths, positions, strict=True) for at in some]
        )

    return run


def append_row(table: Table) -> None:
    iceberg.append(table, of([row(100)]))


def in_turn(*steps: Callable[[Table], Any]) -> Callable[[Table], Any]:
    return lambda table: [step(table) for step in steps]


def planned(racing: RacingCatalog, meanwhile: Callable[[Table], Any]) -> list[dict[str, Any]]:
    """Has something committed before the next commit; the list gets the rows that the table has then."""
    other, rows = racing.load_table("n.t"), list[dict[str, Any]]()
    racing.before.append(lambda: (meanwhile(other), rows.extend(lineage(other.refresh()))))  # type: ignore[func-returns-value]
    return rows


def expire(table: Table) -> None:
    iceberg.expire_snapshots(table, older_than=timedelta(), retain_last=1)


RACES = {
    "rows are deleted": Race(
        delete("id in (0, 3, 21, 59)"), 4, [0, 1, 2, 3, 5, 21, 22, 57, 59],
        before=delete("id in (1, 2, 5, 22, 57)"), specs=((), ("g",)),
    ),
    "rows are appended": Race(
        append_row, 0, range(8), before=delete("id < 8"), versions=[3]
    ),
    "rows are updated": Race(
        lambda table: iceberg.update(table, "id in (10, 30)", {"x": pc.field("x") + 1}), 2, versions=[3]
    ),
    "equality deletes": Race(delete_by_id(5, 45), 0, [4, 5, 45], before=delete_by_id(4)),
    "deletes that replace and expire what was read": Race(
        in_turn(delete("id in (2, 23)"), expire), 2, [1, 2, 22, 23], before=delete("id in (1, 22)"),
    ),
    "deletes that replace and expire what was read beside equality deletes": Race(
        in_turn(delete("id in (2, 23)"), expire), 2, [1, 2, 4, 22, 23],
        before=in_turn(delete_by_id(4), delete("id in (1, 22)")),
    ),
    "position deletes of several data files": Race(
        delete_by_position([1], [0], [19]), 2, [0, 1, 20, 40, 59],
        before=delete_by_position([0], [0], [0]), versions=[2],
    ),
    "equality deletes are converted": Race(
        lambda table: iceberg.convert_equality_deletes(table), 0, [4, 44], before=delete_by_id(4, 44), versions=[3]
    ),
    "a data file is removed": Race(
        delete("g = 'g1' and id < 20"), 0, [*range(8), 10, 13, 16, 19],
        before=delete("id < 8"), left_out=3, versions=[3], specs=[("g",)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("race", "version", "spec"),
    [
        pytest.param(race, version, spec, id=f"{name}-{version}{'-partitioned' * len(spec)}")
        for name, race in RACES.items()
        for version in race.versions
        for spec in race.specs
    ],
)
def test_what_is_committed_meanwhile_stays(
    racing: RacingCatalog,
    duckdb_iceberg: DuckDBPyConnection,
    reads: list[int],
    race: Race,
    version: int,
    spec: Any,
) -> None:
    table = made(racing, "n", version=version, spec=spec)
    race.before(table)
    wanted = planned(racing, race.meanwhile)
    done = iceberg.rewrite_data_files(table, **ALL)
    assert (done.commit.attempts, done.deletes_moved, done.data_files_left_out) == (
        2,
        race.deletes_moved,
        race.left_out,
    )
    assert sum(reads) == done.data_files + done.data_files_left_out  # each file once
    assert lineage(table) == wanted
    rows = [{name: found[name] for name in SCHEMA.names} for found in wanted]
    if is_equality := any(task.equality_deletes for task in iceberg.plan_files(table).tasks):
        assert by_duckdb(duckdb_iceberg, table) == rows  # PyIceberg does not read them
    else:
        check(table, duckdb_iceberg, rows)
    assert is_equality == (race is RACES["equality deletes"])
    assert [id for id in ids(table) if id < N] == [id for id in range(N) if id not in race.gone]
    assert iceberg.verify(table) == []
    assert iceberg.orphan_files(table, older_than=timedelta(seconds=-5)).num_rows == 0
    iceberg.delete(table, "id = 31")
    assert ids(table) == [found["id"] for found in wanted if found["id"] != 31]


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
    assert done.commit.attempts >= 2
    assert ids(table)[0] in (live[1], live[2])
    racing.before.clear()
    assert iceberg.verify(table) == []


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
    assert not path_of(path).exists()
    assert ids(table) == list(range(20, N))
    (lost,) = {task.data.file_path for task in iceberg.plan_files(table, row_filter="id = 30").tasks}
    iceberg.delete(table, "id = 31")
    path_of(lost).unlink()
    with pytest.raises(NotFoundError, match="the snapshot that is read lists it"):
        iceberg.rewrite_data_files(table, min_deleted=0.001)


def to_snapshot(number: int) -> Callable[[Table], None]:
    """Makes a snapshot the current one."""

    def run(table: Table) -> None:
        chosen = table.metadata.snapshots[number].snapshot_id
        with v3_metadata(table.catalog):
            table.manage_snapshots().set_current_snapshot(chosen).commit()

    return run


LOST: dict[str, tuple[int, Callable[[Table], Any], Callable[[Table], Any], str]] = {
    "a rewrite": (3, delete("id < 8"), lambda table: iceberg.rewrite_data_files(table, **ALL), "all 3 data files"),
    "a delete is undone": (3, delete("id in (2, 3)"), to_snapshot(2), "all 3 data files"),
    "an equality delete is undone": (3, delete_by_id(2, 3), to_snapshot(2), "all 3 data files"),
    # older ones do not apply to the new files, whose data sequence number is that of a later snapshot
    "an equality delete is done again": (
        3, in_turn(delete_by_id(2, 3), to_snapshot(2), append_row),
        to_snapshot(3), "all 4 data files",
    ),
    "a data file is removed, and row ids are assigned": (
        2, lambda table: iceberg.upgrade(table), delete("id < 20"), "all 3 data files",
    ),
    "an upgrade": (2, lambda table: None, lambda table: iceberg.upgrade(table), "format version from 2 to 3"),
}  # fmt: skip
"""A format version, what was committed before, what is committed meanwhile, and the error's words."""


@pytest.mark.parametrize("name", LOST)
def test_a_rewrite_of_files_that_changed_otherwise_is_lost(racing: RacingCatalog, name: str) -> None:
    version, before, meanwhile, words = LOST[name]
    table = made(racing, "n", version=version)
    before(table)
    wanted = planned(racing, meanwhile)
    with pytest.raises(ConflictError, match=words):
        iceberg.rewrite_data_files(table, **ALL)
    found = racing.load_table("n.t")
    assert lineage(found) == wanted
    assert iceberg.orphan_files(found, older_than=timedelta(seconds=-5)).num_rows == 0


@pytest.mark.parametrize("options", [{}, {"sort_by": ["x"]}, {"max_commits": 3}], ids=str)
@pytest.mark.parametrize("verb", ["append", "delete"])
def test_row_ids_that_are_assigned_meanwhile(
    racing: RacingCatalog, verb: str, options: dict[str, Any]
) -> None:
    """A table of version 2 that was upgraded has no row ids before its next snapshot."""
    table = made(racing, "n", version=2, spec=("g",))
    iceberg.delete(table, "id = 7")
    iceberg.upgrade(table)
    wanted = planned(racing, delete("id = 8") if verb == "delete" else append_row)
    done = iceberg.rewrite_data_files(table, min_input_files=2, **options)
    assert (done.data_files, done.data_files_left_out) == (9, 0)
    assert done.commit.attempts == (2 if done.commits == 1 else 1 + done.commits)
    assert lineage(table) == wanted
    assert iceberg.verify(table) == []
    paths = iceberg.scan(table, selected_fields=("_file",)).to_arrow()["_file"].unique()
    live = {path_of(path) for path in paths.to_pylist()}
    before = {path for path in files_of(table) if path.suffix == ".parquet"}
    iceberg.expire_snapshots(table, older_than=timedelta(), retain_last=1)
    assert {path for path in files_of(table) if path.suffix == ".parquet"} == live < before


def test_a_table_without_row_ids_gets_those_that_any_commit_assigns(racing: RacingCatalog) -> None:
    table = made(racing, "n", version=2)
    iceberg.upgrade(table)
    iceberg.rewrite_data_files(table, min_input_files=2)
    found = lineage(table)
    assert [r["_row_id"] for r in found] == list(range(N))
    assert [r["_last_updated_sequence_number"] for r in found] == [i // 20 + 1 for i in range(N)]


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
