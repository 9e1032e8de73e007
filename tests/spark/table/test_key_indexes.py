"""Deletes and upserts on executors have the same results with an index of keys as without one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin_fast import errors, iceberg
from puffin_fast import spark as ps
from puffin_fast.iceberg.index import build, lookup
from puffin_fast.iceberg.index.lookup import KeyLookup
from puffin_fast.iceberg.index.properties import KEY_INDEXES
from puffin_fast.iceberg.maintenance import convert
from puffin_fast.key_index import Segment
from puffin_fast.puffin import PuffinReader
from puffin_fast.rows.files.reader import DataFiles
from puffin_fast.spark.table import indexed_keys, on_executors, search, upsert
from puffin_fast.spark.table.delete_keys import delete_keys
from puffin_fast.spark.table.job import Job
from puffin_fast.spark.table.search import searched
from puffin_fast.spark.worker import indexed_keys as indexed_worker
from tests.iceberg.index.indexed_tables import EACH, N, make, numbers, rows
from tests.kit.faults import RacingCatalog
from tests.kit.tables import files_of, path_of
from tests.rows.deletes.equality_deletes import delete_equal
from tests.spark.conftest import JOINED, MOST, NONE, SENT
from tests.spark.faults.flaky import FlakyIndexIO
from tests.spark.results import facts
from tests.spark.table.delete_files import copy_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DRIVER, EXECUTORS = 1 << 16, 0
"""Values of `FEW_ROWS` with which rows that an index names are read by the driver, or by executors."""


@pytest.fixture(autouse=True)
def every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates narrow small data files, too."""
    monkeypatch.setattr(lookup, "ROWS_PER_CANDIDATE", 0)


def damage(table: Table) -> None:
    """Changes each 50th byte of the segments."""
    for statistics in table.refresh().metadata.statistics:
        path = Path(path_of(statistics.statistics_path))
        data = bytearray(path.read_bytes())
        for at in range(100, statistics.file_size_in_bytes - statistics.file_footer_size_in_bytes, 50):
            data[at] ^= 1
        path.write_bytes(data)


def lose(table: Table) -> None:
    for statistics in table.refresh().metadata.statistics:
        Path(path_of(statistics.statistics_path)).unlink()


@pytest.fixture
def by_executors(monkeypatch: pytest.MonkeyPatch) -> list[KeyLookup]:
    """The indexes in which executors looked keys up."""
    found: list[KeyLookup] = []
    inner = indexed_keys.named_rows

    def watched(keys: Any, index: KeyLookup) -> Any:
        found.append(index)
        return inner(keys, index)

    monkeypatch.setattr(indexed_keys, "named_rows", watched)
    monkeypatch.setattr(f"{delete_keys.__module__}.named_rows", watched)
    return found


@pytest.mark.parametrize(
    ("columns", "few"), [(["id"], EXECUTORS), (["s"], EXECUTORS), (["d"], DRIVER), (["i", "s"], DRIVER)]
)
def test_keys_are_deleted_as_without_an_index(
    spark: SparkSession,
    racing: RacingCatalog,
    monkeypatch: pytest.MonkeyPatch,
    by_executors: list[KeyLookup],
    columns: list[str],
    few: int,
) -> None:
    monkeypatch.setattr(f"{searched.__module__}.FEW_ROWS", few)
    taken: list[tuple[int, Any]] = []
    inner = indexed_keys.task_rows

    def watched(session: Any, paths: Any, numbered: Any) -> Any:
        taken.extend(numbered)
        return inner(session, paths, numbered)

    monkeypatch.setattr(indexed_keys, "task_rows", watched)
    table = make(racing)
    iceberg.delete(table, "n < 40 or i = 3")
    plain = copy_of(racing, table)
    iceberg.index_keys(table, columns)
    for one in (table, plain):
        iceberg.append(one, rows(N * EACH, N * EACH + 50))
    keys = rows(100, 300).select(columns).slice(0, 60)
    expected = iceberg.delete_keys(plain, keys, columns, null_safe=True)
    for way in (SENT, JOINED):
        one = copy_of(racing, table, f"n.t{way}")
        done = ps.delete_keys(spark.createDataFrame(keys), one, columns, null_safe=True, broadcast_keys=way)
        assert facts(done) == facts(expected)
        assert numbers(one) == numbers(plain)
        assert [index.exact for index in by_executors] == ([] if way == SENT else [columns == ["id"]])
    assert len(taken) == (0 if columns == ["id"] else N)
    assert all(len(task.candidate_pages) == len(columns) for _, task in taken)


@pytest.mark.parametrize(("columns", "fault"), [(["id"], "kill"), (["s"], "raise"), (["s"], "kill")])
def test_tasks_that_die_while_they_read_an_index_are_repeated(
    spark: SparkSession,
    racing: RacingCatalog,
    tmp_path: Path,
    by_executors: list[KeyLookup],
    columns: list[str],
    fault: str,
) -> None:
    table = make(racing)
    plain = copy_of(racing, table)
    iceberg.index_keys(table, columns)
    keys = rows(100, 300).select(columns).slice(0, 60)
    expected = iceberg.delete_keys(plain, keys, columns)
    faulted = tmp_path / "faulted"
    implementation = f"{FlakyIndexIO.__module__}.{FlakyIndexIO.__name__}"
    racing.properties |= {"py-io-impl": implementation, "fault": fault, "faulted": str(faulted)}
    table = racing.load_table("n.t")
    done = ps.delete_keys(spark.createDataFrame(keys), table, columns, broadcast_keys=JOINED)
    assert facts(done) == facts(expected)
    assert numbers(table) == numbers(plain)
    assert faulted.exists()
    assert len(by_executors) == 1  # the index was used until the end


@pytest.mark.parametrize("columns", [["id"], ["s"]])
def test_executors_that_find_an_index_damaged_do_without_it(
    spark: SparkSession, racing: RacingCatalog, by_executors: list[KeyLookup], columns: list[str]
) -> None:
    table = make(racing)
    plain = copy_of(racing, table)
    iceberg.index_keys(table, columns)
    (statistics,) = table.metadata.statistics
    path = Path(path_of(statistics.statistics_path))
    data = bytearray(path.read_bytes())
    data[-statistics.file_footer_size_in_bytes - 9] ^= 1  # of the last block
    path.write_bytes(data)
    keys = rows(0, 1200).select(columns)
    expected = iceberg.delete_keys(plain, keys, columns)
    done = ps.delete_keys(spark.createDataFrame(keys), table, columns, broadcast_keys=JOINED)
    assert (facts(done), numbers(table)) == (facts(expected), numbers(plain))
    assert len(by_executors) == 1


def test_executors_report_an_index_that_cannot_be_read_as_a_damaged_one(
    racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver then repeats the job without it."""
    table = make(racing)
    iceberg.index_keys(table, "id")
    field = table.schema().find_field("id").field_id
    tasks = iceberg.plan_files(table).tasks
    index = KeyLookup.of(table.io, table.metadata, table.current_snapshot(), {field: pa.int64()}, tasks)
    assert index is not None

    def unreadable(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Segment, "find", unreadable)
    keys = pa.record_batch([pa.array([7]), pa.array([0], pa.int32())], names=["k0", indexed_worker.PART])
    with pytest.raises(errors.CorruptDataError, match=r"could not be read: .*Input/output error"):
        list(indexed_worker.named(iter([keys]), lookup=index))


def test_exact_keys_are_deleted_without_reading_a_data_file_or_a_task(
    spark: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(racing)
    iceberg.delete(table, "n < 40")
    iceberg.index_keys(table, "id")
    keys = spark.createDataFrame([(7,), (838,), (5000,)], "id long")
    live, opened = iceberg.scan(table, "id in (7, 838)").count(), list[Any]()
    monkeypatch.setattr(DataFiles, "open", lambda *args: opened.append(args))
    monkeypatch.setattr(search, "spread", lambda *args: opened.append(args))
    done = ps.delete_keys(keys, table, "id", job_id="few")
    monkeypatch.undo()
    assert (done.rows_deleted, opened) == (live, [])
    assert live > 0
    assert len(ps.job_files(table, "few")) == 1
    assert set(ps.job_files(table, "few")) < set(iceberg.deletes(table)["path"].to_pylist())
    assert not {7, 838} & set(iceberg.scan(table, selected_fields=["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("columns", "loss", "many"),
    [
        (["n"], None, False),
        (["s", "n"], None, False),
        (["n"], damage, False),
        (["s", "n"], lose, True),
        (["n"], None, True),
        (["s", "n"], None, True),
    ],
)
def test_an_upsert_is_that_without_an_index(
    spark: SparkSession,
    racing: RacingCatalog,
    monkeypatch: pytest.MonkeyPatch,
    by_executors: list[KeyLookup],
    columns: list[str],
    loss: Any,
    many: bool,
) -> None:
    if many:
        monkeypatch.setattr(MOST, NONE)
        monkeypatch.setattr(upsert, "sent_keys", lambda *args: None)
    table = iceberg.create_table(racing, "n.small", rows(0, 1).select(["n", "s", "i"]).schema)
    for at in range(N):
        iceberg.append(table, _small(at * EACH, (at + 1) * EACH))
    iceberg.delete(table, "n < 40")
    plain = copy_of(racing, table)
    iceberg.index_keys(table, columns)
    given = _small(20, N * EACH + 100, step=37)
    given = given.set_column(2, "i", pa.array(range(len(given)), pa.int32()))
    if loss is not None:
        loss(table)
    for options in ({}, {"update_columns": ["i"], "when_not_matched_insert_all": False}):
        expected = iceberg.upsert(plain, given, columns, **options)
        done = ps.upsert(spark.createDataFrame(given), table, columns, **options)
        names = ("rows_updated", "rows_inserted", "rows_unchanged", "rows_deleted")
        assert [getattr(done, name) for name in names] == [getattr(expected, name) for name in names]
        assert _every(table) == _every(plain)
        assert bool(by_executors) is (many and loss is None)
        given = given.set_column(2, "i", pa.array(range(7, 7 + len(given)), pa.int32()))


def _small(start: int, stop: int, step: int = 1) -> pa.Table:
    found = rows(start, stop).select(["n", "s", "i"])
    found = found.set_column(1, "s", pa.compute.fill_null(found["s"], "none"))
    return found.take(list(range(0, len(found), step)))


def _every(table: Table) -> list[dict[str, Any]]:
    return sorted(iceberg.scan(table).to_pylist(), key=lambda row: row["n"])


def test_an_upsert_reads_only_rows_that_may_have_a_key(
    spark: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(racing)
    iceberg.index_keys(table, "n")
    given = spark.createDataFrame(rows(501, 504).select(["n", "i"]))
    sent: list[Any] = []
    inner = on_executors._OnExecutors.located

    def watched(self: Any, matcher: Any, tasks: Any) -> Any:
        sent.extend(tasks)
        return inner(self, matcher, tasks)

    monkeypatch.setattr(on_executors._OnExecutors, "located", watched)
    done = ps.upsert(
        given.withColumn("i", given["i"] + 1),
        table,
        "n",
        update_columns=["i"],
        when_not_matched_insert_all=False,
    )
    assert done.rows_updated == 3
    assert [task.candidates.to_numpy().tolist() for task in sent] == [[201, 202, 203]]


@pytest.mark.parametrize("columns", [["id"], ["s", "day"]], ids="-".join)
def test_executors_build_the_index_of_the_single_machine(
    spark: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch, columns: list[str]
) -> None:
    table = make(racing)
    single = copy_of(racing, table)
    found, expected = ps.index_keys(spark, table, columns), iceberg.index_keys(single, columns)
    assert facts(found, "statistics_path") == facts(expected, "statistics_path")
    blobs = [_segments(one) for one in (table, single)]
    assert blobs[0] == blobs[1]
    for one in (table, single):
        iceberg.append(one, rows(N * EACH, N * EACH + 50))
    monkeypatch.setattr(build, "WORKER_MEMORY", EACH * build.ROW_BYTES)
    assert ps.index_keys(spark, table, columns, dry_run=True).data_files_read == 1
    assert ps.index_keys(spark, table, columns).segments == 2
    assert ps.index_keys(spark, table, columns).commit.id is None
    apart = ps.index_keys(spark, table, columns, incremental=False)
    assert (apart.segments, apart.data_files, apart.data_files_left) == (N + 1, N + 1, 0)
    assert iceberg.verify(table, level="rows") == []
    assert not [path for path in files_of(table) if path.suffix == ".segment"]


def test_a_rewrite_on_executors_keeps_the_indexes_that_a_property_names(
    spark: SparkSession, racing: RacingCatalog
) -> None:
    schema = rows(0, 1).schema
    table = iceberg.create_table(racing, "n.kept", schema, properties={KEY_INDEXES: "n; s"})
    for at in range(N):
        iceberg.append(table, rows(at * EACH, (at + 1) * EACH))
    iceberg.index_keys(table, "n")
    done = ps.rewrite_data_files(spark, table, min_input_files=2)
    assert [(one.columns, one.data_files_read, one.data_files_left) for one in done.key_indexes] == [
        (("n",), 1, 0)
    ]
    assert (done.notes, iceberg.verify(table, level="rows")) == ((), [])
    assert not [path for path in files_of(table) if path.suffix == ".segment"]


def test_equality_deletes_are_converted_by_an_index(
    spark: SparkSession, racing: RacingCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(racing)
    iceberg.index_keys(table, "id")
    iceberg.append(table, rows(N * EACH, N * EACH + 50))
    delete_equal(table, [1], [(7,), (838,), (-1,)])
    plain = copy_of(racing, table.refresh())
    expected = iceberg.convert_equality_deletes(plain)
    sent: list[int | None] = []
    inner = convert._bins_by_keys

    def watched(found: Any, workers: Any) -> Any:
        sent.extend(None if rows is None else len(rows.positions) for _, rows in found)
        return inner(found, workers)

    monkeypatch.setattr(convert, "_bins_by_keys", watched)
    done = ps.convert_equality_deletes(spark, table)
    assert (done.rows_deleted, numbers(table)) == (expected.rows_deleted, numbers(plain))
    assert done.equality_delete_files_removed == expected.equality_delete_files_removed == 1
    assert None in sent
    assert sum(rows for rows in sent if rows is not None) < 10
    iceberg.index_keys(table, "id")
    delete_equal(table, [1], [(-7,)])
    assert ps.convert_equality_deletes(spark, table).equality_delete_files_removed == 1
    assert numbers(table) == numbers(plain)


def test_segments_of_a_killed_job_are_found(racing: RacingCatalog) -> None:
    table = make(racing)
    job = Job(table, None, "index")
    path = Path(path_of(f"{job.place.folder.location}/{job.name}-00000-7-0123abcd-0000.segment"))
    path.parent.mkdir()
    path.write_bytes(b"PFKI")
    assert iceberg.orphan_files(table).num_rows == 0  # the job may still run
    found = iceberg.orphan_files(table, older_than=timedelta(0))["path"].to_pylist()
    assert [path_of(one) for one in found] == [path]
    assert [path_of(one) for one in ps.remove_job_files(table, "index")] == [path]


def _segments(table: Table) -> list[bytes]:
    path = path_of(table.refresh().metadata.statistics[-1].statistics_path)
    with PuffinReader(path) as reader:
        return [reader.stored(blob) for blob in reader.blobs]
