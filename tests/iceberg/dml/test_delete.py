"""Deletes by filter and by position: the right rows in all engines, and refusals that change nothing."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import In, IsNull, NotEqualTo, Or
from pyiceberg.types import IntegerType, LongType, StringType

from puffin_fast.errors import (
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    PuffinFastError,
)
from puffin_fast.iceberg import append, create_table, delete, delete_positions, plan_files, v3_metadata
from tests.iceberg.conftest import current_snapshot, refused, rows_of, rows_of_duckdb, summary_of, unchanged
from tests.kit.tables import iceberg_table, parts, path_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

N = 300
ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int64()),
        "word": pa.array([None if i % 11 == 0 else f"w{i % 3}" for i in range(N)]),
        "day": pa.array([datetime.date(1969, 12, 1) + datetime.timedelta(days=i % 60) for i in range(N)]),
        "small": pa.array([None if i % 7 == 0 else i % 50 for i in range(N)], pa.int32()),
        "x": pa.array([float("nan") if i % 13 == 0 else i / 8 for i in range(N)], pa.float64()),
    }
)


def made(
    catalog: Any, namespace: str, *, spec: tuple[str, ...] = (), files: int = 3, **properties: str
) -> Table:
    """A table `t` with ROWS in several data files."""
    name = f"{namespace}.t"
    return iceberg_table(catalog, parts(ROWS, files), name=name, partition=spec, properties=properties)


def kept(condition: pc.Expression, rows: pa.Table = ROWS) -> list[int]:
    """Ids of the rows for which a condition is not true."""
    gone = set(rows.filter(condition)["id"].to_pylist())
    return [i for i in rows["id"].to_pylist() if i not in gone]


def ids(table: Table) -> list[int]:
    found: list[int] = rows_of(table)["id"].to_pylist()
    return found


FILTERS: dict[str, tuple[Any, pc.Expression]] = {
    "less": ("id < 77", pc.field("id") < 77),
    "two ends": ("id >= 290 or id <= 10", (pc.field("id") >= 290) | (pc.field("id") <= 10)),
    "word": ("word = 'w1'", pc.field("word") == "w1"),
    "not word": ("word != 'w1'", pc.field("word") != "w1"),
    "no word": ("word is null", pc.field("word").is_null()),
    "not in": ("word not in ('w0', 'w1')", pc.field("word") == "w2"),
    "not like": ("word not like 'w1%'", (pc.field("word") == "w0") | (pc.field("word") == "w2")),
    "day": ("day < '1970-01-01'", pc.field("day") < datetime.date(1970, 1, 1)),
    "fits all": ("small < 3000000000", pc.field("small").is_valid()),
    "nan": ("x is nan", pc.field("x").is_nan()),
    "number": ("x >= 20", pc.field("x") >= 20),
    "not number": ("x != 1.0", pc.field("x") != 1.0),
    "object": (
        Or(In("id", {1, 2, 250}), IsNull("small")),
        pc.field("id").isin([1, 2, 250]) | pc.field("small").is_null(),
    ),
    "arrow": (pc.bit_wise_and(pc.field("id"), 1) == 0, pc.bit_wise_and(pc.field("id"), 1) == 0),
    "and": ("id > 20 and not (word = 'w0')", (pc.field("id") > 20) & (pc.field("word") != "w0")),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("spec", [(), ("word", "month(day)")], ids=["flat", "partitioned"])
def test_exactly_the_rows_for_which_the_filter_is_true_are_deleted(
    shared_catalog: SqlCatalog,
    namespace: str,
    duckdb_iceberg: DuckDBPyConnection,
    name: str,
    spec: tuple[str, ...],
) -> None:
    given, meant = FILTERS[name]
    table = made(shared_catalog, namespace, spec=spec)
    done = delete(table, given)
    expected = kept(meant)
    assert done.rows_deleted == N - len(expected)
    assert ids(table) == expected
    assert rows_of_duckdb(duckdb_iceberg, table)["id"].to_pylist() == expected
    assert delete(table, given).commit.id is None


def test_a_second_delete_keeps_the_first(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    first = delete(table, "id < 150")
    second = delete(table, "word = 'w1'")
    left = kept((pc.field("id") < 150) | (pc.field("word") == "w1"))
    assert ids(table) == left
    assert first.rows_deleted + second.rows_deleted == N - len(left)
    assert (first.data_files_dropped, first.vectors_written, first.vectors_merged) == (1, 1, 0)
    assert (second.data_files_dropped, second.vectors_written, second.vectors_merged) == (0, 2, 1)
    tasks = plan_files(table).tasks
    assert [task.vector is not None for task in tasks] == [True, True]


def test_the_summary_counts_as_java_does(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    delete(table, "id < 150")
    delete(table, "id < 160")
    summary, snapshot = summary_of(table), current_snapshot(table)
    vector = next(task.vector for task in plan_files(table).tasks if task.vector is not None)
    assert {name: summary[name] for name in summary if not name.endswith("files-size")} == {
        "operation": "delete",
        "added-delete-files": "1",
        "removed-delete-files": "1",
        "added-dvs": "1",
        "removed-dvs": "1",
        "added-position-deletes": "60",
        "removed-position-deletes": "50",
        "changed-partition-count": "1",
        "total-data-files": "2",
        "total-delete-files": "1",
        "total-records": "200",
        "total-position-deletes": "60",
        "total-equality-deletes": "0",
        "manifests-created": "1",
        "manifests-kept": "2",
        "manifests-replaced": "2",
    }
    assert summary["added-files-size"] == str(vector.content_size_in_bytes)
    assert (snapshot.first_row_id, snapshot.added_rows) == (table.metadata.next_row_id, 0)


def test_a_filter_that_matches_nothing_commits_nothing(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    with unchanged(table):
        for filter in ("id > 1000", "id > 10 and id < 10", "id = 5 and word = 'nothing'", "false"):
            done = delete(table, filter)
            assert (done.commit.id, done.rows_deleted, done.commit.attempts) == (None, 0, 0)
    assert delete(create_table(shared_catalog, f"{namespace}.e", ROWS.schema), "id > 0").commit.id is None


@pytest.mark.parametrize("filter", ["true", "id >= 0", "id is not null", pc.field("id") >= 0])
def test_deleting_all_rows_removes_data_files_and_vectors(
    shared_catalog: SqlCatalog, namespace: str, filter: Any
) -> None:
    table = made(shared_catalog, namespace)
    delete(table, "id = 7")
    done = delete(table, filter)
    assert (done.rows_deleted, done.data_files_dropped, done.vectors_written) == (N - 1, 3, 0)
    plan = plan_files(table)
    assert (plan.tasks, plan.unused) == ([], [])
    assert {count for name, count in summary_of(table).items() if name.startswith("total-")} == {"0"}
    append(table, ROWS.slice(0, 5))
    assert ids(table) == [0, 1, 2, 3, 4]


def test_nulls_and_nan_survive_filters_that_metrics_seem_to_prove(
    shared_catalog: SqlCatalog, namespace: str
) -> None:
    rows = pa.table({"id": [1, 2], "w": pa.nulls(2, pa.string()), "x": [1.0, float("nan")]})
    table = create_table(shared_catalog, f"{namespace}.t", rows.schema)
    append(table, rows)
    for filter in ("w != 'a'", "w not in ('a', 'b')", "w not like 'a%'", NotEqualTo("w", "a")):
        assert delete(table, filter).rows_deleted == 0
    delete(table, "x < 100")
    assert ids(table) == [2]
    assert delete(table, "w is null").data_files_dropped == 1


REFUSED: dict[str, tuple[Any, type[PuffinFastError], str]] = {
    "unknown column": ("nothing = 1", NotFoundError, "nothing"),
    "unknown column in arrow": (pc.field("nothing") == 1, NotFoundError, "nothing"),
    "no expression": ("id =", InvalidInputError, "expected a literal"),
    "literal of a wrong type": ("id = 'a'", InvalidInputError, "long"),
    "arrow that is no condition": (pc.field("id") + 1, InvalidInputError, "boolean"),
    "no filter": (7, InvalidInputError, "int"),
    "wrong case": ("ID = 1", NotFoundError, "ID"),
}


def test_a_bad_filter_is_refused_and_changes_nothing(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    for filter, error, said in REFUSED.values():
        with refused(table, error, said):
            delete(table, filter)
    delete(table, "ID < 250", case_sensitive=False)
    assert ids(table) == list(range(250, N))


def test_a_missing_or_damaged_data_file_is_named(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    first, second = (path_of(task.data.file_path) for task in plan_files(table).tasks[:2])
    first.unlink()
    second.write_bytes(b"no parquet")
    with refused(table, NotFoundError, first.name):
        delete(table, f"id <= {N}  and word = 'w1'", threads=1)
    first.write_bytes(b"no parquet")
    with refused(table, CorruptDataError, r"\.parquet"):
        delete(table, "word = 'w1'")


def test_vectors_are_cut_into_files_of_the_target_size(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace, files=30, **{"write.delete.target-file-size-bytes": "300"})
    done = delete(table, "word = 'w1'")
    puffins = list(path_of(table.location()).rglob("*.puffin"))
    assert done.vectors_written == 30
    assert 3 < len(puffins) < 30
    assert sum(path.stat().st_size for path in puffins) == done.commit.n_bytes
    assert ids(table) == kept(pc.field("word") == "w1")


def test_columns_of_an_evolved_schema_are_found_in_old_files(
    shared_catalog: SqlCatalog, namespace: str, duckdb_iceberg: DuckDBPyConnection
) -> None:
    table = made(shared_catalog, namespace)
    with v3_metadata(shared_catalog), table.update_schema() as update:
        update.rename_column("id", "key")
        update.update_column("small", LongType())
        update.add_column("note", StringType())
    with v3_metadata(shared_catalog), table.update_schema() as update:
        update.add_column("id", IntegerType())
    new = pa.table({"key": pa.array([1000, 1001], pa.int64()), "note": ["a", None]})
    append(table, new)
    left = set(range(N)) | {1000, 1001}

    def check(filter: str, gone: set[int]) -> None:
        delete(table, filter)
        left.difference_update(gone)
        assert rows_of(table, order="key")["key"].to_pylist() == sorted(left)
        assert rows_of_duckdb(duckdb_iceberg, table, order="key")["key"].to_pylist() == sorted(left)

    check("key < 20", set(range(20)))
    check("note = 'a'", {1000})
    check("small > 48 and id is null", {i for i in range(N) if i % 7 and i % 50 == 49})
    check("id = 5", set())
    check("note is null and key >= 100", {*range(100, N), 1001})


POSITIONS = pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())})


def named(table: Table, wanted: dict[int, list[int]]) -> pa.Table:
    """Positions by the number of the data file (in the order of its rows)."""
    first = {
        t.data.file_path: int.from_bytes((t.data.lower_bounds or {})[1], "little")
        for t in plan_files(table, metrics=True).tasks
    }
    paths = sorted(first, key=lambda path: first[path])
    pairs = [(paths[number], pos) for number, positions in wanted.items() for pos in positions]
    return pa.table({"file_path": [p for p, _ in pairs], "pos": pa.array([p for _, p in pairs], pa.int64())})


def test_named_positions_go_in_any_order_with_repeats(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    done = delete_positions(table, named(table, {2: [99, 0, 5, 5], 0: [7, 3]}))
    assert (done.rows_deleted, done.vectors_written) == (5, 2)
    gone = {299, 200, 205, 7, 3}
    assert ids(table) == [i for i in range(N) if i not in gone]
    again = delete_positions(table, named(table, {2: [0, 1], 0: [7]}))
    assert (again.rows_deleted, again.vectors_written, again.vectors_merged) == (1, 1, 1)
    assert ids(table) == [i for i in range(N) if i not in gone | {201}]
    assert delete_positions(table, named(table, {2: [0], 0: [3]})).commit.id is None
    assert delete_positions(table, POSITIONS).commit.id is None
    everything = delete_positions(table, named(table, {1: list(range(100))}).to_reader(max_chunksize=7))
    assert (everything.rows_deleted, everything.data_files_dropped) == (100, 1)


def test_positions_that_name_no_row_are_refused(shared_catalog: SqlCatalog, namespace: str) -> None:
    table = made(shared_catalog, namespace)
    good = named(table, {0: [1]})
    path = good["file_path"][0].as_py()

    def at(paths: list[str | None], positions: list[int | None]) -> pa.Table:
        return pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(positions, pa.int64())})

    twice = pa.table([pa.array([path]), pa.array([1]), pa.array([2])], ["file_path", "pos", "pos"])
    wrong: list[tuple[Any, type[PuffinFastError], str]] = [
        (at([path, path], [1, 100]), InvalidInputError, r"expected positions below 100 \(rows\), found 100"),
        (at([path], [-1]), InvalidInputError, "pos"),
        (at([path], [None]), InvalidInputError, "pos"),
        (at([None], [1]), InvalidInputError, "file_path"),
        (at([path, "file:///nowhere.parquet"], [1, 1]), NotFoundError, "nowhere"),
        (twice, InvalidInputError, "column pos: expected once, found 2"),
        (pa.table({"a": [1]}), InvalidInputError, "expected columns file_path and pos, found a"),
        ([(path, 1)], InvalidInputError, "Arrow"),
    ]
    for positions, error, said in wrong:
        with refused(table, error, said):
            delete_positions(table, positions)
    delete(table, "id < 100")
    with pytest.raises(NotFoundError, match="expected a data file of branch 'main'"):
        delete_positions(table, good)
