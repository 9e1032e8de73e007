"""PyIceberg's own scans while `accelerate` is on: the right rows, and PyIceberg as before afterwards."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pyiceberg
import pyiceberg.io.pyarrow as reading
import pyiceberg.table
import pytest
from pyiceberg.catalog.rest.scan_planning import RESTDataFile, RESTFileScanTask, RESTPositionDeleteFile
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record

from puffin_fast.bitmap import PositionBitmap
from puffin_fast.errors import CorruptDataError, NotFoundError, UnsupportedError
from puffin_fast.iceberg import accelerate, append, delete, delete_keys, plan_files, scan, upgrade
from puffin_fast.iceberg.commit.changes import Changes, vector_entry
from puffin_fast.iceberg.commit.protocol import commit
from puffin_fast.iceberg.scans import pyiceberg_scans
from puffin_fast.iceberg.scans.pyiceberg_scans import PATCHES
from puffin_fast.puffin.vectors import write_vectors
from tests.kit.tables import iceberg_table, parts, path_of
from tests.rows.deletes.equality_deletes import SCHEMA as EQUALITY_SCHEMA
from tests.rows.deletes.equality_deletes import delete_equal

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N = 3000
PER_FILE = 1000
ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "k": pa.array([None if i % 7 == 0 else i % 10 for i in range(N)], pa.int32()),
        "s": [f"s{i % 5}" for i in range(N)],
    }
)


def places() -> list[Any]:
    return [inspect.getattr_static(patch.owner, patch.name) for patch in PATCHES]


ORIGINAL = places()


@pytest.fixture(autouse=True)
def _pyiceberg_is_as_before() -> Iterator[None]:
    assert places() == ORIGINAL
    yield
    assert places() == ORIGINAL


@pytest.fixture
def table(racing: SqlCatalog) -> Table:
    """ROWS in three files of several row groups, nothing deleted."""
    return iceberg_table(racing, parts(ROWS, 3), properties={"write.parquet.row-group-limit": "300"})


def put_vectors(table: Table, *files: dict[int, list[int]], live: dict[int, int] | None = None) -> None:
    """Commits vectors by hand, without path bounds, as Java writes them.

    Args:
        table: whose data files hold 1000 rows each.
        files: for each Puffin file, its vectors: number of the data file to positions.
        live: number of the data file to the Puffin file whose vector counts; the others are superseded.
    """
    tasks = sorted(
        plan_files(table, metrics=True).tasks,
        key=lambda task: int.from_bytes(task.data.lower_bounds[1], "little"),
    )
    added = []
    for number, vectors in enumerate(files):
        path = table.location_provider().new_data_location(f"{random.getrandbits(64):x}.puffin")
        written = write_vectors(
            path,
            [(tasks[at].data.file_path, PositionBitmap(some)) for at, some in vectors.items()],
            filesystem=table.io,
        )
        for at, vector in zip(vectors, written, strict=True):
            if live is None or live[at] == number:
                entry = vector_entry(vector, tasks[at].data, vector.file_size)
                entry.lower_bounds = entry.upper_bounds = None
                added.append(entry)
    commit(table, Changes(added=tuple(added)), base=table.current_snapshot())


def ids(found: Any) -> list[int]:
    return sorted(found["id"].to_pylist())


def left(*gone: int) -> list[int]:
    return sorted(set(range(N)) - set(gone))


def test_every_form_of_a_scan_gives_the_rows_that_are_left(table: Table) -> None:
    deleted = random.Random(1).sample(range(N), 1200)
    put_vectors(table, {at: [i - 1000 * at for i in deleted if i // 1000 == at] for at in range(3)})
    expected = left(*deleted)
    with accelerate():
        rows = table.scan()
        assert ids(rows.to_arrow()) == expected
        assert rows.to_arrow().sort_by("id").to_pylist() == scan(table).to_arrow().sort_by("id").to_pylist()
        assert ids(rows.to_arrow_batch_reader().read_all()) == expected
        assert sorted(rows.to_pandas()["id"]) == expected
        assert sorted(rows.to_polars()["id"]) == expected
        assert rows.to_duckdb("t").execute("SELECT count(*), sum(id) FROM t").fetchall() == [
            (len(expected), sum(expected))
        ]
        assert rows.count() == len(expected)
        assert table.scan(limit=700).to_arrow().num_rows == 700
        for where in ("id >= 900 and id < 1100", "k = 3", "k is null", "s != 's1' and id > 2500"):
            answer = table.scan(where, selected_fields=("s", "id")).to_arrow()
            ours = scan(table, where, ("s", "id")).to_arrow().select(answer.column_names)
            assert answer.sort_by("id").to_pylist() == ours.sort_by("id").to_pylist()


def test_a_superseded_vector_of_a_shared_puffin_file_is_not_applied(table: Table) -> None:
    put_vectors(table, {0: [*range(500)], 1: [1, 2]}, {0: [7]}, live={0: 1, 1: 0})
    expected = left(7, 1001, 1002)
    assert ids(scan(table).to_arrow()) == expected
    assert ids(table.scan().to_arrow()) != expected  # where PyIceberg goes wrong
    with accelerate():
        assert ids(table.scan().to_arrow()) == expected
        assert table.scan().count() == len(expected)


def test_a_vector_applies_to_its_data_file_only(table: Table) -> None:
    put_vectors(table, {0: [5]}, {1: [6], 2: [7]})
    with accelerate():
        planned = [task.delete_files for task in table.scan().plan_files()]
    assert [len(files) for files in planned] == [1, 1, 1]
    assert [len(task.delete_files) for task in table.scan().plan_files()] == [2, 2, 2]
    named = {(file.referenced_data_file, file.content_offset) for files in planned for file in files}
    assert named == {
        (task.data.file_path, task.vector.content_offset) for task in plan_files(table).tasks if task.vector
    }


def test_a_vector_supersedes_position_deletes(racing: SqlCatalog) -> None:
    table = iceberg_table(racing, ROWS.slice(0, PER_FILE), version=2)
    delete(table, "id < 100")
    upgrade(table)
    put_vectors(table, {0: [3, 4]})
    with accelerate():
        assert ids(table.scan().to_arrow()) == [i for i in range(PER_FILE) if i not in (3, 4)]


def test_two_vectors_for_one_data_file_are_refused(table: Table) -> None:
    put_vectors(table, {0: [5]})
    put_vectors(table, {0: [6]})
    with accelerate(), pytest.raises(CorruptDataError, match="two deletion vectors"):
        table.scan().to_arrow()


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("partition", [(), ("s",)], ids=["flat", "partitioned"])
def test_position_deletes_of_version_2_apply_as_before(
    racing: SqlCatalog, granularity: str, partition: tuple[str, ...]
) -> None:
    properties = {"write.delete.granularity": granularity}
    table = iceberg_table(racing, ROWS.schema, version=2, partition=partition, properties=properties)
    for start in range(0, N, PER_FILE):
        append(table, ROWS.slice(start, PER_FILE))
        delete(table, f"id >= {start + 10} and id < {start + 600} and k = 4")
    delete(table, "k = 5")
    expected = [
        i for i in range(N) if i % 7 == 0 or not ((i % 10 == 4 and 10 <= i % 1000 < 600) or i % 10 == 5)
    ]
    assert ids(table.scan().to_arrow()) == expected
    with accelerate():
        assert ids(table.scan().to_arrow()) == expected
        assert ids(table.scan("s = 's1'").to_arrow()) == [i for i in expected if i % 5 == 1]


def test_equality_deletes_are_still_refused(racing: SqlCatalog) -> None:
    table = iceberg_table(racing, EQUALITY_SCHEMA, version=2)
    append(table, pa.table({"id": [1, 2]}))
    delete_equal(table, [1], [(1,)])
    for patch in (nullcontext, accelerate):
        with patch(), pytest.raises(ValueError, match="equality deletes"):
            table.scan().to_arrow()


def test_time_travel_reads_the_vectors_of_then(table: Table) -> None:
    delete(table, "k = 1")
    before = table.current_snapshot()
    delete(table, "k = 2")
    assert before is not None
    with accelerate():
        for some, gone in ((before.snapshot_id, (1,)), (None, (1, 2))):
            found = ids(table.scan(snapshot_id=some).to_arrow())
            assert found == [i for i in range(N) if i % 7 == 0 or i % 10 not in gone]


@pytest.mark.parametrize("planner", ["pyiceberg", "plugin"])
def test_polars_reads_the_right_rows(table: Table, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", planner)
    deleted = {i for i in range(N) if i % 7 and i % 10 == 3}
    delete(table, "k = 3")
    deleted |= {*random.Random(2).sample(range(N), 900)}
    delete_keys(table, pa.table({"id": [*deleted]}), "id")
    expected = left(*deleted)
    with accelerate():
        assert sorted(polars.scan_iceberg(table).collect()["id"]) == expected
        some = polars.scan_iceberg(table).filter(polars.col("id") >= 1500).select("id").collect()
        assert sorted(some["id"]) == [i for i in expected if i >= 1500]


def test_polars_loads_the_positions_that_pyiceberg_loads(tmp_path: Any) -> None:
    from polars.io.iceberg._utils import load_puffin_deletion_file

    positions = [0, 1, 70_000, (1 << 32) + 5, (3 << 32) + 7]
    path = tmp_path / "a.puffin"
    write_vectors(path, [("a", PositionBitmap(positions)), ("b", PositionBitmap(range(100, 900)))])
    plain = load_puffin_deletion_file(path.read_bytes())
    with accelerate():
        ours = load_puffin_deletion_file(path.read_bytes())
        write_vectors(tmp_path / "none.puffin", [("c", PositionBitmap())])
        assert load_puffin_deletion_file((tmp_path / "none.puffin").read_bytes())[0][2].to_list() == []
        spoiled = bytearray(path.read_bytes())
        spoiled[30] ^= 1
        with pytest.raises(CorruptDataError):
            load_puffin_deletion_file(bytes(spoiled))
    assert [row[:2] for row in ours] == [row[:2] for row in plain]
    assert [row[2].to_list() for row in ours] == [row[2].to_list() for row in plain]
    assert ours[0][2].to_list() == positions
    assert {row[2].dtype for row in ours + plain} == {polars.UInt64}


def test_a_plan_of_a_rest_catalog_names_its_vector(table: Table) -> None:
    put_vectors(table, {0: [*range(500)], 1: [1, 2]}, {0: [7]}, live={0: 1, 1: 0})
    with accelerate():
        tasks = []
        for task in plan_files(table).tasks:
            data, vector = task.data, task.vector
            common = {"spec-id": 0, "partition": []}
            rest_data = RESTDataFile.model_validate(
                {"file-path": data.file_path, "file-format": "parquet", "record-count": data.record_count,
                 "file-size-in-bytes": data.file_size_in_bytes, "content": "data", **common}
            )  # fmt: skip
            deletes = [] if vector is None else [
                RESTPositionDeleteFile.model_validate(
                    {"file-path": vector.file_path, "file-format": "puffin", "content": "position-deletes",
                     "file-size-in-bytes": vector.file_size_in_bytes, "record-count": vector.record_count,
                     "referenced-data-file": data.file_path, "content-offset": vector.content_offset,
                     "content-size-in-bytes": vector.content_size_in_bytes, **common}
                )
            ]  # fmt: skip
            rest = RESTFileScanTask(
                **{"data-file": rest_data, "delete-file-references": [*range(len(deletes))]}
            )
            tasks.append(FileScanTask.from_rest_response(rest, deletes))
        whole = table.scan()
        found = ArrowScan(table.metadata, table.io, whole.projection(), whole.row_filter).to_table(tasks)
    assert ids(found) == left(7, 1001, 1002)


def test_a_plan_made_before_accelerate_is_read_correctly_or_refused(table: Table) -> None:
    put_vectors(table, {0: [5, 6], 1: [7]})
    plain = list(table.scan().plan_files())
    whole = table.scan()
    rows = ArrowScan(table.metadata, table.io, whole.projection(), whole.row_filter)
    with accelerate():
        assert ids(rows.to_table(plain)) == left(5, 6, 1007)
        planned = list(table.scan().plan_files())
    assert ids(rows.to_table(planned)) == left(5, 6, 1007)
    put_vectors(table, {2: [8]}, {2: [9, 10]}, live={2: 1})
    plain = list(table.scan().plan_files())
    with accelerate():
        assert ids(table.scan().to_arrow()) == left(5, 6, 1007, 2009, 2010)
        plain[0].delete_files |= plain[1].delete_files
        assert ids(rows.to_table(plain)) == left(5, 6, 1007, 2009, 2010)


def test_a_plan_made_before_accelerate_with_two_candidate_vectors_is_refused(table: Table) -> None:
    put_vectors(table, {0: [*range(500)], 1: [1, 2]}, {0: [7]}, live={0: 1, 1: 0})
    plain = list(table.scan().plan_files())
    whole = table.scan()
    with accelerate(), pytest.raises(UnsupportedError, match="plan again"):
        ArrowScan(table.metadata, table.io, whole.projection(), whole.row_filter).to_table(plain)


def test_pyicebergs_own_function_takes_our_positions(table: Table) -> None:
    put_vectors(table, {0: [5, 6]})
    with accelerate():
        task = next(task for task in table.scan().plan_files() if task.delete_files)
        ours = reading._read_all_delete_files(table.io, [task]).get(task.file.file_path)
    assert ours
    assert reading._combine_positional_deletes(ours, 4, 9).to_pylist() == [0, 3, 4]
    plain = [pa.chunked_array([pa.array([5, 6])])]
    with accelerate():
        for some in (ours, plain):
            assert reading._combine_positional_deletes(some, 4, 9).to_pylist() == [0, 3, 4]


def test_a_partition_of_nan_is_one_partition() -> None:
    with accelerate():
        index = pyiceberg.table.DeleteFileIndex()
    assert index.is_empty()
    entry = pyiceberg_scans.ManifestEntry.from_args(sequence_number=4)
    file = pyiceberg_scans._DeleteFile(*[None] * len(pyiceberg_scans._V3_FIELDS))
    file._data[1], file._data[2], file.spec_id = "d.parquet", pyiceberg_scans.FileFormat.PARQUET, 0
    entry.data_file = file
    index.add_delete_file(entry, Record(float("nan"), 1))
    data = pyiceberg_scans.DataFile.from_args(file_path="a.parquet")
    data.spec_id = 0
    for number, part, found in ((4, 1, {file}), (5, 1, set()), (4, 2, set())):
        assert index.for_data_file(number, data, Record(float("nan"), part)) == found
    assert index.referenced_delete_files() == [file]


def test_damaged_vectors_raise(table: Table) -> None:
    put_vectors(table, {0: [5]}, {1: [1000]})
    tasks = plan_files(table, row_filter="id < 1000").tasks
    with accelerate(), pytest.raises(CorruptDataError, match="position"):
        table.scan("id >= 1000").to_arrow()  # a position past the rows
    (path,) = (path_of(task.vector.file_path) for task in tasks if task.vector)
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"\0" + content[9:])
    with accelerate(), pytest.raises(CorruptDataError, match=path.name):
        table.scan("id < 1000").to_arrow()
    path.unlink()
    with accelerate(), pytest.raises((NotFoundError, FileNotFoundError)):
        table.scan("id < 1000").to_arrow()


def test_a_limit_loads_no_vector_that_it_does_not_need(table: Table) -> None:
    put_vectors(table, {0: [5]})
    with accelerate():
        deletes = reading._read_all_delete_files(table.io, list(table.scan().plan_files()))
        assert len(deletes) == 1
        (path,) = deletes
        path_of(next(task.vector for task in plan_files(table).tasks if task.vector).file_path).unlink()
        assert deletes.get("another") is None
        with pytest.raises(NotFoundError):
            deletes.get(path)


def test_it_is_undone_by_call_by_undo_and_by_with() -> None:
    first = accelerate()
    assert all(new is not old for new, old in zip(places(), ORIGINAL, strict=True))
    first.undo()
    assert places() == ORIGINAL
    second = accelerate()
    second()
    assert places() == ORIGINAL
    with pytest.raises(KeyError), accelerate():
        raise KeyError


def test_it_nests_and_undoing_twice_is_undoing_once() -> None:
    outer = accelerate()
    on = places()
    with accelerate() as inner:
        assert places() == on
        inner.undo()
        inner.undo()
        assert places() == on
    assert places() == on
    outer.undo()
    outer.undo()
    assert places() == ORIGINAL
    with accelerate():
        outer.undo()
        assert places() == on


def test_a_later_replacement_by_other_code_is_not_undone() -> None:
    before = reading._combine_positional_deletes
    handle = accelerate()
    ours = reading._combine_positional_deletes

    def theirs(*arguments: Any) -> Any:
        return ours(*arguments)

    try:
        reading._combine_positional_deletes = theirs
        handle.undo()
        assert reading._combine_positional_deletes is theirs
    finally:
        reading._combine_positional_deletes = before


@pytest.mark.parametrize("version", ["0.11.1", "0.13.0", "0.13.0rc1", "1.0.0", "0.1.2"])
def test_an_unknown_pyiceberg_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyiceberg, "__version__", version)
    with pytest.raises(UnsupportedError, match=version):
        accelerate()
    assert places() == ORIGINAL


def test_a_pyiceberg_with_other_parameters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_read_all_delete_files", lambda io, tasks, more: {})
    with pytest.raises(UnsupportedError, match="_read_all_delete_files"):
        accelerate()
    monkeypatch.delattr(reading, "_read_all_delete_files")
    with pytest.raises(UnsupportedError, match="_read_all_delete_files"):
        accelerate()


def test_scans_are_right_while_threads_switch(table: Table) -> None:
    deleted = random.Random(5).sample(range(PER_FILE), 400)
    put_vectors(table, {0: deleted, 1: [1, 2, 3]}, {2: [4]})
    expected = left(*deleted, 1001, 1002, 1003, 2004)
    stop = threading.Event()

    def switch() -> int:
        count = 0
        while not stop.is_set():
            with accelerate(), accelerate():
                count += 1
        return count

    def read() -> None:
        for _ in range(12):
            assert ids(table.scan().to_arrow()) == expected

    with ThreadPoolExecutor(4) as pool:
        switching = [pool.submit(switch) for _ in range(2)]
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for reader in readers:
                reader.result()
        finally:
            stop.set()
        assert all(future.result() for future in switching)
